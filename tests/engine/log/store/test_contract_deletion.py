"""What every store promises about deleting, collecting and sizes, over all of the registry."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.clock import Clock
from engine.core.errors import (
    InvalidEventError,
    InvalidRequestError,
    SessionInUseError,
    SessionNotFoundError,
    StoreError,
)
from engine.core.ids import SessionId
from engine.log.events.codec import encode
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import SessionRow, Store
from tests.support.archives import answered, is_there, kept
from tests.support.stores import A, B, CountingClock, Recorder, begun, message, row, texts

C = SessionId("ses_c")


def test_a_deleted_session_is_gone_and_the_others_are_not(store: Store) -> None:
    kept(store, A)
    kept(store, B)
    store.delete(A)
    assert [found.session_id for found in store.rows()] == [B]
    for ask in (store.load, store.row, store.delete, lambda session: store.acquire(session, Recorder())):
        with pytest.raises(SessionNotFoundError):
            ask(A)
    assert texts(store, B) == ["hello"]
    store.close()


def test_contents_go_with_the_last_session_that_names_them(store: Store) -> None:
    (shared, own) = kept(store, A, [b"shared", b"own"])
    assert kept(store, B, [b"shared"]) == [shared]
    store.delete(A)
    assert (is_there(store, shared), is_there(store, own)) == (True, False)
    store.delete(B)
    assert not is_there(store, shared)
    store.close()


def test_content_that_any_text_of_another_session_names_stays(store: Store) -> None:
    (digest,) = kept(store, A, [b"content"])
    begun(store, B, events=1, text=f"see {digest}!")
    store.delete(A)
    assert store.blob_get(digest) == b"content"
    store.close()


def test_content_put_before_a_deletion_is_there_for_an_event_after_it(store: Store) -> None:
    kept(store, A, [b"content"])
    heard = begun(store, B, events=1)
    digest = store.blob_put(b"content")
    store.delete(A)
    store.collect(0)
    store.submit(B, answered(1, digest))
    heard.wait_for(1)
    store.collect(0)
    assert store.blob_get(digest) == b"content"
    assert store.contents(B) == {digest}
    store.close()


def test_a_session_that_is_held_here_is_not_deleted(store: Store) -> None:
    begun(store, A, events=2)
    with pytest.raises(SessionInUseError) as caught:
        store.delete(A)
    assert caught.value.pid == os.getpid()
    store.submit(A, message(2))
    assert len(store.load(A)) == 3
    store.create(row(B))
    with pytest.raises(SessionInUseError):
        store.delete(B)
    store.close()


@pytest.mark.parametrize("session_id", ["", "../x", "ses_", "%", "\0", "x" * 5000])
def test_deleting_what_is_not_there_changes_nothing(store: Store, session_id: str) -> None:
    kept(store, A, [b"content"])
    before = store.rows()
    with pytest.raises(SessionNotFoundError):
        store.delete(SessionId(session_id))
    assert store.rows() == before
    store.close()


def test_the_id_of_a_deleted_session_may_be_used_again(store: Store) -> None:
    kept(store, A, [b"content"])
    store.delete(A)
    kept(store, A)
    assert (store.row(A).events, store.contents(A)) == (1, frozenset())
    store.close()


def test_the_size_is_that_of_the_events_and_of_each_content_once(store: Store) -> None:
    noise = os.urandom(5000)
    kept(store, A, [noise, noise, b"x"])
    events = sum(len(encode(event)) for event in store.load(A))
    assert events + 5001 <= store.row(A).size <= events + 5100
    before = store.row(A).size
    heard = Recorder()
    store.acquire(A, heard)
    store.submit(A, message(4, "é" * 100))
    heard.wait_for(4)
    assert store.row(A).size == before + len(encode(message(4, "é" * 100)))
    assert [found.size for found in store.rows()] == [store.row(A).size]
    store.close()


def test_both_stores_give_the_same_size(tmp_path: Path, make: Callable[[Path, Clock], Store]) -> None:
    sizes: set[int] = set()
    for store in (make(tmp_path / "sessions.db", CountingClock()), MemoryStore(CountingClock())):
        kept(store, A, [b"text " * 1000, b"\0" * 77])
        sizes.add(store.row(A).size)
        store.close()
    assert len(sizes) == 1


def test_collecting_takes_what_is_old_and_not_in_use(store: Store) -> None:
    for session_id in (A, B, C):
        kept(store, session_id, [session_id.encode() * 1000])
    store.acquire(B, Recorder())
    limit = store.row(C).updated_at
    done = store.collect(limit)
    assert (done.deleted, done.in_use) == ((A,), (B,))
    assert done.freed >= 0
    assert {found.session_id for found in store.rows()} == {B, C}
    assert store.collect(limit).deleted == ()
    store.release(B)
    assert store.collect(limit).deleted == (B,)
    store.close()


def test_a_session_is_added_whole_with_its_times(store: Store) -> None:
    given = SessionRow(session_id=A, cwd="/\udce9", directories=("/b",), title="t", created_at=5.0, updated_at=3.0)
    digest = "blake2b-d91f0dc912a08c19a9d994b1fb424d5f1173bffe"  # of b"hi"
    assert store.blob_put(b"hi") == digest
    store.add(given, [message(0), b"hi", b"never named", answered(1, digest)])
    found = store.row(A)
    assert (found.cwd, found.directories, found.title, found.created_at, found.updated_at, found.events) == (
        *("/\udce9", ("/b",), "t", 5.0, 3.0, 2),
    )
    assert (store.load(A), store.contents(A)) == ([message(0), answered(1, digest)], {digest})
    store.acquire(A, Recorder())
    with pytest.raises(InvalidRequestError, match="already"):
        store.add(given, [message(0)])
    store.close()


def test_an_addition_that_fails_leaves_nothing(store: Store) -> None:
    def broken() -> object:
        yield message(0)
        yield b"content"
        yield answered(1, digest)
        raise OSError("the source ended")

    digest = kept(store, B, [b"content"])[0]
    store.delete(B)
    for items, error in (
        (broken(), OSError),
        ([message(0), message(2)], InvalidEventError),
        ([message(0), message(1, "\udce9")], InvalidEventError),
        ([], InvalidRequestError),
    ):
        with pytest.raises(error):
            store.add(row(A), items)
        assert (store.rows(), is_there(store, digest)) == ([], False)
    store.add(row(A), [message(0)])
    assert store.row(A).events == 1
    store.close()


def test_a_page_of_the_log_is_loaded(store: Store) -> None:
    begun(store, A, events=10)
    assert [event.seq for event in store.load(A, 3, 4)] == [3, 4, 5, 6]
    assert [event.seq for event in store.load(A, 8, 4)] == [8, 9]
    store.close()


def test_a_closed_store_deletes_nothing(store: Store) -> None:
    kept(store, A)
    store.close()
    for call in (lambda: store.delete(A), lambda: store.collect(1e12), lambda: store.add(row(B), [message(0)])):
        with pytest.raises(StoreError):
            call()
