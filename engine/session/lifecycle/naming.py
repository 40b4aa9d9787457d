"""What a session is opened with: its name, its directories, its MCP servers, who opens it.

All of it is checked here, before anything is made.
Must not know the store. Called by `registry`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ...core.errors import InvalidRequestError
from ...core.ids import SessionId
from ...core.mcp_servers import McpServer
from ...core.text import cut_line
from ..directories import additional, spelled

_SHOWN_CHARS: Final = 80
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def session_named(name: str) -> SessionId:
    """The id of the session of that name, which may not be there. Raises InvalidRequestError for what is no name."""
    if _NAME.fullmatch(name) is None:
        raise InvalidRequestError(
            f"{cut_line(repr(name), _SHOWN_CHARS)} is no name of a session: take 1 to 64 ASCII letters, digits, - and _"
        )
    return SessionId(f"named_{name}")


class Opening:
    """Where a session is to be opened, and for whom. Raises InvalidRequestError for a path that is not absolute."""

    __slots__ = ("client", "confined", "cwd", "directories", "servers")

    def __init__(
        self,
        cwd: str,
        directories: Sequence[str],
        confined: bool = False,
        client: str = "",
        servers: Sequence[McpServer] = (),
    ) -> None:
        self.cwd = spelled(cwd)
        self.directories = additional(directories, self.cwd)
        self.confined = confined
        self.client = client
        self.servers = tuple(servers)
