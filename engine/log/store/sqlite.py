"""The store on one SQLite file.

SQLite is imported and the file touched only by the first call that needs it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.clock import Clock
from ...core.ids import SessionId
from ..events import Event
from ..store_protocol import Collected, Owner, SessionRow
from .database_store import DatabaseStore, LockedFree, Parts
from .group_commit import GroupCommit
from .schema import MIGRATIONS, Migration
from .stored import ARCHIVE_SESSION, Stored

if TYPE_CHECKING:  # for start-up, as in `_open`
    from .database import Database
    from .locks import SessionLocks


@dataclass(frozen=True, slots=True)
class _SqliteParts:
    database: Database
    stored: Stored
    writer: GroupCommit
    locks: SessionLocks

    def archive(self, session_id: SessionId, archived: bool) -> bool:
        with self.database.writing() as connection:
            return connection.execute(ARCHIVE_SESSION, (archived, session_id)).rowcount > 0

    def add(self, row: SessionRow, items: Iterable[Event | bytes]) -> None:
        """As in the protocol. Other writers wait meanwhile: some 10 s for a million events of 400 bytes."""
        from .writer import write_session  # here, as in `_open`

        with self.database.writing() as connection:
            write_session(connection, row, items)

    def delete(self, session_id: SessionId) -> bool:
        from .maintenance import delete_session  # here, as in `_open`

        with self.database.writing() as connection:
            return delete_session(connection, session_id)

    def collect(self, old: Sequence[SessionRow], older_than: float, locked_free: LockedFree) -> Collected:
        from .locks import owners  # here, as in `_open`
        from .maintenance import collect

        return collect(self.database, old, older_than, locked_free, lambda: not owners(self.database.path))

    def owners(self) -> Mapping[SessionId, Owner]:
        from .locks import owners  # here, as in `_open`

        return {session_id: Owner(pid) for session_id, pid in owners(self.database.path).items()}

    def close(self, acquired: Iterable[SessionId]) -> None:
        self.database.close()
        for session_id in acquired:
            self.locks.release(session_id)


class SqliteStore(DatabaseStore):
    """Sessions in the SQLite file at `path`, which is created, with its directory, when it is first needed.

    A commit waits up to `busy_seconds` for other processes before its sessions are told that it is delayed.
    """

    def __init__(
        self, path: Path, clock: Clock, *, busy_seconds: float = 10.0, migrations: Sequence[Migration] = MIGRATIONS
    ) -> None:
        super().__init__(clock)
        self._path = path
        self._busy_seconds = busy_seconds
        self._migrations = migrations

    @property
    def is_remote(self) -> bool:
        return False

    def _open(self) -> Parts:
        # Imported here, because a host answers its first request sooner without SQLite.
        from .database import Database
        from .locks import SessionLocks
        from .writer import SqliteCommitter

        path = os.path.realpath(self._path)
        database = Database(path, self._busy_seconds, self._migrations)
        writer = GroupCommit(SqliteCommitter(database))
        return _SqliteParts(database, Stored(database), writer, SessionLocks(path))
