"""News of names that are made in directories: `inotify` on Linux; other systems have none (`NameWatch.open`).

One watch may cover some hundred directories. It tells the names alone, and not who made them. A directory is watched
itself, wherever it is moved. Must not know what the names mean. Used by `session.name_guard`.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import Final, NamedTuple


class NewName(NamedTuple):
    """A name that was made in a watched directory, given by its number, or moved there.

    `is_made`: it is a directory, and was made in place. `OVERFLOW` as a number: unknown names in unknown directories.
    """

    number: int
    name: str
    is_made: bool = False


OVERFLOW: Final = -1
_HEAD: Final = struct.Struct("iIII")
_AT_ONCE: Final = 65_536
_MOVED_TO: Final = 0x80
_IS_DIRECTORY: Final = 0x4000_0000

if sys.platform == "linux":
    _LIBC: Final = ctypes.CDLL(None, use_errno=True)
    _CREATE, _EXCL_UNLINK, _ONLYDIR, _DONT_FOLLOW = 0x100, 0x0400_0000, 0x0100_0000, 0x0200_0000
    _WANTED: Final = _MOVED_TO | _CREATE | _EXCL_UNLINK | _ONLYDIR | _DONT_FOLLOW

    def _opened() -> int:
        return _LIBC.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)

    def _added(descriptor: int, path: str) -> int:
        return _LIBC.inotify_add_watch(descriptor, os.fsencode(path), _WANTED)

else:

    def _opened() -> int:
        return -1

    def _added(descriptor: int, path: str) -> int:
        raise NotImplementedError  # there is no watch to add to


class NameWatch:
    """An open watch."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def open(cls) -> NameWatch | None:
        """Return a new watch; None if the system has none, or no more of them."""
        descriptor = _opened()
        return cls(descriptor) if descriptor >= 0 else None

    def fileno(self) -> int:
        """The descriptor, which is readable when there are news."""
        return self._descriptor

    def add(self, path: str) -> int | None:
        """Watch the directory, which may not be a link; return its number. None if that is impossible.

        A directory that is watched already has the same number.
        """
        number = _added(self._descriptor, path)
        return number if number >= 0 else None

    def read(self) -> list[NewName]:
        """Return the news since the last call, without waiting."""
        found: list[NewName] = []
        while True:
            try:
                data = os.read(self._descriptor, _AT_ONCE)
            except BlockingIOError:
                return found
            found += _names_in(data)

    def close(self) -> None:
        """End the watch."""
        os.close(self._descriptor)


def _names_in(data: bytes) -> list[NewName]:
    found: list[NewName] = []
    place = 0
    while place < len(data):
        number, mask, _, length = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        name = data[place : place + length].rstrip(b"\0")
        place += length
        if name or number == OVERFLOW:  # a directory that is gone has none
            is_made = bool(mask & _IS_DIRECTORY) and not mask & _MOVED_TO
            found.append(NewName(number, os.fsdecode(name), is_made))
    return found
