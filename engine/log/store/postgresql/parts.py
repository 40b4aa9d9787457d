"""The parts of an open PostgreSQL store: its reader, writer and leases, and what is done to whole sessions.

A commit whose answer was lost is looked up before it is repeated. Made by `store`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from psycopg import Connection

from ....core.ids import SessionId
from ...events import Event
from ...store_protocol import Collected, Owner, SessionRow
from ..database_store import LockedFree
from ..group_commit import GroupCommit
from .database import CommitLostError, Database, Row
from .inspection import Inspection, faults, inspect
from .leases import Leases
from .maintenance import collect, delete_session
from .stored import PostgresqlReader
from .writer import PostgresqlCommitter, write_session

_Result = TypeVar("_Result")
_ARCHIVE: Final = "UPDATE sessions SET archived = %s WHERE tenant = %s AND session = %s RETURNING 1"


def open_parts(database: Database, tenant: str, lost: Callable[[SessionId], None]) -> PostgresqlParts:
    """Return the parts of a store; `lost` as for `Leases`."""
    leases = Leases(database, tenant, lost)
    writer = GroupCommit(PostgresqlCommitter(database, leases, tenant))
    return PostgresqlParts(database, tenant, PostgresqlReader(database, tenant), writer, leases)


@dataclass(frozen=True, slots=True)
class PostgresqlParts:
    """`Parts` of a PostgreSQL database."""

    database: Database
    tenant: str
    stored: PostgresqlReader
    writer: GroupCommit
    locks: Leases

    def archive(self, session_id: SessionId, archived: bool) -> bool:
        def change(connection: Connection[Row]) -> bool:
            if archived:
                self.locks.check(connection, [session_id])
            return bool(connection.execute(_ARCHIVE, (archived, self.tenant, session_id)).fetchall())

        try:
            return self._written(change)
        except CommitLostError:
            return self._written(change)

    def add(self, row: SessionRow, items: Iterable[Event | bytes]) -> None:
        """As in the protocol. Other writers do not wait."""
        count = 0

        def change(connection: Connection[Row]) -> None:
            nonlocal count
            # A source may be slow, and nobody else waits for this transaction.
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            count = write_session(connection, self.tenant, row, items)
            self.locks.check(connection, [row.session_id])

        try:
            self._written(change)
        except CommitLostError:
            with self.database.writing() as connection:
                self.locks.refence(connection, [row.session_id])
            there = self.stored.row(row.session_id)
            if there is None or there.events != count:
                raise

    def delete(self, session_id: SessionId) -> bool:
        def change(connection: Connection[Row]) -> bool:
            self.locks.check(connection, [session_id])
            return delete_session(connection, self.tenant, session_id) is not None

        try:
            return self._written(change)
        except CommitLostError:
            self._written(change)  # which finds nothing if the first was committed
            return True

    def collect(self, old: Sequence[SessionRow], older_than: float, locked_free: LockedFree) -> Collected:
        return collect(self.database, self.tenant, old, older_than, locked_free, self.locks)

    def inspect(self) -> Inspection:
        return inspect(self.database)

    def faults(self, seconds: float) -> list[str] | None:
        return faults(self.database, self.tenant, seconds)

    def owners(self) -> Mapping[SessionId, Owner]:
        return self.locks.owners()

    def close(self, acquired: Iterable[SessionId]) -> None:
        del acquired  # all leases end
        self.locks.close()
        self.database.close()

    def _written(self, change: Callable[[Connection[Row]], _Result]) -> _Result:
        with self.database.writing() as connection:
            return change(connection)
