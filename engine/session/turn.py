"""One prompt's work as a state machine without input or output: outcomes in, effects out.

The transition table and all its rules are in this file; `agent_loop` performs the effects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..core.ids import ToolCallId
from ..log.events.conversation import CondensationReason, StopCause

# What comes out of a turn: what its driver is to do next, one thing at a time.
#
# `round` counts the Rounds of the turn from 0. Which number one has on the log is the driver's business, because
# others open Rounds meanwhile.


class CallModel(Struct, frozen=True):
    """Call the model. With `may_condense` the outcome may be ContextFull; without, it is called with what fits."""

    round: int
    may_condense: bool = True


class Condense(Struct, frozen=True):
    """Take from the View what it can do without."""

    reason: CondensationReason


class AskPermission(Struct, frozen=True):
    """Ask the user whether the statement may run."""

    source: str
    tool_call_id: ToolCallId


class RunStatement(Struct, frozen=True):
    """Run one cell. `tool_call_id` is None for an opening, which no model asked for.

    `approved`: the user stands behind it with all that it does, so nobody is asked about its acts.
    """

    source: str
    round: int
    tool_call_id: ToolCallId | None = None
    approved: bool = False


class RunTick(Struct, frozen=True):
    """Let running nodes catch up with their sources."""

    round: int


class Abort(Struct, frozen=True):
    """Give up the effect that is being performed, at once; its outcome is still to be fed in."""


class Stop(Struct, frozen=True):
    """The turn is over; `detail` explains cause `error`; `unusable` says that the model has to be set up first."""

    cause: StopCause
    detail: str | None = None
    unusable: bool = False


Effect = CallModel | Condense | AskPermission | RunStatement | RunTick | Abort | Stop


# outcomes:
# What is fed into a turn: how each effect ended, and what the user does meanwhile.


class Begin(Struct, frozen=True):
    """The prompt's turn has come."""


class Ticked(Struct, frozen=True):
    """The tick is done."""


class WantedStatement(Struct, frozen=True):
    """The cell that a reply wants run; `ask`: the user decides first; `approved`: it is the user's own, or allowed."""

    source: str
    tool_call_id: ToolCallId
    ask: bool = False
    approved: bool = False


class Replied(Struct, frozen=True):
    """The model's reply is complete."""

    wanted: WantedStatement | None = None
    cause: Literal["end", "length", "refusal"] = "end"


class ContextFull(Struct, frozen=True):
    """The context is too long, or a condensation is wanted. `refused`: the provider said so, else nobody was called."""

    refused: bool = False


class Condensed(Struct, frozen=True):
    """The condensation is done, or nothing could be left out."""


class Answered(Struct, frozen=True):
    """The user decided about the statement."""

    allowed: bool


class Dismissed(Struct, frozen=True):
    """The user closed the question without deciding, which gives up the turn: asking again would be no use."""


class Steered(Struct, frozen=True):
    """The user said something that the next model call will read; there has to be one."""


class Ran(Struct, frozen=True):
    """The statement ended, in whatever way."""


class Failed(Struct, frozen=True):
    """The effect could not be performed; `detail` is for the user, who has to set up the model first if `unusable`."""

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


# machine:
# One prompt's work as a state machine without input or output: which effect comes next, and when to stop.
#
# All its rules are the table TRANSITIONS. The driver (`session.agent_loop`) performs one effect at a time and feeds
# its outcome back. Must never call out, and knows neither models nor environments.
#
# IDLE --Begin--> [RUNNING openings] -> TICKING -> CALLING -> [ASKING] -> RUNNING -> TICKING -> CALLING ... -> STOPPED
#
# A Round begins with its tick, so that a projection never shows a file as it was before, and a call that the context
# is too full for leads through CONDENSING to the same call again. Outcomes alternate with effects, but for two that
# come from the user and may arrive at any moment. A steer is read by the next model call, so it matters only while a
# call is under way: then another one has to follow. A cancel is answered with Abort, and the outcome of what was
# being performed is still to be fed in; that late outcome ends the turn as cancelled, whatever it is. There is
# exactly one, because one effect is performed at a time, so a cancelled turn always ends and nothing of it arrives in
# the next turn.
#
# What the machine remembers besides its state are five facts: the openings and the model calls that are left, whether
# the context may still be condensed for this call, whether somebody steered, and the statement that is asked about.
# An outcome and these facts together are an Input; the table maps state and Input to the next state and an Action.
# What is not in the table cannot happen with a driver that feeds each effect's own outcomes, and is refused, with
# nothing changed.


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
    """An outcome as the machine sees it: what it says, and what the turn remembers that bears on it."""

    BEGIN = "the turn begins"
    BEGIN_OPENING = "the turn begins, with something to open"
    TICKED = "the tick is done"
    TICKED_LAST = "the tick is done, and no model call is left"
    FULL = "the context is full"
    FULL_AGAIN = "the context is full, though the call was one with what fits"
    CONDENSED = "the condensation is done"
    REPLY_ASKS = "a reply with a statement that the user decides about"
    REPLY_RUNS = "a reply with a statement to run"
    REPLY_STEERED = "a reply without a statement, and something was said that no call has read"
    REPLY_ENDS = "a reply without a statement"
    REPLY_CUT = "a reply that was cut by length"
    REPLY_REFUSED = "a reply that was refused"
    ALLOWED = "the user allows the statement"
    REJECTED = "the user rejects the statement"
    DISMISSED = "the user closes the question without deciding"
    RAN = "the statement ended"
    RAN_OPENING = "the statement ended, and there is more to open"
    STEERED = "the user steers"
    FAILED = "the effect failed"
    ABORTED = "the effect was given up"
    CANCEL = "the user cancels"


class Action(Enum):
    """What is done about an input: which effect comes next, if any. The methods of `turn.Turn` say how."""

    RUN_OPENING = "run the next opening"
    TICK = "begin a Round with its tick"
    CALL = "call the model for this Round"
    CALL_AGAIN = "call the model once more for this Round"
    CONDENSE = "condense"
    ASK = "ask about the statement, and remember it"
    RUN = "run the statement of the reply"
    RUN_ASKED = "run the statement that was asked about"
    NOTE_STEER = "remember that another model call has to follow"
    FAIL = "stop, with what the failure says"
    ABORT = "give up what is being performed"
    STOP = "stop, for the cause that the transition names"
    IGNORE = "nothing"


class Transition(Struct, frozen=True):
    """What an input leads to. `cause` is why the turn stops, where the action is to stop."""

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
    (_CALLING, Input.REPLY_STEERED): _TO_TICK,
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
    # The late outcome, whatever it is; a turn that is being cancelled has begun.
    **{(_CANCELLING, late): _CANCELLED for late in Input if late not in (Input.BEGIN, Input.BEGIN_OPENING)},
    (_CANCELLING, Input.STEERED): Transition(_CANCELLING, Action.IGNORE),
    (_CANCELLING, Input.CANCEL): Transition(_CANCELLING, Action.IGNORE),
    **{(_STOPPED, late): Transition(_STOPPED, Action.IGNORE) for late in Input},
}


# turn:
# One turn: what it remembers, how that refines an outcome into an input, and how the machine's actions are done.
#
# Must not know why one effect follows another (`machine`). Driven by `session.agent_loop`.

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
