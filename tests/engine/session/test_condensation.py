"""Sessions whose context runs full: what leaves the View, what stays, and that the work goes on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from pathlib import Path
from typing import Literal

import anyio
import pytest
from msgspec.structs import replace

from engine.context.model import (
    CallDelayed,
    CallRetried,
    ContextTooLongError,
    Model,
    ModelError,
    ModelSignal,
    Prompt,
    ReasoningDelta,
    ReplyEnded,
    StatementAsked,
    TextDelta,
    TokensUsed,
)
from engine.context.tail.prompt import message_text
from engine.context.view import Summary, ViewFold
from engine.core.clock import SystemClock
from engine.core.ids import EventId, MessageId, Seq, SessionId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import (
    AgentText,
    Condensation,
    CondensationRequest,
    NoCutPossible,
    RunStop,
    SummaryCallEnded,
    ToolCall,
    ToolResult,
    UserMessage,
)
from engine.log.events.session import ContextMeasured, ModelCallEnded, ProjectionSent, SessionOpened, ViewEnforced
from engine.log.facts import Spending, Spent
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import SessionRow, Store
from engine.session.journal import ModelDelayed, ModelRetried
from engine.session.session import Session
from tests.support.models import AnsweringModel, runs, says
from tests.support.sessions import events_of, session_in, sessions_of

pytestmark = pytest.mark.anyio
BUDGET = 6_000
"""Tokens: room for about 4,000 of messages beside the instructions and the tail."""
LONG = "print('word ' * 700)"
"""A statement with a result of about 700 tokens."""


def opened(
    tmp_path: Path, model: Model, store: Store | None = None, budget: int = BUDGET
) -> AbstractAsyncContextManager[Session]:
    return session_in(tmp_path, store, model=model, settings={"context_budget": budget})


async def run(session: Session, text: str) -> str:
    end = await session.accept(text).end()
    assert end.failure is None
    return end.cause


def said(session: Session) -> str:
    return events_of(session, AgentText)[-1].text


def assert_whole(session: Session) -> None:
    view = session.view
    assert view.ready(open_run=True) == view.events
    fold = ViewFold()
    for event in session.events:
        fold.apply(event)
    assert fold.warning is None


async def test_long_run_stays_within_budget_and_keeps_its_request(tmp_path: Path) -> None:
    model = AnsweringModel(runs(*[f"print('word ' * 250) # {number}" for number in range(40)]))
    async with opened(tmp_path, model) as session:
        assert await run(session, "count the words") == "end_turn"
        assert said(session) == "Done."
        usages = events_of(session, ProjectionSent)
        assert len(usages) == len(model.prompts) == 41
        assert all(usage.used <= usage.size == BUDGET for usage in usages)
        condensations = events_of(session, Condensation)
        assert len(condensations) >= 2
        assert [request.reason for request in events_of(session, CondensationRequest)] == ["budget"] * len(
            condensations
        )
        assert not events_of(session, NoCutPossible)
        for prompt in model.prompts:
            assert "count the words" in [message_text(message) for message in prompt.messages]
            newest = [message for message in prompt.messages if isinstance(message, ToolResult)][-1:]
            assert all("left out" not in result.text for result in newest)
        assert isinstance(model.prompts[-1].messages[0], Summary)
        # Half of the room stays, less what the summary may take: four or five of the results with their calls.
        lengths = [len(prompt.messages) for prompt in model.prompts]
        assert min(after for before, after in pairwise(lengths) if after < before) >= 9
        assert_whole(session)


async def test_summary_tells_what_happened_within_its_length(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("word " * 600)
    answers: list[Sequence[ModelSignal]] = [
        [TextDelta("I look at the notes."), StatementAsked("notes = view('notes.md', tokens=500)", typed=True)],
        [StatementAsked("1 / 0", typed=True)],
        [TextDelta("It is about words.")],
    ]
    model = AnsweringModel(lambda _: answers.pop(0) if answers else [TextDelta("Yes. " * 200)])
    async with opened(tmp_path, model) as session:
        await run(session, "what are the notes about?")
        assert await run(session, "/compact") == "end_turn"
        (condensation,) = events_of(session, Condensation)
        assert condensation.summary is not None
        assert condensation.summary.splitlines() == [
            "Summary of the earlier conversation:",
            "The user asked: what are the notes about?",
            "You said: I look at the notes.",
            "You ran statements 1 to 2.",
            "You said: It is about words.",
        ]
        (measured,) = events_of(session, ContextMeasured)
        now = f"The next prompt has {measured.used:,} tokens."
        assert said(session).endswith(f" were replaced by a summary. {now}")
        assert measured.used == (await session.projection()).used
        await run(session, "and now?")
        assert [type(message) for message in model.prompts[-1].messages] == [Summary, UserMessage]
        assert model.prompts[-1].tail.startswith(
            "Statements that the summary replaces, with handles as they are now:\n"
            "# statement 1\nnotes = view('notes.md', tokens=500)\n"
            "# statement 2, error: ZeroDivisionError: division by zero\n1 / 0\n"
        )
        await run(session, "/compact")
        assert events_of(session, Condensation)[-1].forgotten[0] == f"{condensation.event_id}-summary"
        assert "what are the notes about?" in (events_of(session, Condensation)[-1].summary or "")
        assert_whole(session)


async def test_nothing_to_compact_is_said_and_recorded(tmp_path: Path) -> None:
    async with opened(tmp_path, AnsweringModel(says("Yes."))) as session:
        assert await run(session, "/compact") == "end_turn"
        assert said(session) == "The conversation is too short to summarize."
        assert len(events_of(session, NoCutPossible)) == 1
        assert await run(session, "is it?") == "end_turn"


async def test_capable_model_writes_the_summary(tmp_path: Path) -> None:
    source = "print('word ' * 1_000)"
    model = AnsweringModel(runs(source), says("The words were counted.\nThere are 700."))
    async with opened(tmp_path, model) as session:
        await run(session, "count the words")
        await run(session, "/compact")
        (prompt,) = model.summary_prompts
        (shown,) = prompt.messages
        assert "[the user]\ncount the words" in message_text(shown)
        assert f"[you ran python]\n{source}" in message_text(shown)
        assert "left out, because the context is full" in message_text(shown), "of a long result"
        summary = events_of(session, Condensation)[0].summary
        assert summary == "Summary of the earlier conversation:\nThe words were counted.\nThere are 700."


async def test_long_summary_is_cut_to_its_newest_lines(tmp_path: Path) -> None:
    model = AnsweringModel(runs(LONG), says("\n".join(f"line {number}" for number in range(500))))
    async with opened(tmp_path, model) as session:
        await run(session, "count the words")
        await run(session, "/compact")
        lines = (events_of(session, Condensation)[0].summary or "").splitlines()
        assert lines[1] == f"... {500 - len(lines) + 2} earlier lines left out"
        assert lines[-1] == "line 499"
        assert 40 < len(lines) < 90


async def test_session_replaces_a_failed_summary_of_the_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Prompt) -> Sequence[ModelSignal]:
        raise ModelError("overloaded")

    async with opened(tmp_path, AnsweringModel(runs(LONG), fail)) as session:
        await run(session, "count the words")
        await run(session, "/compact")
        assert "The user asked: count the words" in (events_of(session, Condensation)[0].summary or "")
        assert "overloaded" in caplog.text


async def test_a_withdrawn_reply_is_not_in_the_summary(tmp_path: Path) -> None:
    def break_off(_: Prompt) -> Sequence[ModelSignal]:
        again = CallRetried(2, 5, 0.0, "it broke off", withdrawn=True)
        return [TextDelta("The words were cou"), again, TextDelta("The words were counted.")]

    async with opened(tmp_path, AnsweringModel(runs(LONG), break_off)) as session:
        await run(session, "count the words")
        await run(session, "/compact")
        summary = events_of(session, Condensation)[0].summary
        assert summary == "Summary of the earlier conversation:\nThe words were counted."


@pytest.mark.parametrize("cause", ["refusal", "length"])
async def test_session_replaces_an_incomplete_summary(tmp_path: Path, cause: Literal["refusal", "length"]) -> None:
    def refuse(_: Prompt) -> Sequence[ModelSignal]:
        return [TextDelta("I can't help with that."), ReplyEnded(cause)]

    async with opened(tmp_path, AnsweringModel(runs(LONG), refuse)) as session:
        await run(session, "count the words")
        await run(session, "/compact")
        summary = events_of(session, Condensation)[0].summary or ""
        assert "The user asked: count the words" in summary
        assert "help" not in summary


async def test_summary_calls_are_counted_and_their_retries_shown(tmp_path: Path) -> None:
    def answer(_: Prompt) -> Sequence[ModelSignal]:
        return [
            CallDelayed("loading"),
            CallRetried(2, 5, 0.0, "overloaded", withdrawn=True),
            TextDelta("The words were counted."),
            TokensUsed(1_000, 20, 300, 0.5),
        ]

    async with opened(tmp_path, AnsweringModel(runs(LONG), answer)) as session:
        await run(session, "count the words")
        subscription = session.subscribe()
        await run(session, "/compact")
        (ended,) = events_of(session, SummaryCallEnded)
        assert ended.answered
        spending = Spending()
        for event in session.events:
            spending.apply(event)
        assert spending.total == Spent(3, 1_000, 300, 20, 0.5, unpriced=2)
        await run(session, "/cost")
        assert "3 calls, 1,000 tokens read (300 from a cache), 20 written" in said(session)
    shown = [item async for batch in subscription.batches(0) for item in batch]
    (delayed,) = [item for item in shown if isinstance(item, ModelDelayed)]
    (retried,) = [item for item in shown if isinstance(item, ModelRetried)]
    assert (delayed.reason, retried.reason, retried.withdrawn) == ("loading", "overloaded", False)


async def test_failed_summary_call_is_counted(tmp_path: Path) -> None:
    def fail(_: Prompt) -> Sequence[ModelSignal]:
        raise ModelError("overloaded")

    async with opened(tmp_path, AnsweringModel(runs(LONG), fail)) as session:
        await run(session, "count the words")
        await run(session, "/compact")
        assert [ended.answered for ended in events_of(session, SummaryCallEnded)] == [False]


async def test_a_provider_that_takes_less_than_the_budget_gets_less(tmp_path: Path) -> None:
    sources = [f"{LONG} # {number}" for number in range(8)]

    def answer(prompt: Prompt) -> Sequence[ModelSignal]:
        if sum(len(message_text(message)) for message in prompt.messages) > 10_000:
            raise ContextTooLongError("too long", 3_000)
        return [StatementAsked(sources.pop(0), typed=True)] if sources else [TextDelta("Done.")]

    async with opened(tmp_path, AnsweringModel(answer), budget=100_000) as session:
        assert await run(session, "count the words") == "end_turn"
        assert said(session) == "Done."
        assert {request.reason for request in events_of(session, CondensationRequest)} <= {"refused", "budget"}
        assert events_of(session, CondensationRequest)[0].reason == "refused"
        assert events_of(session, Condensation)
        answered = [ended.answered for ended in events_of(session, ModelCallEnded)]
        assert (answered.count(True), False in answered) == (9, True)
        assert events_of(session, ProjectionSent)[-1].size == 3_000
        assert_whole(session)


async def test_provider_that_takes_nothing_ends_the_turn(tmp_path: Path) -> None:
    def refuse(_: Prompt) -> Sequence[ModelSignal]:
        raise ContextTooLongError("at most 10 tokens")

    model = AnsweringModel(refuse)
    async with opened(tmp_path, model) as session:
        assert await run(session, "hello") == "error"
        assert str(events_of(session, RunStop)[-1].detail).startswith(
            "at most 10 tokens. By Rewindow's count this request had "
        )
        assert len(model.prompts) <= 4


async def test_outputs_of_one_thinking_loop_are_shortened(tmp_path: Path) -> None:
    thought = [False]
    statements = runs(*[f"{LONG} # {number}" for number in range(12)])

    def answer(prompt: Prompt) -> Sequence[ModelSignal]:
        first, thought[0] = not thought[0], True
        return [*([ReasoningDelta("I think.", "signed")] if first else []), *statements(prompt)]

    model = AnsweringModel(answer)
    async with opened(tmp_path, model) as session:
        assert await run(session, "count the words") == "end_turn"
        assert all(usage.used <= usage.size for usage in events_of(session, ProjectionSent))
        assert not [event for event in events_of(session, Condensation) if event.forgotten]
        assert len(events_of(session, NoCutPossible)) == 1
        results = [message for message in model.prompts[-1].messages if isinstance(message, ToolResult)]
        assert len(results) == 12
        assert all("left out, because the context is full" in result.text for result in results)
        assert all("left out" not in result.text for result in events_of(session, ToolResult))
        # The loop is over, so now there are cuts.
        assert await run(session, "and again") == "end_turn"
        assert [event for event in events_of(session, Condensation) if event.forgotten]


async def test_cancelled_condensation_happens_in_the_next_turn(tmp_path: Path) -> None:
    asked = anyio.Event()

    class Slow(AnsweringModel):
        async def reply(self, prompt: Prompt):
            if not prompt.statements and not asked.is_set():
                asked.set()
                await anyio.sleep_forever()
            async for signal in super().reply(prompt):
                yield signal

    model = Slow(runs(*[LONG] * 8), says("All was said."))
    async with opened(tmp_path, model) as session:
        ticket = session.accept("count the words")
        await asked.wait()
        session.cancel()
        assert (await ticket.end()).cause == "cancelled"
        assert not events_of(session, Condensation)
        assert session.view.unhandled_condensation_request
        assert await run(session, "go on") == "end_turn"
        assert events_of(session, Condensation)[0].summary == "Summary of the earlier conversation:\nAll was said."
        assert not session.view.unhandled_condensation_request


async def test_foreign_log_is_repaired_once_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def stamped(seq: int, event: Event) -> Event:
        return replace(event, seq=Seq(seq), event_id=EventId(f"e{seq}"), at=1.0)

    a, b = ToolCallId("a"), ToolCallId("b")
    history = [
        SessionOpened(cwd=str(tmp_path)),
        UserMessage(message_id=MessageId("m"), text="go"),
        ToolCall(tool_call_id=a, tool="python", arguments={"source": "1"}),
        ToolResult(tool_call_id=a, status="ok", text="1"),
        ToolCall(tool_call_id=b, tool="python", arguments={"source": "2"}),
        ToolResult(tool_call_id=b, status="ok", text="2"),
        Condensation(forgotten=(EventId("e2"),), summary="s", summary_offset=2),
        ToolResult(tool_call_id=ToolCallId("of nothing"), status="ok", text="3"),
        RunStop(reason="completed", cause="end_turn"),
    ]
    store, name = MemoryStore(SystemClock()), SessionId("ses_a")
    store.add(
        SessionRow(session_id=name, cwd=str(tmp_path), created_at=1.0, updated_at=1.0),
        [stamped(seq, event) for seq, event in enumerate(history)],
    )
    model = AnsweringModel(says("Yes."))
    async with sessions_of(tmp_path, store, model=model, settings={"context_budget": BUDGET}) as sessions:
        session = await sessions.load(name)
        enforced = events_of(session, ViewEnforced)
        assert [event.property_name for event in enforced]
        assert caplog.text.count("were left out of the View") == 1
        assert session.view.ready() == session.view.events
        length = len(session.events)
        await sessions.close(name)
        session = await sessions.load(name)
        assert len(session.events) == length
        assert caplog.text.count("were left out of the View") == 1
        assert await run(session, "is it?") == "end_turn"
        kept = [message_text(message) for message in model.prompts[-1].messages]
        assert kept == ["go", "s", "2", "2", "is it?"]
