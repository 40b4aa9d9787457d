"""The scratch directory of a session: where its statements may write without being asked, whatever the mode.

Below the state directory, because it goes with its session: there after a restore or a load, and removed when the
session is deleted. What statements put there is nobody's to trust, so it is removed without following a link, and
whatever permissions its directories have. Must not know what is written. Used by `confining`, and by whoever deletes
sessions.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

import xxhash

from ..ids import SessionId

FOLDER: Final = "scratch"
_MODE: Final = 0o700


class Scratch:
    """That of one session, which is made when it is first needed."""

    def __init__(self, state_dir: Path, session_id: SessionId) -> None:
        self.path: Final = os.path.join(os.path.realpath(state_dir), FOLDER, _name_of(session_id))

    def make(self) -> None:
        """Has it be there, for the user alone. Raises OSError."""
        os.makedirs(self.path, mode=_MODE, exist_ok=True)
        os.chmod(self.path, _MODE)

    def close(self) -> None:
        """Removes it where it is empty: nothing in it could be missed. Raises nothing."""
        with contextlib.suppress(OSError):
            os.rmdir(self.path)

    def remove(self) -> None:
        """Removes it with all that is in it, as far as that can be. Raises nothing."""
        _remove(self.path)


def sweep(state_dir: Path, kept: Callable[[], Collection[SessionId]]) -> None:
    """Removes the scratch directories of sessions that are no more; `kept` says which there are. Raises nothing."""
    place = os.path.join(os.path.realpath(state_dir), FOLDER)
    with contextlib.suppress(OSError):
        found = os.listdir(place)  # first, because one of a new session comes after that session
        for name in set(found).difference(map(_name_of, kept())):
            _remove(os.path.join(place, name))


def _name_of(session_id: SessionId) -> str:
    """Short, because temporary files have Unix sockets among them, whose paths have at most 107 bytes: what
    `multiprocessing` puts behind it takes 32 of these."""
    return xxhash.xxh3_64_hexdigest(session_id.encode())


def _remove(path: str) -> None:
    for directory, names, _ in os.walk(path):
        for name in names:
            inner = os.path.join(directory, name)
            with contextlib.suppress(OSError):
                if not os.path.islink(inner):
                    os.chmod(inner, _MODE)
    shutil.rmtree(path, ignore_errors=True)
