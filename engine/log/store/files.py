"""Directories and files that only their owner may read, whatever the umask is. Knows nothing of databases.

Used for the store's database, its backups and its lock files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final

_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


def make_directory(path: str) -> None:
    """Makes the directory and those above it that are missing, each with mode 0700. Raises OSError."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent != path:
        make_directory(parent)
    try:
        os.mkdir(path, _DIRECTORY_MODE)
    except FileExistsError:
        if os.path.isdir(path):  # because another process may have been faster
            return
        raise
    os.chmod(path, _DIRECTORY_MODE)  # because mkdir subtracts the umask, which may take the owner's rights
    _sync(parent)


def make_private(path: str) -> None:
    """Makes an empty file with mode 0600, or takes the rights of others from the one that is there. Raises OSError.

    An existing file is never opened: closing it would drop every lock that SQLite holds on it in this process.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    except FileExistsError:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EEXIST, "there is something that is no file") from None
        if stat.S_IMODE(mode) & ~_FILE_MODE:
            with contextlib.suppress(PermissionError):  # because the file may be somebody else's
                os.chmod(path, _FILE_MODE)
        return
    try:
        os.fchmod(descriptor, _FILE_MODE)
    finally:
        os.close(descriptor)


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
