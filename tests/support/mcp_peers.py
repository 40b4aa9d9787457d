"""Clients of MCP that are not ours, each driven by a thin program of its own, all in the same way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from benchmarks.environments import peer_python
from tests.support.drivers import SECONDS, Driver
from tests.support.mcp_clients import SCRIPT
from tests.support.node import own_command

Era = Literal["modern", "legacy"]
VERSIONS: Final[Mapping[Era, str]] = {"modern": "2026-07-28", "legacy": "2025-11-25"}
"""The newest version of the protocol in each era."""
_PYTHON_DRIVERS: Final = Path(__file__).parent / "mcp_drivers"


def _python_v1() -> list[str]:
    python = peer_python("mcp-1", "mcp==1.30.0")
    assert python is not None, "mcp 1.30.0 cannot be installed"
    return [str(python), str(_PYTHON_DRIVERS / "sdk_v1.py")]


class Peer(NamedTuple):
    """One client: its package, the eras that it speaks, and the command of its driver."""

    package: str
    eras: Sequence[Era]
    command: Callable[[], list[str]]


PEERS: Final = (
    Peer("mcp 2.3.0", ("modern", "legacy"), lambda: [sys.executable, str(_PYTHON_DRIVERS / "sdk_v2.py")]),
    Peer("mcp 1.30.0", ("legacy",), _python_v1),
    Peer("client 2.4.0", ("modern", "legacy"), lambda: own_command("mcp_drivers/client_v2.mjs")),
    Peer("sdk 1.32.2", ("legacy",), lambda: own_command("mcp_drivers/sdk_v1.mjs")),
)


class Driven(Driver):
    """`rewindow-mcp` in a directory, with a client that is not ours at the other end of its pipes."""

    def __init__(self, peer: Peer, era: Era, root: Path, *options: str) -> None:
        state = {"REWINDOW_STATE_DIR": str(root.parent / "state")}  # the clients add what a program needs
        server = {"command": str(SCRIPT), "args": [*options], "cwd": str(root), "env": state}
        super().__init__(peer.command(), {"server": server, "era": era})

    def hear(self, method: str, seconds: float = SECONDS) -> dict[str, Any]:
        """The parameters of the next notification of that method that was not asked for yet."""
        while True:
            for position, each in enumerate(self.heard):
                if each["method"] == method:
                    return self.heard.pop(position).get("params", {})
            self.heard.append(self.until(seconds, "notification")["notification"])
