"""What the log keeps of each model call: its reply, its prompt, what it cost, and what it shares with the last."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from itertools import takewhile
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine.context.model import (
    CallRetried,
    ContextTooLongError,
    ModelError,
    ModelSignal,
    Prompt,
    ReasoningDelta,
    ReplyEnded,
    StatementAsked,
    TextDelta,
    TokensUsed,
)
from engine.context.tail.prompt import MESSAGE_OVERHEAD, Account, message_text
from engine.context.tail.sent_prompts import SentProjections, prompt_of
from engine.core.clock import SystemClock
from engine.core.ids import EventId, MessageId, Minter, Seq, SessionId, ToolCallId
from engine.core.tokens import count
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.conversation import (
    AgentReasoning,
    AgentText,
    Condensation,
    RunStop,
    ThinkingBlock,
    ToolCall,
    UserMessage,
)
from engine.log.events.session import ModelCallEnded
from engine.log.redaction import Redactor
from engine.log.store.memory import MemoryStore
from engine.session.journal import Journal, ModelRetried
from engine.session.model_calls.projector import Projection
from engine.session.model_calls.replies import ModelCallRecords, ReplyRecorder
from engine.session.session import Session
from tests.support.fixed import CountingEntropy, FixedClock
from tests.support.models import AnsweringModel, says
from tests.support.sessions import session_in, sessions_of
from tests.support.timelines import timeline_of

pytestmark = pytest.mark.anyio


def calls_of(session: Session) -> SentProjections:
    sent = SentProjections()
    for event in session.events:
        sent.apply(event)
    return sent


def prompts_of(session: Session, store: MemoryStore) -> list[Prompt]:
    """The prompt of each call, made again from log and store."""
    sent = calls_of(session)
    return [prompt_of(call, sent.messages_of(call), session.events, store.blob_get) for call in sent.calls]


def as_sent(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Without what is for no provider."""
    return [replace(prompt, typed=None) for prompt in prompts]


def shared_by(before: Prompt, after: Prompt) -> list[Event]:
    """The messages from the first on that two prompts have alike."""
    pairs = zip(before.messages, after.messages, strict=False)
    return [new for old, new in takewhile(lambda pair: pair[0] == pair[1], pairs)]


def tokens_of(message: Event) -> int:
    return count(message_text(message)) + MESSAGE_OVERHEAD


async def test_every_prompt_is_restored_from_the_log_across_condensations(tmp_path: Path) -> None:
    sources = [
        "print('word ' * 700)",
        "a = view(text='line\\n' * 200, tokens=300)",
        "1 / 0",
        "print('huge ' * 5_000)",
        *("print('more ' * 600)" for _ in range(8)),
    ]

    def answer(_: Prompt) -> Sequence[ModelSignal]:
        return [StatementAsked(sources.pop(0), typed=True)] if sources else [TextDelta("Done.")]

    model, store = AnsweringModel(answer), MemoryStore(SystemClock())
    settings: dict[str, object] = {"context_budget": 4_000}
    async with sessions_of(tmp_path, store, model=model, settings=settings) as sessions:
        session = await sessions.create(str(tmp_path))
        for text in ("count the words", "and again"):
            await session.accept(text).end()
        assert any(isinstance(event, Condensation) for event in session.events)
        sent = calls_of(session)
        assert any(call.shortened for call in sent.calls)
        assert prompts_of(session, store) == as_sent(model.prompts)
        await sessions.close(session.session_id)
        session = await sessions.load(session.session_id)
        await session.accept("once more").end()
        assert prompts_of(session, store) == as_sent(model.prompts)
        for call in sent.calls:
            assert call.used <= call.size
            assert set(call.shortened) <= set(sent.messages_of(call))
        prompts = prompts_of(session, store)
        for before, after, call in zip(prompts, prompts[1:], sent.calls[1:], strict=False):
            assert call.shared == call.sections["instructions"] + sum(map(tokens_of, shared_by(before, after)))


async def test_shared_tokens_are_counted_from_the_first(tmp_path: Path) -> None:
    sources = ["a = view(text='hello there', title='greeting')", "x = 1"]

    def answer(_: Prompt) -> Sequence[ModelSignal]:
        return [StatementAsked(sources.pop(0), typed=True)] if sources else [TextDelta("Done.")]

    async with session_in(tmp_path, model=AnsweringModel(answer)) as session:
        await session.accept("go").end()
        first, second, third = calls_of(session).calls
    assert (first.kept, first.shared) == (0, 0)
    assert (second.kept, second.shared) == (1, first.sections["instructions"] + first.sections["prompts"])
    whole = ("instructions", "prompts", "statements", "results")
    assert third.shared == sum(second.sections[name] for name in whole)
    assert second.sections["handles"] > 0
    assert list(second.sections) == [*whole, "handles"]
    assert set(second.nodes) == {"view-1.1"}
    assert second.nodes["view-1.1"] > second.sections["handles"] // 2
    assert first.instructions == third.instructions


def projection(*messages: str, **shortened: str) -> Projection:
    """Of messages by their ids, each of 10 tokens, or of 3 where it is shortened."""
    events = tuple(UserMessage(message_id=MessageId(each), event_id=EventId(each), text="") for each in messages)
    short = {EventId(each): text for each, text in shortened.items()}
    message_tokens = 10 * len(messages) - 7 * len(short)
    return Projection(
        prompt=Prompt(instructions="do", messages=events, tail="tail"),
        used=101 + message_tokens + 20,
        size=1_000,
        instruction_tokens=101,
        message_tokens=message_tokens,
        tail_tokens=20,
        handles=(),
        position=0,
        tail_sections={"handles": 20},
        tail_nodes={},
        counts=dict.fromkeys(map(EventId, messages), 10),
        shortened=short,
        shortened_counts=dict.fromkeys(short, 3),
    )


def test_what_is_shortened_otherwise_ends_what_two_calls_share() -> None:
    sent = SentProjections()
    calls = ModelCallRecords(MemoryStore(SystemClock()), Redactor([]), sent, Account(timeline_of()))
    shared: list[int] = []
    for each in (
        projection("a", "b", "c"),
        projection("a", "b", "c", "d", "e"),
        projection("a", "b", "c", "d", "e", d="cut"),
        projection("a", "b", "c", "d", "e", d="cut"),
        projection("a", "b", "c", "d", "e", d="cut more", e="cut"),
        projection("a", "b", "c", "d", "e", "f", d="cut more", e="cut"),
        projection("a", "b", "c", "d", "e", "f"),
        projection("b", "c"),
    ):
        event = calls.begun(each, 0)
        shared.append(event.shared)
        sent.apply(event)
    assert shared == [0, 101 + 30, 101 + 30, 101 + 43 + 20, 101 + 30, 101 + 36, 101 + 30, 101]


async def test_unanswered_call_is_logged_as_such(tmp_path: Path) -> None:
    answers: list[Exception | TextDelta] = [
        ModelError("overloaded"),
        ContextTooLongError("too long", 100),
        TextDelta("hi"),
    ]

    def answer(_: Prompt) -> Sequence[ModelSignal]:
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return [given, TokensUsed(900, 8, 700)]

    async with session_in(tmp_path, model=AnsweringModel(answer)) as session:
        for _ in range(2):
            await session.accept("go").end()
        calls = calls_of(session).calls
    assert [call.answered for call in calls] == [False, False, True]
    counts = [(call.input_tokens, call.cached_tokens, call.output_tokens) for call in calls]
    assert counts == [(None, None, None)] * 2 + [(900, 700, 8)]
    assert calls[2].kept == 2


async def test_calls_are_numbered_from_one(tmp_path: Path) -> None:
    async with session_in(tmp_path, model=AnsweringModel(says("hi"))) as session:
        for text in ("go", "/tick", "on"):
            await session.accept(text).end()
        sent = calls_of(session)
    assert [sent.number_of(call) for call in sent.calls] == [1, 2]
    assert [sent.numbered(text) for text in ("1", "2", "02")] == [*sent.calls, sent.calls[1]]
    for text in ("0", "3", "-1", "1.0", "٢", "9" * 30, "x", ""):
        assert sent.numbered(text) is None


@pytest.mark.parametrize("reply", [(), (AgentText(message_id=MessageId("m"), text="so"),)], ids=["nothing", "text"])
async def test_call_without_a_seen_end_is_unknown_unless_answered(tmp_path: Path, reply: tuple[Event, ...]) -> None:
    store = MemoryStore(SystemClock())
    async with sessions_of(tmp_path, store, model=AnsweringModel(says("hi"))) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("go").end()
        ended = next(place for place, event in enumerate(session.events) if isinstance(event, ModelCallEnded))
        log = [event for event in session.events[:ended] if not isinstance(event, AgentText)]
        killed = SessionId("ses_killed")
        row = replace(store.row(session.session_id), session_id=killed)
        events = [replace(event, seq=Seq(seq)) for seq, event in enumerate((*log, *reply))]
        store.add(row, events)
        session = await sessions.load(killed)
        (call,) = calls_of(session).calls
        assert call.answered is (True if reply else None)
        await sessions.close(killed)
        again = await sessions.load(killed)
        assert sum(isinstance(event, ModelCallEnded) for event in again.events) == 1
        assert isinstance(again.events[-1], RunStop)


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


async def test_signature_alone_goes_with_the_call() -> None:
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


async def test_token_counts_divide_no_text() -> None:
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
        (retried,) = batch
        assert isinstance(retried, ModelRetried)
        assert (retried.attempt, retried.attempts, retried.seconds, retried.reason) == (2, 5, 0.5, "busy")
        assert retried.tool_call_id
        break
