"""A session's log reads old events in the store: committed ones, without waiting, and without later secrets."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core.errors import StoreError
from engine.core.ids import MAIN_BRANCH, BranchId, MessageId, Seq
from engine.log.event_log import BLOCK, NEWEST, EventLog
from engine.log.events import Event
from engine.log.events.conversation import UserMessage
from engine.log.events.going_back import BranchCreated, HeadMoved
from engine.log.redaction import Redactor
from engine.log.store.sqlite import SqliteStore
from engine.session.journal import Journal, StoredEvents
from tests.support.fixed import FixedClock
from tests.support.stores import A, CountingClock, Gate, begun_with, message, row

pytestmark = pytest.mark.anyio
MANY = NEWEST + 4 * BLOCK


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    yield store
    store.close()


class Opened:
    """A session's log over the store."""

    def __init__(self, store: SqliteStore, *secrets: str) -> None:
        self.journal = Journal(store, A)
        self.stored = StoredEvents(store, A, self.journal, Redactor(secrets))
        self.log = EventLog(FixedClock(), self.journal.write, backing=self.stored)
        store.create(row())
        store.acquire(A, self.journal.committed)
        self.taken: list[Event] = []

    async def take(self, count: int) -> None:
        """Appends so many messages, one durable before the next but a few."""
        for number in range(count):
            text = "a very-secret word" if number % 9 == 0 else f"message {number}"
            seq = self.log.append(UserMessage(message_id=MessageId(f"m{len(self.log)}"), text=text))
            self.taken.append(self.log.at(seq))
            if number % 50 == 49:
                await self.journal.durable(seq)


async def test_a_log_reads_in_the_store_what_it_has_no_more(store: SqliteStore) -> None:
    opened = Opened(store)
    await opened.take(MANY)
    assert opened.log.at(Seq(0)) is not opened.taken[0]
    assert list(opened.log.events) == opened.taken
    assert [opened.log.at(Seq(seq)) for seq in reversed(range(MANY))] == list(reversed(opened.taken))


async def test_what_has_become_a_secret_since_is_taken_out(store: SqliteStore) -> None:
    opened = Opened(store, "very-secret")
    await opened.take(MANY)
    first = opened.log.at(Seq(0))
    assert isinstance(first, UserMessage)
    assert first.text == "a *** word"


async def test_a_store_that_is_gone_is_an_error_and_the_newest_events_are_there(
    store: SqliteStore, tmp_path: Path
) -> None:
    opened = Opened(store)
    await opened.take(MANY)
    (tmp_path / "sessions.db").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"sessions\.db"):
        opened.log.at(Seq(0))
    assert opened.log.at(Seq(MANY - 1)) is opened.taken[-1]
    (tmp_path / "elsewhere").rename(tmp_path / "sessions.db")
    assert opened.log.at(Seq(0)) == opened.taken[0]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            "DELETE FROM events WHERE seq = 3",
            f"events 0 to {BLOCK - 1} of session ses_a are not in the store as they were",
        ),
        ("UPDATE events SET json = '{' WHERE seq = 3", "event 3 of session ses_a cannot be read"),
        ("DELETE FROM sessions", "no session ses_a"),
    ],
)
async def test_a_store_that_is_damaged_is_an_error_and_never_another_event(
    store: SqliteStore, tmp_path: Path, damage: str, said: str
) -> None:
    opened = Opened(store)
    await opened.take(MANY)
    await opened.journal.durable(Seq(MANY - 1))
    with sqlite3.connect(tmp_path / "sessions.db") as other:
        other.execute("PRAGMA foreign_keys=ON")
        other.execute(damage)
    other.close()
    for _ in range(2):
        with pytest.raises(StoreError, match=said):
            opened.log.at(Seq(4))
    assert opened.log.at(Seq(MANY - 1)) is opened.taken[-1]


async def test_committed_events_are_read_while_the_writer_is_busy(store: SqliteStore) -> None:
    gate = begun_with(Gate(), store, events=100)
    with gate.closed(store, A, 100):
        store.submit(A, message(101))  # waits for the gate, so whoever waits for it would wait for good
        assert [event.seq for event in store.load(A, 0, 64)] == list(range(64))
        assert len(store.load(A, 50, 51)) == 51
    assert len(store.load(A)) == 102


async def test_a_released_session_can_be_read_as_long_as_the_store_is_open(store: SqliteStore) -> None:
    opened = Opened(store)
    await opened.take(MANY)
    await opened.journal.durable(Seq(MANY - 1))
    store.release(A)
    assert list(opened.log.events) == opened.taken
    store.close()
    with pytest.raises(StoreError, match="closed"):
        opened.log.at(Seq(0))


async def test_a_head_that_cannot_be_moved_because_the_store_fails_stays_where_it_is(
    store: SqliteStore, tmp_path: Path
) -> None:
    opened = Opened(store)
    log, texts = opened.log, list[str]()

    class Texts:
        def reset(self) -> None:
            texts.clear()

        def apply(self, event: Event) -> None:
            if isinstance(event, UserMessage):
                texts.append(event.text)

    log.follow_path(Texts())
    await opened.take(MANY)
    log.append(BranchCreated(branch=BranchId("b1"), parent=MAIN_BRANCH, before=Seq(3)))
    before, there = list(texts), len(log)
    await opened.journal.durable(Seq(there - 1))
    move = HeadMoved(branch=BranchId("b1"), left=MAIN_BRANCH, statement=0)
    (tmp_path / "sessions.db").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"sessions\.db"):
        log.append(move)
    assert (texts, len(log), log.branches.active) == (before, there, MAIN_BRANCH)
    (tmp_path / "elsewhere").rename(tmp_path / "sessions.db")
    log.append(move)
    assert (texts, log.branches.active) == (before[:3], "b1")
    assert [event.seq for event in log.path] == [0, 1, 2, there]


async def test_nothing_is_let_go_of_before_the_journal_has_heard_of_its_commit(store: SqliteStore) -> None:
    opened = Opened(store)
    for _ in range(2):
        first = opened.log.at(opened.log.append(UserMessage(message_id=MessageId("m"), text="first")))
        for _ in range(MANY):
            last = opened.log.append(UserMessage(message_id=MessageId("m"), text="another"))
        assert opened.log.at(first.seq) is first
        await opened.journal.durable(last)
        assert opened.journal.kept == len(opened.log)
