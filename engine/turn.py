"""One prompt's work as a state machine without input or output: which effect comes next, and when to stop.

The driver performs one effect at a time and feeds its outcome back; `Cancel` may come at any moment. All rules are rows
of TRANSITIONS, so that cancellation and ordering are tested as plain functions. Must never call out. The row that is
easy to forget is the outcome that arrives after a cancel: it ends the turn as cancelled, whatever it was.

    IDLE --Begin--> [RUNNING openings] -> TICKING -> CALLING -> RUNNING -> TICKING -> CALLING ... -> STOPPED

A tick precedes every model call, so that a projection never shows a file as it was before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from .events.conversation import StopCause


class State(Enum):
    IDLE = "idle"
    TICKING = "ticking"
    CALLING = "calling"
    RUNNING = "running"
    CANCELLING = "cancelling"
    STOPPED = "stopped"


# --- what is fed in ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begin:
    """The prompt's turn has come. `openings` are statements that open what it had attached."""

    openings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ticked:
    """The tick is done."""


@dataclass(frozen=True, slots=True)
class Replied:
    """The model's reply is complete; `statement` is the cell it wants run, if any."""

    statement: str | None = None
    tool_call_id: str | None = None
    cause: Literal["end", "length", "refusal"] = "end"


@dataclass(frozen=True, slots=True)
class Ran:
    """The statement ended, in whatever way."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The effect could not be performed; `detail` is for the user."""

    detail: str


@dataclass(frozen=True, slots=True)
class Aborted:
    """The effect was given up because of an `Abort`."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The user wants the turn to end now."""


Outcome = Begin | Ticked | Replied | Ran | Failed | Aborted | Cancel


# --- what comes out ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallModel:
    round_id: int


@dataclass(frozen=True, slots=True)
class RunStatement:
    """Run one cell. `tool_call_id` is None for an opening, which no model asked for."""

    source: str
    round_id: int
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class RunTick:
    round_id: int


@dataclass(frozen=True, slots=True)
class Abort:
    """Give up the effect that is being performed, at once; its outcome is still to be fed in."""


@dataclass(frozen=True, slots=True)
class Stop:
    cause: StopCause
    detail: str | None = None


Effect = CallModel | RunStatement | RunTick | Abort | Stop


class Turn:
    """The machine. `feed` takes an outcome and returns the next effect, or None where there is nothing to do.

    Args:
        first_round: the number of the turn's first Round; Rounds count through the whole session.
        max_rounds: after so many model calls the turn stops with `max_turn_requests`.
    """

    def __init__(self, first_round: int, max_rounds: int) -> None:
        self.state = State.IDLE
        self.round_id = first_round
        self._rounds_left = max_rounds
        self._openings: list[str] = []

    def feed(self, outcome: Outcome) -> Effect | None:
        """The effect that `outcome` leads to.

        Raises:
            ValueError: the outcome cannot happen in this state; the driver is wrong.
        """
        row = TRANSITIONS.get((self.state, type(outcome)))
        if row is None:
            raise ValueError(f"{type(outcome).__name__} cannot happen while {self.state.value}")
        return row(self, outcome)

    def _stop(self, cause: StopCause, detail: str | None = None) -> Stop:
        self.state = State.STOPPED
        return Stop(cause, detail)

    def _begin(self, outcome: Outcome) -> Effect:
        assert isinstance(outcome, Begin)
        self._openings = list(outcome.openings)
        return self._open_next()

    def _open_next(self) -> Effect:
        if self._openings:
            self.state = State.RUNNING
            return RunStatement(self._openings.pop(0), self.round_id)
        self.state = State.TICKING
        return RunTick(self.round_id)

    def _ran(self, _: Outcome) -> Effect:
        return self._open_next()

    def _ticked(self, _: Outcome) -> Effect:
        if self._rounds_left == 0:
            return self._stop("max_turn_requests")
        self._rounds_left -= 1
        self.state = State.CALLING
        return CallModel(self.round_id)

    def _replied(self, outcome: Outcome) -> Effect:
        assert isinstance(outcome, Replied)
        self.round_id += 1
        if outcome.cause == "refusal":
            return self._stop("refusal")
        if outcome.cause == "length":
            return self._stop("max_tokens")
        if outcome.statement is None:
            return self._stop("end_turn")
        self.state = State.RUNNING
        return RunStatement(outcome.statement, self.round_id - 1, outcome.tool_call_id)

    def _failed(self, outcome: Outcome) -> Effect:
        assert isinstance(outcome, Failed)
        return self._stop("error", outcome.detail)

    def _cancel(self, _: Outcome) -> Effect:
        self.state = State.CANCELLING
        return Abort()

    def _cancel_before_begin(self, _: Outcome) -> Effect:
        return self._stop("cancelled")

    def _cancelled(self, _: Outcome) -> Effect:
        return self._stop("cancelled")

    def _ignore(self, _: Outcome) -> None:
        return None


Row = Callable[[Turn, Outcome], Effect | None]
# The table reads the machine's own rows, which nobody else may call.
# pyright: reportPrivateUsage=false
TRANSITIONS: Final[dict[tuple[State, type], Row]] = {
    (State.IDLE, Begin): Turn._begin,
    (State.IDLE, Cancel): Turn._cancel_before_begin,
    (State.TICKING, Ticked): Turn._ticked,
    (State.TICKING, Failed): Turn._failed,
    (State.TICKING, Cancel): Turn._cancel,
    (State.CALLING, Replied): Turn._replied,
    (State.CALLING, Failed): Turn._failed,
    (State.CALLING, Cancel): Turn._cancel,
    (State.RUNNING, Ran): Turn._ran,
    (State.RUNNING, Failed): Turn._failed,
    (State.RUNNING, Cancel): Turn._cancel,
    (State.CANCELLING, Ticked): Turn._cancelled,
    (State.CANCELLING, Replied): Turn._cancelled,
    (State.CANCELLING, Ran): Turn._cancelled,
    (State.CANCELLING, Failed): Turn._cancelled,
    (State.CANCELLING, Aborted): Turn._cancelled,
    (State.CANCELLING, Cancel): Turn._ignore,
    (State.STOPPED, Begin): Turn._ignore,
    (State.STOPPED, Ticked): Turn._ignore,
    (State.STOPPED, Replied): Turn._ignore,
    (State.STOPPED, Ran): Turn._ignore,
    (State.STOPPED, Failed): Turn._ignore,
    (State.STOPPED, Aborted): Turn._ignore,
    (State.STOPPED, Cancel): Turn._ignore,
}
