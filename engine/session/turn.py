"""One prompt's work as a state machine without input or output: outcomes in, effects out.

All rules are in the table TRANSITIONS. The driver (`agent_loop`) performs one effect at a time and feeds its outcome
back. The machine never calls out, and knows no models, environments or numbers of Rounds on the log: it counts the
turn's Rounds from 0, because others open Rounds too.

IDLE --Begin--> [RUNNING openings] -> TICKING -> CALLING -> [ASKING] -> RUNNING -> TICKING -> CALLING ... -> STOPPED

A Round begins with its tick, so a model never reads an outdated file. If the context is too full for a call, the turn
goes through CONDENSING to the same call again.

Outcomes alternate with effects, except for two that come from the user at any moment. A *steer* is read by the next
model call. It matters only during a call: then another call has to follow. A *cancel* is answered with `Abort`, and the
outcome of the current effect must still be fed in. That late outcome ends the turn as cancelled, whatever it is. There
is exactly one late outcome, because one effect is performed at a time. So a cancelled turn always ends, and no outcome
of it reaches the next turn.

Besides its state the machine remembers five facts: the openings and the model calls that are left, whether the context
may still be condensed for this call, whether the user steered, and the statement that the user is asked about. An
outcome together with these facts is an `Input`. The table maps state and Input to the next state and an Action. A pair
that is not in the table cannot happen with a correct driver, so `feed` refuses it and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..core.ids import ToolCallId
from ..log.events.conversation import CondensationReason, StopCause

# --- effects: what the driver does next -------------------------------------------------------------------------------


class CallModel(Struct, frozen=True):
    """Call the model. With `may_condense` the outcome may be ContextFull; without it the prompt is cut to what fits."""

    round: int
    may_condense: bool = True


class Condense(Struct, frozen=True):
    """Condense the View."""

    reason: CondensationReason


class AskPermission(Struct, frozen=True):
    """Ask the user whether the statement may run."""

    source: str
    tool_call_id: ToolCallId


class RunStatement(Struct, frozen=True):
    """Run one statement. `tool_call_id` is None for an opening, which no model wrote.

    If it is `approved`, the user allowed it with everything that it does, so its tool calls do not ask.
    """

    source: str
    round: int
    tool_call_id: ToolCallId | None = None
    approved: bool = False


class RunTick(Struct, frozen=True):
    """Let running nodes catch up with their sources."""

    round: int


class Abort(Struct, frozen=True):
    """Give up the current effect at once. Its outcome must still be fed in."""


class Stop(Struct, frozen=True):
    """The turn is over. `detail` explains cause `error`. If it is `unusable`, the model must be set up first."""

    cause: StopCause
    detail: str | None = None
    unusable: bool = False


Effect = CallModel | Condense | AskPermission | RunStatement | RunTick | Abort | Stop


# --- outcomes: how an effect ended, and what the user did meanwhile ---------------------------------------------------


class Begin(Struct, frozen=True):
    """The prompt is served now."""


class Ticked(Struct, frozen=True):
    """The tick is done."""


class WantedStatement(Struct, frozen=True):
    """The statement of a reply. With `ask` the user decides first; `approved`: the user typed or allowed it."""

    source: str
    tool_call_id: ToolCallId
    ask: bool = False
    approved: bool = False


class Replied(Struct, frozen=True):
    """The model's reply is complete. `refused`: it has only calls that could not be run, which the model must know."""

    wanted: WantedStatement | None = None
    cause: Literal["end", "length", "refusal"] = "end"
    refused: bool = False


class ContextFull(Struct, frozen=True):
    """The context is too long, or a condensation was requested. `refused`: the provider said so, in a failed call."""

    refused: bool = False


class Condensed(Struct, frozen=True):
    """The condensation is done, or nothing could go."""


class Answered(Struct, frozen=True):
    """The user decided about the statement."""

    allowed: bool


class Dismissed(Struct, frozen=True):
    """The user closed the question without a decision. That ends the turn, because asking again would be useless."""


class Steered(Struct, frozen=True):
    """The user sent a message for the next model call, so there must be one."""


class Ran(Struct, frozen=True):
    """The statement ended, in any way."""


class Failed(Struct, frozen=True):
    """The effect failed. `detail` is for the user, who must set up the model first if it is `unusable`."""

    detail: str
    unusable: bool = False


class Aborted(Struct, frozen=True):
    """The effect was given up because of an `Abort`."""


class Cancel(Struct, frozen=True):
    """The user wants the turn to end now."""


Outcome = (
    Begin
    | Ticked
    | Replied
    | ContextFull
    | Condensed
    | Answered
    | Dismissed
    | Steered
    | Ran
    | Failed
    | Aborted
    | Cancel
)


# --- rules ------------------------------------------------------------------------------------------------------------


class State(Enum):
    IDLE = "idle"
    TICKING = "ticking"
    CALLING = "calling"
    CONDENSING = "condensing"
    ASKING = "asking"
    RUNNING = "running"
    CANCELLING = "cancelling"
    STOPPED = "stopped"


class Input(Enum):
    """An outcome as the machine sees it, refined by what the turn remembers."""

    BEGIN = "the turn begins"
    BEGIN_OPENING = "the turn begins, with attachments to open"
    TICKED = "the tick is done"
    TICKED_LAST = "the tick is done, and the limit of model calls is reached"
    FULL = "the context is full"
    FULL_AGAIN = "the context is still full after the prompt was cut"
    CONDENSED = "the condensation is done"
    REPLY_ASKS = "a reply with a statement that the user decides about"
    REPLY_RUNS = "a reply with a statement to run"
    REPLY_UNREAD = "a reply without a statement, and something that no call has read: a message, or a refused call"
    REPLY_ENDS = "a reply without a statement"
    REPLY_CUT = "a reply that was cut by length"
    REPLY_REFUSED = "a reply that was refused"
    ALLOWED = "the user allows the statement"
    REJECTED = "the user rejects the statement"
    DISMISSED = "the user closes the question without deciding"
    RAN = "the statement ended"
    RAN_OPENING = "the statement ended, and more attachments remain"
    STEERED = "the user steers"
    FAILED = "the effect failed"
    ABORTED = "the effect was abandoned"
    CANCEL = "the user cancels"


class Action(Enum):
    """The response to an input: the next effect, if any. A method of `Turn` implements each."""

    RUN_OPENING = "run the next opening"
    TICK = "begin a Round with its tick"
    CALL = "call the model for this Round"
    CALL_AGAIN = "call the model once more for this Round"
    CONDENSE = "condense"
    ASK = "ask the user about the statement, and remember the statement"
    RUN = "run the statement of the reply"
    RUN_ASKED = "run the statement that was asked about"
    NOTE_STEER = "remember that another model call has to follow"
    FAIL = "stop, and report the failure"
    ABORT = "abandon the current effect"
    STOP = "stop, for the cause that the transition names"
    IGNORE = "nothing"


class Transition(Struct, frozen=True):
    """The next state and the action. `cause` says why the turn stops, if it stops."""

    then: State
    action: Action
    cause: StopCause | None = None


_IDLE, _TICKING, _CALLING, _CONDENSING = State.IDLE, State.TICKING, State.CALLING, State.CONDENSING
_ASKING, _RUNNING, _CANCELLING, _STOPPED = State.ASKING, State.RUNNING, State.CANCELLING, State.STOPPED
_TO_TICK: Final = Transition(_TICKING, Action.TICK)
_TO_CANCELLING: Final = Transition(_CANCELLING, Action.ABORT)
_FAILED: Final = Transition(_STOPPED, Action.FAIL)
_CANCELLED: Final = Transition(_STOPPED, Action.STOP, "cancelled")

TRANSITIONS: Final[dict[tuple[State, Input], Transition]] = {
    (_IDLE, Input.BEGIN): _TO_TICK,
    (_IDLE, Input.BEGIN_OPENING): Transition(_RUNNING, Action.RUN_OPENING),
    (_IDLE, Input.CANCEL): _CANCELLED,
    (_TICKING, Input.TICKED): Transition(_CALLING, Action.CALL),
    (_TICKING, Input.TICKED_LAST): Transition(_STOPPED, Action.STOP, "max_turn_requests"),
    (_TICKING, Input.STEERED): Transition(_TICKING, Action.IGNORE),
    (_TICKING, Input.FAILED): _FAILED,
    (_TICKING, Input.CANCEL): _TO_CANCELLING,
    (_CALLING, Input.REPLY_ASKS): Transition(_ASKING, Action.ASK),
    (_CALLING, Input.REPLY_RUNS): Transition(_RUNNING, Action.RUN),
    (_CALLING, Input.REPLY_UNREAD): _TO_TICK,
    (_CALLING, Input.REPLY_ENDS): Transition(_STOPPED, Action.STOP, "end_turn"),
    (_CALLING, Input.REPLY_CUT): Transition(_STOPPED, Action.STOP, "max_tokens"),
    (_CALLING, Input.REPLY_REFUSED): Transition(_STOPPED, Action.STOP, "refusal"),
    (_CALLING, Input.FULL): Transition(_CONDENSING, Action.CONDENSE),
    (_CALLING, Input.STEERED): Transition(_CALLING, Action.NOTE_STEER),
    (_CALLING, Input.FAILED): _FAILED,
    (_CALLING, Input.CANCEL): _TO_CANCELLING,
    (_CONDENSING, Input.CONDENSED): Transition(_CALLING, Action.CALL_AGAIN),
    (_CONDENSING, Input.STEERED): Transition(_CONDENSING, Action.IGNORE),
    (_CONDENSING, Input.FAILED): _FAILED,
    (_CONDENSING, Input.CANCEL): _TO_CANCELLING,
    (_ASKING, Input.ALLOWED): Transition(_RUNNING, Action.RUN_ASKED),
    (_ASKING, Input.REJECTED): _TO_TICK,
    (_ASKING, Input.DISMISSED): _CANCELLED,
    (_ASKING, Input.STEERED): Transition(_ASKING, Action.IGNORE),
    (_ASKING, Input.FAILED): _FAILED,
    (_ASKING, Input.CANCEL): _TO_CANCELLING,
    (_RUNNING, Input.RAN): _TO_TICK,
    (_RUNNING, Input.RAN_OPENING): Transition(_RUNNING, Action.RUN_OPENING),
    (_RUNNING, Input.STEERED): Transition(_RUNNING, Action.IGNORE),
    (_RUNNING, Input.FAILED): _FAILED,
    (_RUNNING, Input.CANCEL): _TO_CANCELLING,
    # The late outcome, whatever it is. A turn that is being cancelled has begun.
    **{(_CANCELLING, late): _CANCELLED for late in Input if late not in (Input.BEGIN, Input.BEGIN_OPENING)},
    (_CANCELLING, Input.STEERED): Transition(_CANCELLING, Action.IGNORE),
    (_CANCELLING, Input.CANCEL): Transition(_CANCELLING, Action.IGNORE),
    **{(_STOPPED, late): Transition(_STOPPED, Action.IGNORE) for late in Input},
}


# --- one turn ---------------------------------------------------------------------------------------------------------

MAX_CONDENSATIONS: Final = 3
"""In one Round. After these the model is called with what fits."""


class Turn:
    """The machine. `feed` takes an outcome and returns the next effect, or None if there is none.

    Args:
        max_rounds: the turn stops with `max_turn_requests` after so many model calls.
        openings: statements that open the prompt's attachments; they run before the first tick.
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
        """Return the effect that follows from `outcome`.

        Raises:
            ValueError: the outcome cannot happen in this state: the driver has a defect. Nothing has changed.
        """
        transition = TRANSITIONS.get((self.state, self._input_for(outcome)))
        if transition is None:
            raise ValueError(f"{type(outcome).__name__} cannot happen while {self.state.value}")
        self.state = transition.then
        if transition.cause is not None:
            return Stop(transition.cause)
        return _ACTIONS[transition.action](self, outcome)

    def _input_for(self, outcome: Outcome) -> Input:
        match outcome:
            case Begin():
                return Input.BEGIN_OPENING if self._openings else Input.BEGIN
            case Ticked():
                return Input.TICKED if self._calls < self._max_rounds else Input.TICKED_LAST
            case ContextFull():
                return Input.FULL if self._condensations_left else Input.FULL_AGAIN
            case Replied(wanted=wanted, cause="end", refused=refused):
                if wanted is not None:
                    return Input.REPLY_ASKS if wanted.ask else Input.REPLY_RUNS
                return Input.REPLY_UNREAD if self._is_steered or refused else Input.REPLY_ENDS
            case Replied(cause=cause):
                return Input.REPLY_CUT if cause == "length" else Input.REPLY_REFUSED
            case Answered(allowed=allowed):
                return Input.ALLOWED if allowed else Input.REJECTED
            case Ran():
                return Input.RAN_OPENING if self._openings else Input.RAN
            case Condensed() | Dismissed() | Steered() | Failed() | Aborted() | Cancel():
                return _SAME_INPUT[type(outcome)]

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


_SAME_INPUT: Final[dict[type[Outcome], Input]] = {
    Condensed: Input.CONDENSED,
    Dismissed: Input.DISMISSED,
    Steered: Input.STEERED,
    Failed: Input.FAILED,
    Aborted: Input.ABORTED,
    Cancel: Input.CANCEL,
}
# The table names the machine's own methods, which are private to everyone else.
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
