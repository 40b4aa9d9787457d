"""What is recorded of a model's reply: whole items, each with the signature it had."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest

from engine.context.model import (
    CallRetried,
    ModelError,
    ModelSignal,
    ReasoningDelta,
    ReplyEnded,
    StatementAsked,
    TextDelta,
    TokensUsed,
)
from engine.core.ids import Minter, SessionId, ToolCallId
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.conversation import AgentReasoning, AgentText, ThinkingBlock, ToolCall
from engine.log.store.memory import MemoryStore
from engine.session.journal import Journal, ModelRetried
from engine.session.model_calls.replies import ReplyRecorder
from tests.support.fixed import CountingEntropy, FixedClock

pytestmark = pytest.mark.anyio


TAKEN = ToolCallId("call_0")


async def recorded(*signals: ModelSignal, error: Exception | None = None) -> list[Event]:
    async def stream() -> AsyncGenerator[ModelSignal, None]:
        for signal in signals:
            yield signal
        if error is not None:
            raise error

    clock = FixedClock()
    minter = Minter(clock, CountingEntropy())
    log = EventLog(clock, lambda event: None)
    log.append(ToolCall(tool_call_id=TAKEN, tool="python"))
    journal = Journal(MemoryStore(clock), SessionId("s"))
    recorder = ReplyRecorder(log, journal, minter)
    with anyio.fail_after(5):
        if error is None:
            await recorder.record(stream())
        else:
            with pytest.raises(type(error)):
                await recorder.record(stream())
    return list(log.since(1))


def block(text: str, signature: str | None, provider: str | None = "anthropic") -> ThinkingBlock:
    return ThinkingBlock(text=text, signature=signature, provider=provider)


async def test_each_signature_stays_with_the_thinking_it_signs() -> None:
    events = await recorded(
        ReasoningDelta("one ", provider="anthropic"),
        ReasoningDelta("more", provider="anthropic"),
        ReasoningDelta("", "s1", "anthropic"),
        ReasoningDelta("", "encrypted", "anthropic"),
        ReasoningDelta("two", "s2", "anthropic"),
        TextDelta("hi"),
        StatementAsked("1", "call_1"),
        ReplyEnded(),
    )
    first, second, text, call = events
    assert isinstance(first, AgentReasoning)
    assert (first.text, first.signature, first.provider) == ("one more", "s1", "anthropic")
    assert isinstance(second, AgentReasoning)
    assert (second.text, second.signature) == ("two", "s2")
    assert first.message_id != second.message_id
    assert isinstance(text, AgentText)
    assert isinstance(call, ToolCall)
    assert call.thinking == (block("one more", "s1"), block("", "encrypted"), block("two", "s2"))
    assert call.llm_response_id == first.llm_response_id == text.llm_response_id


async def test_a_signature_alone_is_nothing_to_show_and_goes_with_the_call() -> None:
    events = await recorded(TextDelta("hi"), ReasoningDelta("", "s", "google"), StatementAsked("1"), ReplyEnded())
    assert [type(event) for event in events] == [AgentText, ToolCall]
    call = events[1]
    assert isinstance(call, ToolCall)
    assert call.thinking == (block("", "s", "google"),)


async def test_thinking_that_is_cut_off_is_kept_unsigned() -> None:
    events = await recorded(ReasoningDelta("half a thou", provider="anthropic"), error=ModelError("down"))
    (kept,) = events
    assert isinstance(kept, AgentReasoning)
    assert (kept.text, kept.signature) == ("half a thou", None)


async def test_what_the_provider_counted_divides_no_text_and_is_not_recorded() -> None:
    events = await recorded(TokensUsed(1, 0), TextDelta("on"), TokensUsed(1, 5), TextDelta("e"), ReplyEnded())
    (text,) = events
    assert isinstance(text, AgentText)
    assert text.text == "one"


async def test_an_id_that_another_call_has_is_not_taken_again() -> None:
    events = await recorded(StatementAsked("1", TAKEN), ReplyEnded())
    (call,) = events
    assert isinstance(call, ToolCall)
    assert call.tool_call_id != TAKEN
    assert call.arguments == {"source": "1"}


async def test_a_retry_is_published_and_is_no_answer() -> None:
    async def stream() -> AsyncGenerator[ModelSignal, None]:
        yield CallRetried(2, 5, 0.5, "busy")
        raise ModelError("gone")

    clock = FixedClock()
    log = EventLog(clock, lambda event: None)
    journal = Journal(MemoryStore(clock), SessionId("s"))
    subscription = journal.subscribe()
    recorder = ReplyRecorder(log, journal, Minter(clock, CountingEntropy()))
    with anyio.fail_after(5), pytest.raises(ModelError):
        await recorder.record(stream())
    assert not recorder.answered
    async for batch in subscription.batches(pace=0):
        assert batch == [ModelRetried(2, 5, 0.5, "busy")]
        break
