"""Checks of a request to a server of ours on loopback: its host name, its origin, and its secret.

Other users of a machine can reach its loopback address. So can any web page: through a host name that it resolves to
that address (DNS rebinding), or by a request from its own origin. Names are compared whole: the usual check of the part
before the port lets `127.0.0.1:80.example.org` pass.

It also limits the connections without a request that passed: otherwise silent ones would take all descriptors of the
process, which then could open no file.

Pure, and without dependencies, because `mcp_tools` and `session_page` check alike. Must not know what is served.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine in an address."""
MAX_PORT: Final = 65535
MOST_STRANGERS: Final = 64
STRANGER_SECONDS: Final = 10.0
"""How long a connection may stay without a request that passed."""
BACKLOG: Final = 32
"""Connections that the event loop may accept at once, before any of them is counted."""
_AUTHORITY: Final = re.compile(rb"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[1-9][0-9]{0,4}))?")
"""A host name and an optional port: no user, path, space or non-ASCII character."""


class Names(Struct, frozen=True):
    """The names of a server, without ports; IPv6 addresses in brackets.

    With a `port`, requests must name that one. None admits any, because a proxy has its own. `schemes` are those of the
    origins that may ask.
    """

    allowed: tuple[str, ...]
    port: int | None = None
    schemes: tuple[bytes, ...] = (b"http", b"https")

    def is_host(self, given: Sequence[bytes]) -> bool:
        """Whether a request has exactly one `Host` header, and it is one of these names."""
        return len(given) == 1 and self._is_ours(given[0])

    def is_origin(self, given: Sequence[bytes]) -> bool:
        """Whether a request has no `Origin` header, or one that names a page of ours.

        An origin is a scheme, a name and a port (RFC 6454). Each is compared whole.
        """
        if not given:
            return True  # not a browser, or a same-origin request
        scheme, separator, rest = given[0].partition(b"://")
        return len(given) == 1 and bool(separator) and scheme in self.schemes and self._is_ours(rest)

    def _is_ours(self, authority: bytes) -> bool:
        found = _AUTHORITY.fullmatch(authority)
        if found is None or int(found["port"] or 0) > MAX_PORT:
            return False
        is_port = self.port is None or int(found["port"] or 80) == self.port
        return is_port and found["name"].decode("ascii") in self.allowed


def is_bearer(authorization: Sequence[bytes], secret: str) -> bool:
    """Whether the `Authorization` headers present this secret; takes constant time for wrong ones."""
    if len(authorization) != 1:
        return False
    scheme, _, given = authorization[0].partition(b" ")
    return hmac.compare_digest(given.strip(), secret.encode()) and scheme.lower() == b"bearer"


class Timer(Protocol):
    """A call at a later time, as event loops have it."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]
"""Calls a function after some seconds."""


class Strangers:
    """The connections without a request that passed the checks, by the client's address and port.

    Each has STRANGER_SECONDS. If there are MOST_STRANGERS and one more arrives, the oldest has to leave, so a client
    that sends its request at once gets in while others flood the server.
    """

    def __init__(self) -> None:
        self._open: dict[object, tuple[Callable[[], None], Timer]] = {}
        """How each is closed, and its time limit; the oldest first."""

    def arrived(self, client: object, close: Callable[[], None], call_later: CallLater) -> None:
        """Note a connection that was accepted. `close` ends it at once."""
        if len(self._open) >= MOST_STRANGERS:
            oldest = next(iter(self._open))
            close_oldest = self._open[oldest][0]
            self.forget(oldest)
            close_oldest()
        self._open[client] = close, call_later(STRANGER_SECONDS, close)

    def forget(self, client: object) -> None:
        """A request of the connection has passed, or it has ended."""
        if (found := self._open.pop(client, None)) is not None:
            found[1].cancel()
