"""What the command line limits: who may connect over HTTP, and which directories a session may open.

Other users of a machine can reach its loopback address. So can any web page, through a host name that it resolves to
that address (DNS rebinding). Therefore HTTP requires a token by default, and always checks the host name. `/` and the
home directory are accepted as roots only from the command line, because they contain everything, and Rewindow's own
directories, because it trusts what is in them.

Never knows MCP or sessions. `engine.core.web_access` has the checks. Used by `cli` before anything heavy is loaded,
then by `http` and `sessions`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import Struct

from engine.core.web_access import LOOPBACK, Names, is_bearer
from engine.runtime.system.addresses import AddressError, ListeningAddress, parsed_address

PATH: Final = "/mcp"
"""URL path of the default session. Other sessions append their name."""
VARIABLE: Final = "REWINDOW_MCP_TOKEN"
FILE_NAME: Final = "mcp-token"
MIN_TOKEN_CHARS: Final = 16
_MAX_TOKEN_CHARS: Final = 4096
_ADVICE: Final = "name a project with --root DIR"
MISSING: Final = "there is no such directory"
NOT_DIRECTORY: Final = "the path is not a directory"


class AccessError(Exception):
    """Raised when the server or a session cannot start with the given options; the message says what to do."""


class Address(ListeningAddress, frozen=True):
    """Address of the server."""

    @property
    def url(self) -> str:
        """URL for clients on this machine, without a session name."""
        host = self.names[0] if self.names and not self.is_unspecified else LOOPBACK[0]
        return f"http://{host}:{self.port}{PATH}"

    def listen(self) -> socket.socket:
        """Return a listening socket. Raises AccessError."""
        try:
            return super().listen()
        except AddressError as error:
            raise AccessError(str(error)) from None


class Token(Struct, frozen=True):
    """The bearer token, and where its user finds it."""

    value: str
    where: str

    def is_given_by(self, authorization: Sequence[bytes]) -> bool:
        """Whether the `Authorization` headers present this token; takes constant time for wrong ones."""
        return is_bearer(authorization, self.value)


class Access(Struct, frozen=True, kw_only=True):
    """Who may connect. `token` is None if no token is required; `hosts` are additional host names."""

    address: Address
    token: Token | None
    hosts: tuple[str, ...] = ()

    @property
    def allowed(self) -> tuple[str, ...]:
        """Host names that a request may use, without ports."""
        return tuple(dict.fromkeys((*LOOPBACK, *self.address.names, *self.hosts)))

    def is_host(self, given: Sequence[bytes]) -> bool:
        """Whether a request has exactly one `Host` header, and it is one of our names."""
        return Names(self.allowed).is_host(given)

    def is_origin(self, given: Sequence[bytes]) -> bool:
        """Whether a request has no `Origin` header, or one that names a page of ours."""
        return Names(self.allowed).is_origin(given)


def address_of(text: str) -> Address:
    """Parse `[HOST:]PORT`; the default host is loopback. Raises AccessError."""
    try:
        found = parsed_address(text, "--http")
    except AddressError as error:
        raise AccessError(str(error)) from None
    return Address(found.host, found.resolved, found.port)


# --- token ------------------------------------------------------------------------------------------------------------


def token_of(file: str | None, variable: str | None, state_dir: Path) -> Token:
    """Read the token from the file, else from the variable, else from the state directory, creating it if missing.

    Raises:
        AccessError: the token is unreadable, unusable, or readable by other users.
    """
    if file is not None:
        return Token(_read_token(Path(file)), file)
    if variable is not None:
        return Token(_usable_token(variable, f"the variable {VARIABLE}"), f"the variable {VARIABLE}")
    path = state_dir / FILE_NAME
    try:
        if not path.exists():
            _create_token(path)
    except OSError as error:
        raise AccessError(f"cannot save the token in {path}: {error.strerror}") from None
    return Token(_read_token(path), str(path))


def _create_token(path: Path) -> None:
    """Write a new token atomically, because two servers may start at the same time."""
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        with contextlib.suppress(FileExistsError):  # the other server's token is as good
            os.link(partial, path)
    finally:
        os.unlink(partial)


def _read_token(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise AccessError(f"{path} is not a regular file")
            if status.st_mode & 0o077:
                raise AccessError(f"other users can read {path}; run `chmod 600` on it, or delete it for a new token")
            found = file.read(_MAX_TOKEN_CHARS + 1)
    except OSError as error:
        raise AccessError(f"cannot read the token from {path}: {error.strerror}") from None
    return _usable_token(found.decode("utf-8", "replace").strip(), str(path))


def _usable_token(token: str, where: str) -> str:
    is_visible = token.isascii() and token.isprintable() and " " not in token
    if not is_visible or not MIN_TOKEN_CHARS <= len(token) <= _MAX_TOKEN_CHARS:
        raise AccessError(
            f"{where} has no usable token: {MIN_TOKEN_CHARS} to {_MAX_TOKEN_CHARS:,} ASCII characters without spaces"
        )
    return token


# --- roots ------------------------------------------------------------------------------------------------------------


class Roots(Struct, frozen=True):
    """Absolute directories that a session may open. Relative paths start at the first one."""

    directories: tuple[str, ...]

    @property
    def cwd(self) -> str:
        return self.directories[0]


def command_line_roots(roots: Sequence[str]) -> Roots | None:
    """The directories of `--root`, or None if there is none. Raises AccessError."""
    return Roots(tuple(dict.fromkeys(map(_directory, roots)))) if roots else None


def session_roots(limit: Roots | None, client_uris: Sequence[str] | None, is_own: Callable[[str], bool]) -> Roots:
    """Choose the directories of a session.

    Args:
        limit: the roots of the command line; None if there are none.
        client_uris: the roots that the client names, as `file://` URIs; None if it names none.
        is_own: returns whether a directory is, or is in, one of Rewindow's own.

    Raises:
        AccessError: no usable directory is left.
    """
    directories = list(_directories_of(client_uris or ()))
    if limit is not None:
        inside = [each for each in directories if _is_inside(each, limit.directories)]
        return Roots(tuple(inside)) if inside else limit
    if not directories:
        directories = [_working_directory()]
    if own := next(filter(is_own, directories), None):
        raise AccessError(f"{own} has files that Rewindow trusts; {_ADVICE}")
    usable = [each for each in directories if not _is_too_wide(each)]
    if not usable:
        raise AccessError(f"{directories[0]} is too broad to serve; {_ADVICE}")
    return Roots(tuple(dict.fromkeys(usable)))


def _directory(path: str) -> str:
    found = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(found):
        raise AccessError(f"--root {path}: {NOT_DIRECTORY if os.path.lexists(found) else MISSING}")
    return found


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise AccessError(f"the working directory no longer exists; {_ADVICE}") from error


def _directories_of(uris: Iterable[str]) -> Iterable[str]:
    """The local directories among the URIs; other URIs are skipped."""
    for uri in uris:
        try:
            parts = urlsplit(uri)
        except ValueError:  # brackets without an address
            continue
        path = os.fsdecode(unquote_to_bytes(parts.path))
        if parts.scheme == "file" and parts.netloc in ("", "localhost") and "\0" not in path and os.path.isdir(path):
            yield os.path.abspath(path)


def _is_inside(path: str, roots: Sequence[str]) -> bool:
    real = os.path.realpath(path)
    return any(Path(real).is_relative_to(os.path.realpath(root)) for root in roots)


def _is_too_wide(path: str) -> bool:
    """Whether the path is the home directory or contains it, with symlinks resolved."""
    home = os.path.realpath(os.path.expanduser("~"))
    return Path(home).is_relative_to(os.path.realpath(path))
