"""The pump and the replay beside it: whatever happens meanwhile, everything is shown once."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from acp_adapter.pump import Pump, merged
from acp_adapter.streams import LIVE_OUTPUT_CHARS
from engine.events import UNSTAMPED
from engine.events.conversation import AgentText, UserMessage
from engine.events.session import SessionOpened
from engine.ids import MessageId, Seq, SessionId, ToolCallId
from engine.log import EventLog
from engine.ports import SessionRow
from engine.sessions.journal import Journal
from engine.sessions.signals import OutputStreamed, ReasoningStreamed, TextStreamed
from engine.sessions.subscription import Subscription
from engine.store.memory import MemoryStore
from tests.support.fixed import FixedClock
from tests.support.shown import CODEC, LoggedFacts, screen, updates_of

pytestmark = pytest.mark.anyio
SECONDS = 5.0
M, N = MessageId("m"), MessageId("n")
CALL = ToolCallId("c")


async def test_what_is_on_the_log_and_not_shown_yet_is_left_to_the_pump() -> None:
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

    pump = Pump(journal.subscribe(), CODEC, LoggedFacts("/"), send)
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


async def test_a_streamed_message_is_not_sent_again_when_it_is_whole_but_is_when_replayed() -> None:
    whole = AgentText(message_id=M, text="ab")
    async with screen() as shown:
        sent = await shown.show(TextStreamed(M, "ab"), whole, UserMessage(message_id=N, text="x"))
        assert [update["content"] for update in sent] == [{"type": "text", "text": "ab"}]
    replayed = updates_of(whole, UserMessage(message_id=N, text="x"), is_live=False)
    assert [update["sessionUpdate"] for update in replayed] == ["agent_message_chunk", "user_message_chunk"]


async def test_what_is_printed_meanwhile_is_accumulated_and_bounded() -> None:
    async with screen() as shown:
        first = await shown.show(OutputStreamed(CALL, "stdout", "a"), OutputStreamed(CALL, "stderr", "b"))
        assert first[-1]["content"][0]["content"]["text"] == "```\nab\n```"
        (long,) = await shown.show(OutputStreamed(CALL, "stdout", "x" * 10_000))
        assert len(long["content"][0]["content"]["text"]) == LIVE_OUTPUT_CHARS + 8


def test_adjacent_pieces_of_one_stream_are_joined_and_nothing_else_is() -> None:
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


async def test_whoever_waits_for_something_to_be_shown_waits_for_the_start_and_is_let_go_where_it_never_comes() -> None:
    async def nowhere(_: dict[str, Any]) -> None:
        raise AssertionError("nothing is sent")

    pump = Pump(Subscription(UNSTAMPED), CODEC, LoggedFacts(), nowhere)
    shown = anyio.Event()

    async def wait() -> None:
        await pump.sent(Seq(-1))  # which is before anything that could be sent
        shown.set()

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            assert not shown.is_set()
            pump.give_up()
            await shown.wait()
