"""One turn: what it remembers, how that refines an outcome into an input, and how the machine's actions are done.

Must not know why one effect follows another (`machine`). Driven by `session.agent_loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from .effects import Abort, AskPermission, CallModel, Condense, Effect, RunStatement, RunTick, Stop
from .machine import TRANSITIONS, Action, Input, State
from .outcomes import (
    Aborted,
    Answered,
    Begin,
    Cancel,
    Condensed,
    ContextFull,
    Dismissed,
    Failed,
    Outcome,
    Ran,
    Replied,
    Steered,
    Ticked,
)

MAX_CONDENSATIONS: Final = 3
"""In one Round; after so many the model is called with what fits."""


class Turn:
    """The machine. `feed` takes an outcome and returns the next effect, or None where there is nothing to do.

    Args:
        max_rounds: after so many model calls the turn stops with `max_turn_requests`.
        openings: statements that open what the prompt had attached; they run before the first tick.
    """

    def __init__(self, max_rounds: int, openings: Sequence[str] = ()) -> None:
        self.state = State.IDLE
        self._round = 0
        self._max_rounds = max_rounds
        self._calls = 0
        self._openings = list(openings)
        self._condensations_left = MAX_CONDENSATIONS
        self._is_steered = False
        self._asked: RunStatement | None = None

    def feed(self, outcome: Outcome) -> Effect | None:
        """The effect that `outcome` leads to.

        Raises:
            ValueError: the outcome cannot happen in this state; the driver is wrong. Nothing has changed.
        """
        transition = TRANSITIONS.get((self.state, self._seen_as(outcome)))
        if transition is None:
            raise ValueError(f"{type(outcome).__name__} cannot happen while {self.state.value}")
        self.state = transition.then
        if transition.cause is not None:
            return Stop(transition.cause)
        return _ACTIONS[transition.action](self, outcome)

    def _seen_as(self, outcome: Outcome) -> Input:
        match outcome:
            case Begin():
                return Input.BEGIN_OPENING if self._openings else Input.BEGIN
            case Ticked():
                return Input.TICKED if self._calls < self._max_rounds else Input.TICKED_LAST
            case ContextFull():
                return Input.FULL if self._condensations_left else Input.FULL_AGAIN
            case Replied(wanted=wanted, cause="end"):
                if wanted is not None:
                    return Input.REPLY_ASKS if wanted.ask else Input.REPLY_RUNS
                return Input.REPLY_STEERED if self._is_steered else Input.REPLY_ENDS
            case Replied(cause=cause):
                return Input.REPLY_CUT if cause == "length" else Input.REPLY_REFUSED
            case Answered(allowed=allowed):
                return Input.ALLOWED if allowed else Input.REJECTED
            case Ran():
                return Input.RAN_OPENING if self._openings else Input.RAN
            case Condensed() | Dismissed() | Steered() | Failed() | Aborted() | Cancel():
                return _SAME_IN_ALL_TURNS[type(outcome)]

    def _run_opening(self, _: Outcome) -> Effect:
        return RunStatement(self._openings.pop(0), self._round, approved=True)

    def _tick(self, _: Outcome) -> Effect:
        self._round = self._calls
        return RunTick(self._round)

    def _call(self, outcome: Outcome) -> Effect:
        self._calls += 1
        self._condensations_left = MAX_CONDENSATIONS
        return self._call_again(outcome)

    def _call_again(self, _: Outcome) -> Effect:
        self._is_steered = False
        return CallModel(self._round, may_condense=self._condensations_left > 0)

    def _condense(self, outcome: Outcome) -> Effect:
        assert isinstance(outcome, ContextFull)
        self._condensations_left -= 1
        return Condense("refused" if outcome.refused else "budget")

    def _ask(self, outcome: Outcome) -> Effect:
        self._asked = self._run(outcome)
        assert self._asked.tool_call_id is not None
        return AskPermission(self._asked.source, self._asked.tool_call_id)

    def _run(self, outcome: Outcome) -> RunStatement:
        assert isinstance(outcome, Replied)
        assert outcome.wanted is not None
        wanted = outcome.wanted
        return RunStatement(wanted.source, self._round, wanted.tool_call_id, wanted.approved)

    def _run_asked(self, _: Outcome) -> Effect:
        assert self._asked is not None
        return replace(self._asked, approved=True)

    def _note_steer(self, _: Outcome) -> None:
        self._is_steered = True

    def _fail(self, outcome: Outcome) -> Effect:
        assert isinstance(outcome, Failed)
        return Stop("error", outcome.detail, outcome.unusable)

    def _abort(self, _: Outcome) -> Effect:
        return Abort()

    def _ignore(self, _: Outcome) -> None:
        return None


_SAME_IN_ALL_TURNS: Final[dict[type[Outcome], Input]] = {
    Condensed: Input.CONDENSED,
    Dismissed: Input.DISMISSED,
    Steered: Input.STEERED,
    Failed: Input.FAILED,
    Aborted: Input.ABORTED,
    Cancel: Input.CANCEL,
}
# The table reads the machine's own methods, which nobody else may call.
# pyright: reportPrivateUsage=false
_ACTIONS: Final[dict[Action, Callable[[Turn, Outcome], Effect | None]]] = {
    Action.RUN_OPENING: Turn._run_opening,
    Action.TICK: Turn._tick,
    Action.CALL: Turn._call,
    Action.CALL_AGAIN: Turn._call_again,
    Action.CONDENSE: Turn._condense,
    Action.ASK: Turn._ask,
    Action.RUN: Turn._run,
    Action.RUN_ASKED: Turn._run_asked,
    Action.NOTE_STEER: Turn._note_steer,
    Action.FAIL: Turn._fail,
    Action.ABORT: Turn._abort,
    Action.IGNORE: Turn._ignore,
}
