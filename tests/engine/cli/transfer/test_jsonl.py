"""Exports and imports of sessions: exact, without secrets, and refused if damaged."""

from __future__ import annotations

import base64
import io
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from acp_adapter.pump import Pump
from engine.cli.transfer.jsonl import export_lines, import_lines
from engine.core.clock import Clock, SystemClock
from engine.core.errors import InvalidRequestError, SessionNotFoundError
from engine.core.execution import KeptGroup
from engine.core.ids import ExecutionId, Seq, SessionId, StatementId, ToolCallId
from engine.log.events import Event
from engine.log.events.execution import StatementRecorded, ValuesKept
from engine.log.events.going_back import FileLeft, FileToRestore, OwnContents, RewindBegun, Rewound
from engine.log.events.session import ConfigChanged, ModeChanged, PermissionAnswered
from engine.log.facts import SessionFacts
from engine.log.permissions import StatementSubject
from engine.log.redaction import Redactor
from engine.log.store.memory import MemoryStore
from engine.log.store.sqlite import SqliteStore
from engine.log.store_protocol import SessionRow, Store
from engine.session.policy import STATEMENTS, Policy
from tests.support.acp_schema import validate_outgoing
from tests.support.archives import answered, dropped, is_there, kept, values_kept
from tests.support.examples import examples
from tests.support.hollow import HollowEnvironment
from tests.support.hostile import Session, mutations
from tests.support.sessions import sessions_of
from tests.support.shown import WRITER
from tests.support.stores import PATIENCE, A, B, CountingClock, Recorder, begun, message

pytestmark = pytest.mark.anyio

Make = Callable[[Path, Clock], Store]

TEXTS = st.text(max_size=30)
PATHS = st.binary(max_size=12).map(lambda path: os.fsdecode(b"/" + path.replace(b"\0", b"")))
TIMES = st.floats(0.001, 4e9)
ROWS = st.builds(
    SessionRow,
    session_id=st.just(A),
    cwd=PATHS,
    directories=st.lists(PATHS, max_size=2).map(tuple),
    title=st.none() | TEXTS.filter(lambda text: "\0" not in text),
    created_at=TIMES,
    updated_at=TIMES,
)
CONTENTS = st.sampled_from([b"", b"one", b"\xff\0" * 40, b"long " * 3000])


def exported(store: Store, session_id: SessionId = A) -> bytes:
    return b"".join(export_lines(store, session_id))


def as_it_was(store: Store, session_id: SessionId = A) -> bytes:
    """The export of an imported session without the event that says so."""
    header, *lines = exported(store, session_id).splitlines(keepends=True)
    fields = json.loads(header)
    assert json.loads(lines[-1])["by"] == "import"
    counts = (b'"events":%d' % (fields["events"] + less) for less in (0, -1))
    return header.replace(*counts) + b"".join(lines[:-1])


def items(store: Store, parts: list[str | bytes]) -> list[Event | bytes]:
    """Each text as a message, each content as an answer that names it."""
    found: list[Event | bytes] = []
    for seq, part in enumerate(parts):
        if isinstance(part, str):
            found.append(message(seq, part))
        else:
            found += [part, answered(seq, store.blob_put(part))]
    return found


@given(row=ROWS, parts=st.lists(TEXTS | CONTENTS, min_size=1, max_size=12))
@examples(0.4)
def test_what_was_exported_is_imported_exactly(
    make: Make, tmp_path_factory: pytest.TempPathFactory, row: SessionRow, parts: list[str | bytes]
) -> None:
    place = tmp_path_factory.mktemp("stores")
    store, other = make(place / "one.db", CountingClock()), make(place / "other.db", CountingClock(9000))
    store.add(row, items(MemoryStore(CountingClock()), parts))
    data = exported(store)
    said = len(b"".join(export_lines(other, A)).splitlines()[-1]) if import_lines(other, io.BytesIO(data), "it") else 0
    was = store.row(A)
    assert other.row(A) == replace(was, events=was.events + 1, size=was.size + said)
    assert other.load(A)[:-1] == store.load(A)
    assert other.contents(A) == store.contents(A)
    for digest in store.contents(A):
        assert other.blob_get(digest) == store.blob_get(digest)
    assert as_it_was(other) == data
    store.close()
    other.close()


def test_text_that_looks_like_a_digest_is_not_content(store: Store) -> None:
    other = MemoryStore(CountingClock())
    digest = other.blob_put(b"content")
    begun(other, A, events=2, text="blake2b-" + "0" * 40)
    other.release(A)
    store.add(SessionRow(session_id=B, cwd="/"), [b"content", answered(0, digest)])
    import_lines(store, io.BytesIO(exported(other)), "it")
    assert store.contents(A) == frozenset()
    assert as_it_was(store) == exported(other)
    store.close()


def test_what_a_session_dropped_is_not_exported_and_said(store: Store) -> None:
    heard = begun(store, A, events=1)
    old, new = store.blob_put(b"old"), store.blob_put(b"new")
    for event in (values_kept(1, old), values_kept(2, new), dropped(3, before=2)):
        store.submit(A, event)
    heard.wait_for(3)
    said: list[str] = []
    data = b"".join(export_lines(store, A, remark=said.append))
    assert said == ["1 kept value of session ses_a had been dropped to stay within past_bytes"]
    other = MemoryStore(CountingClock())
    import_lines(other, io.BytesIO(data), "it", remark=said.append)
    assert (len(said), as_it_was(other)) == (1, data)
    assert other.contents(A) == store.contents(A) == {new}
    assert other.droppable(A) == store.droppable(A)
    assert not is_there(other, old)
    store.close()


LOSSES = {
    "missing": ("DELETE FROM blobs WHERE digest = ?", "PRAGMA foreign_keys=OFF"),
    "damaged": ("UPDATE blobs SET data = x'00ff' WHERE digest = ?", "PRAGMA foreign_keys=ON"),
}


@pytest.mark.parametrize("why", LOSSES)
def test_session_with_lost_content_is_exported_and_imported(tmp_path: Path, why: str) -> None:
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    (answer, whole) = kept(store, A, [b"answer", b"whole"])
    heard = Recorder()
    store.acquire(A, heard)
    value = store.blob_put(b"value")
    store.submit(A, values_kept(3, value, whole))
    heard.wait_for(3)
    loss, pragma = LOSSES[why]
    with closing(sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)) as connection:
        connection.execute(pragma)
        connection.executemany(loss, [(answer,), (value,)])
    said: list[str] = []
    data = b"".join(export_lines(store, A, remark=said.append))
    assert len(said) == 1
    assert said[0].startswith("2 contents of session ses_a cannot be read")
    assert data.count(b'"lost":"%s"' % why.encode()) == 2
    other = MemoryStore(CountingClock())
    import_lines(other, io.BytesIO(data), "it", remark=said.append)
    assert "2 contents of session ses_a cannot be imported, because the export does not contain them" in said[1]
    assert other.load(A)[:-1] == store.load(A)
    assert other.contents(A) == {whole}
    again = MemoryStore(CountingClock())
    import_lines(again, io.BytesIO(exported(other)), "it")
    assert exported(again) == exported(other)
    store.close()


def test_value_with_a_secret_is_withheld_and_others_stay(store: Store) -> None:
    groups = (
        KeptGroup(names=("token",), size=12, data=b"\x80a s3cret-of-ours"),
        KeptGroup(names=("fine",), size=4, data=b"\x80fine"),
    )
    event = ValuesKept(seq=Seq(1), execution_id=ExecutionId("ex"), groups=groups)
    heard = begun(store, A, events=1)
    store.submit(A, event)
    heard.wait_for(1)
    assert b"".join(export_lines(store, A)).count(b'"data"') == 2
    data = b"".join(export_lines(store, A, Redactor(["s3cret-of-ours"])))
    other = MemoryStore(CountingClock())
    import_lines(other, io.BytesIO(data), "it")
    found = other.load(A)[1]
    assert isinstance(found, ValuesKept)
    token, fine = found.groups
    assert (token.data, bool(token.withheld)) == (b"", True)
    assert fine == groups[1]
    store.close()


def test_unfinished_rewind_is_ended_by_the_import(store: Store) -> None:
    heard = begun(store, A, events=1)
    content = store.blob_put(b"print('from elsewhere')")
    file = FileToRestore(path="/work/setup.py", wanted=content, wanted_digest="00")
    before = FileLeft(path="/work/large", reason="what it held then was not read")
    store.submit(A, RewindBegun(seq=Seq(1), statement=1, since=Seq(0), files=(file,), left=(before,)))
    heard.wait_for(1)
    other = MemoryStore(CountingClock())
    assert import_lines(other, io.BytesIO(exported(store)), "it").events == 4
    ended = other.load(A)[-2]
    assert isinstance(ended, Rewound)
    left = FileLeft(path=file.path, reason="the session was imported before the file was restored")
    assert (ended.seq, ended.restored, ended.left) == (2, (), (before, left))
    again = MemoryStore(CountingClock())
    assert import_lines(again, io.BytesIO(exported(other)), "it").events == 4
    store.close()


def test_secret_content_of_a_rewind_is_omitted_and_digests_stay(store: Store) -> None:
    heard = begun(store, A, events=1)
    secret, fine = store.blob_put(b"KEY=s3cret-of-ours"), store.blob_put(b"KEY=none")
    file = FileToRestore(path="/a", present=secret, present_digest="11", wanted=fine, wanted_digest="22")
    own = OwnContents(present=fine, present_digest="22", wanted=secret, wanted_digest="11")
    back = FileToRestore(path="/b", present=fine, present_digest="22", wanted=secret, wanted_digest="11", own=own)
    store.submit(A, RewindBegun(seq=Seq(1), statement=1, since=Seq(0), files=(file, back)))
    store.submit(A, Rewound(seq=Seq(2), statement=1, restored=(file, back)))
    heard.wait_for(2)
    data = b"".join(export_lines(store, A, Redactor(["s3cret-of-ours"])))
    other = MemoryStore(CountingClock())
    import_lines(other, io.BytesIO(data), "it")
    _, started, ended, _ = other.load(A)
    assert isinstance(started, RewindBegun)
    assert isinstance(ended, Rewound)
    assert (
        started.files
        == ended.restored
        == (
            replace(file, present=None),
            replace(back, wanted=None, own=replace(own, wanted=None)),
        )
    )
    store.close()


def test_an_import_under_another_id_differs_in_nothing_else(store: Store) -> None:
    kept(store, A, [b"content"])
    data = exported(store)
    with pytest.raises(InvalidRequestError, match="already"):
        import_lines(store, io.BytesIO(data), "it")
    import_lines(store, io.BytesIO(data), "it", B)
    assert as_it_was(store, B) == data.replace(b'"session_id":"ses_a"', b'"session_id":"ses_b"')
    with pytest.raises(InvalidRequestError, match="may contain only"):
        import_lines(store, io.BytesIO(data), "it", SessionId("../x"))
    store.close()


def test_growing_session_is_exported_up_to_its_start(store: Store) -> None:
    heard = begun(store, A, events=3)
    lines = export_lines(store, A)
    header = json.loads(next(lines))
    store.submit(A, message(3))
    heard.wait_for(3)
    assert (header["events"], len(list(lines))) == (3, 3)
    store.close()


def test_session_deleted_during_its_export_is_an_error(store: Store) -> None:
    kept(store, A)
    lines = export_lines(store, A)
    next(lines)
    store.delete(A)
    with pytest.raises(SessionNotFoundError):
        list(lines)
    store.close()


def without(number: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [line for index, line in enumerate(lines) if index != number]


def header(**fields: object) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [json.dumps({**json.loads(lines[0]), **fields}).encode() + b"\n", *lines[1:]]


def nested_call(depth: int) -> bytes:
    inner = b'{"a":' * depth + b"1" + b"}" * depth
    return b'{"kind":"tool_call","v":1,"seq":2,"tool_call_id":"c","tool":"t","arguments":%s}\n' % inner


def other(number: int, *replacement: bytes) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [*lines[:number], *replacement, *lines[number + 1 :]]


WRONG: tuple[tuple[str, Callable[[list[bytes]], list[bytes]], str], ...] = (
    ("nothing", lambda _: [], "line 1: this is not a session"),
    ("no header", without(0), "line 1: this is not a session"),
    ("deep", other(0, b"[" * 100_000 + b"\n"), "line 1: this is not a session"),
    ("later version", header(version=2), "line 1: version 2 of the format"),
    ("bad id", header(session_id="../../x"), "may contain only"),
    ("cwd with NUL", header(cwd="/a\0b"), "NUL"),
    ("cwd not valid Unicode", header(cwd="/\ud800"), "not valid Unicode"),
    ("time is no number", header(created_at=float("nan")), "line 1: the header's times"),
    ("no title", lambda lines: [lines[0].replace(b'"title":null,', b""), *lines[1:]], "line 1: the header's title"),
    ("cwd not absolute", header(cwd="work"), "line 1: the header's directories are not all absolute"),
    ("count is no number", header(events=True), "line 1: the header's events"),
    ("fewer events than said", header(events=4), "line 6: the file ends after 3 of 4"),
    ("more events than said", header(events=2), "line 6: the file ends after 3 of 2"),
    ("cut between lines", without(4), "line 5: the file ends after 2 of 3"),
    ("cut within a line", lambda lines: [*lines[:4], lines[4][:-5]], "line 5: the line ends too early"),
    ("a gap", without(1), "line 3: expected event 0, not 1"),
    ("an event twice", lambda lines: [*lines[:2], *lines[1:]], "line 3: expected event 1, not 0"),
    ("an empty line", lambda lines: [*lines, b"\n"], "line 6: this is not an event"),
    ("an unknown event", other(4, b'{"kind":"dreamt","v":1}\n'), "line 5: this is not an event"),
    ("an event not in UTF-8", other(4, b"\xff\xfe\n"), "line 5: this is not an event"),
    (
        "an unknown field not in UTF-8",
        lambda lines: [*lines[:4], lines[4].replace(b"}\n", b',"x":"\xe4"}\n')],
        "line 5: this is not valid UTF-8",
    ),
    (
        "an event nested deep",
        other(4, b'{"kind":"run_stop","x":' + b"[" * 100_000 + b"\n"),
        "line 5: .*(too deep|truncated)",  # from Python 3.14 on the whole is read
    ),
    ("arguments nested", other(4, nested_call(100)), "line 5: .* more than 64 levels"),
    ("content missing", without(2), "line 3: the event needs content"),
    ("content twice", lambda lines: [*lines[:3], lines[2], *lines[3:]], "line 4: content .* appears twice"),
    ("content nobody names", lambda lines: [*lines[:1], lines[2], *lines[1:]], "line 3: .* does not use the content"),
    ("content at the end", lambda lines: [*lines, blob(b"late")], "line 7: the file ends after"),
    ("content changed", lambda lines: [*lines[:2], lines[2].replace(b'"Y', b'"Z'), *lines[3:]], "line 3: .*damaged"),
    ("content without data", other(2, b'{"blob":"x"}\n'), "line 3: this is not valid base64"),
    ("lost content without a name", other(2, b'{"blob":"x","lost":"missing"}\n'), "line 3: this is not valid base64"),
)  # fmt: skip


def blob(data: bytes) -> bytes:
    digest = MemoryStore(CountingClock()).blob_put(data)
    return json.dumps({"blob": digest, "data": base64.b64encode(data).decode()}, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize(("change", "reason"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_wrong_file_is_refused_with_its_line_and_kept_nowhere(
    change: Callable[[list[bytes]], list[bytes]], reason: str
) -> None:
    store = MemoryStore(CountingClock())
    source = MemoryStore(CountingClock())
    kept(source, A, [b"content"])
    source.acquire(A, Recorder())
    source.submit(A, message(2))
    source.release(A)
    lines = exported(source).splitlines(keepends=True)
    assert len(lines) == 5
    with pytest.raises(InvalidRequestError, match=reason):
        import_lines(store, io.BytesIO(b"".join(change(lines))), "it")
    assert store.rows() == []
    import_lines(store, io.BytesIO(b"".join(lines)), "it")
    assert len(store.rows()) == 1
    store.close()


def test_lines_that_come_through_a_pipe_are_read_once(store: Store) -> None:
    source = MemoryStore(CountingClock())
    kept(source, A, [b"content" * 50_000])
    reader, writer = os.pipe()

    def feed() -> None:
        with open(writer, "wb") as pipe:
            pipe.writelines(export_lines(source, A))

    thread = threading.Thread(target=feed)
    thread.start()
    with open(reader, "rb") as pipe:
        assert import_lines(store, pipe, "the pipe").events == 3
    thread.join(PATIENCE)
    assert as_it_was(store) == exported(source)
    store.close()


class Watched(MemoryStore):
    """A store that notes how many events it was asked for at once, and how far a file was read item by item."""

    def __init__(self, source: IO[bytes]) -> None:
        super().__init__(CountingClock())
        self.asked: list[int | None] = []
        self.places: list[int] = []
        self._source = source

    def load(self, session_id: SessionId, since: int = 0, limit: int | None = None) -> Sequence[Event]:
        self.asked.append(limit)
        return super().load(session_id, since, limit)

    def add(self, row: SessionRow, items: Iterable[Event | bytes]) -> None:
        def noted() -> Iterator[Event | bytes]:
            for item in items:
                self.places.append(self._source.tell())
                yield item

        super().add(row, noted())


def test_neither_export_nor_import_holds_a_session_as_a_whole() -> None:
    source = io.BytesIO()
    store = Watched(source)
    begun(store, A, events=2_500)
    store.release(A)
    source.writelines(export_lines(store, A))
    assert store.asked == [1_000, 1_000, 500]
    source.seek(0)
    import_lines(store, source, "it", B)
    assert len(set(store.places)) == 2_500


def test_import_trusts_neither_statements_nor_decisions() -> None:
    source, other = MemoryStore(CountingClock()), MemoryStore(CountingClock())
    decisions = (
        ModeChanged(seq=Seq(0), mode="auto"),
        ConfigChanged(seq=Seq(1), option="while_running", value="steer"),
        PermissionAnswered(
            seq=Seq(2), tool_call_id=ToolCallId("c"), scope=STATEMENTS, outcome="allowed", remembered=True
        ),
        StatementRecorded(
            seq=Seq(3),
            statement_id=StatementId("s"),
            index=1,
            source="1",
            tool_call_id=ToolCallId("c"),
            tag_names=("a",),
        ),
    )
    source.add(SessionRow(session_id=A, cwd="/"), decisions)
    import_lines(other, io.BytesIO(exported(source)), "it")
    events = other.load(A)
    policy, facts = Policy(), SessionFacts()
    for event in events:
        policy.apply(event)
        facts.apply(event)
    assert events[:-1] == source.load(A)
    assert (policy.mode, policy.option("while_running"), policy.remembered(StatementSubject("x"))) == (
        "ask",
        "queue",
        None,
    )
    assert (facts.is_foreign, facts.imported_at) == (True, 4)
    again = MemoryStore(CountingClock())
    import_lines(again, io.BytesIO(exported(other)), "it")
    assert again.load(A) == events


PARTS = 8


async def works(store: MemoryStore, session_id: SessionId, place: Path) -> None:
    """It is loaded and shown as the schema wants it, goes on, and can be exported and imported again."""
    async with sessions_of(place, store, environments=HollowEnvironment) as sessions:
        session = await sessions.load(session_id, str(place))
        shown: list[dict[str, object]] = []

        async def send(update: dict[str, object]) -> None:
            shown.append(update)

        await Pump(session.subscribe(), session, send, WRITER).replay(session.events)
        for update in json.loads(json.dumps(shown)):
            params = {"sessionId": "s", "update": update}
            validate_outgoing({"jsonrpc": "2.0", "method": "session/update", "params": params}, None)
        end = await session.accept("1 + 1").end()
        assert (end.cause, end.failure) == ("end_turn", None)
    exported = b"".join(export_lines(store, session_id))
    import_lines(store, io.BytesIO(exported), "it", SessionId("ses_again"))


def refusal(store: MemoryStore, file: bytes) -> str | None:
    """The sentence with which an import refuses the file."""
    try:
        import_lines(store, io.BytesIO(file), "it")
    except InvalidRequestError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("step", "start"),
    [(2003, 3), *(pytest.param(8 * PARTS, 8 * part, marks=pytest.mark.slow) for part in range(PARTS))],
)
async def test_changed_field_is_refused_briefly_or_harmless(step: int, start: int, tmp_path: Path) -> None:
    refused = taken = 0
    for name, make in islice(mutations(Session(tmp_path)), start, None, step):
        store = MemoryStore(SystemClock())
        try:
            sentence = refusal(store, make())
            if sentence is None:
                taken += 1
                (row,) = store.rows()
                await works(store, row.session_id, tmp_path)
            else:
                refused += 1
                assert len(sentence) < 500
                assert "\n" not in sentence
        except BaseException as error:
            error.add_note(name)
            raise
    assert min(refused, taken) > 1
