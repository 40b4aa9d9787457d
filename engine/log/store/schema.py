"""The tables, and the migrations from each version of them to the next.

`PRAGMA user_version` is the number of migrations that a database has seen; a new one sees all of them. Adding a version
is one function and one entry in MIGRATIONS. Must not open anything; `database` runs these in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .blobs import names_in

if TYPE_CHECKING:  # for start-up, as in `queued`
    from sqlite3 import Connection

APPLICATION_ID: Final = 0x52574E44
"""`RWND`, at a fixed place in the file, so that no other program's database is ever taken for a store."""

Migration = Callable[["Connection"], None]


def _first(connection: Connection) -> None:
    # Directories are bytes, because a path need not be UTF-8; several are separated by NUL, which no path contains.
    connection.execute(
        "CREATE TABLE sessions (session TEXT PRIMARY KEY, cwd BLOB NOT NULL, directories BLOB NOT NULL, title TEXT,"
        " created_at REAL NOT NULL, updated_at REAL NOT NULL, events INTEGER NOT NULL) WITHOUT ROWID"
    )
    # With a rowid, because an index page takes no row above 1,002 bytes whole: events of 1.1 kB would need 4.3 times
    # their size without, 1.3 times with, and commits are as fast.
    connection.execute(
        "CREATE TABLE events (session TEXT NOT NULL REFERENCES sessions (session) ON DELETE CASCADE,"
        " seq INTEGER NOT NULL, branch TEXT NOT NULL, kind TEXT NOT NULL, json TEXT NOT NULL,"
        " PRIMARY KEY (session, seq))"
    )
    connection.execute("CREATE TABLE blobs (digest TEXT PRIMARY KEY, data BLOB NOT NULL, size INTEGER NOT NULL)")


def _second(connection: Connection) -> None:
    # What a listing and a deletion ask for, kept by every commit, because finding it in 200,000 events
    # takes 0.3 s. `size` counts bytes of JSON, and of the contents referred to as they are packed.
    connection.execute("ALTER TABLE sessions ADD COLUMN size INTEGER NOT NULL DEFAULT 0")
    connection.execute(
        "CREATE TABLE refs (session TEXT NOT NULL REFERENCES sessions (session) ON DELETE CASCADE,"
        " digest TEXT NOT NULL REFERENCES blobs (digest), PRIMARY KEY (session, digest)) WITHOUT ROWID"
    )
    connection.execute("CREATE INDEX refs_digest ON refs (digest)")
    for session, json in connection.execute("SELECT session, json FROM events WHERE instr(json, 'blake2b-')"):
        connection.executemany(
            "INSERT OR IGNORE INTO refs (session, digest) SELECT ?, digest FROM blobs WHERE digest = ?",
            [(session, digest) for digest in names_in(json)],
        )
    connection.execute(
        "UPDATE sessions SET size ="
        " (SELECT total(length(CAST(json AS BLOB))) FROM events WHERE events.session = sessions.session)"
        " + (SELECT total(length(data)) FROM refs JOIN blobs USING (digest) WHERE refs.session = sessions.session)"
    )


def _third(connection: Connection) -> None:
    # Which contents a session may drop, the oldest first, and what its contents take, which every commit keeps as it
    # does `size`. Nothing of before is droppable, because no event said so of what it names.
    for column in ("last", "droppable"):
        connection.execute(f"ALTER TABLE refs ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
    for column in ("contents_size", "droppable_size"):
        connection.execute(f"ALTER TABLE sessions ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
    connection.execute(
        "UPDATE sessions SET contents_size = taken FROM (SELECT session AS whose, sum(length(data)) AS taken"
        " FROM refs JOIN blobs USING (digest) GROUP BY session) WHERE session = whose"
    )


MIGRATIONS: Final[tuple[Migration, ...]] = (_first, _second, _third)
