"""What every store refuses, with which error, and that nothing is lost by it; over all of the registry."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

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
from engine.log.store_protocol import Store
from tests.support.stores import A, B, Recorder, begun, message, row, texts

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
    store.close()


def test_an_unknown_session_is_named_in_the_error(store: Store) -> None:
    for ask in (store.load, store.row, lambda session: store.acquire(session, Recorder())):
        with pytest.raises(SessionNotFoundError, match="ses_unknown"):
            ask(UNKNOWN)
    store.release(UNKNOWN)
    store.close()


@pytest.mark.parametrize("session_id", ["", "../x", "a/b", "a b", "é", "a\0b", "_-", "x" * 129])
def test_an_id_that_could_not_name_a_file_is_refused(store: Store, session_id: str) -> None:
    with pytest.raises(InvalidRequestError):
        store.create(row(SessionId(session_id)))
    assert store.rows() == []
    store.close()


def test_text_that_is_not_unicode_is_refused_before_anything_is_kept(store: Store) -> None:
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
    store.close()


@pytest.mark.parametrize(
    ("given", "kept"),
    [(1e14, 253_402_300_799.0), (float("inf"), 253_402_300_799.0), (-1e14, 0.0), (float("nan"), 0.0), (5.5, 5.5)],
)
def test_a_time_that_no_calendar_has_is_bounded(store: Store, given: float, kept: float) -> None:
    store.add(replace(row(), created_at=given, updated_at=given), [message(0)])
    (listed,) = store.rows()
    assert (listed.created_at, listed.updated_at) == (kept, kept)
    store.close()


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
    store.close()


def test_a_gap_or_a_repeat_is_refused_and_the_session_goes_on(store: Store) -> None:
    begun(store, events=2)
    for wrong in (0, 1, 3, -1):
        with pytest.raises(InvalidEventError, match="where 2 was due"):
            store.submit(A, message(wrong))
    store.submit(A, message(2))
    assert len(store.load(A)) == 3
    store.close()


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
        lambda: store.blob_put(b""),
        lambda: store.blob_get(BlobDigest("x")),
    )
    for call in calls:
        with pytest.raises(StoreError):
            call()
