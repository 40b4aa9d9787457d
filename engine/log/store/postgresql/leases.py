"""Who writes which session: a lease in the database, with a fencing number.

A store that writes a session has its row of the table `leases`, until `expires` by the database's clock. It renews all
its rows with one statement every RENEWAL_SECONDS. Another store may take over a row that expired, which gives it a
new number; numbers come from a sequence and are never used again. Each transaction that writes a session locks its row
`FOR SHARE` by the number (`check`), and a takeover updates that row. So no takeover falls between the check and the
commit, and a process that slept through its lease can never write again once another took over. If none did, it goes
on. Clocks of processes have no part in this.

A transaction may hold its lock for long, because its process was stopped; the server then ends it (`database`).

After a lost COMMIT, a store gives its own rows new numbers (`refence`). That waits until the lost transaction is over,
or keeps it from ever committing, so its outcome is then known.

A statement whose answer was lost may give a row of ours a number that we do not know, even later. So a row also names
its store. Only a row that names another store, or is gone, is a lost lease. Else we look up the number (`look_up`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import psycopg
from psycopg import Connection, errors

from ....core.errors import LeaseLostError, SessionInUseError, StoreError
from ....core.ids import SessionId
from ...store_protocol import Owner
from .database import CommitLostError, Database, Row, is_temporary

LEASE_SECONDS: Final = 10.0
RENEWAL_SECONDS: Final = 3.0
_RETRY_SECONDS: Final = 0.5
_TAKE: Final = """
INSERT INTO leases AS held (tenant, session, number, store, host, pid, expires)
SELECT %s, session, nextval('lease_numbers'), %s, %s, %s, clock_timestamp() + %s * interval '1 second'
FROM unnest(%s::text[]) AS session ORDER BY session
ON CONFLICT (tenant, session) DO UPDATE
SET number = excluded.number, store = excluded.store, host = excluded.host, pid = excluded.pid,
    expires = excluded.expires
WHERE held.expires <= clock_timestamp() OR held.store = excluded.store
RETURNING session, number
"""
_OWNER: Final = "SELECT host, pid FROM leases WHERE tenant = %s AND session = %s"
_OWNERS: Final = "SELECT session, host, pid FROM leases WHERE tenant = %s AND expires > clock_timestamp()"
# An error instead of a result, so a whole transaction can be sent without waiting for this answer.
CHECK: Final = "SELECT 1 / (count(*) = %s)::integer FROM (SELECT FROM leases WHERE number = ANY(%s) FOR SHARE) AS held"
_RENEW: Final = (
    "UPDATE leases SET expires = clock_timestamp() + %s * interval '1 second' WHERE number = ANY(%s) RETURNING number"
)
_REFENCE: Final = (
    "UPDATE leases SET number = nextval('lease_numbers'), expires = clock_timestamp() + %s * interval '1 second'"
    " WHERE tenant = %s AND store = %s AND session = ANY(%s) RETURNING session, number"
)
_LOOK_UP: Final = "SELECT session, number FROM leases WHERE tenant = %s AND store = %s AND session = ANY(%s)"
_RELEASE: Final = "DELETE FROM leases WHERE tenant = %s AND store = %s AND session = ANY(%s) RETURNING 1"
_log = logging.getLogger(__name__)


class Leases:
    """The leases of one store. `lost` is called, on the renewing thread, with each session that another one took."""

    def __init__(self, database: Database, tenant: str, lost: Callable[[SessionId], None]) -> None:
        self._database = database
        self._tenant = tenant
        self._lost = lost
        self._store = secrets.token_hex(16)
        """Recognises a row of ours whose answer, or whose release, a broken connection lost."""
        self._host = socket.gethostname().encode("ascii", "backslashreplace").decode()
        self._numbers: dict[SessionId, int] = {}
        self._mutex = threading.Lock()
        """For `_numbers`, and held while a statement changes or relies on the numbers in the database."""
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()

    def acquire(self, session_id: SessionId) -> None:
        """Take the lease if it is free or expired. Raises SessionInUseError, StoreError."""
        if not self._take([session_id]):
            host, pid = self.owner(session_id) or (None, None)
            raise SessionInUseError(session_id, pid, host=None if host == self._host else host, seconds=LEASE_SECONDS)

    def acquire_free(self, sessions: Iterable[SessionId]) -> list[SessionId]:
        """Take the leases of all sessions that are not in use, and return these. Raises StoreError."""
        return self._take(list(sessions))

    def release(self, session_id: SessionId) -> None:
        """Give the lease back. If the database cannot be reached, it expires."""
        with self._mutex:
            if self._numbers.pop(session_id, None) is not None:
                self._delete([session_id])

    def close(self) -> None:
        """End the renewal, and give all leases back."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        with self._mutex:
            sessions = list(self._numbers)
            self._numbers.clear()
            if sessions:
                self._delete(sessions)

    def numbers(self, sessions: Collection[SessionId]) -> list[int]:
        """Return the numbers for CHECK. Raises LeaseLostError for a session whose lease was lost."""
        with self._mutex:
            missing = [each for each in sessions if each not in self._numbers]
            if missing:
                raise self.lost(missing[0])
            return [self._numbers[each] for each in sessions]

    def check(self, connection: Connection[Row], sessions: Collection[SessionId]) -> None:
        """Lock the leases for the rest of the transaction. Raises LeaseLostError, psycopg.Error."""
        numbers = self.numbers(sessions)
        try:
            connection.execute(CHECK, (len(numbers), numbers))
        except errors.DivisionByZero:
            if self.look_up(sessions):
                raise CommitLostError("a lease has a new number; try again") from None
            raise self.lost(*sessions) from None

    def look_up(self, sessions: Collection[SessionId]) -> bool:
        """Get the numbers of our leases; return whether all of these sessions are still ours. Raises StoreError."""
        with self._mutex:
            ours = [each for each in sessions if each in self._numbers]
            found = self._database.query(_LOOK_UP, (self._tenant, self._store, ours))
            numbers = {SessionId(session): number for session, number in found}
            self._numbers.update(numbers)
            for session_id in ours:
                if session_id not in numbers:
                    del self._numbers[session_id]
            return len(numbers) == len(sessions)

    def lost(self, *sessions: SessionId) -> LeaseLostError:
        """Return the error for sessions that others took, with the owner if there is one session."""
        owner = None
        if len(sessions) == 1:
            with contextlib.suppress(StoreError):
                owner = self.owner(sessions[0])
        return LeaseLostError(owner, LEASE_SECONDS)

    def refence(self, connection: Connection[Row], sessions: Collection[SessionId]) -> None:
        """Give our leases of these sessions new numbers, after which no earlier transaction of ours can commit.

        Sessions whose lease was lost keep their old number, which `check` refuses. Raises psycopg.Error.
        """
        with self._mutex:
            ours = [each for each in sessions if each in self._numbers]
            values = (LEASE_SECONDS, self._tenant, self._store, ours)
            renewed = connection.execute(_REFENCE, values).fetchall()
            self._numbers.update({SessionId(session): number for session, number in renewed})

    def owner(self, session_id: SessionId) -> tuple[str, int] | None:
        """Return host and process that have the lease. Raises StoreError."""
        found = self._database.query(_OWNER, (self._tenant, session_id))
        return (found[0][0], found[0][1]) if found else None

    def owners(self) -> dict[SessionId, Owner]:
        """Return the process that has each lease that has not expired. Raises StoreError."""
        found = self._database.query(_OWNERS, (self._tenant,))
        return {SessionId(session): Owner(pid, "" if host == self._host else host) for session, host, pid in found}

    def _take(self, sessions: Sequence[SessionId]) -> list[SessionId]:
        with self._mutex:
            wanted = [each for each in sessions if each not in self._numbers]
            values = (self._tenant, self._store, self._host, os.getpid(), LEASE_SECONDS, wanted)
            taken = self._database.query(_TAKE, values) if wanted else []
            self._numbers.update({SessionId(session): number for session, number in taken})
            if taken and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rewindow-leases", daemon=True)
                self._thread.start()
        return [SessionId(session) for session, _ in taken]

    def _delete(self, sessions: Sequence[SessionId]) -> None:
        with contextlib.suppress(StoreError):
            self._database.query(_RELEASE, (self._tenant, self._store, sessions))

    def _run(self) -> None:
        connection: Connection[Row] | None = None
        seconds = RENEWAL_SECONDS
        while not self._ending.wait(seconds):
            try:
                connection = connection or self._renewing_connection()
                self._renew(connection)
                seconds = RENEWAL_SECONDS
            except (psycopg.Error, StoreError) as error:
                _log.debug("leases were not renewed: %s", self._database.explain(error))
                if connection is not None:
                    connection.close()
                connection, seconds = None, _RETRY_SECONDS if is_temporary(error) else RENEWAL_SECONDS
        if connection is not None:
            connection.close()

    def _renewing_connection(self) -> Connection[Row]:
        connection = self._database.connect()
        # A renewal that a crash of the server undoes costs at most the lease, so nobody waits for the disk.
        connection.execute("SET synchronous_commit = off")
        return connection

    def _renew(self, connection: Connection[Row]) -> None:
        with self._mutex:
            held = dict(self._numbers)
            if not held:
                return
            found = connection.execute(_RENEW, (LEASE_SECONDS, list(held.values()))).fetchall()
            renewed = {number for (number,) in found}
            missing = [session for session, number in held.items() if number not in renewed]
        for session_id in missing:
            if not self.look_up([session_id]):
                self._lost(session_id)
