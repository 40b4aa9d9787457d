"""One prompt's work as a state machine without input or output: which effect comes next, and when to stop.

All its rules are the table TRANSITIONS. The driver (`session.agent_loop`) performs one effect at a time and feeds
its outcome back. Must never call out, and knows neither models nor environments.

    IDLE --Begin--> [RUNNING openings] -> TICKING -> CALLING -> [ASKING] -> RUNNING -> TICKING -> CALLING ... -> STOPPED

A Round begins with its tick, so that a projection never shows a file as it was before, and a call that the context is
too full for leads through CONDENSING to the same call again. Outcomes alternate with effects, but for two that come
from the user and may arrive at any moment. A steer is read by the next model call, so it matters only while a call is
under way: then another one has to follow. A cancel is answered with Abort, and the outcome of what was being performed
is still to be fed in; that late outcome ends the turn as cancelled, whatever it is. There is exactly one, because one
effect is performed at a time, so a cancelled turn always ends and nothing of it arrives in the next turn.

What the machine remembers besides its state are five facts: the openings and the model calls that are left, whether
the context may still be condensed for this call, whether somebody steered, and the statement that is asked about. An
outcome and these facts together are an Input; the table maps state and Input to the next state and an Action. What is
not in the table cannot happen with a driver that feeds each effect's own outcomes, and is refused, with nothing
changed.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct

from ...log.events.conversation import StopCause


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
