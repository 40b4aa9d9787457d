"""Directories and files that only their owner may read, whatever the umask is. Knows nothing of databases.

Used for the store's database, its backups and its lock files.
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

from ...core.errors import StoreError, StoreGoneError, StoreTooNewError
from .schema import APPLICATION_ID, Migration

_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


def make_directory(path: str) -> None:
    """Makes the directory and those above it that are missing, each with mode 0700. Raises OSError."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent != path:
        make_directory(parent)
    try:
        os.mkdir(path, _DIRECTORY_MODE)
    except FileExistsError:
        if os.path.isdir(path):  # because another process may have been faster
            return
        raise
    os.chmod(path, _DIRECTORY_MODE)  # because mkdir subtracts the umask, which may take the owner's rights
    _sync(parent)


def make_private(path: str) -> None:
    """Makes an empty file with mode 0600, or takes the rights of others from the one that is there. Raises OSError.

    An existing file is never opened: closing it would drop every lock that SQLite holds on it in this process.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    except FileExistsError:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EEXIST, "there is something that is no file") from None
        if stat.S_IMODE(mode) & ~_FILE_MODE:
            with contextlib.suppress(PermissionError):  # because the file may be somebody else's
                os.chmod(path, _FILE_MODE)
        return
    try:
        os.fchmod(descriptor, _FILE_MODE)
    finally:
        os.close(descriptor)


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# in place:
# Whether the database that is open is still the one at its path, so that what is committed can be found again.
#
# A file that was removed, or had another put in its place, goes on taking commits as long as somebody has it open:
# they return, and are gone with the process. So a commit counts only if afterwards the path names the file that it
# went to, which a look before it could not promise. The same holds for the WAL, where a commit is until a checkpoint.
# A look is two calls of `stat`, 3 us together. Knows nothing of SQLite. Used by `database`.

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


# database:
# One SQLite file: created with private rights, recognised, migrated, and connected to with durable settings.
#
# WAL with synchronous=FULL: a commit that returned survives power loss, and readers never wait for the writer. Must
# not know what an event is. Used by `sqlite` for reading, by `writer` and `removal` for writing.

_Result = TypeVar("_Result")

_ATTEMPTS: Final = 5
_PAUSE: Final = 0.02  # seconds between attempts, because some conflicts are reported without SQLite waiting at all
_CHECKPOINT_PAGES: Final = 1000
"""The WAL that a commit checkpoints by itself (4 MB), reached only by a burst that leaves the writer no idle moment.

Not more, because a WAL file that still grows makes every commit slower (0.20-0.28 ms instead of 0.14-0.16 where it is
overwritten) and recovery longer (6 ms at 4,000 pages, 2 at 1,000); not less, because a checkpoint costs 1 to 6 ms."""

_INDEX_BYTES: Final = 1 << 15
"""Of a WAL's index, the least that SQLite needs to open a database."""
_REASONS: Final = (
    (sqlite3.SQLITE_FULL, "the disk is full; free some space"),
    (sqlite3.SQLITE_READONLY, "it may not be written; make the file and its directory writable"),
    (sqlite3.SQLITE_PERM, "permission is missing; make the file and its directory readable and writable"),
    (sqlite3.SQLITE_CANTOPEN, "it cannot be opened; make the file and its directory readable and writable"),
    (sqlite3.SQLITE_BUSY, "another process kept it locked; end the one that hangs"),
    (sqlite3.SQLITE_CORRUPT, "it is damaged; restore it from a copy"),
    (sqlite3.SQLITE_NOTADB, "it is not a database; move it away or choose another path"),
    (sqlite3.SQLITE_IOERR, "the disk failed or a size limit was hit; check the disk and the limits"),
    (sqlite3.SQLITE_ERROR, "its tables are not as they should be; restore it from a copy or move it away"),
    (sqlite3.SQLITE_TOOBIG, "one event or blob is larger than SQLite can keep; split it"),
)


def explain(path: str, error: BaseException) -> str:
    """One sentence that says what is wrong with the database at `path` and what to do."""
    if isinstance(error, StoreError):
        return str(error)
    if isinstance(error, UnicodeDecodeError):  # the sqlite3 module could not read SQLite's own message
        said = error.object.decode("utf-8", "backslashreplace")
        return f"{printable(path)}: it is damaged; restore it from a copy ({said})"
    code = _code(error)
    if code == sqlite3.SQLITE_IOERR and not _has_room(path):
        code = sqlite3.SQLITE_FULL
    reason = next((text for known, text in _REASONS if known == code), None)
    return f"{printable(path)}: {reason} ({error})" if reason else f"{printable(path)}: {error}"


def _has_room(path: str) -> bool:
    """Whether the WAL's index could be made beside it: without room for that SQLite says that the disk failed."""
    try:
        return shutil.disk_usage(os.path.dirname(path)).free >= _INDEX_BYTES
    except OSError:
        return True


def printable(path: str) -> str:
    """The path as text that any terminal can take; bytes that are not UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_busy(error: BaseException) -> bool:
    """Whether other processes kept the whole database locked."""
    return _code(error) == sqlite3.SQLITE_BUSY


def retry_while_busy(action: Callable[[], _Result]) -> _Result:
    """Performs the action, again where other processes kept it from happening, a bounded number of times."""
    for attempt in range(1, _ATTEMPTS):
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            time.sleep(_PAUSE * attempt)
    return action()


class Database:
    """An open store file. Any thread may read; `connect` is for the one that writes, which asks `in_place` afterwards.

    Args:
        path: absolute, without symbolic links, so that all processes find the same locks.
        busy_seconds: how long, in all, to wait for other processes that write.
        migrations: the versions to know of.

    Raises:
        StoreError: the directory or file cannot be made, read, or is no store.
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
        """A connection in autocommit mode; transactions are begun and ended by statements. Raises sqlite3.Error."""
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
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """A connection for this caller alone. SQLite's errors become StoreError."""
        self.in_place.check()  # also because SQLite would make a new file where there is none
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
        """A transaction on a connection of its own, committed at the end, rolled back where anything is raised.

        For work that is done once and waited for; what is appended to sessions goes through the writer.
        """
        with self.reading() as connection:  # which closes the connection after an error, and so rolls back
            retry_while_busy(lambda: connection.execute("BEGIN IMMEDIATE"))
            self.check_version(connection)
            yield connection
            connection.execute("COMMIT")
        self.in_place.check()

    def check_version(self, connection: sqlite3.Connection) -> int:
        """The version of the file. Raises StoreTooNewError where a later program has migrated it."""
        found: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if found < 0:
            raise StoreError(f"{printable(self.path)} is damaged, its version is {found}; restore it from a copy")
        if found > len(self._migrations):
            raise StoreTooNewError(printable(self.path), found, len(self._migrations))
        return found

    def close(self) -> None:
        """Closes what is idle; the last connection of all processes takes the WAL file with it."""
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
        # Because SQLite reads a WAL database only where it can make the WAL's index, or is told that nothing will
        # change; and without a WAL file, in a directory that we may not write, nothing is pending.
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
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID and not _is_new(connection):
            raise StoreError(f"{printable(self.path)} is no rewindow store; move it away or choose another path")
        if found == len(self._migrations):
            return
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # of effect only where the file is still empty
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
        # Complete or absent under its name, and taken while the transaction keeps all others from writing.
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
    # Because a text that is no UTF-8 must not make every other row of an answer unreadable.
    return data.decode("utf-8", "surrogateescape")


def _is_new(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


def _code(error: BaseException) -> int:
    # The primary result code; errors of the sqlite3 module itself have none, and no error of SQLite's is 0.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
