"""Every store: deleting sessions, and dropping contents."""

from __future__ import annotations

import os
import random
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
from engine.core.ids import BlobDigest, SessionId
from engine.log.events import Event
from engine.log.events.codec import encode
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import SessionRow, Store
from tests.support.archives import answered, dropped, is_there, kept, values_kept
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


def test_contents_go_with_the_last_session_that_names_them(store: Store) -> None:
    (shared, own) = kept(store, A, [b"shared", b"own"])
    assert kept(store, B, [b"shared"]) == [shared]
    store.delete(A)
    assert (is_there(store, shared), is_there(store, own)) == (True, False)
    store.delete(B)
    assert not is_there(store, shared)


def test_content_that_any_text_of_another_session_names_stays(store: Store) -> None:
    (digest,) = kept(store, A, [b"content"])
    begun(store, B, events=1, text=f"see {digest}!")
    store.delete(A)
    assert store.blob_get(digest) == b"content"


def test_content_survives_a_deletion_before_its_event(store: Store) -> None:
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


@pytest.mark.parametrize("session_id", ["", "../x", "ses_", "%", "\0", "x" * 5000])
def test_deleting_what_is_not_there_changes_nothing(store: Store, session_id: str) -> None:
    kept(store, A, [b"content"])
    before = store.rows()
    with pytest.raises(SessionNotFoundError):
        store.delete(SessionId(session_id))
    assert store.rows() == before


def test_the_id_of_a_deleted_session_may_be_used_again(store: Store) -> None:
    kept(store, A, [b"content"])
    store.delete(A)
    kept(store, A)
    assert (store.row(A).events, store.contents(A), len(list(store.load(A)))) == (1, frozenset(), 1)


def test_size_counts_events_and_each_content_once(store: Store) -> None:
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


def test_a_page_of_the_log_is_loaded(store: Store) -> None:
    begun(store, A, events=10)
    assert [event.seq for event in store.load(A, 3, 4)] == [3, 4, 5, 6]
    assert [event.seq for event in store.load(A, 8, 4)] == [8, 9]


def test_a_closed_store_deletes_nothing(store: Store) -> None:
    kept(store, A)
    store.close()
    for call in (lambda: store.delete(A), lambda: store.collect(1e12), lambda: store.add(row(B), [message(0)])):
        with pytest.raises(StoreError):
            call()


def put(store: Store, events: list[Event], session_id: str = A) -> Recorder:
    """A session of these events, which is held; they are committed."""
    heard = begun(store, SessionId(session_id))
    for event in events:
        store.submit(SessionId(session_id), event)
    heard.wait_for(len(events) - 1)
    return heard


def test_dropped_values_are_gone_and_all_else_stays(store: Store) -> None:
    old, new, answer = (store.blob_put(data) for data in (b"old", b"new", b"answer"))
    events = [message(0), values_kept(1, old), answered(2, answer), values_kept(3, new), dropped(4, before=3)]
    put(store, events)
    assert [is_there(store, digest) for digest in (old, new, answer)] == [False, True, True]
    assert store.contents(A) == {new, answer}
    assert store.load(A) == events


def test_only_values_are_dropped(store: Store) -> None:
    answer, quoted = store.blob_put(b"answer"), store.blob_put(b"quoted")
    put(store, [message(0, quoted), answered(1, answer), dropped(2, before=2)])
    assert is_there(store, answer)
    assert is_there(store, quoted)
    assert store.droppable(A) == []


@pytest.mark.parametrize("answer_first", [True, False])
def test_a_value_that_is_also_an_answer_is_not_dropped(store: Store, answer_first: bool) -> None:
    digest = store.blob_put(b"both")
    both = [answered, values_kept] if answer_first else [values_kept, answered]
    put(store, [message(0), *(make(seq, digest) for seq, make in enumerate(both, 1)), dropped(3, before=3)])
    assert store.blob_get(digest) == b"both"
    assert (store.droppable(A), store.row(A).droppable_size) == ([], 0)
    assert store.row(A).contents_size > 0


def test_value_named_by_a_later_event_is_not_dropped(store: Store) -> None:
    digest = store.blob_put(b"again")
    put(store, [message(0), values_kept(1, digest), values_kept(2, digest), dropped(3, before=2)])
    assert store.blob_get(digest) == b"again"
    assert [kept.seq for kept in store.droppable(A)] == [2]


def test_what_another_session_keeps_stays_for_it(store: Store) -> None:
    digest = store.blob_put(b"shared")
    put(store, [message(0), values_kept(1, digest)], B)
    store.blob_put(b"shared")
    put(store, [message(0), values_kept(1, digest), dropped(2, before=2)])
    assert store.blob_get(digest) == b"shared"
    assert (store.contents(A), store.contents(B)) == (frozenset(), {digest})
    assert store.row(A).contents_size == 0 < store.row(B).contents_size
    store.release(B)
    store.delete(B)
    assert not is_there(store, digest)


def test_content_survives_a_drop_before_its_event(store: Store) -> None:
    digest = store.blob_put(b"value")
    heard = put(store, [message(0), values_kept(1, digest)])
    assert store.blob_put(b"value") == digest
    store.submit(A, dropped(2, before=2))
    heard.wait_for(2)
    assert store.blob_get(digest) == b"value"
    store.submit(A, values_kept(3, digest))
    heard.wait_for(3)
    assert store.blob_get(digest) == b"value"


def test_the_droppable_are_told_oldest_first_with_what_they_take(store: Store) -> None:
    noise = [os.urandom(1000 * number) for number in range(1, 4)]
    digests = [store.blob_put(data) for data in noise]
    put(store, [message(0), values_kept(1, digests[2]), answered(2, digests[0]), values_kept(3, digests[1])])
    found = store.droppable(A)
    assert [each.seq for each in found] == [1, 3]
    for each, size in zip(found, (3000, 2000), strict=True):
        assert size <= each.size <= size + 100
    listed = store.row(A)
    assert listed.droppable_size == sum(kept.size for kept in found)
    assert 1000 <= listed.contents_size - listed.droppable_size <= 1100
    assert listed.size == listed.contents_size + sum(len(encode(event)) for event in store.load(A))
    assert store.rows() == [listed]
    assert store.droppable(B) == []


def test_imported_session_has_dropped_its_values(store: Store) -> None:
    data = [b"old", b"again", b"answer"]
    old, again, answer = map(store.blob_put, data)
    items = [
        *(message(0), data[0], values_kept(1, old), data[1], values_kept(2, again), data[2], answered(3, answer)),
        *(values_kept(4, answer), dropped(5, before=5), values_kept(6, again)),
    ]
    store.add(row(A), items)
    assert store.contents(A) == {again, answer}
    assert [kept.seq for kept in store.droppable(A)] == [6]
    assert not is_there_elsewhere(store, old)
    assert (store.blob_get(again), store.blob_get(answer)) == (b"again", b"answer")


def is_there_elsewhere(store: Store, digest: BlobDigest) -> bool:
    """Whether it is kept for any session, whatever was put and not named yet."""
    return any(digest in store.contents(found.session_id) for found in store.rows())


def test_both_stores_drop_the_same(tmp_path: Path, make: Callable[[Path, Clock], Store]) -> None:
    """Random sessions over a few contents, so that values are kept again, are answers too, and are dropped often."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # shown by pytest where the test fails
    chance = random.Random(seed)
    pool = [bytes([n]) * n * 50 for n in range(9)]
    plans = [
        [(chance.choice("vvvad"), chance.choice(pool), chance.randint(0, seq)) for seq in range(1, 40)]
        for _ in range(4)
    ]
    found: list[object] = []
    for store in (make(tmp_path / "sessions.db", CountingClock()), MemoryStore(CountingClock())):
        for number, plan in enumerate(plans):
            play(store, f"ses_{number}", plan)
        sessions = sorted(store.rows(), key=lambda each: each.session_id)
        facts = [(each, store.contents(each.session_id), store.droppable(each.session_id)) for each in sessions]
        found.append((facts, [is_there_elsewhere(store, store.blob_put(data)) for data in pool]))
        for each in sessions:
            assert each.droppable_size == sum(kept.size for kept in store.droppable(each.session_id))
        store.close()
    assert found[0] == found[1]


def play(store: Store, session_id: str, plan: list[tuple[str, bytes, int]]) -> None:
    heard = put(store, [message(0)], session_id)
    for seq, (kind, data, before) in enumerate(plan, 1):
        make = answered if kind == "a" else values_kept
        event = dropped(seq, before=before) if kind == "d" else make(seq, store.blob_put(data))
        store.submit(SessionId(session_id), event)
    heard.wait_for(len(plan))
