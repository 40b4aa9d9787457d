"""Whether the database that is open is still the one at its path, so that what is committed can be found again.

A file that was removed, or had another put in its place, goes on taking commits as long as somebody has it open: they
return, and are gone with the process. So a commit counts only if afterwards the path names the file that it went to,
which a look before it could not promise. The same holds for the WAL, where a commit is until a checkpoint. A look is
two calls of `stat`, 3 us together. Knows nothing of SQLite. Used by `database`.
"""

from __future__ import annotations

import os

from ...core.errors import StoreGoneError

_Identity = tuple[int, int]


class InPlace:
    """The database at `path`, as it is now."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._wal = f"{path}-wal"
        self._file = _identity(path)
        self._wal_file: _Identity | None = None

    def check(self) -> None:
        """Raises StoreGoneError where another file, or none, is at the path."""
        if _identity(self._path) != self._file:
            raise StoreGoneError(self._path)

    def check_commit(self) -> None:
        """The same, of the WAL too, after a commit on a connection that stays open.

        SQLite keeps the WAL as long as anybody has the database open, so it is the same one after each commit.
        """
        self.check()
        wal = _identity(self._wal)
        if self._wal_file is None:
            self._wal_file = wal
        elif wal != self._wal_file:
            raise StoreGoneError(self._wal)


def _identity(path: str) -> _Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
