"""Databases that something has damaged: each row says what, and how much of the store must still be there."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from engine.core.clock import SystemClock
from engine.core.ids import EventId, ExecutionId, Seq, SessionId
from engine.log.events.execution import EffectAnswered
from engine.log.store import DATABASE, open_store
from engine.log.store_protocol import SessionRow
from tests.support.stores import message

FIRST, VICTIM, LAST = SessionId("ses_first"), SessionId("ses_victim"), SessionId("ses_last")
OTHERS: Final = (FIRST, LAST)
NOW: Final = 1_700_000_000.0

Harm = Literal["nothing", "recording", "loading", "session", "store"]
"""What may be missing afterwards: nothing; all is read as ever, and nothing can be added; the victim cannot be loaded;
it may not even be listed; nothing is left."""


@dataclass(frozen=True)
class Damage:
    name: str
    harm: Harm
    make: Callable[[Path], None]
    """Is given the state directory."""


def intact(state: Path, cwd: Path) -> None:
    """A store of three sessions of `cwd`; that of the victim has 40 events and a content."""
    store = open_store(state, SystemClock())
    for number, session_id in enumerate((FIRST, VICTIM, LAST)):
        row = SessionRow(session_id=session_id, cwd=str(cwd), title=f"title {number}", created_at=NOW, updated_at=NOW)
        data = f"content {number} ".encode() * 2_000
        digest = store.blob_put(data)
        answered = EffectAnswered(
            seq=Seq(40),
            event_id=EventId("e40"),
            execution_id=ExecutionId("x"),
            ordinal=0,
            operation="read",
            result=digest,
        )
        store.add(row, [*(message(seq, f"message {seq} " * 40) for seq in range(40)), data, answered])
    store.close()


def damaged(damage: Damage, whole: Path, state: Path) -> None:
    """A copy of the store in `whole`, damaged."""
    shutil.copytree(whole, state)
    damage.make(state)


def _sql(*statements: str) -> Callable[[Path], None]:
    def make(state: Path) -> None:
        with closing(sqlite3.connect(state / DATABASE, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    return make


def _column(name: str, value: str) -> Callable[[Path], None]:
    return _sql(f"UPDATE sessions SET {name} = {value} WHERE session = '{VICTIM}'")


def _json(value: str, seq: int = 5) -> Callable[[Path], None]:
    return _sql(f"UPDATE events SET json = {value} WHERE session = '{VICTIM}' AND seq = {seq}")


def _rename(value: str) -> Callable[[Path], None]:
    tables = ("events", "refs", "sessions")
    return _unbound(*(f"UPDATE {table} SET session = {value} WHERE session = '{VICTIM}'" for table in tables))


def _moved(seq: int) -> Callable[[Path], None]:
    return _sql(f"UPDATE events SET seq = {seq} WHERE session = '{VICTIM}' AND seq = 5")


def _unbound(*statements: str) -> Callable[[Path], None]:
    return _sql("PRAGMA foreign_keys=OFF", *statements)


def _bytes(change: Callable[[bytearray], bytes | bytearray]) -> Callable[[Path], None]:
    def make(state: Path) -> None:
        path = state / DATABASE
        path.write_bytes(change(bytearray(path.read_bytes())))

    return make


def _flipped(page: int) -> Callable[[Path], None]:
    def change(data: bytearray) -> bytearray:
        at = page * 4096 if page >= 0 else len(data) + page * 4096
        data[at : at + 4096] = bytes(byte ^ 0xFF for byte in data[at : at + 4096])
        return data

    return _bytes(change)


def _flipped_events(data: bytearray) -> bytearray:
    # The leaf that holds the victim's first events.
    at = data.index(b"message 7 message 7") // 4096 * 4096
    data[at : at + 8] = b"\xff" * 8
    return data


def _garbled_text(data: bytearray) -> bytearray:
    at = data.index(b"title 1")
    data[at : at + 7] = b"\xff\xfe\x80\xc0title"[:7]
    return data


def _garbled_table(data: bytearray) -> bytearray:
    return data.replace(b"cwd BLOB NOT NULL", b"cwd BLOB NOT N\xd1LL")


def _with_wal(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def make(state: Path) -> None:
        path = state / DATABASE
        other = state / "copy.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_autocheckpoint=0")
            connection.execute(f"UPDATE sessions SET title = 'from the WAL' WHERE session = '{VICTIM}'")
            for seq in range(5):
                connection.execute(f"UPDATE events SET kind = kind WHERE session = '{VICTIM}' AND seq = {seq}")
            shutil.copy(path, other)
            wal = Path(f"{path}-wal").read_bytes()
        shutil.move(other, path)
        Path(f"{path}-wal").write_bytes(change(wal))

    return make


def _beside(suffix: str, data: bytes) -> Callable[[Path], None]:
    return lambda state: (Path(f"{state / DATABASE}{suffix}").write_bytes(data), None)[1]


def _instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def replace(state: Path) -> None:
        (state / DATABASE).unlink()
        make(state / DATABASE)

    return replace


def _lock(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def lock(state: Path) -> None:
        (state / "locks").mkdir(exist_ok=True)
        make(state / "locks" / f"{DATABASE}.{VICTIM}.lock")

    return lock


def _locks_are_a_file(state: Path) -> None:
    shutil.rmtree(state / "locks", ignore_errors=True)
    (state / "locks").write_bytes(b"")


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (text)")
        connection.commit()


UNDECODABLE: Final = "CAST(x'fffe80c0' AS TEXT)"
DEEP: Final = "'" + '{"kind":"user_message","v":1,"x":' + "[" * 100_000 + "'"

DAMAGES: Final = (
    Damage("title undecodable", "nothing", _column("title", UNDECODABLE)),
    Damage("title is bytes", "nothing", _column("title", "x'00ff'")),
    Damage("title is a number", "nothing", _column("title", "7")),
    Damage("title with controls", "nothing", _column("title", "'a' || char(27) || '[2Jb' || char(8238, 0, 10)")),
    Damage("title of a megabyte", "nothing", _column("title", "printf('%.*c', 1000000, 'x')")),
    Damage("cwd undecodable", "loading", _column("cwd", "x'fffe80c0'")),
    Damage("cwd undecodable text", "loading", _column("cwd", UNDECODABLE)),
    Damage("cwd is a number", "loading", _column("cwd", "7")),
    Damage("cwd is empty", "loading", _column("cwd", "x''")),
    Damage("cwd is relative", "loading", _column("cwd", "CAST('../..' AS BLOB)")),
    Damage("cwd with NUL", "loading", _column("cwd", "x'2f0061'")),
    Damage("directories undecodable text", "loading", _column("directories", UNDECODABLE)),
    Damage("directories are a number", "loading", _column("directories", "7")),
    Damage("directories of nothing", "loading", _column("directories", "x'000000'")),
    Damage("used in the year 3,170,843", "nothing", _column("updated_at", "1e14")),
    Damage("used before Christ", "nothing", _column("updated_at", "-1e14")),
    Damage("used at infinity", "nothing", _column("updated_at", "9e999")),
    Damage("used at minus infinity", "nothing", _column("updated_at", "-9e999")),
    Damage("used at a text", "nothing", _column("updated_at", "'yesterday'")),
    Damage("used at undecodable text", "nothing", _column("updated_at", UNDECODABLE)),
    Damage("used at bytes", "nothing", _column("updated_at", "x'00'")),
    Damage("made at a text", "nothing", _column("created_at", "'yesterday'")),
    Damage("made at infinity", "nothing", _column("created_at", "9e999")),
    Damage("fewer events than nothing", "loading", _column("events", "-5")),
    Damage("more events than there are", "loading", _column("events", "9223372036854775807")),
    Damage("fewer events than there are", "loading", _column("events", "3")),
    Damage("events are a text", "loading", _column("events", "'many'")),
    Damage("events are half", "loading", _column("events", "2.5")),
    Damage("events undecodable", "loading", _column("events", UNDECODABLE)),
    Damage("size negative", "nothing", _column("size", "-5")),
    Damage("size is a text", "nothing", _column("size", "'large'")),
    Damage("size is infinite", "nothing", _column("size", "9e999")),
    Damage("id like a path", "session", _rename("'../../etc/x'")),
    Damage("id with control characters", "session", _rename("'a' || char(27) || '[2Jb'")),
    Damage("id empty", "session", _rename("''")),
    Damage("id undecodable", "session", _rename(UNDECODABLE)),
    Damage("id is bytes", "session", _rename("x'00ff'")),
    Damage("id is a number", "session", _rename("5")),
    Damage("id of a megabyte", "session", _rename("printf('%.*c', 1000000, 'x')")),
    Damage("event undecodable", "loading", _json(UNDECODABLE)),
    Damage("event with an undecodable text", "loading", _json("CAST(x'7b22fffe227d' AS TEXT)")),
    Damage("event empty", "loading", _json("''")),
    Damage("event is no JSON", "loading", _json("'{'")),
    Damage("event with NUL", "loading", _json("'{' || char(0) || '}'")),
    Damage("event is bytes", "loading", _json("x'00ff'")),
    Damage("event is a number", "loading", _json("7")),
    Damage("event of another kind", "loading", _json("'{\"kind\":\"dreamt\"}'")),
    Damage("event nested deep", "loading", _json(DEEP)),
    Damage("event of ten megabytes", "loading", _json("printf('%.*c', 10000000, '[')")),
    Damage("event at another place", "loading", _json("replace(json, '\"seq\":5', '\"seq\":6')")),
    Damage("event missing", "loading", _sql(f"DELETE FROM events WHERE session = '{VICTIM}' AND seq = 5")),
    Damage("first event missing", "loading", _sql(f"DELETE FROM events WHERE session = '{VICTIM}' AND seq = 0")),
    Damage("last event missing", "loading", _sql(f"DELETE FROM events WHERE session = '{VICTIM}' AND seq = 40")),
    Damage("all events missing", "loading", _sql(f"DELETE FROM events WHERE session = '{VICTIM}'")),
    Damage("an event too many", "loading", _sql(
        f"INSERT INTO events SELECT session, 41, branch, kind, replace(json, '\"seq\":5', '\"seq\":41') FROM events"
        f" WHERE session = '{VICTIM}' AND seq = 5")),
    Damage("an event before the first", "loading", _moved(-1)),
    Damage("an event far behind", "loading", _moved(2**63 - 1)),
    Damage("contents garbled", "nothing", _sql("UPDATE blobs SET data = x'00ff'")),
    Damage("contents are a text", "nothing", _sql(f"UPDATE blobs SET data = {UNDECODABLE}")),
    Damage("contents missing", "nothing", _unbound("DELETE FROM blobs")),
    Damage("references to undecodable names", "nothing", _unbound(f"UPDATE refs SET digest = {UNDECODABLE}")),
    Damage("references missing", "nothing", _sql("DELETE FROM refs")),
    Damage("references of nobody", "nothing", _unbound("UPDATE refs SET session = 'ses_nobody'")),
    Damage("another program's number", "store", _sql("PRAGMA application_id=5")),
    Damage("a later version", "store", _sql("PRAGMA user_version=99")),
    Damage("a version before the first", "store", _sql("PRAGMA user_version=-1")),
    Damage("no version", "store", _sql("PRAGMA user_version=0")),
    Damage("no table of sessions", "store", _sql("DROP TABLE sessions")),
    Damage("no table of events", "store", _sql("DROP TABLE events")),
    Damage("no table of contents", "recording", _unbound("DROP TABLE blobs")),
    Damage("no table of references", "recording", _sql("DROP TABLE refs")),
    Damage("a column missing", "store", _sql("ALTER TABLE sessions DROP COLUMN size")),
    Damage("a trigger that deletes", "store", _sql(
        "CREATE TRIGGER evil AFTER UPDATE ON sessions BEGIN DELETE FROM events; END")),
    Damage("a journal in the old way", "nothing", _sql("PRAGMA journal_mode=DELETE")),
    Damage("empty", "store", _bytes(lambda _: b"")),
    Damage("cut in the header", "store", _bytes(lambda data: data[:50])),
    Damage("cut in half", "store", _bytes(lambda data: data[: len(data) // 2])),
    Damage("cut by a page", "store", _bytes(lambda data: data[:-4096])),
    Damage("cut within a page", "store", _bytes(lambda data: data[:-100])),
    Damage("longer by a page", "nothing", _bytes(lambda data: data + b"\0" * 4096)),
    Damage("first page flipped", "store", _flipped(0)),
    Damage("second page flipped", "store", _flipped(1)),
    Damage("third page flipped", "store", _flipped(2)),
    Damage("fifth page flipped", "store", _flipped(4)),
    Damage("last page flipped", "store", _flipped(-1)),
    Damage("a page of events flipped", "store", _bytes(_flipped_events)),
    Damage("a text in a page garbled", "nothing", _bytes(_garbled_text)),
    Damage("the page size zero", "store", _bytes(lambda data: data[:16] + b"\0\0" + data[18:])),
    Damage("another encoding", "store", _bytes(lambda data: data[:56] + b"\0\0\0\2" + data[60:])),
    Damage("the text of a table garbled", "store", _bytes(_garbled_table)),
    Damage("WAL cut", "nothing", _with_wal(lambda wal: wal[: len(wal) // 2 + 7])),
    Damage("WAL cut in its header", "nothing", _with_wal(lambda wal: wal[:20])),
    Damage("WAL garbled", "nothing", _with_wal(lambda wal: wal[:100] + b"\xff" * 100 + wal[200:])),
    Damage("WAL of something else", "nothing", _beside("-wal", b"what is this" * 1000)),
    Damage("WAL is a directory", "store", lambda state: Path(f"{state / DATABASE}-wal").mkdir()),
    Damage("index of the WAL garbled", "nothing", _beside("-shm", b"\xff" * 32768)),
    Damage("a rollback journal of something else", "nothing", _beside("-journal", b"what is this" * 1000)),
    Damage("not a database", "store", _bytes(lambda _: b"what is this " * 1000)),
    Damage("another program's database", "store", _instead(_foreign)),
    Damage("a directory", "store", _instead(lambda path: path.mkdir())),
    Damage("a pipe", "store", _instead(os.mkfifo)),
    Damage("a link to nowhere", "store", _instead(lambda path: path.symlink_to("/nowhere/at/all"))),
    Damage("a link to itself", "store", _instead(lambda path: path.symlink_to(path))),
    Damage("a device", "store", _instead(lambda path: path.symlink_to("/dev/zero"))),
    Damage("a lock without a process", "nothing", _lock(lambda path: path.write_bytes(b"what is this"))),
    Damage("a lock of a process that is no number", "nothing", _lock(lambda path: path.write_bytes(b"9" * 5000))),
    Damage("a lock that is a pipe", "loading", _lock(os.mkfifo)),
    Damage("a lock that is a directory", "loading", _lock(lambda path: path.mkdir())),
    Damage("a lock that is a link to nowhere", "loading", _lock(lambda path: path.symlink_to("/nowhere/at/all"))),
    Damage("locks are a file", "loading", _locks_are_a_file),
)  # fmt: skip
