"""The pump and its replay: everything is shown exactly once."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Literal

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_adapter.pump import LIVE_OUTPUT_CHARS, Pump, merged
from engine.core.execution import Captured
from engine.core.ids import ExecutionId, MessageId, Seq, SessionId, StatementId, ToolCallId
from engine.log.event_log import EventLog
from engine.log.events import UNSTAMPED
from engine.log.events.conversation import AgentText, RunStop, UserMessage
from engine.log.events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from engine.log.events.session import PlanChanged, PlanEntry, SessionOpened
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import SessionRow
from engine.session.journal import Journal, ModelRetried, OutputStreamed, ReasoningStreamed, Subscription, TextStreamed
from tests.support.fixed import FixedClock
from tests.support.shown import WRITER, LoggedFacts, screen, updates_of

pytestmark = pytest.mark.anyio
SECONDS = 5.0
M, N = MessageId("m"), MessageId("n")
CALL = ToolCallId("c")


async def test_an_attempt_after_a_replay_is_announced() -> None:
    store, session = MemoryStore(FixedClock()), SessionId("s")
    store.create(SessionRow(session_id=session, cwd="/"))
    journal = Journal(store, session)
    sent: list[dict[str, Any]] = []

    async def send(update: dict[str, Any]) -> None:
        sent.append(update)

    pump = Pump(journal.subscribe(), LoggedFacts("/"), send, WRITER)
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pump.run)
            await anyio.lowlevel.checkpoint()
            for attempt in (2, 3, 4):
                journal.signal(ModelRetried(attempt, 5, 0.0, "busy", CALL))
                await pump.caught_up()
                if attempt == 3:
                    await pump.replay([])
            tasks.cancel_scope.cancel()
    assert [update["sessionUpdate"] for update in sent] == ["tool_call", "tool_call_update", "tool_call"]


async def test_replay_leaves_unsent_events_to_run() -> None:
    session = SessionId("s")
    store = MemoryStore(FixedClock())
    store.create(SessionRow(session_id=session, cwd="/"))
    journal = Journal(store, session)
    store.acquire(session, journal.committed)
    log = EventLog(FixedClock(), journal.write)
    await journal.durable(log.append(SessionOpened(cwd="/")))
    sent: list[dict[str, Any]] = []

    async def send(update: dict[str, Any]) -> None:
        sent.append(update)
        await anyio.lowlevel.checkpoint()

    pump = Pump(journal.subscribe(), LoggedFacts("/"), send, WRITER)
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pump.run)
            await anyio.lowlevel.checkpoint()
            journal.signal(TextStreamed(M, "shown, "))
            await pump.caught_up()
            journal.signal(TextStreamed(M, "not yet"))
            seq = log.append(AgentText(message_id=M, text="shown, not yet"))
            await journal.durable(seq)
            sent.clear()
            await pump.replay(log.events)
            await pump.sent(seq)
            assert [update["content"]["text"] for update in sent] == ["shown, ", "not yet"]
            sent.clear()
            await pump.replay(log.events)
            assert [update["content"]["text"] for update in sent] == ["shown, not yet"]
            journal.close()


async def test_a_statement_that_a_replay_has_shown_goes_on() -> None:
    async with screen(history=RUNS) as drawn:
        await drawn.replay(list(RUNS))
        (live,) = await drawn.show(OutputStreamed(CALL, "stdout", "out"))
        (result,) = await drawn.show(ended(stdout=Captured(text="out", total_bytes=3)))
    assert [live["toolCallId"], result["toolCallId"]] == [CALL, CALL]
    assert in_fence(live) == in_fence(result) == "out"


async def test_messages_and_ends_of_turns_are_followed_after_they_were_sent() -> None:
    followed: list[tuple[str, bool, bool]] = []

    async with screen() as drawn:

        async def note(event: UserMessage | RunStop) -> None:
            kinds = {update["sessionUpdate"] for update in drawn.sent}
            followed.append((event.kind, "user_message_chunk" in kinds, "agent_message_chunk" in kinds))

        drawn.pump.follow(lambda message: message == N, note)
        await drawn.show(
            UserMessage(seq=Seq(0), message_id=N, text="x"),
            TextStreamed(M, "y"),
            RunStop(seq=Seq(1), reason="completed", cause="end_turn"),
        )
    assert followed == [("user_message", True, False), ("run_stop", True, True)]


async def test_events_from_before_the_subscription_are_shown_as_new() -> None:
    async with screen() as drawn:
        await drawn.pump.show([PlanChanged(entries=(PlanEntry(content="earlier"),))])
    assert [update["entries"][0]["content"] for update in drawn.sent] == ["earlier"]


async def test_the_end_of_a_run_is_handled_once_before_the_next_message() -> None:
    handled: list[RunStop] = []

    async def handle(stop: RunStop) -> None:
        handled.append(stop)

    stop = RunStop(seq=Seq(1), reason="completed", cause="end_turn")
    async with screen(between=handle) as drawn:
        await drawn.show(UserMessage(seq=Seq(0), message_id=M, text="x"), stop, TextStreamed(M, "y"))
        assert handled == []
        await drawn.show(*(UserMessage(seq=Seq(seq), message_id=N, text="z") for seq in (2, 3)))
    assert handled == [stop]


async def test_streamed_message_is_only_repeated_by_a_replay() -> None:
    whole = AgentText(message_id=M, text="ab")
    async with screen() as shown:
        sent = await shown.show(TextStreamed(M, "ab"), whole, UserMessage(message_id=N, text="x"))
        assert [update["content"] for update in sent] == [{"type": "text", "text": "ab"}]
    replayed = updates_of(whole, UserMessage(message_id=N, text="x"), is_live=False)
    assert [update["sessionUpdate"] for update in replayed] == ["agent_message_chunk", "user_message_chunk"]


def test_adjacent_pieces_of_a_stream_are_joined() -> None:
    whole = AgentText(message_id=M, text="abc")
    batch = [
        TextStreamed(M, "a"),
        TextStreamed(M, "b"),
        ReasoningStreamed(M, "r"),
        TextStreamed(M, "c"),
        TextStreamed(N, "d"),
        whole,
        TextStreamed(N, "e"),
        OutputStreamed(CALL, "stdout", "1"),
        OutputStreamed(CALL, "stdout", "2"),
        OutputStreamed(CALL, "stderr", "3"),
    ]
    assert merged(batch) == [
        TextStreamed(M, "ab"),
        ReasoningStreamed(M, "r"),
        TextStreamed(M, "c"),
        TextStreamed(N, "d"),
        whole,
        TextStreamed(N, "e"),
        OutputStreamed(CALL, "stdout", "12"),
        OutputStreamed(CALL, "stderr", "3"),
    ]


async def test_waits_end_when_the_start_is_given_up() -> None:
    async def nowhere(_: dict[str, Any]) -> None:
        raise AssertionError("nothing is sent")

    pump = Pump(Subscription(UNSTAMPED), LoggedFacts(), nowhere, WRITER)
    shown = anyio.Event()

    async def wait() -> None:
        await pump.sent(Seq(-1))  # before any event
        shown.set()

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            assert not shown.is_set()
            pump.give_up()
            await shown.wait()


# --- output while a statement runs ------------------------------------------------------------------------------------

RUNS = (
    StatementRecorded(seq=Seq(0), statement_id=StatementId("s"), index=1, source="run()", tool_call_id=CALL),
    ExecutionStarted(seq=Seq(1), execution_id=ExecutionId("e"), statement_id=StatementId("s")),
)


def ended(**printed: Captured) -> ExecutionFinished:
    return ExecutionFinished(
        seq=Seq(2),
        execution_id=ExecutionId("e"),
        statement_id=StatementId("s"),
        status="ok",
        started_at=0,
        ended_at=1,
        **printed,
    )


def in_fence(update: dict[str, Any]) -> str:
    """The text of the last content block of a call."""
    return re.sub(r"\A(`+)\n(.*)\n\1\Z", r"\2", update["content"][-1]["content"]["text"], flags=re.DOTALL)


@pytest.mark.slow
@given(st.sampled_from(("stdout", "stderr")), st.lists(st.text("ab\n", min_size=1), min_size=1, max_size=6))
def test_shown_output_grows_to_the_result(stream: Literal["stdout", "stderr"], pieces: list[str]) -> None:
    whole = Captured(text="".join(pieces), total_bytes=sum(map(len, pieces)))

    async def shown() -> list[dict[str, Any]]:
        async with screen() as drawn:
            await drawn.show(*RUNS)
            live = [await drawn.show(OutputStreamed(CALL, stream, text)) for text in pieces]
            return [update for updates in (*live, await drawn.show(ended(**{stream: whole}))) for update in updates]

    *growing, result = map(in_fence, anyio.run(shown))
    for earlier, later in pairwise((*growing, result)):
        assert later.startswith(earlier)
    assert growing[-1:] == [result] or result == "(no output)"


async def test_live_output_has_the_order_of_the_result() -> None:
    async with screen() as drawn:
        await drawn.show(*RUNS)
        await drawn.show(OutputStreamed(CALL, "stderr", "careful\n"))
        (live,) = await drawn.show(OutputStreamed(CALL, "stdout", "out\n"))
        both = ended(stdout=Captured(text="out\n", total_bytes=4), stderr=Captured(text="careful\n", total_bytes=8))
        (result,) = await drawn.show(both)
    assert in_fence(live) == in_fence(result) == "out\n[stderr]\ncareful"


async def test_long_live_output_is_cut_in_the_middle() -> None:
    async with screen() as drawn:
        await drawn.show(*RUNS)
        await drawn.show(OutputStreamed(CALL, "stdout", "begins " + "x" * 10_000))
        (update,) = await drawn.show(OutputStreamed(CALL, "stdout", " ends"))
    assert re.fullmatch(r"begins x+\n\.\.\. 5916 characters left out \.\.\.\nx+ ends", in_fence(update))
    assert len(in_fence(update).replace("\n... 5916 characters left out ...\n", "")) == LIVE_OUTPUT_CHARS


async def test_output_after_the_end_is_not_sent() -> None:
    async with screen() as drawn:
        await drawn.show(*RUNS, ended())
        assert await drawn.show(OutputStreamed(CALL, "stdout", "late")) == []
