"""What the log keeps of each model call: the very prompt, what it cost, and what of it the call before had too."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from itertools import takewhile
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine.context.model import (
    ContextTooLongError,
    ModelError,
    ModelSignal,
    Prompt,
    StatementAsked,
    TextDelta,
    TokensUsed,
)
from engine.context.tail.prompt import MESSAGE_OVERHEAD, Account, message_text
from engine.context.tail.sent_prompts import SentProjections, prompt_of
from engine.core.clock import SystemClock
from engine.core.ids import EventId, MessageId, Seq, SessionId
from engine.core.tokens import count
from engine.log.events import Event
from engine.log.events.conversation import AgentText, Condensation, RunStop, UserMessage
from engine.log.events.session import ModelCallEnded, ProjectionSent
from engine.log.redaction import Redactor
from engine.log.store import open_store
from engine.log.store.memory import MemoryStore
from engine.session.model_calls.projector import Projection
from engine.session.model_calls.replies import ModelCallRecords
from engine.session.session import Session
from tests.support.models import AnsweringModel, says
from tests.support.sessions import sessions_of
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


async def test_every_prompt_is_made_again_from_the_log_also_after_condensations(tmp_path: Path) -> None:
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


async def test_what_two_calls_share_is_counted_from_the_first_token_on(tmp_path: Path) -> None:
    sources = ["a = view(text='hello there', title='greeting')", "x = 1"]

    def answer(_: Prompt) -> Sequence[ModelSignal]:
        return [StatementAsked(sources.pop(0), typed=True)] if sources else [TextDelta("Done.")]

    async with sessions_of(tmp_path, model=AnsweringModel(answer)) as sessions:
        session = await sessions.create(str(tmp_path))
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


async def test_a_call_that_was_not_answered_is_on_the_log_as_such(tmp_path: Path) -> None:
    answers: list[Exception | TextDelta] = [ModelError("overloaded"), ContextTooLongError("too long"), TextDelta("hi")]

    def answer(_: Prompt) -> Sequence[ModelSignal]:
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return [given, TokensUsed(900, 8, 700)]

    async with sessions_of(tmp_path, model=AnsweringModel(answer)) as sessions:
        session = await sessions.create(str(tmp_path))
        for _ in range(2):
            await session.accept("go").end()
        calls = calls_of(session).calls
    assert [call.answered for call in calls] == [False, False, True]
    counts = [(call.input_tokens, call.cached_tokens, call.output_tokens) for call in calls]
    assert counts == [(None, None, None)] * 2 + [(900, 700, 8)]
    assert calls[2].kept == 2


@pytest.mark.slow
async def test_the_events_of_a_long_conversation_stay_small(tmp_path: Path) -> None:
    sources = ["x = 1"] * 60

    def answer(_: Prompt) -> Sequence[ModelSignal]:
        return [StatementAsked(sources.pop(0), typed=True)] if sources else [TextDelta("Done.")]

    async with sessions_of(tmp_path, model=AnsweringModel(answer), settings={"max_rounds": 100}) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("go").end()
        assert all(len(call.messages) <= 2 for call in calls_of(session).calls)


async def test_calls_are_numbered_from_one_and_a_number_that_there_is_not_is_none(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, model=AnsweringModel(says("hi"))) as sessions:
        session = await sessions.create(str(tmp_path))
        for text in ("go", "/tick", "on"):
            await session.accept(text).end()
        sent = calls_of(session)
    assert [sent.number_of(call) for call in sent.calls] == [1, 2]
    assert [sent.numbered(text) for text in ("1", "2", "02")] == [*sent.calls, sent.calls[1]]
    for text in ("0", "3", "-1", "1.0", "٢", "9" * 30, "x", ""):
        assert sent.numbered(text) is None


class SilentModel:
    """Says that it was asked, and never answers."""

    name = "silent"
    summarizes = False

    def __init__(self) -> None:
        self.asked = anyio.Event()

    async def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        del prompt
        self.asked.set()
        await anyio.sleep_forever()
        yield TextDelta("")

    async def aclose(self) -> None:
        """Nothing is open."""


async def test_a_prompt_is_on_disk_while_the_model_has_not_answered_yet(tmp_path: Path) -> None:
    store = open_store(tmp_path, SystemClock())
    model = SilentModel()
    async with sessions_of(tmp_path, store, model=model) as sessions:
        session = await sessions.create(str(tmp_path))
        ticket = session.accept("what is this?")
        await model.asked.wait()
        (seq,) = (event.seq for event in session.events if isinstance(event, ProjectionSent))
        await session.durable(seq)
        other = open_store(tmp_path, SystemClock())
        log = other.load(session.session_id)
        sent = SentProjections()
        for event in log:
            sent.apply(event)
        (call,) = sent.calls
        prompt = prompt_of(call, sent.messages_of(call), log, other.blob_get)
        other.close()
        assert call.answered is None
        assert [message.text for message in prompt.messages if isinstance(message, UserMessage)] == ["what is this?"]
        assert prompt.instructions.startswith("You work in")
        session.cancel()
        await ticket.end()
        assert calls_of(session).calls[-1].answered is False
    store.close()


@pytest.mark.parametrize("reply", [(), (AgentText(message_id=MessageId("m"), text="so"),)], ids=["nothing", "text"])
async def test_a_call_that_this_program_did_not_see_end_is_unknown_unless_it_was_answered(
    tmp_path: Path, reply: tuple[Event, ...]
) -> None:
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
