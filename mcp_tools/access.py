"""Who may reach the server over HTTP: the address it listens on, the token it asks for, the names it answers to.

Other users of a machine reach its loopback address too, and so does any page in a browser, by way of a name that it
makes resolve to it: hence a token always, and names that are checked always. Must not know MCP. Used by `cli`, `http`.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import os
import re
import secrets
import socket
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

PATH: Final = "/mcp"
"""Of the default session; that of another one follows with its name."""
VARIABLE: Final = "REWINDOW_MCP_TOKEN"
FILE_NAME: Final = "mcp-token"
SHORTEST_TOKEN: Final = 16
_LONGEST_TOKEN: Final = 4096
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_MOST_PORT: Final = 65535
_ADDRESSED: Final = re.compile(rb"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[1-9][0-9]{0,4}))?")
"""A name and perhaps a port: no user, no path, no space, nothing that is not ASCII."""
_SCHEMES: Final = (b"http", b"https")


class AccessError(Exception):
    """Raised for what the command line or a file says and nothing can be served with; the message says what to do."""


class Address(Struct, frozen=True):
    """Where to listen: the host as it was given, what it resolves to, and a port, 0 for any that is free."""

    host: str
    resolved: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.resolved).is_loopback

    @property
    def names(self) -> tuple[str, ...]:
        """How a client on this machine or another one calls it, IPv6 addresses in brackets."""
        own = () if ipaddress.ip_address(self.resolved).is_unspecified else (_bracketed(self.host),)
        return own if self.is_loopback else (*own, socket.gethostname())

    @property
    def url(self) -> str:
        """Where a client on this machine reaches it, without a path that names a session."""
        host = self.names[0] if self.names and not ipaddress.ip_address(self.resolved).is_unspecified else _LOOPBACK[0]
        return f"http://{host}:{self.port}{PATH}"

    def listen(self) -> socket.socket:
        """A socket that listens there. Raises AccessError where that cannot be."""
        family = socket.AF_INET6 if ":" in self.resolved else socket.AF_INET
        try:
            listening = socket.create_server((self.resolved, self.port), family=family)
        except OSError as error:
            raise AccessError(f"cannot listen on {_bracketed(self.host)}:{self.port}: {error.strerror}") from None
        # What is accepted inherits it. Without, the body of an answer waits until its head was acknowledged: 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening


class Token(Struct, frozen=True):
    """What a client has to present, and where its user finds it."""

    value: str
    where: str

    def is_given_by(self, authorization: Sequence[bytes]) -> bool:
        """Whether the `Authorization` headers of a request present it; takes as long for any wrong one."""
        if len(authorization) != 1:
            return False
        scheme, _, given = authorization[0].partition(b" ")
        return hmac.compare_digest(given.strip(), self.value.encode()) and scheme.lower() == b"bearer"


class Access(Struct, frozen=True, kw_only=True):
    """All of it. `token` is None where none is asked for; `hosts` are further names that clients use."""

    address: Address
    token: Token | None
    hosts: tuple[str, ...] = ()

    @property
    def allowed(self) -> tuple[str, ...]:
        """The names that a request may be addressed to, without their ports."""
        return tuple(dict.fromkeys((*_LOOPBACK, *self.address.names, *self.hosts)))

    def is_host(self, given: Sequence[bytes]) -> bool:
        """Whether the `Host` headers of a request are one, and it is one of our names.

        A name counts as it is spelled in `allowed`. Any port may follow, because a proxy or a tunnel has its own.
        """
        return len(given) == 1 and self._is_ours(given[0])

    def is_origin(self, given: Sequence[bytes]) -> bool:
        """Whether the `Origin` headers of a request are none, or one of a page that was loaded from one of our names.

        An origin is a scheme, a name and a port (RFC 6454), and each is compared whole.
        """
        if not given:
            return True  # not a browser, or one that asks where its page came from
        scheme, separator, rest = given[0].partition(b"://")
        return len(given) == 1 and bool(separator) and scheme in _SCHEMES and self._is_ours(rest)

    def _is_ours(self, addressed: bytes) -> bool:
        found = _ADDRESSED.fullmatch(addressed)
        if found is None or int(found["port"] or 0) > _MOST_PORT:
            return False
        return found["name"].decode("ascii") in self.allowed


def address_of(text: str) -> Address:
    """The address of `[HOST:]PORT`, loopback without a host. Raises AccessError for what is none."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
    if not (port.isascii() and port.isdigit() and len(port) <= len(str(_MOST_PORT)) and int(port) <= _MOST_PORT):
        raise AccessError(f"--http takes [HOST:]PORT with a port from 0 to {_MOST_PORT}, not {text!r}")
    try:
        found: list[Any] = socket.getaddrinfo(host or None, int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise AccessError(f"--http: there is no host {host!r} on this machine") from None
    return Address(host, found[0][4][0], int(port))


def token_of(file: str | None, variable: str | None, state_dir: Path) -> Token:
    """The token: of the file that was named, else of the variable, else of the state directory, made where it is not.

    Raises:
        AccessError: it cannot be read, is too short to be one, or others could read it.
    """
    if file is not None:
        return Token(_read(Path(file)), file)
    if variable is not None:
        return Token(_usable(variable, f"the variable {VARIABLE}"), f"the variable {VARIABLE}")
    path = state_dir / FILE_NAME
    try:
        if not path.exists():
            _make(path)
    except OSError as error:
        raise AccessError(f"the token cannot be kept in {path}: {error.strerror}") from None
    return Token(_read(path), str(path))


def _make(path: Path) -> None:
    """Writes a new token, whole or not at all: two servers may start at once."""
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        with contextlib.suppress(FileExistsError):  # theirs is as good
            os.link(partial, path)
    finally:
        os.unlink(partial)


def _read(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise AccessError(f"{path} is no file")
            if facts.st_mode & 0o077:
                raise AccessError(f"{path} can be read by others; run `chmod 600` on it, or remove it for a new token")
            found = file.read(_LONGEST_TOKEN + 1)
    except OSError as error:
        raise AccessError(f"the token cannot be read from {path}: {error.strerror}") from None
    return _usable(found.decode("utf-8", "replace").strip(), str(path))


def _usable(token: str, where: str) -> str:
    is_visible = token.isascii() and token.isprintable() and " " not in token
    if not is_visible or not SHORTEST_TOKEN <= len(token) <= _LONGEST_TOKEN:
        raise AccessError(
            f"{where} holds no token: {SHORTEST_TOKEN} to {_LONGEST_TOKEN:,} letters, digits and signs without a space"
        )
    return token


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
