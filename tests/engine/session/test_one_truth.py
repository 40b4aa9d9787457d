"""The log is the only truth: no public route changes it without the View, nor the View without it."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from engine.context.model import Model, Prompt, StatementAsked, TextDelta
from engine.context.view import ViewFold, Window
from engine.core.clock import SystemClock
from engine.core.errors import InvalidEventError, SessionReadOnlyError
from engine.core.ids import EventId, MessageId, SessionId, ToolCallId
from engine.log.branches import branches_of, path_of
from engine.log.cycles import cycles_of
from engine.log.event_log import EventLog
from engine.log.events import UNSTAMPED, Event
from engine.log.events.conversation import Condensation, ToolCall, ToolResult, UserMessage
from engine.log.store.memory import MemoryStore
from engine.session.registry import Sessions
from engine.session.session import Session
from tests.support.fixed import FixedClock
from tests.support.models import AnsweringModel
from tests.support.sessions import sessions_of

SECONDS = 60.0
EVERY_KIND = 2
"""The seed of a session in which there are summaries, and results that are rendered anew."""
MESSAGE = UserMessage(message_id=MessageId("m"), text="hello")
CALL = ToolCall(tool_call_id=ToolCallId("a"), tool="python")
RESULT = ToolResult(tool_call_id=ToolCallId("a"), status="ok", text="")


def rebuilt(events: tuple[Event, ...]) -> ViewFold:
    fold = ViewFold()
    for event in events:
        fold.apply(event)
    return fold


def assert_one(events: Sequence[Event], view: Window, stored: tuple[Event, ...]) -> None:
    """Log, store and View say the same, in every reading of the View, and each branch is in order, active or not."""
    branches = branches_of(events)
    for branch in branches.all:
        assert not cycles_of(branches.path(events, branch.name)).anomalies, branch
    again = rebuilt(tuple(path_of(events))).view
    assert stored == tuple(events)
    for reading in ("events", "indices", "batches", "tool_loop_ranges", "unhandled_condensation_request"):
        assert getattr(view, reading) == getattr(again, reading)
    assert view.ready(open_run=True) == again.ready(open_run=True)


@pytest.mark.parametrize(
    "refused",
    [
        CALL,
        RESULT,
        ToolResult(tool_call_id=ToolCallId("unknown"), status="ok", text=""),
        Condensation(forgotten=(EventId("e1"),)),
        Condensation(forgotten=(EventId("unknown"),)),
        Condensation(forgotten=(), summary="s", summary_offset=9),
    ],
    ids=lambda event: f"{event.kind}",
)
def test_what_the_log_refuses_changes_neither(refused: Event) -> None:
    fold, written = ViewFold(), list[Event]()
    log = EventLog(FixedClock(), written.append, folds=[fold.apply], check=fold.refusal)
    for event in (MESSAGE, CALL, RESULT):
        log.append(event)
    with pytest.raises(InvalidEventError):
        log.append(refused)
    with pytest.raises(InvalidEventError):
        log.append(log.events[0])
    assert len(log) == len(written) == 3
    assert_one(log.events, fold.view, tuple(written))


def test_what_cannot_be_written_changes_neither() -> None:
    def full(event: Event) -> None:
        raise SessionReadOnlyError(SessionId("s"), "the disk is full")

    fold = ViewFold()
    log = EventLog(FixedClock(), full, folds=[fold.apply], check=fold.refusal)
    with pytest.raises(SessionReadOnlyError):
        log.append(MESSAGE)
    assert (len(log), len(fold.view)) == (0, 0)


def test_what_the_log_hands_out_is_no_way_in() -> None:
    fold = ViewFold()
    log = EventLog(FixedClock(), lambda _: None, folds=[fold.apply], check=fold.refusal)
    log.append(MESSAGE)
    for handed_out in (
        log.events,
        log.since(0),
        log.open_calls,
        fold.view.events,
        fold.view.since(0),
        fold.view.indices,
    ):
        assert isinstance(handed_out, Sequence)
        assert not isinstance(handed_out, MutableSequence)
    with pytest.raises(AttributeError):
        log.events[0].text = "changed"
    assert {name for name in dir(Window) if not name.startswith("_")} == {
        "action_tool_call_ids",
        "batch_ranges",
        "batches",
        "enforced",
        "events",
        "find_next",
        "generation",
        "indices",
        "manipulation_indices",
        "observation_tool_call_ids",
        "ready",
        "rule",
        "since",
        "tool_loop_ranges",
        "unhandled_condensation_request",
    }


def test_the_log_does_not_take_what_the_view_was_told_behind_its_back() -> None:
    """A fold that is fed by somebody else is found out at the next append: positions do not follow."""
    fold = ViewFold()
    log = EventLog(FixedClock(), lambda _: None, folds=[fold.apply], check=fold.refusal)
    log.append(MESSAGE)
    with pytest.raises(InvalidEventError, match="does not follow"):
        fold.apply(log.events[0])
    with pytest.raises(InvalidEventError, match="does not follow"):
        fold.apply(replace(MESSAGE, seq=UNSTAMPED))
    assert_one(log.events, fold.view, tuple(log.events))


@pytest.mark.anyio
@pytest.mark.parametrize(
    "seed", [EVERY_KIND, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20) if seed != EVERY_KIND)]
)
async def test_whatever_is_done_with_a_session_its_log_view_and_store_stay_one(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)

    def answer(prompt: Prompt) -> list[StatementAsked | TextDelta]:
        sources = (
            *("x = 1", "1 / 0", "print('word ' * 300)", "read('nowhere')", "import time; time.sleep(0.01)"),
            *("a = view(text='word\\n' * 200, tokens=300)", "a.SetTokens(9)", "show(a.SetLod(0).SetTokens(200))"),
        )
        return [
            TextDelta("So."),
            *([StatementAsked(chance.choice(sources), typed=True)] if chance.random() < 0.7 else []),
        ]

    model: Model = AnsweringModel(answer)
    store = MemoryStore(SystemClock())
    settings: dict[str, object] = {"context_budget": 4_000, "max_rounds": 6}
    async with sessions_of(tmp_path, store, model=model, settings=settings) as sessions:
        session = await sessions.create(str(tmp_path))
        for _ in range(25):
            session = await _act(sessions, session, chance)
            await session.durable(session.events[-1].seq)
            assert_one(session.events, session.view, tuple(store.load(session.session_id)))
        kinds = {event.kind for event in session.events}
        assert {"tool_call", "user_message", "run_stop", "head_moved"} <= kinds
        assert seed != EVERY_KIND or {"condensation", "result_rerendered"} <= kinds
        for branch in session.branches:
            if not branch.is_active:
                await session.switch(branch.name)
            assert_one(session.events, session.view, tuple(store.load(session.session_id)))


async def _act(sessions: Sessions, session: Session, chance: Random) -> Session:
    """Does one thing that an adapter can do, to its end."""
    match chance.randrange(8):
        case 0:
            await session.accept("/compact").end()
        case 1:
            tickets = [session.accept(text) for text in ("go", "/context", "then")]
            session.cancel(chance.choice([None, *tickets]))
            for ticket in tickets:
                await ticket.end()
        case 2:
            tickets = [session.accept("go"), session.accept("and more", wanted="steer")]
            for ticket in tickets:
                await ticket.end()
        case 3:
            session.set_mode(chance.choice(["ask", "auto", "plan"]))
            session.set_option("while_running", chance.choice(["queue", "steer"]))
        case 4:
            await sessions.close(session.session_id)
            return await sessions.load(session.session_id)
        case 5 | 6:
            await _move(session, chance)
        case _:
            await session.accept("go").end()
    return session


async def _move(session: Session, chance: Random) -> None:
    """Goes back, or to another branch between two prompts that wait."""
    others = [row.name for row in session.branches if not row.is_active]
    if not others or chance.random() < 0.5:
        await session.rewind(chance.randint(0, len(session.cells)))
        return
    tickets = [session.accept(text) for text in ("go", f"/branch {chance.choice(others)}", "then")]
    for ticket in tickets:
        await ticket.end()
