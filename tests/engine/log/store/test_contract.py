"""The promises of every store: order, durability, refusals, contents."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.core.clock import Clock
from engine.core.errors import (
    InvalidEventError,
    InvalidRequestError,
    SessionInUseError,
    SessionNotFoundError,
    StoreError,
)
from engine.core.ids import BlobDigest, EventId, ExecutionId, MessageId, Seq, SessionId, StatementId, ToolCallId
from engine.log.events.conversation import ToolCall, UserMessage
from engine.log.events.execution import ExecutionFinished
from engine.log.store import STORES, open_store, schema
from engine.log.store.schema import digest_of, pack, unpack
from engine.log.store_protocol import SessionRow, Store
from tests.support.examples import examples
from tests.support.stores import A, B, CountingClock, Recorder, begun, message, row, texts

Make = Callable[[Path, Clock], Store]


def test_what_was_submitted_is_loaded_in_order(store: Store) -> None:
    begun(store)
    events = [message(seq, f"text {seq} \0 é 𝄞") for seq in range(50)]
    for event in events:
        store.submit(A, event)
    assert store.load(A) == events
    assert store.load(A, 47) == events[47:]
    assert store.load(A, 50) == []


def test_a_listener_that_comes_after_the_first_event_misses_nothing(store: Store) -> None:
    heard = Recorder()
    store.create(row())
    store.submit(A, message(0))
    assert texts(store) == ["hello"]
    store.acquire(A, heard)
    heard.wait_for(0)


def test_a_listener_that_raises_stops_no_other_session(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: complaints.append(args.exc_value))
    store.create(row())

    def bad(_seq: Seq, _error: Exception | None) -> None:
        raise ValueError("a listener's mistake")

    store.acquire(A, bad)
    store.submit(A, message(0))
    begun(store, B, events=3)
    assert texts(store) == ["hello"]
    store.close()
    assert [str(complaint) for complaint in complaints] == ["a listener's mistake"]


def test_session_without_events_is_listed_but_not_kept(store: Store) -> None:
    store.create(row())
    assert store.row(A).events == 0
    assert [found.session_id for found in store.rows()] == [A]
    assert store.load(A) == []
    store.release(A)
    assert store.rows() == []
    with pytest.raises(SessionNotFoundError):
        store.load(A)
    store.create(row())


def test_rows_come_with_the_most_recently_written_first(store: Store) -> None:
    begun(store, A, events=1)
    begun(store, B, events=1)
    assert [found.session_id for found in store.rows()] == [B, A]
    store.submit(A, message(1))
    store.release(A)
    assert [(found.session_id, found.events) for found in store.rows()] == [(A, 2), (B, 1)]
    assert store.row(A).updated_at > store.row(B).updated_at > store.row(B).created_at > 1000


def test_pages_list_each_session_once_in_order(store: Store) -> None:
    for number in range(7):
        # Two of each time, so that ids decide; one that is held and has no event yet counts like the others.
        given_row = SessionRow(
            session_id=SessionId(f"ses_{number}"),
            cwd=f"/{number % 2}",
            created_at=number // 2 + 1,
            title="t" if number % 3 else None,
        )
        store.create(given_row)
    store.submit(SessionId("ses_3"), message(0))
    store.release(SessionId("ses_3"))
    places = (None, ["/0"], ["/1"], ["/1", "/0", "/2"], [], ["/nowhere"], ["/caf\udce9"], ["/\ud800"])
    for cwds, titled in product(places, (False, True)):
        whole = [
            found
            for found in store.rows()
            if (cwds is None or found.cwd in cwds) and not (titled and found.title is None)
        ]
        for limit in (1, 2, 3, 10):
            pages = list(store.rows(cwds=cwds, titled=titled, limit=limit))
            last = (pages[-1].updated_at, pages[-1].session_id) if pages else (0.0, "")
            while page := store.rows(cwds=cwds, titled=titled, after=last, limit=limit):
                assert len(page) <= limit
                pages += page
                last = (pages[-1].updated_at, pages[-1].session_id)
            assert pages == whole
    assert set(store.directories()) == {"/0", "/1"}


def test_session_moves_to_other_directories_at_any_time(store: Store) -> None:
    store.create(row())
    store.move(A, "/before", ("/the first", "/event"))
    store.submit(A, message(0))
    assert texts(store) == ["hello"]
    assert (store.row(A).cwd, store.row(A).directories) == ("/before", ("/the first", "/event"))
    before = store.row(A).updated_at
    store.move(A, "/tmp/caf\udce9", ())
    store.release(A)
    assert (store.row(A).cwd, store.row(A).directories) == ("/tmp/caf\udce9", ())
    assert store.row(A).updated_at == before
    with pytest.raises(StoreError, match="acquire it first"):
        store.move(A, "/not held", ())
    store.acquire(A, Recorder())
    for bad in (("/\ud800", ()), ("/", ("/a\0b",))):
        with pytest.raises(InvalidRequestError):
            store.move(A, *bad)
    assert store.row(A).cwd == "/tmp/caf\udce9"


def test_a_row_keeps_what_it_was_given(store: Store) -> None:
    strange = "/tmp/caf\udce9"  # how Python writes the bytes of a Latin-1 path
    given_row = SessionRow(
        session_id=A, cwd=strange, directories=("/a b", strange, "/ü"), title="t", created_at=5.0, updated_at=7.0
    )
    store.create(given_row)
    assert store.row(A) == given_row
    store.submit(A, message(0))
    store.release(A)
    kept = store.row(A)
    assert (kept.cwd, kept.directories, kept.title, kept.created_at) == (strange, given_row.directories, "t", 5.0)


def test_a_title_is_kept_whenever_it_is_set(store: Store) -> None:
    store.create(row())
    store.retitle(A, "before the first event")
    assert store.row(A).title == "before the first event"
    store.submit(A, message(0))
    assert texts(store) == ["hello"]
    assert store.row(A).title == "before the first event"
    before = store.row(A).updated_at
    store.retitle(A, "later 𝄞")
    store.release(A)
    assert (store.row(A).title, store.row(A).updated_at) == ("later 𝄞", before)
    store.acquire(A, Recorder())
    store.retitle(A, None)
    store.release(A)
    assert store.row(A).title is None
    with pytest.raises(StoreError, match="acquire it first"):
        store.retitle(A, "not held")


def test_an_archived_session_is_listed_apart(store: Store) -> None:
    begun(store, A, events=1)
    begun(store, B, events=1)
    with pytest.raises(SessionInUseError):
        store.archive(A, True)
    store.release(A)
    before = store.row(A)
    store.archive(A, True)
    store.archive(A, True)
    assert store.row(A) == replace(before, archived=True)
    listed = {which: {row.session_id for row in store.rows(archived=which)} for which in (None, False, True)}
    assert listed == {None: {A, B}, False: {B}, True: {A}}
    store.acquire(A, Recorder())
    store.submit(A, message(1))
    store.release(A)
    assert store.row(A).archived
    store.acquire(A, Recorder())
    store.archive(A, False)  # which takes nothing from the process that has it
    assert not store.row(A).archived
    for archived in (True, False):
        with pytest.raises(SessionNotFoundError):
            store.archive(UNKNOWN, archived)


def test_a_session_is_continued_where_it_ended(store: Store) -> None:
    begun(store, events=3)
    store.release(A)
    store.release(A)
    heard = Recorder()
    store.acquire(A, heard)
    with pytest.raises(InvalidEventError, match="the event has position 0, but the next position is 3"):
        store.submit(A, message(0))
    store.submit(A, message(3))
    heard.wait_for(3)
    assert heard.seqs == [3]
    assert len(store.load(A)) == 4


ACTIONS = st.one_of(
    st.tuples(st.just("submit"), st.sampled_from([A, B]), st.text(max_size=20)),
    st.tuples(st.just("blob"), st.sampled_from([A, B]), st.binary(max_size=40)),
    st.tuples(st.just("load"), st.sampled_from([A, B]), st.just(None)),
    st.tuples(st.just("retitle"), st.sampled_from([A, B]), st.text(max_size=5).filter(lambda text: "\0" not in text)),
    st.tuples(st.just("reacquire"), st.sampled_from([A, B]), st.just(None)),
)


@given(actions=st.lists(ACTIONS, max_size=25))
@examples(0.4)
def test_any_interleaving_equals_a_plain_model(
    make: Make, tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, SessionId, object]]
) -> None:
    store = make(tmp_path_factory.mktemp("store") / "sessions.db", CountingClock())
    model: dict[SessionId, list[str]] = {A: [], B: []}
    titles: dict[SessionId, str | None] = {A: None, B: None}
    blobs: dict[BlobDigest, bytes] = {}
    heard = {session_id: begun(store, session_id) for session_id in model}
    for action, session_id, value in actions:
        match action:
            case "submit":
                store.submit(session_id, message(len(model[session_id]), str(value)))
                model[session_id].append(str(value))
            case "blob":
                assert isinstance(value, bytes)
                blobs[store.blob_put(value)] = value
            case "retitle":
                store.retitle(session_id, str(value))
                titles[session_id] = str(value)
            case "reacquire" if model[session_id]:
                store.release(session_id)
                heard[session_id] = Recorder()
                store.acquire(session_id, heard[session_id])
            case _:
                assert texts(store, session_id) == model[session_id]
        assert all(store.blob_get(digest) == data for digest, data in blobs.items())
    for session_id, expected in model.items():
        assert texts(store, session_id) == expected
        assert (store.row(session_id).events, heard[session_id].errors) == (len(expected), [])
        store.release(session_id)
        if expected:
            assert store.row(session_id).title == titles[session_id]
            assert heard[session_id].seqs in ([], sorted(set(heard[session_id].seqs)))
    store.close()


@pytest.mark.parametrize("kind", [name for name, _ in STORES])
def test_a_store_is_opened_by_the_name_of_its_kind(tmp_path: Path, kind: str) -> None:
    store = open_store(tmp_path, CountingClock(), kind)
    assert type(store) is type(dict(STORES)[kind](tmp_path, CountingClock()))
    begun(store, events=1)
    store.close()


def test_unknown_store_is_refused_with_known_names(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="'postgres'; use one of sqlite, memory"):
        open_store(tmp_path, CountingClock(), "postgres")


UNKNOWN = SessionId("ses_unknown")


def test_a_session_has_one_owner(store: Store) -> None:
    begun(store, events=1)
    with pytest.raises(SessionInUseError):
        store.acquire(A, Recorder())
    with pytest.raises(InvalidRequestError, match="already"):
        store.create(row())
    store.release(A)
    with pytest.raises(InvalidRequestError, match="already"):
        store.create(row())
    with pytest.raises(StoreError, match="acquire it first"):
        store.submit(A, message(1))


def test_an_unknown_session_is_named_in_the_error(store: Store) -> None:
    for ask in (store.load, store.row, lambda session: store.acquire(session, Recorder())):
        with pytest.raises(SessionNotFoundError, match="ses_unknown"):
            ask(UNKNOWN)
    store.release(UNKNOWN)


@pytest.mark.parametrize("session_id", ["", "../x", "a/b", "a b", "é", "a\0b", "_-", "x" * 129])
def test_an_id_that_could_not_name_a_file_is_refused(store: Store, session_id: str) -> None:
    with pytest.raises(InvalidRequestError):
        store.create(row(SessionId(session_id)))
    assert store.rows() == []


def test_invalid_text_is_refused_before_anything_is_kept(store: Store) -> None:
    with pytest.raises(InvalidRequestError):
        store.create(row(cwd="/\ud800"))
    with pytest.raises(InvalidRequestError):
        store.create(row(cwd="/a\0b"))
    begun(store, events=1)
    with pytest.raises(InvalidRequestError):
        store.retitle(A, "\ud800")
    with pytest.raises(InvalidEventError, match="JSON"):
        store.submit(A, message(1, "\udce9"))
    store.submit(A, message(1, "goes on"))
    assert texts(store) == ["hello", "goes on"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [(1e14, 253_402_300_799.0), (float("inf"), 253_402_300_799.0), (-1e14, 0.0), (float("nan"), 0.0), (5.5, 5.5)],
)
def test_a_time_that_no_calendar_has_is_bounded(store: Store, given: float, kept: float) -> None:
    store.add(replace(row(), created_at=given, updated_at=given), [message(0)])
    (listed,) = store.rows()
    assert (listed.created_at, listed.updated_at) == (kept, kept)


def test_an_event_that_could_not_be_read_again_is_refused(store: Store) -> None:
    begun(store)
    nested: dict[str, object] = {}
    for _ in range(100_000):
        nested = {"deeper": nested}
    stamp = {"seq": Seq(0), "event_id": EventId("e0")}
    finished = ExecutionFinished(
        **stamp,
        execution_id=ExecutionId("x"),
        statement_id=StatementId("s"),
        status="ok",
        started_at=float("nan"),
        ended_at=1.0,
    )
    unreadable = (
        finished,
        ToolCall(**stamp, tool_call_id=ToolCallId("c"), tool="t", arguments=nested),
        ToolCall(**stamp, tool_call_id=ToolCallId("c"), tool="t", arguments={"x": object()}),
        UserMessage(**stamp, message_id=MessageId("m"), text=5),
    )
    for event in unreadable:
        with pytest.raises(InvalidEventError):
            store.submit(A, event)
    store.submit(A, message(0))
    assert texts(store) == ["hello"]


def test_gap_or_repeat_is_refused(store: Store) -> None:
    begun(store, events=2)
    for wrong in (0, 1, 3, -1):
        with pytest.raises(InvalidEventError, match="but the next position is 2"):
            store.submit(A, message(wrong))
    store.submit(A, message(2))
    assert len(store.load(A)) == 3


def test_a_closed_store_says_so(store: Store) -> None:
    begun(store, events=1)
    store.close()
    store.close()
    calls = (
        lambda: store.create(row(B)),
        lambda: store.acquire(A, Recorder()),
        lambda: store.submit(A, message(1)),
        lambda: store.load(A),
        lambda: store.row(A),
        store.rows,
        store.owners,
        store.directories,
        lambda: store.contents(A),
        lambda: store.droppable(A),
        lambda: store.archive(A, True),
        lambda: store.blob_put(b""),
        lambda: store.blob_get(BlobDigest("x")),
    )
    for call in calls:
        with pytest.raises(StoreError):
            call()


@pytest.mark.parametrize("data", [b"", b"\0\xff" * 9, b"text " * 100_000], ids=["empty", "binary", "large"])
def test_content_is_there_at_once_and_under_its_digest(store: Store, data: bytes) -> None:
    digest = store.blob_put(data)
    assert store.blob_get(digest) == data
    assert store.blob_put(data) == digest
    assert digest.startswith("blake2b-")
    assert len(digest) == len("blake2b-") + 40
    begun(store, events=1)
    assert store.blob_get(digest) == data


def test_content_that_was_never_put_is_a_key_error(store: Store) -> None:
    with pytest.raises(KeyError):
        store.blob_get(BlobDigest("blake2b-" + "0" * 40))
    with pytest.raises(KeyError):
        store.blob_get(BlobDigest("\0'; --"))


def test_content_above_the_limit_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MAX_BLOB", 3)
    assert store.blob_get(store.blob_put(b"abc")) == b"abc"
    with pytest.raises(InvalidRequestError, match="too large"):
        store.blob_put(b"abcd")


def test_a_changed_buffer_does_not_change_what_was_put(store: Store) -> None:
    buffer = bytearray(b"before")
    digest = store.blob_put(buffer)
    buffer[:] = b"later!"
    assert store.blob_get(digest) == b"before"


def test_large_incompressible_content_is_not_compressed() -> None:
    # What is not compressed is larger than before, by a head for each block.
    random, text = Random(1).randbytes(2 << 20), b"text of a file\n" * 200_000
    assert len(pack(random)) > len(random)
    assert len(pack(text)) < len(text) // 20
    assert [unpack(digest_of(data), pack(data)) == data for data in (random, text)] == [True, True]
