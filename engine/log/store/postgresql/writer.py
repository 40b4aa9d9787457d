"""Writing to PostgreSQL: the changes of a commit in one transaction, and whole sessions.

**One transaction.** It locks the leases of its sessions (`leases`), writes, and commits. Without contents, all its
statements are sent at once, and only the last answer is awaited.

**A lost COMMIT.** If the server does not answer, the transaction may have been committed or not. The changes are kept
as doubtful, and are tried again by `GroupCommit`. Before they are, `_settle` gives the leases new numbers, which ends
or disarms the lost transaction, and compares the first event of each session with what is stored at its position. A
transaction writes all or nothing, so one event is enough. A transaction without events only sets values, and is
repeated.

**References.** The table `refs` is as in SQLite (`references`), but several hosts write to it. Content that is named is
locked against deletion; content that is deleted is locked against naming, and then looked at again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg import Connection

from ....core.errors import StoreError
from ....core.ids import BlobDigest, Seq, SessionId
from ...events import Event
from ...store_protocol import SessionRow
from ..changes import Append, Change, Create, Listen, Move, Retitle
from ..schema import pack
from ..stored import directory_values
from ..writable import encoded_items
from .database import Database, Row, is_temporary, is_unanswered
from .leases import CHECK, Leases

_INSERT_SESSION: Final = (
    "INSERT INTO sessions (tenant, session, cwd, directories, title, created_at, updated_at, events, size)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, 0, 0)"
)
_INSERT_EVENTS: Final = (
    "INSERT INTO events (tenant, session, seq, kind, json)"
    " SELECT %s, * FROM unnest(%s::text[], %s::bigint[], %s::text[], %b::bytea[])"
)
_UPDATE_DIRECTORIES: Final = "UPDATE sessions SET cwd = %s, directories = %s WHERE tenant = %s AND session = %s"
_UPDATE_TITLE: Final = "UPDATE sessions SET title = %s WHERE tenant = %s AND session = %s"
_UPDATE_SESSION: Final = (
    "UPDATE sessions SET events = %s, updated_at = %s, size = greatest(size + %s, 0),"
    " contents_size = greatest(contents_size + %s, 0), droppable_size = greatest(droppable_size + %s, 0)"
    " WHERE tenant = %s AND session = %s"
)
_SELECT_EVENT: Final = "SELECT json FROM events WHERE tenant = %s AND session = %s AND seq = %s"
_LOCK_NAMED: Final = (
    "SELECT digest, packed FROM blobs WHERE tenant = %s AND digest = ANY(%s) ORDER BY digest FOR KEY SHARE"
)
_INSERT_BLOB: Final = (
    "INSERT INTO blobs (tenant, digest, data, size, packed) VALUES (%s, %s, %b, %s, %s) ON CONFLICT DO NOTHING"
)
_SELECT_REFS: Final = (
    "SELECT digest, last, droppable, packed FROM refs JOIN blobs USING (tenant, digest)"
    " WHERE tenant = %s AND session = %s AND (digest = ANY(%s) OR (%s AND droppable))"
)
_UPSERT_REFS: Final = (
    "INSERT INTO refs (tenant, session, digest, last, droppable)"
    " SELECT %s, %s, * FROM unnest(%s::text[], %s::bigint[], %s::boolean[])"
    " ON CONFLICT (tenant, session, digest) DO UPDATE SET last = excluded.last, droppable = excluded.droppable"
)
_DELETE_REFS: Final = "DELETE FROM refs WHERE tenant = %s AND session = %s AND digest = ANY(%s)"
_LOCK_UNNAMED: Final = (
    "SELECT digest FROM blobs WHERE tenant = %s AND digest = ANY(%s) ORDER BY digest FOR UPDATE SKIP LOCKED"
)
_DELETE_UNNAMED: Final = (
    "DELETE FROM blobs WHERE tenant = %s AND digest = ANY(%s) AND NOT EXISTS"
    " (SELECT FROM refs WHERE refs.tenant = blobs.tenant AND refs.digest = blobs.digest) RETURNING packed"
)
_ROWS: Final = 500
"""How many events of a whole session one statement inserts."""
_ATTEMPTS: Final = 5


class PostgresqlCommitter:
    """`Committer` of a PostgreSQL database."""

    def __init__(self, database: Database, leases: Leases, tenant: str) -> None:
        self._database = database
        self._leases = leases
        self._tenant = tenant
        self._connection: Connection[Row] | None = None
        self._doubtful: list[list[Change]] = []
        """The changes of each transaction whose outcome is unknown."""

    def commit(self, changes: Sequence[Change], *, is_retry: bool) -> None:
        """As in the protocol. Raises psycopg.Error, LeaseLostError, StoreError."""
        del is_retry
        used = None if self._connection is None or self._connection.closed else self._connection
        try:
            self._commit(used or self._connect(), changes)
        except psycopg.OperationalError as error:
            if used is None or not is_unanswered(used, error):
                raise
            # The server, or what is between, may have ended it while it was idle.
            self._commit(self._connect(), changes)

    def _connect(self) -> Connection[Row]:
        self._connection = self._database.connect()
        return self._connection

    def _commit(self, connection: Connection[Row], changes: Sequence[Change]) -> None:
        try:
            done = self._settle(connection, changes) if self._doubtful else frozenset[int]()
            left = [change for change in changes if id(change) not in done]
            while not self._transact(connection, left):
                connection.rollback()
        except psycopg.Error as error:
            if is_unanswered(connection, error):
                self._doubtful.append(list(changes))
            connection.close()
            raise
        except BaseException:
            connection.close()
            raise

    def is_temporary(self, error: Exception) -> bool:
        return is_temporary(error)

    def explain(self, error: Exception) -> str:
        return self._database.explain(error)

    def delayed(self, error: Exception) -> str:
        return f"{self.explain(error)}; new events are saved when the database takes them again"

    def rest(self) -> None:
        """As in the protocol: nothing is due."""

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _transact(self, connection: Connection[Row], changes: Sequence[Change]) -> bool:
        """Return whether the transaction was committed; False if it has to be repeated with other numbers of leases."""
        sessions = list(dict.fromkeys(change.session.session_id for change in changes))
        numbers = self._leases.numbers(sessions)
        appends = [change for change in changes if isinstance(change, Append)]
        sizes = {change.session.session_id: Sizes() for change in appends}
        has_references = any(change.names or change.dropped_before is not None for change in appends)
        try:
            with connection.pipeline() as pipeline:
                connection.execute("BEGIN")
                connection.execute(CHECK, (len(numbers), numbers))
                for change in changes:
                    if not isinstance(change, Append):
                        self._write_change(connection, change)
                if has_references:
                    pipeline.sync()  # so that a lost lease is noticed before anything is read
                    self._write_references(connection, appends, sizes)
                insert_events(connection, self._tenant, appends)
                self._update_sessions(connection, appends, sizes)
                connection.execute("COMMIT")
        except psycopg.errors.DivisionByZero:
            if not self._leases.look_up(sessions):
                raise self._leases.lost(*sessions) from None
            return False
        return True

    def _write_change(self, connection: Connection[Row], change: Create | Retitle | Move | Listen) -> None:
        match change:
            case Create(row=row):
                # It may be stored: by a transaction without events whose outcome is unknown.
                insert_session(connection, self._tenant, row, or_ignore=True)
            case Retitle(session=session, title=title):
                connection.execute(_UPDATE_TITLE, (_title(title), self._tenant, session.session_id))
            case Move(session=session, cwd=cwd, directories=directories):
                values = (*directory_values(cwd, directories), self._tenant, session.session_id)
                connection.execute(_UPDATE_DIRECTORIES, values)
            case Listen():
                pass

    def _write_references(
        self, connection: Connection[Row], appends: Sequence[Append], sizes: Mapping[SessionId, Sizes]
    ) -> None:
        contents = {content.digest: content.data for change in appends for content in change.contents}
        packed = write_contents(
            connection, self._tenant, contents, {name for change in appends for name in change.names}
        )
        sessions: dict[SessionId, list[Naming]] = {}
        for change in appends:
            if change.names or change.dropped_before is not None:
                naming = Naming(change.values[1], change.names, change.droppable, change.dropped_before)
                sessions.setdefault(change.session.session_id, []).append(naming)
        dropped: set[BlobDigest] = set()
        for session_id in sorted(sessions):
            dropped |= refer(connection, self._tenant, session_id, sessions[session_id], packed, sizes[session_id])
        delete_unnamed(connection, self._tenant, dropped)

    def _update_sessions(
        self, connection: Connection[Row], appends: Sequence[Append], sizes: Mapping[SessionId, Sizes]
    ) -> None:
        last: dict[SessionId, Append] = {}
        for change in appends:
            last[change.session.session_id] = change
            sizes[change.session.session_id].events += change.size
        for session_id, change in last.items():
            update_session(connection, self._tenant, session_id, change.values[1] + 1, change.at, sizes[session_id])

    def _settle(self, connection: Connection[Row], changes: Sequence[Change]) -> frozenset[int]:
        """Return the identities of those of the changes that a lost transaction has committed."""
        here = {id(change) for change in changes}
        done: set[int] = set()
        self._leases.refence(connection, {change.session.session_id for change in changes})
        for batch in self._doubtful:
            ours = [change for change in batch if id(change) in here]
            first = next((change for change in ours if isinstance(change, Append)), None)
            if first is not None and self._is_stored(connection, first):
                done.update(map(id, ours))
        # Only now, because every statement above may fail.
        left = [[change for change in batch if id(change) not in here] for batch in self._doubtful]
        self._doubtful = [batch for batch in left if batch]
        return frozenset(done)

    def _is_stored(self, connection: Connection[Row], change: Append) -> bool:
        session_id, seq, _, _, json = change.values
        found = connection.execute(_SELECT_EVENT, (self._tenant, session_id, seq)).fetchone()
        if found is not None and found[0] != json.encode():
            raise StoreError(f"event {seq} of session {session_id} is stored with another content")
        return found is not None


# --- what a transaction writes ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sizes:
    """By how many bytes a session grows in a transaction."""

    events: int = 0
    contents: int = 0
    droppable: int = 0


@dataclass(frozen=True, slots=True)
class Naming:
    """The contents that an event names, and those that it drops."""

    seq: Seq
    names: Sequence[BlobDigest]
    droppable: bool
    dropped_before: Seq | None


@dataclass(slots=True)
class _References:
    """The references of one session that a transaction changes; see `references` for the rules."""

    stored: Mapping[BlobDigest, tuple[Seq, bool]]
    packed: Mapping[BlobDigest, int]
    sizes: Sizes
    there: dict[BlobDigest, tuple[Seq, bool]] = field(init=False)

    def __post_init__(self) -> None:
        self.there = dict(self.stored)

    def name(self, naming: Naming) -> None:
        for digest in naming.names:
            size = self.packed.get(digest)
            if size is None:  # only quoted
                continue
            known = self.there.get(digest)
            if known is None:
                self.sizes.contents += size
                self.sizes.droppable += size if naming.droppable else 0
            elif not known[1]:
                continue
            elif not naming.droppable:
                self.sizes.droppable -= size
            self.there[digest] = (naming.seq, naming.droppable)

    def drop(self, before: Seq) -> None:
        for digest, (last, droppable) in list(self.there.items()):
            if droppable and last < before:
                self.sizes.contents -= self.packed[digest]
                self.sizes.droppable -= self.packed[digest]
                del self.there[digest]


def refer(
    connection: Connection[Row],
    tenant: str,
    session_id: SessionId,
    namings: Iterable[Naming],
    packed: Mapping[BlobDigest, int],
    sizes: Sizes,
) -> set[BlobDigest]:
    """Update the references of a session by its events, in order; return the digests that it does not name any more.

    `packed` has the size of each stored content that the events name. Adds to `sizes`.
    """
    namings = list(namings)
    named = sorted({name for naming in namings for name in naming.names if name in packed})
    drops = any(naming.dropped_before is not None for naming in namings)
    found = connection.execute(_SELECT_REFS, (tenant, session_id, named, drops)).fetchall()
    stored = {BlobDigest(digest): (Seq(last), droppable) for digest, last, droppable, _ in found}
    known = {BlobDigest(digest): size for digest, _, _, size in found}
    references = _References(stored, {**known, **packed}, sizes)
    for naming in namings:
        references.name(naming)
        if naming.dropped_before is not None:
            references.drop(naming.dropped_before)
    changed = [(name, *ref) for name, ref in sorted(references.there.items()) if stored.get(name) != ref]
    if changed:
        names, lasts, droppables = map(list, zip(*changed, strict=True))
        connection.execute(_UPSERT_REFS, (tenant, session_id, names, lasts, droppables))
    gone = sorted(stored.keys() - references.there.keys())
    if gone:
        connection.execute(_DELETE_REFS, (tenant, session_id, gone))
    # Content that was named and dropped in this transaction has no stored reference.
    return {*gone, *(name for name in named if name not in references.there)}


def write_contents(
    connection: Connection[Row],
    tenant: str,
    contents: Mapping[BlobDigest, bytes],
    names: Collection[BlobDigest],
) -> dict[BlobDigest, int]:
    """Store those of the contents that are missing; return the size of each stored one among `names`.

    They are locked against deletion for the rest of the transaction.
    """
    for _ in range(_ATTEMPTS):
        found = connection.execute(_LOCK_NAMED, (tenant, sorted(names))).fetchall()
        stored = {BlobDigest(digest): size for digest, size in found}
        missing = sorted(digest for digest in contents if digest not in stored)
        if not missing:
            return stored
        for digest in missing:  # in order, so that two hosts with the same contents do not block each other
            data = pack(contents[digest])
            connection.execute(_INSERT_BLOB, (tenant, digest, data, len(contents[digest]), len(data)))
    raise StoreError("other processes delete contents as fast as this one stores them; try again")


def delete_unnamed(connection: Connection[Row], tenant: str, digests: Collection[BlobDigest]) -> int:
    """Delete those of the contents that no session refers to, and return their size. `collect` finds the rest.

    Content that another transaction has locked is about to be named.
    """
    if not digests:
        return 0
    found = connection.execute(_LOCK_UNNAMED, (tenant, sorted(digests))).fetchall()
    # A statement of its own, because it sees what was committed before the locks were taken.
    locked = [digest for (digest,) in found]
    return sum(size for (size,) in connection.execute(_DELETE_UNNAMED, (tenant, locked)).fetchall())


def insert_session(connection: Connection[Row], tenant: str, row: SessionRow, *, or_ignore: bool = False) -> None:
    """Insert the row of a session without events."""
    values = (
        tenant,
        row.session_id,
        *directory_values(row.cwd, row.directories),
        _title(row.title),
        row.created_at,
        row.updated_at,
    )
    connection.execute(f"{_INSERT_SESSION} ON CONFLICT DO NOTHING" if or_ignore else _INSERT_SESSION, values)


def insert_events(connection: Connection[Row], tenant: str, appends: Sequence[Append]) -> None:
    if appends:
        rows = [(session, seq, kind, json.encode()) for session, seq, _, kind, json in (a.values for a in appends)]
        connection.execute(_INSERT_EVENTS, (tenant, *map(list, zip(*rows, strict=True))))


def update_session(
    connection: Connection[Row], tenant: str, session_id: SessionId, events: int, at: float, sizes: Sizes
) -> None:
    grown = (sizes.events + sizes.contents, sizes.contents, sizes.droppable)
    connection.execute(_UPDATE_SESSION, (events, at, *grown, tenant, session_id))


def write_session(connection: Connection[Row], tenant: str, row: SessionRow, items: Iterable[Event | bytes]) -> int:
    """Insert a whole session from elsewhere, and return how many events it has.

    The caller has checked the lease in this transaction, and rolls back if this raises. Raises what `encoded_items` and
    `items` raise.
    """
    insert_session(connection, tenant, row)
    sizes, rows, namings = Sizes(), list[tuple[str, int, str, bytes]](), list[Naming]()
    packed: dict[BlobDigest, int] = {}
    events = 0

    def insert() -> None:
        if rows:
            connection.execute(_INSERT_EVENTS, (tenant, *map(list, zip(*rows, strict=True))))
            rows.clear()

    for event, json, names, contents in encoded_items(row, items):
        if contents:
            packed.update(write_contents(connection, tenant, contents, contents))
        if names or event.dropped_before is not None:
            namings.append(Naming(event.seq, names, event.droppable, event.dropped_before))
        data = json.encode()
        sizes.events += len(data)
        events += 1
        rows.append((row.session_id, event.seq, event.kind, data))
        if len(rows) == _ROWS:
            insert()
    insert()
    delete_unnamed(connection, tenant, refer(connection, tenant, row.session_id, namings, packed, sizes))
    update_session(connection, tenant, row.session_id, events, row.updated_at, sizes)
    return events


def _title(title: str | None) -> bytes | None:
    return None if title is None else title.encode()
