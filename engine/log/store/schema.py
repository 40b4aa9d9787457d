"""The format of a store: contents named by digests and packed, the tables, and their migrations.

`PRAGMA user_version` is the number of migrations that a database has seen; a new one runs all of them. A new version is
one function and one entry in MIGRATIONS. Must not open anything: `database` runs the migrations in one transaction. The
contents' part is for all stores, exports and imports.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...core.errors import InvalidRequestError, StoreError
from ...core.ids import BlobDigest

if TYPE_CHECKING:
    from sqlite3 import Connection

MAX_BLOB: Final = 512 << 20
"""The most bytes of one content. SQLite takes at most 10^9 bytes in one row."""
_LEVEL: Final = 1  # commits wait while the writer compresses; 1 is three times as fast as 6, for 15 % more bytes
_SAMPLE: Final = 64 << 10
_LARGE: Final = 1 << 20
"""From this size on a sample decides whether to compress: 50 MB that do not shrink would delay a commit by 2 s."""
_WORTH: Final = 0.9
"""The share to which a sample has to shrink."""
_NAME: Final = re.compile("blake2b-[0-9a-f]{40}")
APPLICATION_ID: Final = 0x52574E44
"""`RWND`, at a fixed place in the file, so that no other program's database is taken for a store."""

Migration = Callable[["Connection"], None]


def digest_of(data: bytes) -> BlobDigest:
    """Return the digest of content. Raises InvalidRequestError for more than MAX_BLOB bytes."""
    if len(data) > MAX_BLOB:
        raise InvalidRequestError(f"content of {len(data)} bytes is too large to store; the limit is {MAX_BLOB} bytes")
    from hashlib import blake2b  # here, because it loads OpenSSL, which costs a start-up 2 ms

    return BlobDigest(f"blake2b-{blake2b(data, digest_size=20).hexdigest()}")


def names_in(json: str) -> tuple[BlobDigest, ...]:
    """Return the digests anywhere in an event's JSON, each once, in order.

    The whole text is searched, not certain fields: deleting content that a field of a later version names would lose
    it, and keeping content that is only quoted costs little.
    """
    if "blake2b-" not in json:
        return ()
    return tuple(dict.fromkeys(map(BlobDigest, _NAME.findall(json))))


def pack(data: bytes) -> bytes:
    """Compress content, if a sample shows that it shrinks."""
    return zlib.compress(data, _LEVEL if _is_worth_it(data) else zlib.Z_NO_COMPRESSION)


def _is_worth_it(data: bytes) -> bool:
    if len(data) < _LARGE:
        return True
    # From the middle, because a pickle of arrays begins with compressible data.
    start = (len(data) - _SAMPLE) // 2
    return len(zlib.compress(data[start : start + _SAMPLE], _LEVEL)) < _WORTH * _SAMPLE


def unpack(digest: BlobDigest, packed: bytes) -> bytes:
    """Return the content. Raises StoreError if it does not match the digest."""
    try:
        data = zlib.decompress(packed)
    except zlib.error as error:
        raise StoreError(f"content {digest} is damaged: {error}; restore the store from a copy") from error
    if digest_of(data) != digest:
        raise StoreError(f"content {digest} is damaged: its digest differs; restore the store from a copy")
    return data


def _first(connection: Connection) -> None:
    # Directories are bytes, because a path need not be UTF-8; several are separated by NUL, which no path contains.
    connection.execute(
        "CREATE TABLE sessions (session TEXT PRIMARY KEY, cwd BLOB NOT NULL, directories BLOB NOT NULL, title TEXT,"
        " created_at REAL NOT NULL, updated_at REAL NOT NULL, events INTEGER NOT NULL) WITHOUT ROWID"
    )
    # With a rowid, because an index page does not store rows above 1,002 bytes whole: without it, events of 1.1 kB take
    # 4.3 times their size; with it, 1.3 times. Commits are equally fast.
    connection.execute(
        "CREATE TABLE events (session TEXT NOT NULL REFERENCES sessions (session) ON DELETE CASCADE,"
        " seq INTEGER NOT NULL, branch TEXT NOT NULL, kind TEXT NOT NULL, json TEXT NOT NULL,"
        " PRIMARY KEY (session, seq))"
    )
    connection.execute("CREATE TABLE blobs (digest TEXT PRIMARY KEY, data BLOB NOT NULL, size INTEGER NOT NULL)")


def _second(connection: Connection) -> None:
    # For lists and deletions. Every commit updates it, because finding it in 200,000 events takes 0.3 s. `size` counts
    # bytes of JSON and of packed contents.
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
    # Which contents a session may drop, the oldest first, and the bytes that its contents take; every commit updates
    # both. Nothing from before is droppable, because no event of that time was.
    for column in ("last", "droppable"):
        connection.execute(f"ALTER TABLE refs ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
    for column in ("contents_size", "droppable_size"):
        connection.execute(f"ALTER TABLE sessions ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
    connection.execute(
        "UPDATE sessions SET contents_size = taken FROM (SELECT session AS whose, sum(length(data)) AS taken"
        " FROM refs JOIN blobs USING (digest) GROUP BY session) WHERE session = whose"
    )


def _fourth(connection: Connection) -> None:
    connection.execute("ALTER TABLE sessions ADD COLUMN archived INTEGER NOT NULL DEFAULT 0")


MIGRATIONS: Final[tuple[Migration, ...]] = (_first, _second, _third, _fourth)
