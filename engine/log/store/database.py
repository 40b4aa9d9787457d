"""One SQLite file: created private, recognised, migrated, connected to durably, and checked to be still in place.

WAL with synchronous=FULL: a commit that returned survives power loss, and readers never wait for the writer.

A file that was removed or replaced takes commits as long as a process has it open; they return, and are lost with the
process. So a commit counts only if the path names the written file afterwards; a look before it could not promise
that. The same goes for the WAL, where a commit is until a checkpoint. A look is two calls of `stat`, 3 us together.

Must not know what an event is. `sqlite` reads with it, `writer` and `maintenance` write; `locks` makes its directory
with it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeVar

from ...core.durable import sync
from ...core.errors import StoreError, StoreGoneError, StoreTooNewError
from .schema import APPLICATION_ID, Migration

_Result = TypeVar("_Result")
_Identity = tuple[int, int]

_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_ATTEMPTS: Final = 5
_PAUSE: Final = 0.02  # seconds between attempts; SQLite reports some conflicts without waiting at all
_CHECKPOINT_PAGES: Final = 1000
"""The size of the WAL (4 MB) at which a commit runs a checkpoint; reached only if the writer is never idle.

Not larger, because a growing WAL makes every commit slower (0.20-0.28 ms instead of 0.14-0.16 when it is overwritten)
and recovery longer (6 ms at 4,000 pages, 2 ms at 1,000). Not smaller, because a checkpoint costs 1 to 6 ms."""
_INDEX_BYTES: Final = 1 << 15
"""The smallest index of a WAL, which SQLite needs to open a database."""


def make_directory(path: str) -> None:
    """Make the directory and its missing parents, each with mode 0700 whatever the umask. Raises OSError."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent != path:
        make_directory(parent)
    try:
        os.mkdir(path, _DIRECTORY_MODE)
    except FileExistsError:
        if os.path.isdir(path):  # another process may have been faster
            return
        raise
    os.chmod(path, _DIRECTORY_MODE)  # mkdir subtracts the umask, which may take the owner's rights
    _sync(parent)


def make_private(path: str) -> None:
    """Make an empty file with mode 0600, or take the rights of others from an existing one. Raises OSError.

    An existing file is never opened: closing it would drop every lock that SQLite has on it in this process.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    except FileExistsError:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EEXIST, "the path is not a regular file") from None
        if stat.S_IMODE(mode) & ~_FILE_MODE:
            with contextlib.suppress(PermissionError):  # the file may be another user's
                os.chmod(path, _FILE_MODE)
        return
    try:
        os.fchmod(descriptor, _FILE_MODE)
    finally:
        os.close(descriptor)


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


class InPlace:
    """The identity of the database file at `path` and of its WAL, to notice that either was removed or replaced."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._wal = f"{path}-wal"
        self._file = _identity(path)
        self._wal_file: _Identity | None = None

    def check(self) -> None:
        """Raise StoreGoneError if another file, or none, is at the path."""
        if _identity(self._path) != self._file:
            raise StoreGoneError(self._path)

    def check_commit(self) -> None:
        """Check the WAL, too, after a commit on a connection that stays open.

        SQLite keeps the WAL while any process has the database open, so it is the same file after each commit.
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


_REASONS: Final = (
    (sqlite3.SQLITE_FULL, "the disk is full; free some space"),
    (sqlite3.SQLITE_READONLY, "the database is read-only; make the file and its directory writable"),
    (sqlite3.SQLITE_PERM, "permission is missing; make the file and its directory readable and writable"),
    (sqlite3.SQLITE_CANTOPEN, "the database cannot be opened; make the file and its directory readable and writable"),
    (sqlite3.SQLITE_BUSY, "another process kept the database locked; end that process"),
    (sqlite3.SQLITE_CORRUPT, "the database is damaged; restore it from a copy"),
    (sqlite3.SQLITE_NOTADB, "the file is not a database; move it away or choose another path"),
    (sqlite3.SQLITE_IOERR, "the disk failed or a size limit was hit; check the disk and the limits"),
    (sqlite3.SQLITE_ERROR, "the database has unexpected tables; restore it from a copy or move it away"),
    (sqlite3.SQLITE_TOOBIG, "an event or a stored content is too large for SQLite; split it"),
)


def explain(path: str, error: BaseException) -> str:
    """Return a sentence that says what is wrong with the database at `path` and what to do."""
    if isinstance(error, StoreError):
        return str(error)
    if isinstance(error, UnicodeDecodeError):  # the sqlite3 module could not read SQLite's own message
        said = error.object.decode("utf-8", "backslashreplace")
        return f"{printable(path)}: the database is damaged; restore it from a copy ({said})"
    code = _code(error)
    if code == sqlite3.SQLITE_IOERR and not _has_room(path):
        code = sqlite3.SQLITE_FULL
    reason = next((text for known, text in _REASONS if known == code), None)
    return f"{printable(path)}: {reason} ({error})" if reason else f"{printable(path)}: {error}"


def _has_room(path: str) -> bool:
    """Return whether there is room for the WAL's index; without it SQLite reports a failed disk."""
    try:
        return shutil.disk_usage(os.path.dirname(path)).free >= _INDEX_BYTES
    except OSError:
        return True


def printable(path: str) -> str:
    """Return the path as text for any terminal; bytes that are not UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_busy(error: BaseException) -> bool:
    """Return whether other processes kept the whole database locked."""
    return _code(error) == sqlite3.SQLITE_BUSY


def retry_while_busy(action: Callable[[], _Result]) -> _Result:
    """Perform the action; try again, a bounded number of times, while other processes block it."""
    for attempt in range(1, _ATTEMPTS):
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            time.sleep(_PAUSE * attempt)
    return action()


class Database:
    """An open store file. Any thread may read. The writing thread uses `connect`, then checks `in_place`.

    Args:
        path: absolute, without symbolic links, so that all processes find the same locks.
        busy_seconds: how long, in all, to wait for other processes that write.
        migrations: the versions to know of.

    Raises:
        StoreError: the directory or file cannot be made or read, or the file is not a store.
        StoreTooNewError: a later version wrote it.
        StoreGoneError: from any use, since the file was removed or replaced.
    """

    def __init__(self, path: str, busy_seconds: float, migrations: Sequence[Migration]) -> None:
        self.path = path
        self._timeout = busy_seconds / _ATTEMPTS
        self._migrations = migrations
        self._uri: str | None = None
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        try:
            make_directory(os.path.dirname(path))
            make_private(path)
        except OSError as error:
            raise StoreError(
                f"cannot make {printable(path)}: {error.strerror}; make its directory writable or choose another path"
            ) from error
        with self._explained():
            self._idle.append(retry_while_busy(self._first_connection))
        self.in_place = InPlace(path)

    def connect(self) -> sqlite3.Connection:
        """Open a connection in autocommit mode; SQL statements begin and end transactions. Raises sqlite3.Error."""
        connection = sqlite3.connect(
            self._uri or self.path,
            timeout=self._timeout,
            isolation_level=None,
            check_same_thread=False,
            uri=self._uri is not None,
        )
        try:
            connection.text_factory = _text
            connection.execute("PRAGMA synchronous=FULL")
            # For macOS, see `core.durable`; without effect elsewhere.
            connection.execute("PRAGMA fullfsync=ON")
            connection.execute("PRAGMA checkpoint_fullfsync=ON")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Lend a connection to this caller alone. SQLite's errors become StoreError."""
        self.in_place.check()  # also because SQLite would create a missing file
        with self._explained():
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self.connect()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)
            if self._closed:
                self.close()

    @contextlib.contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Run the block in a transaction: committed at the end, rolled back on an exception.

        For single tasks whose caller waits. Events of sessions go through the writer.
        """
        with self.reading() as connection:  # which closes the connection after an error, and so rolls back
            retry_while_busy(lambda: connection.execute("BEGIN IMMEDIATE"))
            self.check_version(connection)
            yield connection
            connection.execute("COMMIT")
        self.in_place.check()

    def check_version(self, connection: sqlite3.Connection) -> int:
        """Return the version of the file. Raises StoreTooNewError if a later program has migrated it."""
        found: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if found < 0:
            raise StoreError(
                f"{printable(self.path)} is damaged: its schema version is {found}; restore the file from a backup"
            )
        if found > len(self._migrations):
            raise StoreTooNewError(printable(self.path), found, len(self._migrations))
        return found

    def close(self) -> None:
        """Close idle connections. The last connection of all processes removes the WAL file."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    @contextlib.contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise StoreError(explain(self.path, error)) from error

    def _first_connection(self) -> sqlite3.Connection:
        try:
            return self._prepared()
        except sqlite3.OperationalError:
            if not self._is_frozen():
                raise
        # SQLite reads a WAL database only if it can make the WAL's index, or is told that nothing will change. Without
        # a WAL file, in a directory that we may not write, nothing is pending.
        self._uri = "file:" + "".join(f"%{byte:02x}" for byte in os.fsencode(self.path)) + "?immutable=1"
        return self._prepared()

    def _prepared(self) -> sqlite3.Connection:
        connection = self.connect()
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_frozen(self) -> bool:
        return not os.access(os.path.dirname(self.path), os.W_OK) and not os.path.exists(f"{self.path}-wal")

    def _prepare(self, connection: sqlite3.Connection) -> None:
        found = self.check_version(connection)
        # In this order: another process may be making the file, and gives it tables and its id in one transaction.
        if not _is_new(connection) and connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreError(f"{printable(self.path)} is not a rewindow store; move it away or choose another path")
        if found == len(self._migrations):
            return
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # works only while the file is empty
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = self.check_version(connection)
            if found:
                self._back_up(found)
            for migration in self._migrations[found:]:
                migration(connection)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={len(self._migrations)}")
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def _back_up(self, version: int) -> None:
        # Atomic: the file is complete or absent. The open transaction keeps all others from writing meanwhile.
        target = f"{self.path}.v{version}.backup"
        partial = f"{target}.partial"
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
            make_private(partial)
            with (
                contextlib.closing(self.connect()) as source,
                contextlib.closing(sqlite3.connect(partial)) as copy,
            ):
                source.backup(copy)
            os.replace(partial, target)
        except OSError as error:
            raise StoreError(
                f"cannot back up {printable(self.path)} before its migration: {error.strerror}; free some space or"
                " make its directory writable"
            ) from error


def _text(data: bytes) -> str:
    # A text that is not UTF-8 must not make all other rows of a result unreadable.
    return data.decode("utf-8", "surrogateescape")


def _is_new(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


def _code(error: BaseException) -> int:
    # The primary result code. Errors of the sqlite3 module itself have none, and 0 is not an error of SQLite.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
