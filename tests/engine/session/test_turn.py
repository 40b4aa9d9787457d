"""The turn, driven by outcomes: its rules one by one, its table as a whole, and every driver that keeps its side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.ids import ToolCallId
from engine.session.turn import (
    TRANSITIONS,
    Abort,
    Aborted,
    Action,
    Answered,
    AskPermission,
    Begin,
    CallModel,
    Cancel,
    Condense,
    Condensed,
    ContextFull,
    Dismissed,
    Effect,
    Failed,
    Outcome,
    Ran,
    Replied,
    RunStatement,
    RunTick,
    State,
    Steered,
    Stop,
    Ticked,
    Turn,
    WantedStatement,
)

C = ToolCallId("c")
RUNS = Replied(WantedStatement("x = 1", C))
ASKS = Replied(WantedStatement("y = 2", C, ask=True))
REPLIES: tuple[Outcome, ...] = (
    Replied(),
    Replied(refused=True),
    RUNS,
    ASKS,
    Replied(cause="length"),
    Replied(cause="refusal"),
)
OUTCOMES: tuple[Outcome, ...] = (
    Begin(),
    Ticked(),
    *REPLIES,
    ContextFull(),
    ContextFull(refused=True),
    Condensed(),
    Answered(True),
    Answered(False),
    Dismissed(),
    Steered(),
    Ran(),
    Failed("broken"),
    Aborted(),
    Cancel(),
)
OPENINGS = ("a = view('a')", "b = view('b')")


def drive(turn: Turn, *outcomes: Outcome) -> list[object]:
    return [turn.feed(outcome) for outcome in outcomes]


def test_statement_is_followed_by_a_tick_and_a_call() -> None:
    turn = Turn(max_rounds=9)
    effects = drive(turn, Begin(), Ticked(), RUNS, Ran(), Ticked(), Replied())
    assert effects == [
        RunTick(0),
        CallModel(0),
        RunStatement("x = 1", 0, C),
        RunTick(1),
        CallModel(1),
        Stop("end_turn"),
    ]


def test_full_context_is_condensed_a_bounded_number_of_times() -> None:
    turn = Turn(9)
    effects = drive(turn, Begin(), Ticked(), ContextFull(), Condensed())
    assert effects == [RunTick(0), CallModel(0), Condense("budget"), CallModel(0)]
    effects = drive(turn, ContextFull(), Condensed(), ContextFull(), Condensed(), RUNS)
    assert effects[-2:] == [CallModel(0, may_condense=False), RunStatement("x = 1", 0, C)]
    assert drive(turn, Ran(), Ticked())[-1] == CallModel(1)


def test_a_condensation_says_whether_the_provider_refused_the_call() -> None:
    turn = Turn(9)
    effects = drive(turn, Begin(), Ticked(), ContextFull(refused=True), Condensed(), ContextFull(), Condensed())
    assert [effect for effect in effects if isinstance(effect, Condense)] == [Condense("refused"), Condense("budget")]


def test_a_call_with_what_fits_cannot_find_the_context_full() -> None:
    turn = Turn(9)
    drive(turn, Begin(), Ticked(), *[ContextFull(), Condensed()] * 3)
    with pytest.raises(ValueError, match="ContextFull cannot happen while calling"):
        turn.feed(ContextFull())


def test_a_cancel_while_condensing_ends_the_turn_as_cancelled() -> None:
    turn = Turn(9)
    drive(turn, Begin(), Ticked(), ContextFull())
    assert drive(turn, Cancel(), Condensed()) == [Abort(), Stop("cancelled")]


def test_openings_precede_the_first_tick_without_a_call() -> None:
    turn = Turn(9, OPENINGS)
    effects = drive(turn, Begin(), Ran(), Ran(), Ticked())
    assert effects == [
        RunStatement("a = view('a')", 0, approved=True),
        RunStatement("b = view('b')", 0, approved=True),
        RunTick(0),
        CallModel(0),
    ]


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (Replied(), "end_turn"),
        (Replied(cause="length"), "max_tokens"),
        (Replied(cause="refusal"), "refusal"),
        (Failed("no route"), "error"),
    ],
)
def test_reply_without_a_statement_ends_the_turn(reply: Outcome, cause: str) -> None:
    turn = Turn(9)
    drive(turn, Begin(), Ticked())
    stop = turn.feed(reply)
    assert isinstance(stop, Stop)
    assert stop.cause == cause


def test_allowed_statement_runs() -> None:
    turn = Turn(9)
    effects = drive(turn, Begin(), Ticked(), ASKS, Answered(True), Ran())
    assert effects[2:] == [AskPermission("y = 2", C), RunStatement("y = 2", 0, C, approved=True), RunTick(1)]


def test_rejected_statement_does_not_run_and_the_turn_continues() -> None:
    turn = Turn(9)
    effects = drive(turn, Begin(), Ticked(), ASKS, Answered(False), Ticked())
    assert effects[3:] == [RunTick(1), CallModel(1)]


def test_dismissed_question_cancels_the_turn() -> None:
    turn = Turn(9)
    assert drive(turn, Begin(), Ticked(), ASKS, Dismissed())[3:] == [Stop("cancelled")]


@pytest.mark.parametrize(
    ("before", "follows"),
    [
        ((), False),
        ((Ticked(),), True),
        ((Ticked(), RUNS), False),
        ((Ticked(), ASKS), False),
        ((Ticked(), ContextFull()), False),
    ],
)
def test_steer_gets_its_own_call_only_if_one_was_running(before: tuple[Outcome, ...], follows: bool) -> None:
    turn = Turn(9)
    drive(turn, Begin(), *before)
    assert turn.feed(Steered()) is None
    own = {State.TICKING: Ticked(), State.RUNNING: Ran(), State.ASKING: Answered(True), State.CONDENSING: Condensed()}
    while turn.state is not State.CALLING:
        turn.feed(own[turn.state])
    assert turn.feed(Replied()) == (RunTick(1) if follows else Stop("end_turn"))


def test_steer_is_read_by_the_call_after_condensing() -> None:
    turn = Turn(9)
    drive(turn, Begin(), Ticked(), Steered(), ContextFull(refused=True), Condensed())
    assert turn.feed(Replied()) == Stop("end_turn")


def test_last_round_ends_after_its_statement_and_tick() -> None:
    turn = Turn(max_rounds=1)
    effects = drive(turn, Begin(), Ticked(), RUNS, Ran(), Ticked())
    assert effects[-2:] == [RunTick(1), Stop("max_turn_requests")]


def test_a_cancel_before_the_turn_began_stops_it() -> None:
    assert Turn(9).feed(Cancel()) == Stop("cancelled")


def test_impossible_outcome_is_an_error_and_changes_nothing() -> None:
    turn = Turn(9)
    with pytest.raises(ValueError, match="Ran cannot happen while idle"):
        turn.feed(Ran())
    assert turn.feed(Begin()) == RunTick(0)


# --- the table as a whole ---------------------------------------------------------------------------------------------


def test_turn_stops_for_its_transitions_cause_or_failure() -> None:
    for (state, _), transition in TRANSITIONS.items():
        stops = state is not State.STOPPED and transition.then is State.STOPPED
        assert stops == (transition.action in (Action.STOP, Action.FAIL))
        assert (transition.cause is not None) == (transition.action is Action.STOP)


def ends_of(effect: Effect) -> tuple[Outcome, ...]:
    """The outcomes that a driver may have for an effect: its whole side of the contract."""
    match effect:
        case RunTick():
            own: tuple[Outcome, ...] = (Ticked(),)
        case CallModel(may_condense=may_condense):
            own = (*REPLIES, *((ContextFull(), ContextFull(refused=True)) if may_condense else ()))
        case Condense():
            own = (Condensed(),)
        case AskPermission():
            own = (Answered(True), Answered(False), Dismissed())
        case RunStatement():
            own = (Ran(),)
        case Abort() | Stop():
            own = ()
    return (*own, Failed("broken"))


@given(st.data(), st.integers(0, 3), st.sampled_from([(), OPENINGS]))
def test_driver_with_valid_outcomes_reaches_exactly_one_stop(
    data: st.DataObject, max_rounds: int, openings: tuple[str, ...]
) -> None:
    turn = Turn(max_rounds, openings)
    under_way, cancelled, calls, effects = turn.feed(Begin()), False, 0, 0
    while not isinstance(under_way, Stop):
        assert under_way is not None
        calls += isinstance(under_way, CallModel) and under_way.may_condense
        effects += 1
        outcome: Outcome | None = None
        while outcome is None or isinstance(outcome, (Steered, Cancel)):
            ends = (*ends_of(under_way), Aborted()) if cancelled else ends_of(under_way)
            outcome = data.draw(st.sampled_from([*ends, Steered(), Cancel()]), "outcome")
            if isinstance(outcome, Steered):
                assert turn.feed(outcome) is None
            elif isinstance(outcome, Cancel):
                assert turn.feed(outcome) == (None if cancelled else Abort())
                cancelled = True
        under_way = turn.feed(outcome)
    assert not cancelled or under_way == Stop("cancelled")
    assert calls <= max_rounds * 3
    assert effects <= len(openings) + 1 + max_rounds * 10
    assert turn.state is State.STOPPED
    assert all(turn.feed(late) is None for late in OUTCOMES)
