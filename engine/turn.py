"""One prompt's work as a state machine without input or output: which effect comes next, and when to stop.

The driver performs one effect at a time and feeds its outcome back; `Cancel` may come at any moment. All rules are rows
of TRANSITIONS, so that cancellation and ordering are tested as plain functions. Must never call out. The row that is
easy to forget is the outcome that arrives after a cancel: it ends the turn as cancelled, whatever it was.

    IDLE --Begin--> [RUNNING openings] -> TICKING -> CALLING -> [ASKING] -> RUNNING -> TICKING -> CALLING ... -> STOPPED

A tick precedes every model call, so that a projection never shows a file as it was before. A call that the context is
too full for leads through CONDENSING to another one. Over 300 lines, because every pair of state and outcome that can
happen has a row.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, Literal

from msgspec import Struct

from .events.conversation import StopCause


class State(Enum):
    IDLE = "idle"
    TICKING = "ticking"
    CALLING = "calling"
    CONDENSING = "condensing"
    ASKING = "asking"
    RUNNING = "running"
    CANCELLING = "cancelling"
    STOPPED = "stopped"


# --- what is fed in ---------------------------------------------------------------------------------------------------


class Begin(Struct, frozen=True):
    """The prompt's turn has come. `openings` are statements that open what it had attached."""

    openings: tuple[str, ...] = ()


class Ticked(Struct, frozen=True):
    """The tick is done."""


class Replied(Struct, frozen=True):
    """The model's reply is complete; `statement` is the cell it wants run, if any; `ask`: the user decides first."""

    statement: str | None = None
    tool_call_id: str | None = None
    ask: bool = False
    cause: Literal["end", "length", "refusal"] = "end"


class ContextFull(Struct, frozen=True):
    """The model was not called, or refused: the context is too long, or a condensation is wanted."""


class Condensed(Struct, frozen=True):
    """The condensation is done, or nothing could be left out."""


class Answered(Struct, frozen=True):
    """The user decided about the statement."""

    allowed: bool


class Steered(Struct, frozen=True):
    """The user said something that the next model call will read; there has to be one."""


class Ran(Struct, frozen=True):
    """The statement ended, in whatever way."""


class Failed(Struct, frozen=True):
    """The effect could not be performed; `detail` is for the user."""

    detail: str


class Aborted(Struct, frozen=True):
    """The effect was given up because of an `Abort`."""


class Cancel(Struct, frozen=True):
    """The user wants the turn to end now."""


Outcome = Begin | Ticked | Replied | ContextFull | Condensed | Answered | Steered | Ran | Failed | Aborted | Cancel


# --- what comes out ---------------------------------------------------------------------------------------------------


class CallModel(Struct, frozen=True):
    """Call the model. With `may_condense` the outcome may be ContextFull; without, it is called with what fits."""

    round_id: int
    may_condense: bool = True


class Condense(Struct, frozen=True):
    """Take from the View what it can do without."""


class AskPermission(Struct, frozen=True):
    """Ask the user whether the statement may run."""

    source: str
    tool_call_id: str


class RunStatement(Struct, frozen=True):
    """Run one cell. `tool_call_id` is None for an opening, which no model asked for."""

    source: str
    round_id: int
    tool_call_id: str | None = None


class RunTick(Struct, frozen=True):
    round_id: int


class Abort(Struct, frozen=True):
    """Give up the effect that is being performed, at once; its outcome is still to be fed in."""


class Stop(Struct, frozen=True):
    cause: StopCause
    detail: str | None = None


MAX_CONDENSATIONS: Final = 3
"""In one Round; after so many the model is called with what fits."""

Effect = CallModel | Condense | AskPermission | RunStatement | RunTick | Abort | Stop


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
        self._asked: RunStatement | None = None
        self._steered = False
        self._condensations_left = MAX_CONDENSATIONS

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
        self._steered = False
        self._condensations_left = MAX_CONDENSATIONS
        return self._call()

    def _call(self) -> Effect:
        self.state = State.CALLING
        return CallModel(self.round_id, self._condensations_left > 0)

    def _full(self, _: Outcome) -> Effect:
        self._condensations_left -= 1
        self.state = State.CONDENSING
        return Condense()

    def _condensed(self, _: Outcome) -> Effect:
        return self._call()

    def _replied(self, outcome: Outcome) -> Effect:
        assert isinstance(outcome, Replied)
        self.round_id += 1
        if outcome.cause == "refusal":
            return self._stop("refusal")
        if outcome.cause == "length":
            return self._stop("max_tokens")
        if outcome.statement is None:
            return self._open_next() if self._steered else self._stop("end_turn")
        run = RunStatement(outcome.statement, self.round_id - 1, outcome.tool_call_id)
        if outcome.ask and outcome.tool_call_id is not None:
            self._asked = run
            self.state = State.ASKING
            return AskPermission(run.source, outcome.tool_call_id)
        self.state = State.RUNNING
        return run

    def _answered(self, outcome: Outcome) -> Effect:
        assert isinstance(outcome, Answered)
        assert self._asked is not None
        if not outcome.allowed:
            return self._open_next()
        self.state = State.RUNNING
        return self._asked

    def _steer(self, _: Outcome) -> None:
        self._steered = True

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
    (State.CALLING, Steered): Turn._steer,
    (State.CALLING, ContextFull): Turn._full,
    (State.CONDENSING, Condensed): Turn._condensed,
    (State.CONDENSING, Failed): Turn._failed,
    (State.CONDENSING, Cancel): Turn._cancel,
    (State.CONDENSING, Steered): Turn._steer,
    (State.TICKING, Steered): Turn._steer,
    (State.ASKING, Answered): Turn._answered,
    (State.ASKING, Failed): Turn._failed,
    (State.ASKING, Cancel): Turn._cancel,
    (State.ASKING, Steered): Turn._steer,
    (State.RUNNING, Steered): Turn._steer,
    (State.RUNNING, Ran): Turn._ran,
    (State.RUNNING, Failed): Turn._failed,
    (State.RUNNING, Cancel): Turn._cancel,
    (State.CANCELLING, Ticked): Turn._cancelled,
    (State.CANCELLING, Replied): Turn._cancelled,
    (State.CANCELLING, Answered): Turn._cancelled,
    (State.CANCELLING, ContextFull): Turn._cancelled,
    (State.CANCELLING, Condensed): Turn._cancelled,
    (State.CANCELLING, Steered): Turn._ignore,
    (State.CANCELLING, Ran): Turn._cancelled,
    (State.CANCELLING, Failed): Turn._cancelled,
    (State.CANCELLING, Aborted): Turn._cancelled,
    (State.CANCELLING, Cancel): Turn._ignore,
    (State.STOPPED, Begin): Turn._ignore,
    (State.STOPPED, Ticked): Turn._ignore,
    (State.STOPPED, Replied): Turn._ignore,
    (State.STOPPED, Answered): Turn._ignore,
    (State.STOPPED, ContextFull): Turn._ignore,
    (State.STOPPED, Condensed): Turn._ignore,
    (State.STOPPED, Steered): Turn._ignore,
    (State.STOPPED, Ran): Turn._ignore,
    (State.STOPPED, Failed): Turn._ignore,
    (State.STOPPED, Aborted): Turn._ignore,
    (State.STOPPED, Cancel): Turn._ignore,
}
