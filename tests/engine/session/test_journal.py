"""The journal: nothing is published before it is durable, and always in order."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from engine.core.errors import SessionReadOnlyError, StoreBusyError
from engine.core.ids import ExecutionId, MessageId, Seq, SessionId, StatementId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import AgentText
from engine.log.events.execution import CommandEnded, ExecutionStarted
from engine.log.redaction import Redactor
from engine.log.store.memory import MemoryStore
from engine.session.journal import HIGH_WATER, Item, Journal, ModelRetried, OutputStreamed, Subscription, TextStreamed
from tests.support.environments import until
from tests.support.fixed import FixedClock

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


async def test_events_wait_for_their_commit_and_signals_for_the_events_before_them() -> None:
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


async def test_durable_returns_with_the_commit_of_its_event_or_a_later_one() -> None:
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


async def test_a_commit_that_may_wait_begins_with_the_next_event_or_when_somebody_waits_for_it() -> None:
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


async def test_a_commit_that_may_wait_begins_by_itself_in_the_end() -> None:
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
async def test_a_stream_of_signals_is_paced_but_an_event_or_the_end_is_not(pressing: Callable[[Journal], None]) -> None:
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


async def test_a_secret_that_is_cut_by_two_signals_is_not_shown_and_nothing_else_is_lost() -> None:
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
async def test_an_end_that_may_be_a_secrets_start_waits_unless_nothing_follows(is_whole: bool) -> None:
    journal = Journal(HeldStore(), SessionId("s"), SECRETS)
    subscription = journal.subscribe()
    journal.signal(delta("very-secret and v"), is_whole=is_whole)
    assert await taken(subscription, 1) == [delta("*** and v" if is_whole else "*** and ")]
    journal.write(event(0))
    journal.committed(Seq(0), None)
    assert await taken(subscription, 1) == ([event(0)] if is_whole else [delta("v"), event(0)])


async def test_a_short_secret_that_might_have_become_a_longer_one_is_hidden_at_the_end_too() -> None:
    journal = Journal(HeldStore(), SessionId("s"), SECRETS)
    subscription = journal.subscribe()
    journal.signal(delta("very-secret-in"))
    journal.write(event(0))
    journal.committed(Seq(0), None)
    assert await taken(subscription, 2) == [delta("***-in"), event(0)]


async def test_the_end_of_what_a_command_printed_comes_before_its_end_though_it_may_be_a_secrets_start() -> None:
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


async def test_while_the_store_is_locked_waits_fail_and_events_are_taken_for_later() -> None:
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


async def test_why_a_model_call_is_made_again_is_published_without_secrets() -> None:
    journal = Journal(MemoryStore(FixedClock()), SessionId("s"), Redactor(("very-secret",)))
    subscription = journal.subscribe()
    journal.signal(ModelRetried(2, 5, 0.5, "very-secret is no key"))
    assert await taken(subscription, 1) == [ModelRetried(2, 5, 0.5, "*** is no key")]
