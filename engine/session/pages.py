"""What a session needs of the server of its page: an address, when a user asks for it.

The server stands above the engine, in `session_page`, and runs in the same process as the session. So it is loaded by
its name, with the first `/page`, and no other start of a program pays for it. Used by `host` and by the command.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from ..core.ids import SessionId

SERVER = "session_page.server"
"""The module whose `start` serves the page of a host."""


class PageAddress(Struct, frozen=True):
    """Two addresses of a session's page.

    `address` may be kept: it needs the token, which nobody else is told. `with_ticket` gives it once, within a minute.
    """

    address: str
    with_ticket: str


class PageServer(Protocol):
    """A running server."""

    def addresses(self, session_id: SessionId) -> PageAddress:
        """Return the addresses of a session's page, with a new ticket."""
        ...


OpenPage = Callable[[SessionId], Awaitable[PageAddress]]
"""Starts the server, unless it runs, and returns the addresses of a session's page. Raises InvalidRequestError."""
