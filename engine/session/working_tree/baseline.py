"""What the files of one directory were at the last comparison, with their contents.

A comparison lists the directory, reads what has another state than before, and returns what differs in content, mode or
kind. States and contents are kept in a private database of the directory, so that the next process need not read all
files again. It is disposable: what a session needs of it goes into the session's own store, a damaged one is made anew,
and one that was not used for UNUSED_SECONDS is removed. Contents that nothing names any more are removed an hour later,
because another process may still need one.

A content or a name with a known secret is never kept, and what has such a name is not compared. Neither is a content
above LARGEST bytes kept, nor any more once the directory's contents have MOST_BYTES. Such a file is compared by its
digest or state. Blocks, and may be called on any thread.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from typing import Final, NamedTuple

import xxhash

from ...core.execution import DIRECTORY, LINK
from ...core.pictures import HAS_SECRET
from ...files.safe_open import LARGEST, opened_directory
from ...files.search.ignore_files import place_of
from ...runtime.system.process_table import boot_id, pid_namespace, stat_of
from ..tool_records import file_state
from .listing import Lister, State, StoppedError

MOST_BYTES: Final = 1 << 30
"""Bytes of all contents of one directory that are kept, before compression."""
_RACY_NS: Final = 50_000_000
"""A younger file may change again without another time, because kernels stamp in ticks of up to 10 ms."""
_KEPT_SECONDS: Final = 3600.0
_BATCH: Final = 500
"""Files whose contents are written at once."""
_BUSY_SECONDS: Final = 10.0
_LONGEST_ACT: Final = 4 * 3600.0
"""Seconds after which an act counts as ended, if nobody can tell whether its process has."""
_CLEANING_SECONDS: Final = 600.0
_NO_TIME: Final = -1
FOLDER: Final = "baselines"
"""Of the state directory: the databases of directories."""
UNUSED_SECONDS: Final = 30 * 86_400.0
"""After which a directory's database is removed, unless it is used."""
_END: Final = ".db"
_SUFFIXES: Final = ("", "-wal", "-shm")
FULL: Final = f"the contents of this directory take more than {MOST_BYTES >> 30} GiB"
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS entries(
  path BLOB PRIMARY KEY, mode INTEGER, inode INTEGER, size INTEGER, modified INTEGER, changed INTEGER,
  digest TEXT, reason TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS running(owner TEXT, process TEXT, started REAL, ended REAL);
CREATE TABLE IF NOT EXISTS contents(digest TEXT PRIMARY KEY, data BLOB, size INTEGER, used REAL);
"""


def forget_unused(folder: str, seconds: float = UNUSED_SECONDS) -> None:
    """Remove the databases of directories that were not compared for so long. Raises nothing."""
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith(_END) and time.time() - _used(entry.path) > seconds:
                for suffix in _SUFFIXES:
                    with suppress(OSError):
                        os.unlink(entry.path + suffix)


def _used(path: str) -> float:
    """Return when a database was written last; now if nobody knows."""
    times: list[float] = []
    for suffix in _SUFFIXES:
        with suppress(OSError):
            times.append(os.stat(path + suffix).st_mtime)
    return max(times, default=time.time())


def _this_process() -> str:
    return f"{boot_id()} {pid_namespace()} {os.getpid()} {_start_of(os.getpid())}"


def _is_gone(process: str) -> bool:
    """Return whether a process has ended; False if nobody can tell, as of one in another container."""
    boot, namespace, pid, start = process.split(" ")
    if boot != boot_id():
        return True
    return namespace == pid_namespace() and _start_of(int(pid)) != start


def _start_of(pid: int) -> str:
    """Return when a process began, because ids are used again; empty without one."""
    found = stat_of(pid)
    return "" if found is None else str(found.start)


class Known(NamedTuple):
    """An entry at a comparison. `digest` is xxh3 hex, or as `core.execution` says for links and directories.

    `reason` says why its content is not kept; empty if it is, and for a directory.
    """

    state: State
    digest: str
    reason: str = ""

    @property
    def permissions(self) -> int:
        """Its permission bits."""
        return self.state.mode & 0o7777

    def is_like(self, other: Known) -> bool:
        """Whether it is the same for a user: kind, content and permissions."""
        return self.digest == other.digest and (self.state.is_link or self.permissions == other.permissions)


Snapshot = Mapping[str, Known]
"""The directory at one moment: its entries by their paths; those of directories end in a slash."""


class Baseline:
    """The entries of the directory `root`, a real path, with the database at `path`.

    Args:
        is_storable: whether a content or a name may be kept.
    """

    def __init__(self, root: str, path: str, is_storable: Callable[[bytes], bool]) -> None:
        self.root = root
        self._path = path
        self._is_storable = is_storable
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._version = 0
        self._entries: dict[str, Known] = {}
        self._kept_bytes = 0
        self._lister = Lister()
        self._cleaned = -_CLEANING_SECONDS
        self._is_closed = False

    def close(self) -> None:
        """End a comparison that is running, and close the database. Blocks for a moment."""
        self._is_closed = True
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def update(self, is_stopped: Callable[[], bool] = lambda: False) -> Snapshot:
        """Look at the directory; return it as it is now.

        Raises:
            OSError: it cannot be read.
            TooLargeError, TooSlowError.
            StoppedError: `is_stopped`, or it was closed.
            sqlite3.Error: the database cannot be written.
        """
        with self._lock:
            try:
                return self._update(is_stopped)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                self._remove()
                return self._update(is_stopped)

    def content(self, digest: str) -> bytes | None:
        """Return a content that was kept; None if it is not there."""
        with self._lock:
            row = self._opened().execute("SELECT data FROM contents WHERE digest=?", (digest,)).fetchone()
        return None if row is None else zlib.decompress(row[0])

    @property
    def is_kept(self) -> bool:
        """Whether the directory has been compared before, by any session."""
        return os.path.exists(self._path)

    def open_act(self, owner: str, *, is_compared: bool = True) -> int:
        """Note that an act of a session begins in the directory; return its number for `close_act`.

        One that is not compared is not `cut_short`.
        """
        now = time.time()
        ended = None if is_compared else now + _LONGEST_ACT
        with self._lock, suppress(sqlite3.Error):
            database = self._opened()
            database.execute("DELETE FROM running WHERE started<?", (now - _LONGEST_ACT,))
            return int(
                database.execute("INSERT INTO running VALUES(?,?,?,?)", (owner, _this_process(), now, ended)).lastrowid
                or 0
            )
        return 0

    def cut_short(self, owner: str) -> Snapshot | None:
        """Return the directory as it was last known, if an act of a session never ended. Its acts end with this.

        Raises sqlite3.Error.
        """
        with self._lock:
            if not self.is_kept:
                return None
            database = self._opened()
            database.execute("DELETE FROM running WHERE owner=? AND ended IS NOT NULL", (owner,))
            if database.execute("DELETE FROM running WHERE owner=?", (owner,)).rowcount == 0:
                return None
            self._load(database)
            return self._entries

    def close_act(self, number: int) -> bool:
        """Note that an act has ended; return whether one of another session ran at the same time, in any process."""
        with self._lock, suppress(sqlite3.Error):
            database = self._opened()
            now = time.time()
            database.execute("UPDATE running SET ended=? WHERE rowid=?", (now, number))
            others = database.execute(
                "SELECT running.process, coalesce(running.ended, ?) FROM running JOIN running AS own ON own.rowid=?"
                " WHERE running.owner<>own.owner AND (running.ended IS NULL OR running.ended>own.started)",
                (now + 1, number),
            ).fetchall()
            return any(ended <= now or not _is_gone(process) for process, ended in others)
        return False

    # --- the database -------------------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        if self._database is not None:
            return self._database
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.close(descriptor)
        database = sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=16
        )
        try:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=OFF")  # it is disposable
            database.execute("PRAGMA auto_vacuum=INCREMENTAL")
            database.executescript(_TABLES)
        except BaseException:
            database.close()
            raise
        self._database = database
        self._version = 0
        return database

    def _remove(self) -> None:
        """Remove a damaged database."""
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
        self._database, self._entries, self._kept_bytes = None, {}, 0
        for suffix in _SUFFIXES:
            with suppress(FileNotFoundError):
                os.unlink(self._path + suffix)

    def _load(self, database: sqlite3.Connection) -> None:
        """Read the entries, unless no other process has changed them since the last time."""
        version = int(database.execute("PRAGMA data_version").fetchone()[0])
        if version == self._version:
            return
        self._version = version
        rows = database.execute("SELECT path, mode, inode, size, modified, changed, digest, reason FROM entries")
        self._entries = {os.fsdecode(row[0]): Known(State(*row[1:6]), row[6], row[7]) for row in rows}
        self._kept_bytes = database.execute("SELECT coalesce(sum(size), 0) FROM contents").fetchone()[0]

    # --- comparing ----------------------------------------------------------------------------------------------------

    def _update(self, is_stopped: Callable[[], bool]) -> Snapshot:
        database = self._opened()
        self._load(database)
        with opened_directory(self.root):  # it is there, and may be read
            entries = self._lister.list_tree(place_of(self.root, (self.root,)), is_stopped)
        before = self._entries
        for path in [each for each in entries if each not in before and not self._is_storable(os.fsencode(each))]:
            del entries[path]
        stale = [path for path, state in entries.items() if (old := before.get(path)) is None or old.state != state]
        gone = [path for path in before if path not in entries]
        if not stale and not gone:
            return before
        after = dict(before)
        for path in gone:
            del after[path]
        for start in range(0, len(stale), _BATCH):
            if self._is_closed or is_stopped():
                raise StoppedError
            batch = stale[start : start + _BATCH]
            fresh = {path: self._read(path, entries[path]) for path in batch}
            self._write(database, fresh, gone if start == 0 else (), before)
            after.update({path: known for path, (known, _) in fresh.items()})
        if not stale:
            self._write(database, {}, gone, before)
        self._forget_old(database)
        self._entries = {path: after[path] for path in entries if path in after}
        return self._entries

    def _read(self, path: str, state: State) -> tuple[Known, bytes | None]:
        """Read an entry that has another state than before. Return it, and its content if that is to be kept."""
        if state.is_directory:
            return Known(state, DIRECTORY), None
        place = os.path.join(self.root, path)
        if state.is_link:
            return self._read_link(place, state)
        now = time.time_ns()
        found = file_state(place, LARGEST)
        if now - max(state.modified, state.changed) < _RACY_NS:
            state = state._replace(changed=_NO_TIME)  # and so it is read again
        if found.data is None:
            return Known(state, found.digest or "unread-gone", found.reason or "the file could not be read"), None
        reason = ""
        if self._kept_bytes + len(found.data) > MOST_BYTES:
            reason = FULL
        elif not self._is_storable(found.data):
            reason = HAS_SECRET
        return Known(state, found.digest, reason), None if reason else found.data

    def _read_link(self, place: str, state: State) -> tuple[Known, bytes | None]:
        try:
            target = os.readlink(os.fsencode(place))
        except OSError:
            return Known(state._replace(changed=_NO_TIME), f"{LINK}gone", "the file could not be read"), None
        digest = f"{LINK}{xxhash.xxh3_64_hexdigest(target)}"
        return (Known(state, digest), target) if self._is_storable(target) else (Known(state, digest, HAS_SECRET), None)

    def _write(
        self,
        database: sqlite3.Connection,
        fresh: Mapping[str, tuple[Known, bytes | None]],
        gone: Iterable[str],
        before: Mapping[str, Known],
    ) -> None:
        rows = [(os.fsencode(path), *known.state, known.digest, known.reason) for path, (known, _) in fresh.items()]
        now, contents = time.time(), list[tuple[str, bytes, int, float]]()
        with closing(database.cursor()) as cursor:
            for known, data in fresh.values():
                has = cursor.execute("SELECT 1 FROM contents WHERE digest=?", (known.digest,)).fetchone()
                if data is not None and has is None:
                    contents.append((known.digest, zlib.compress(data, 6), len(data), now))
            replaced = {before[path].digest for path in (*fresh, *gone) if path in before}
            cursor.execute("BEGIN IMMEDIATE")
            try:
                cursor.executemany("INSERT OR REPLACE INTO contents VALUES(?,?,?,?)", contents)
                cursor.executemany("UPDATE contents SET used=? WHERE digest=?", [(now, each) for each in replaced])
                cursor.executemany("INSERT OR REPLACE INTO entries VALUES(?,?,?,?,?,?,?,?)", rows)
                cursor.executemany("DELETE FROM entries WHERE path=?", [(os.fsencode(path),) for path in gone])
                cursor.execute("COMMIT")
            except BaseException:
                cursor.execute("ROLLBACK")
                raise
        self._kept_bytes += sum(size for _, _, size, _ in contents)

    def _forget_old(self, database: sqlite3.Connection) -> None:
        """Remove contents that nothing has named for an hour."""
        if time.monotonic() - self._cleaned < _CLEANING_SECONDS:
            return
        self._cleaned = time.monotonic()
        found = database.execute(
            "DELETE FROM contents WHERE used<? AND digest NOT IN (SELECT digest FROM entries)",
            (time.time() - _KEPT_SECONDS,),
        )
        if found.rowcount > 0:
            database.execute("PRAGMA incremental_vacuum")
            self._kept_bytes = database.execute("SELECT coalesce(sum(size), 0) FROM contents").fetchone()[0]
