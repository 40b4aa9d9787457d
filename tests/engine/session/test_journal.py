"""The journal publishes what is durable, in order; old events are read in the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from engine.core.errors import LeaseLostError, SessionReadOnlyError, StoreBusyError, StoreError
from engine.core.ids import MAIN_BRANCH, BranchId, ExecutionId, MessageId, Seq, SessionId, StatementId, ToolCallId
from engine.log.event_log import BLOCK, NEWEST, EventLog
from engine.log.events import Event
from engine.log.events.conversation import AgentText, UserMessage
from engine.log.events.execution import CommandEnded, ExecutionFinished, ExecutionStarted
from engine.log.events.going_back import BranchCreated, HeadMoved
from engine.log.redaction import Redactor
from engine.log.store.memory import MemoryStore
from engine.log.store.sqlite import SqliteStore
from engine.session.journal import (
    HIGH_WATER,
    Item,
    Journal,
    ModelRetried,
    OutputStreamed,
    StoredEvents,
    Subscription,
    TextStreamed,
)
from tests.support.environments import until
from tests.support.fixed import FixedClock
from tests.support.stores import A, CountingClock, Gate, begun_with, message, row

pytestmark = pytest.mark.anyio
SECONDS = 5.0
M = MessageId("m")


class HeldStore(MemoryStore):
    """A real store whose commits become known only when the test says so."""

    def __init__(self) -> None:
        super().__init__(FixedClock())
        self.submitted: list[Event] = []
        self.begun: list[Event] = []
        """Those whose commit has begun."""

    def submit(self, session_id: SessionId, event: Event, *, waits: bool = False) -> None:
        self.submitted.append(event)
        if not waits:
            self.flush()

    def flush(self) -> None:
        self.begun = list(self.submitted)


def event(seq: int) -> AgentText:
    return AgentText(seq=Seq(seq), message_id=M, text=str(seq))


def delta(text: str) -> TextStreamed:
    return TextStreamed(M, text)


async def taken(subscription: Subscription, count: int) -> list[Item]:
    items: list[Item] = []
    with anyio.fail_after(SECONDS):
        async for batch in subscription.batches(pace=0):
            items += batch
            if len(items) >= count:
                break
    return items


async def test_events_wait_for_their_commit_and_signals_for_earlier_events() -> None:
    store = HeldStore()
    journal = Journal(store, SessionId("s"))
    subscription = journal.subscribe()
    journal.signal(delta("before"))
    journal.write(event(0))
    journal.signal(delta("between"))
    journal.write(event(1))
    assert await taken(subscription, 1) == [delta("before")]
    journal.committed(Seq(0), None)
    assert await taken(subscription, 2) == [event(0), delta("between")]
    journal.committed(Seq(1), None)
    assert await taken(subscription, 1) == [event(1)]
    assert store.submitted == [event(0), event(1)]


async def test_durable_returns_with_its_commit_or_a_later_one() -> None:
    journal = Journal(HeldStore(), SessionId("s"))
    journal.write(event(0))
    journal.write(event(1))
    with anyio.move_on_after(0.01) as early:
        await journal.durable(Seq(0))
    assert early.cancelled_caught
    journal.committed(Seq(1), None)
    with anyio.fail_after(SECONDS):
        await journal.durable(Seq(0))


def statement(seq: int) -> ExecutionStarted:
    return ExecutionStarted(seq=Seq(seq), execution_id=ExecutionId("ex"), statement_id=StatementId("st"))


async def test_deferred_commit_begins_with_the_next_event_or_waiter() -> None:
    store = HeldStore()
    journal = Journal(store, SessionId("s"))
    journal.write(statement(0))
    assert store.begun == []
    journal.write(event(1))
    assert store.begun == [statement(0), event(1)]
    journal.write(statement(2))
    journal.signal(delta("shown after it"))
    assert len(store.begun) == 3
    journal.write(statement(3))
    with anyio.move_on_after(0):
        await journal.durable(Seq(3))
    assert len(store.begun) == 4


async def test_deferred_commit_begins_without_help_in_the_end() -> None:
    store = HeldStore()
    journal = Journal(store, SessionId("s"))
    journal.write(statement(0))
    await until(lambda: store.begun == [statement(0)])


async def test_a_failed_commit_makes_the_session_read_only_for_everybody() -> None:
    journal = Journal(HeldStore(), SessionId("s"))
    journal.write(event(0))
    journal.committed(Seq(-1), OSError("disk full"))
    with anyio.fail_after(SECONDS), pytest.raises(SessionReadOnlyError, match="disk full"):
        await journal.durable(Seq(0))
    with pytest.raises(SessionReadOnlyError, match="disk full"):
        journal.write(event(1))


@pytest.mark.parametrize("is_lost", [True, False])
async def test_only_a_lost_lease_means_that_another_process_took_over(is_lost: bool) -> None:
    journal = Journal(HeldStore(), SessionId("s"))
    journal.committed(Seq(-1), LeaseLostError(None, 10.0) if is_lost else OSError("disk full"))
    if not is_lost:
        journal.close()
    with anyio.fail_after(SECONDS):
        assert await journal.taken_over() is is_lost
    assert journal.is_taken_over is is_lost


async def test_what_was_loaded_counts_as_durable() -> None:
    journal = Journal(HeldStore(), SessionId("s"))
    journal.opened_at(Seq(7))
    with anyio.fail_after(SECONDS):
        await journal.durable(Seq(7))


async def test_a_sender_waits_for_a_subscriber_that_lags_behind() -> None:
    journal = Journal(HeldStore(), SessionId("s"))
    subscription = journal.subscribe()
    for number in range(HIGH_WATER + 1):
        journal.signal(delta(str(number)))
    with anyio.move_on_after(0.01) as blocked:
        await journal.room()
    assert blocked.cancelled_caught
    assert len(await taken(subscription, HIGH_WATER + 1)) == HIGH_WATER + 1
    with anyio.fail_after(SECONDS):
        await journal.room()


@pytest.mark.parametrize("pressing", [lambda journal: journal.write(event(0)), lambda journal: journal.close()])
async def test_signals_are_paced_but_events_and_the_end_are_not(pressing: Callable[[Journal], None]) -> None:
    journal = Journal(HeldStore(), SessionId("s"))
    batches: list[list[Item]] = []

    async def read(subscription: Subscription) -> None:
        async for batch in subscription.batches(pace=SECONDS * 2):
            batches.append(batch)
            if len(batches) == 2:
                return

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, journal.subscribe())
            journal.signal(delta("a"))
            await anyio.wait_all_tasks_blocked()
            for text in "bc":
                journal.signal(delta(text))
            await anyio.wait_all_tasks_blocked()
            assert batches == [[delta("a")]]
            pressing(journal)
            journal.committed(Seq(0), None)
    assert batches[1][:2] == [delta("b"), delta("c")]


async def test_closing_ends_a_subscription_after_what_it_was_sent() -> None:
    journal = Journal(HeldStore(), SessionId("s"))
    subscription = journal.subscribe()
    journal.signal(delta("last"))
    journal.close()
    with anyio.fail_after(SECONDS):
        assert [batch async for batch in subscription.batches(pace=SECONDS)] == [[delta("last")]]


SECRETS = Redactor(["very-secret", "very-secret-indeed"])


async def test_secret_split_between_signals_is_hidden() -> None:
    journal = Journal(HeldStore(), SessionId("s"), SECRETS)
    subscription = journal.subscribe()
    for text in ("so ver", "y-sec", "ret-", "x; v", "ain; very-"):
        journal.signal(delta(text))
    journal.signal(TextStreamed(MessageId("other"), "secret"))
    journal.write(event(0))
    journal.committed(Seq(0), None)
    items = await taken(subscription, 6)
    shown = [item.text for item in items if isinstance(item, TextStreamed) and item.message_id == M]
    assert "".join(shown) == "so ***-x; vain; very-"
    assert items[-1] == event(0)


@pytest.mark.parametrize("is_whole", [True, False])
async def test_possible_start_of_a_secret_waits_unless_nothing_follows(is_whole: bool) -> None:
    journal = Journal(HeldStore(), SessionId("s"), SECRETS)
    subscription = journal.subscribe()
    journal.signal(delta("very-secret and v"), is_whole=is_whole)
    assert await taken(subscription, 1) == [delta("*** and v" if is_whole else "*** and ")]
    journal.write(event(0))
    journal.committed(Seq(0), None)
    assert await taken(subscription, 1) == ([event(0)] if is_whole else [delta("v"), event(0)])


async def test_short_secret_within_a_longer_one_is_hidden() -> None:
    journal = Journal(HeldStore(), SessionId("s"), SECRETS)
    subscription = journal.subscribe()
    journal.signal(delta("very-secret-in"))
    journal.write(event(0))
    journal.committed(Seq(0), None)
    assert await taken(subscription, 2) == [delta("***-in"), event(0)]


async def test_last_output_of_a_command_precedes_its_end() -> None:
    # An editor that draws a terminal is told of each piece once.
    journal = Journal(HeldStore(), SessionId("s"), SECRETS)
    subscription = journal.subscribe()
    command, statement = ToolCallId("c"), ToolCallId("p")
    journal.signal(OutputStreamed(statement, "stdout", "ve"))
    journal.signal(OutputStreamed(command, "stdout", "very-secret ver"))
    journal.signal(OutputStreamed(command, "stderr", "v"))
    ended = CommandEnded(seq=Seq(0), execution_id=ExecutionId("e"), tool_call_id=command, cwd="/w", code=0)
    journal.write(ended)
    journal.committed(Seq(0), None)
    assert await taken(subscription, 4) == [
        OutputStreamed(command, "stdout", "*** "),
        OutputStreamed(command, "stdout", "ver"),
        OutputStreamed(command, "stderr", "v"),
        ended,
    ]
    journal.signal(OutputStreamed(statement, "stdout", "ry fine"))
    assert await taken(subscription, 1) == [OutputStreamed(statement, "stdout", "very fine")]


async def test_output_that_waits_is_dropped_with_the_record_of_its_statement() -> None:
    journal = Journal(HeldStore(), SessionId("s"), SECRETS)
    subscription = journal.subscribe()
    journal.signal(OutputStreamed(ToolCallId("p"), "stdout", "ve"))
    finished = ExecutionFinished(
        seq=Seq(0),
        execution_id=ExecutionId("e"),
        statement_id=StatementId("s"),
        status="ok",
        started_at=0.0,
        ended_at=0.0,
    )
    journal.write(finished)
    journal.committed(Seq(0), None)
    assert await taken(subscription, 1) == [finished]
    later = OutputStreamed(ToolCallId("p"), "stdout", "ry fine")
    journal.signal(later)
    assert await taken(subscription, 1) == [later]


async def test_locked_store_fails_waits_and_takes_events_later() -> None:
    store = HeldStore()
    journal = Journal(store, SessionId("s"))
    subscription = journal.subscribe()
    journal.write(event(0))
    journal.committed(Seq(-1), StoreBusyError("somebody has it locked"))
    with anyio.fail_after(SECONDS):
        with pytest.raises(SessionReadOnlyError, match="somebody has it locked"):
            await journal.durable(Seq(0))
        journal.write(event(1))
        assert journal.failure is not None
        journal.committed(Seq(1), None)
        while journal.failure is not None:
            await anyio.lowlevel.checkpoint()
        await journal.durable(Seq(1))
    assert await taken(subscription, 2) == [event(0), event(1)]


async def test_reason_of_a_retry_is_published_without_secrets() -> None:
    journal = Journal(MemoryStore(FixedClock()), SessionId("s"), Redactor(("very-secret",)))
    subscription = journal.subscribe()
    journal.signal(ModelRetried(2, 5, 0.5, "very-secret is no key"))
    assert await taken(subscription, 1) == [ModelRetried(2, 5, 0.5, "*** is no key")]


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
        self.redactor = Redactor(secrets)
        self.stored = StoredEvents(store, A, self.journal, self.redactor)
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


async def test_log_reads_released_events_in_the_store(store: SqliteStore) -> None:
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


async def test_what_becomes_a_secret_between_two_reads_is_taken_out(store: SqliteStore) -> None:
    opened = Opened(store, "another-secret")
    await opened.take(MANY)
    assert opened.stored.between(0, BLOCK) == opened.taken[:BLOCK]
    opened.redactor.learn(["very-secret"])
    for _ in range(2):
        found = opened.stored.between(0, BLOCK)
        assert "very-secret" not in str(found)
        assert found[1:9] == opened.taken[1:9]


async def test_clean_events_are_not_searched_again(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(store, "another-secret")
    await opened.take(MANY)
    opened.stored.between(10, BLOCK)
    searched: list[Event] = []
    monkeypatch.setattr("engine.session.journal.redact_event", lambda _, event: searched.append(event) or event)
    opened.stored.between(12, BLOCK - 1)
    assert not searched
    opened.stored.between(9, 12)
    assert searched == opened.taken[9:12]


async def test_missing_store_is_an_error_and_newest_events_stay(store: SqliteStore, tmp_path: Path) -> None:
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
            f"events 0 to {BLOCK - 1} of session ses_a have changed in the store",
        ),
        ("UPDATE events SET json = '{' WHERE seq = 3", "event 3 of session ses_a cannot be read"),
        ("DELETE FROM sessions", "no session ses_a"),
    ],
)
async def test_damaged_store_is_an_error_and_never_another_event(
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


async def test_released_session_is_readable_while_the_store_is_open(store: SqliteStore) -> None:
    opened = Opened(store)
    await opened.take(MANY)
    await opened.journal.durable(Seq(MANY - 1))
    store.release(A)
    assert list(opened.log.events) == opened.taken
    store.close()
    with pytest.raises(StoreError, match="closed"):
        opened.log.at(Seq(0))


async def test_head_stays_if_the_store_fails(store: SqliteStore, tmp_path: Path) -> None:
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


async def test_events_are_kept_until_the_journal_knows_their_commit(store: SqliteStore) -> None:
    opened = Opened(store)
    for _ in range(2):
        first = opened.log.at(opened.log.append(UserMessage(message_id=MessageId("m"), text="first")))
        for _ in range(MANY):
            last = opened.log.append(UserMessage(message_id=MessageId("m"), text="another"))
        assert opened.log.at(first.seq) is first
        await opened.journal.durable(last)
        assert opened.journal.kept == len(opened.log)
