"""An address to listen on, as the command line gives it: parsed, resolved, and opened.

Must not know what is served. Used by the servers of `mcp_tools` and `acp_adapter`.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any, Final

from msgspec import Struct

from ...core.web_access import MAX_PORT

_UNREAD_MS: Final = 30_000
"""How long the system keeps a connection whose other end takes nothing, or is gone."""


class AddressError(Exception):
    """Raised for an address that cannot be parsed, resolved or listened on; the message says why."""


class ListeningAddress(Struct, frozen=True):
    """Address to listen on: the host as given, its resolved form, and the port (0: any free port)."""

    host: str
    resolved: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.resolved).is_loopback

    @property
    def is_unspecified(self) -> bool:
        """Whether it is every address of the machine."""
        return ipaddress.ip_address(self.resolved).is_unspecified

    @property
    def names(self) -> tuple[str, ...]:
        """Host names that clients use, on this machine or another one; IPv6 addresses in brackets."""
        own = () if self.is_unspecified else (bracketed(self.host),)
        return own if self.is_loopback else (*own, socket.gethostname())

    def listen(self) -> socket.socket:
        """Return a listening socket. Raises AddressError."""
        family = socket.AF_INET6 if ":" in self.resolved else socket.AF_INET
        try:
            listening = socket.create_server((self.resolved, self.port), family=family)
        except OSError as error:
            raise AddressError(f"cannot listen on {bracketed(self.host)}:{self.port}: {error.strerror}") from None
        # Accepted sockets inherit both. Without the first a response body waits 40 ms for the acknowledgement of its
        # headers. With the second, a client that vanished is noticed when something is sent to it.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        unread: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)
        if unread is not None:
            listening.setsockopt(socket.IPPROTO_TCP, unread, _UNREAD_MS)
        return listening


def parsed_address(text: str, option: str) -> ListeningAddress:
    """Parse `[HOST:]PORT`; the default host is loopback. `option` is for the message. Raises AddressError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
    if not (port.isascii() and port.isdigit() and len(port) <= len(str(MAX_PORT)) and int(port) <= MAX_PORT):
        raise AddressError(f"{option} takes [HOST:]PORT with a port from 0 to {MAX_PORT}, not {text!r}")
    try:
        found: list[Any] = socket.getaddrinfo(host or None, int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise AddressError(f"{option}: cannot resolve the host {host!r}") from None
    return ListeningAddress(host, found[0][4][0], int(port))


def bracketed(host: str) -> str:
    """Return a host as an address of the web has it: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host
