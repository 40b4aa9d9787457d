"""The scratch directory of a session: where its statements may write without being asked, whatever the mode.

Below the state directory, because it goes with its session: there after a restore or a load, and removed when the
session is deleted. Whoever has the session in use holds a lock on it, so that nobody takes it for one that was left.
What statements put there is nobody's to trust, so it is removed without following a link, whatever permissions its
directories have, and however deep they are (`_empty`). Must not know what is written. Used by `confining`, and by
whoever deletes sessions.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Collection, Generator, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import xxhash

from ..core.ids import SessionId

FOLDER: Final = "scratch"
_MODE: Final = 0o700
_DIRECTORY: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """That of one session, which is made when it is first needed."""

    def __init__(self, state_dir: Path, session_id: SessionId) -> None:
        self.path: Final = os.path.join(os.path.realpath(state_dir), FOLDER, _name_of(session_id))
        self._lock = -1

    def make(self) -> None:
        """Has it be there, for the user alone, and in use until `close`. Raises OSError."""
        os.makedirs(self.path, mode=_MODE, exist_ok=True)
        os.chmod(self.path, _MODE)
        self._unlock()
        self._lock = os.open(self.path, os.O_RDONLY | _DIRECTORY)
        with contextlib.suppress(OSError):  # a file system may have no locks, and a statement may hold one itself
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def close(self) -> None:
        """It is in use no more. Removes it where it is empty: nothing in it could be missed. Raises nothing."""
        self._unlock()
        with contextlib.suppress(OSError):
            os.rmdir(self.path)

    def remove(self) -> None:
        """Removes it with all that is in it, as far as that can be. Raises nothing."""
        self._unlock()
        _remove(self.path)

    def _unlock(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def sweep(state_dir: Path, kept: Callable[[], Collection[SessionId]]) -> None:
    """Removes the scratch directories of sessions that are no more; `kept` says which there are. Raises nothing.

    One that somebody has in use stays, though its session is on no list: such a session is in memory alone.
    """
    place = os.path.join(os.path.realpath(state_dir), FOLDER)
    with contextlib.suppress(OSError):
        found = os.listdir(place)  # first, because one of a new session comes after that session
        for name in set(found).difference(map(_name_of, kept())):
            _remove(os.path.join(place, name), unless_used=True)


def _name_of(session_id: SessionId) -> str:
    """Short, because temporary files have Unix sockets among them, whose paths have at most 107 bytes: what
    `multiprocessing` puts behind it takes 32 of these."""
    return xxhash.xxh3_64_hexdigest(session_id.encode())


def _remove(path: str, *, unless_used: bool = False) -> None:
    with contextlib.suppress(OSError):
        with _opened(None, path) as top:
            if unless_used:
                fcntl.flock(top, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _empty(top)
        os.rmdir(path)


def _empty(top: int) -> None:
    """Removes all that is in the open directory.

    What is in a directory of it comes to be in `top` itself, and only then that directory goes: so nothing is ever
    more than one level deep, and no path too long, nor any number of levels too many. Raises OSError where something
    stays.
    """
    names = (f".removed-{number}" for number in count())
    while entries := os.listdir(top):
        for name in entries:
            try:
                os.unlink(name, dir_fd=top)
            except IsADirectoryError:
                _lift(top, name, names)


def _lift(top: int, name: str, names: Iterator[str]) -> None:
    """Removes a directory of `top`, whose own directories are moved up."""
    with _opened(top, name) as inner:
        for entry in os.listdir(inner):
            try:
                os.unlink(entry, dir_fd=inner)
            except IsADirectoryError:
                with _opened(inner, entry):  # which gives the right to move it
                    pass
                os.rename(entry, _free(top, names), src_dir_fd=inner, dst_dir_fd=top)
    os.rmdir(name, dir_fd=top)


def _free(top: int, names: Iterator[str]) -> str:
    """The next of the names that nothing has."""
    for name in names:
        try:
            os.stat(name, dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            return name
    raise AssertionError("there is always another name")


@contextlib.contextmanager
def _opened(directory: int | None, name: str) -> Generator[int]:
    """The directory of that name, whatever its permissions were."""
    pin = os.open(name, os.O_PATH | _DIRECTORY, dir_fd=directory)
    try:
        os.chmod(f"/proc/self/fd/{pin}", _MODE)
        opened = os.open(f"/proc/self/fd/{pin}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(pin)
    try:
        yield opened
    finally:
        os.close(opened)
