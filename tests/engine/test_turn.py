"""The turn's table, row by row and as a whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.turn import (
    TRANSITIONS,
    Abort,
    Aborted,
    Answered,
    AskPermission,
    Begin,
    CallModel,
    Cancel,
    Condense,
    Condensed,
    ContextFull,
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
)

OUTCOMES: tuple[Outcome, ...] = (
    Begin(),
    Begin(("a = view('a')", "b = view('b')")),
    Ticked(),
    Replied(),
    Replied("x = 1", "call_1"),
    Replied("y = 2", "call_2", ask=True),
    Replied(cause="length"),
    Replied(cause="refusal"),
    ContextFull(),
    Condensed(),
    Answered(True),
    Answered(False),
    Steered(),
    Ran(),
    Failed("broken"),
    Aborted(),
    Cancel(),
)


def drive(turn: Turn, *outcomes: Outcome) -> list[object]:
    return [turn.feed(outcome) for outcome in outcomes]


def test_a_statement_is_followed_by_a_tick_and_the_next_model_call() -> None:
    turn = Turn(first_round=7, max_rounds=9)
    effects = drive(turn, Begin(), Ticked(), Replied("x = 1", "call_1"), Ran(), Ticked(), Replied())
    assert effects == [
        RunTick(7),
        CallModel(7),
        RunStatement("x = 1", 7, "call_1"),
        RunTick(8),
        CallModel(8),
        Stop("end_turn"),
    ]


def test_a_full_context_is_condensed_and_the_model_called_again_a_bounded_number_of_times() -> None:
    turn = Turn(2, 9)
    effects = drive(turn, Begin(), Ticked(), ContextFull(), Condensed())
    assert effects == [RunTick(2), CallModel(2), Condense(), CallModel(2)]
    effects = drive(turn, ContextFull(), Condensed(), ContextFull(), Condensed(), Replied("x = 1", "call_1"))
    assert effects[-2:] == [CallModel(2, may_condense=False), RunStatement("x = 1", 2, "call_1")]
    assert drive(turn, Ran(), Ticked())[-1] == CallModel(3)


def test_a_cancel_while_condensing_ends_the_turn_as_cancelled() -> None:
    turn = Turn(0, 9)
    drive(turn, Begin(), Ticked(), ContextFull())
    assert drive(turn, Cancel(), Condensed()) == [Abort(), Stop("cancelled")]


def test_openings_run_before_the_first_tick_and_belong_to_no_call() -> None:
    turn = Turn(0, 9)
    effects = drive(turn, Begin(("a = view('a')", "b = view('b')")), Ran(), Ran())
    assert effects == [RunStatement("a = view('a')", 0), RunStatement("b = view('b')", 0), RunTick(0)]


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (Replied(), "end_turn"),
        (Replied(cause="length"), "max_tokens"),
        (Replied(cause="refusal"), "refusal"),
        (Failed("no route"), "error"),
    ],
)
def test_a_reply_without_a_statement_ends_the_turn_for_its_own_reason(reply: Outcome, cause: str) -> None:
    turn = Turn(0, 9)
    drive(turn, Begin(), Ticked())
    stop = turn.feed(reply)
    assert isinstance(stop, Stop)
    assert stop.cause == cause


def test_a_statement_that_has_to_be_asked_runs_when_it_is_allowed() -> None:
    turn = Turn(0, 9)
    effects = drive(turn, Begin(), Ticked(), Replied("x", "c", ask=True), Answered(True), Ran())
    assert effects[2:] == [AskPermission("x", "c"), RunStatement("x", 0, "c"), RunTick(1)]


def test_a_statement_that_is_rejected_does_not_run_and_the_model_is_told() -> None:
    turn = Turn(0, 9)
    effects = drive(turn, Begin(), Ticked(), Replied("x", "c", ask=True), Answered(False), Ticked())
    assert effects[3:] == [RunTick(1), CallModel(1)]


@pytest.mark.parametrize("before", [(), (Ticked(),), (Ticked(), Replied("x", "c"))])
def test_a_steer_gets_a_model_call_even_if_the_turn_would_have_ended(before: tuple[Outcome, ...]) -> None:
    turn = Turn(0, 9)
    drive(turn, Begin(), *before)
    assert turn.feed(Steered()) is None
    while turn.state is not State.CALLING:
        turn.feed(Ran() if turn.state is State.RUNNING else Ticked())
    after = turn.feed(Replied())
    assert after == (RunTick(1) if before == (Ticked(),) else Stop("end_turn"))


def test_the_last_round_ends_with_max_turn_requests_after_its_statement_and_tick() -> None:
    turn = Turn(0, max_rounds=1)
    effects = drive(turn, Begin(), Ticked(), Replied("x = 1", "c"), Ran(), Ticked())
    assert effects[-2:] == [RunTick(1), Stop("max_turn_requests")]


@pytest.mark.parametrize(
    "before",
    [
        (Begin(),),
        (Begin(), Ticked()),
        (Begin(), Ticked(), Replied("x", "c")),
        (Begin(), Ticked(), Replied("x", "c", ask=True)),
    ],
)
@pytest.mark.parametrize(
    "late", [Ticked(), Replied(), Replied("y", "c2"), Answered(True), Ran(), Failed("x"), Aborted()]
)
def test_whatever_arrives_after_a_cancel_ends_the_turn_as_cancelled(before: tuple[Outcome, ...], late: Outcome) -> None:
    turn = Turn(0, 9)
    drive(turn, *before)
    assert turn.feed(Cancel()) == Abort()
    assert turn.feed(Cancel()) is None
    assert turn.feed(late) == Stop("cancelled")


def test_a_cancel_before_the_turn_began_stops_it() -> None:
    assert Turn(0, 9).feed(Cancel()) == Stop("cancelled")


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_stopped_turn_ignores_everything(outcome: Outcome) -> None:
    turn = Turn(0, 9)
    turn.feed(Cancel())
    assert turn.feed(outcome) is None
    assert turn.state is State.STOPPED


def test_an_outcome_that_cannot_happen_is_the_drivers_mistake() -> None:
    with pytest.raises(ValueError, match="Ran cannot happen while idle"):
        Turn(0, 9).feed(Ran())


def test_every_state_says_what_a_cancel_does() -> None:
    assert all((state, Cancel) in TRANSITIONS for state in State)


@given(st.lists(st.sampled_from(OUTCOMES), max_size=40))
def test_any_possible_sequence_stops_once_and_never_after_a_cancel_with_anything_else(outcomes: list[Outcome]) -> None:
    turn, stops, cancelled = Turn(0, 3), [], False
    for outcome in outcomes:
        if (turn.state, type(outcome)) not in TRANSITIONS:
            continue
        cancelled = cancelled or (isinstance(outcome, Cancel) and turn.state is not State.STOPPED)
        effect = turn.feed(outcome)
        if isinstance(effect, Stop):
            stops.append(effect)
    assert len(stops) <= 1
    assert not (cancelled and stops) or stops[0].cause == "cancelled"
