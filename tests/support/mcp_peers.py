"""Clients of MCP that are not ours, each driven by a thin program of its own, all in the same way."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self

from benchmarks.environments import peer_python
from tests.support.mcp_clients import SCRIPT
from tests.support.node import own_command

Era = Literal["modern", "legacy"]
VERSIONS: Final[Mapping[Era, str]] = {"modern": "2026-07-28", "legacy": "2025-11-25"}
"""The newest version of the protocol in each era."""
SECONDS: Final = 60.0
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


class Driven:
    """`rewindow-mcp` in a directory, with a client that is not ours at the other end of its pipes."""

    def __init__(self, peer: Peer, era: Era, root: Path, *options: str) -> None:
        state = {"REWINDOW_STATE_DIR": str(root.parent / "state")}  # the clients add what a program needs
        server = {"command": str(SCRIPT), "args": [*options], "cwd": str(root), "env": state}
        self._lines: queue.Queue[str] = queue.Queue()
        self._heard: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [*peer.command(), json.dumps({"server": server, "era": era})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            code = self._process.wait(SECONDS)
        finally:
            self._process.kill()
            self._reader.join()
        assert error or not code, code

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put("")

    def introduced(self) -> dict[str, Any]:
        """What the server said of itself."""
        return self._until(SECONDS, "result")["result"]

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request, under `result` or `error`."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"method": method, "params": params}) + "\n")
        self._process.stdin.flush()
        return self._until(SECONDS, "result", "error")

    def hear(self, method: str, seconds: float = SECONDS) -> dict[str, Any]:
        """The parameters of the next notification of that method that was not asked for yet."""
        while True:
            for position, each in enumerate(self._heard):
                if each["method"] == method:
                    return self._heard.pop(position).get("params", {})
            self._heard.append(self._until(seconds, "notification")["notification"])

    def _until(self, seconds: float, *kinds: str) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while True:
            line = self._lines.get(timeout=max(deadline - time.monotonic(), 0))
            assert line, f"the driver ended with {self._process.wait(SECONDS)}"
            message: dict[str, Any] = json.loads(line)
            if not message.keys().isdisjoint(kinds):
                return message
            self._heard.append(message["notification"])
