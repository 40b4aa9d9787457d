"""The file of keys, `keys.json` beside the config file: keys of providers, and whose keys the system's keyring has.

It has keys if there is no keyring. Only its owner may read it. The file also lists the providers whose keys the
keyring has, so that a keyring, which may ask the user to unlock it, is asked only if it has something. Must not know
providers or keyrings. Read at each start, and when it changed, by what hides secrets (`log.secrets`), and by
`session.keys`, which writes it.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from .durable import sync
from .errors import InvalidRequestError
from .settings import config_path

FILE: Final = "keys.json"
MOST_BYTES: Final = 1 << 20
_MODE: Final = 0o600
_OTHERS: Final = 0o077


Mark = tuple[int, int, int]
"""Last change (ctime, in ns), inode and size of the file."""


class StoredKeys(Struct, frozen=True):
    """`keys` by the provider's name, and the names of providers whose keys are in the `keyring`."""

    keys: dict[str, str] = {}
    keyring: tuple[str, ...] = ()


def key_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the file: `$XDG_CONFIG_HOME/rewindow/keys.json`."""
    return config_path(environ).with_name(FILE)


def read_keys(environ: Mapping[str, str]) -> StoredKeys:
    """Read the file; empty without one.

    Raises:
        InvalidRequestError: it cannot be read, or has another form. The message contains nothing of it.
    """
    path = key_path(environ)
    try:
        data = _content(path)
    except FileNotFoundError:
        return StoredKeys()
    except OSError as error:
        raise InvalidRequestError(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        return msgspec.json.decode(data, type=StoredKeys)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise InvalidRequestError(f"{path} is not a valid key file; repair or remove this file") from None


def _content(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be a pipe
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("the path is not a regular file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"the file is larger than {MOST_BYTES:,} bytes")
    return data


def file_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys in the file; none if it cannot be read, which `read_keys` reports."""
    try:
        return tuple(read_keys(environ).keys.values())
    except InvalidRequestError:
        return ()


class FileValues:
    """The keys in the file, now and later: a source of a `log.redaction.Redactor`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._path = os.fspath(key_path(environ))

    def mark(self) -> Mark | None:
        """See `mark_of`."""
        return _mark_at(self._path)

    def values(self) -> tuple[str, ...]:
        """See `file_values`."""
        return file_values(self._environ)


def mark_of(environ: Mapping[str, str]) -> Mark | None:
    """Return what changes with each change of the file; None without one."""
    return _mark_at(key_path(environ))


def _mark_at(path: str | Path) -> Mark | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ctime_ns, found.st_ino, found.st_size


def warning_about(environ: Mapping[str, str]) -> str:
    """Return a sentence if other users may read the file, or ""."""
    path = key_path(environ)
    try:
        is_open = os.stat(path).st_mode & _OTHERS
    except OSError:
        return ""
    return f"Other users may read the keys in {path}; run: chmod 600 {path}" if is_open else ""


def change_keys(environ: Mapping[str, str], change: Callable[[StoredKeys], StoredKeys]) -> None:
    """Replace the file by its changed content. Other processes wait meanwhile, and a failure leaves it unchanged.

    Raises:
        InvalidRequestError: the file cannot be read or written.
    """
    path = Path(os.path.realpath(key_path(environ)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(path.with_name(f".{FILE}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _replace(path, msgspec.json.format(msgspec.json.encode(change(read_keys(environ)))) + b"\n")
        finally:
            os.close(lock)
    except OSError as error:
        raise InvalidRequestError(f"{path} cannot be written: {error.strerror or error}") from None


def _replace(path: Path, data: bytes) -> None:
    partial = path.with_name(f".{FILE}.{os.getpid()}")
    with suppress(FileNotFoundError):  # of a killed process with this number
        partial.unlink()
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            sync(descriptor)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
