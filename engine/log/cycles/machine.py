"""The machine of request cycles: what is done about which input in which state. All its rules are the table here.

Must not know how anything is done about it; that is `fold`, the only caller. Nor does it know who asks or why a run
stopped: completed, interrupted and error are one class of boundary.

    IDLE --message--> ACTIVE --run-stop--> IDLE --[a followUp whose message is on the log heads the queue]--> ACTIVE

A followUp is on the log in one of two ways: as PromptQueued when it comes and UserMessage when its turn has come, or as
UserMessage alone, when it comes. The second is promoted by the run-stop itself, the first by its UserMessage; both wait
in one queue. A withdrawal of something never seen is ordinary while a run is active: a steer that no model call has
read leaves nothing else on the log.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct

from .model import AnomalyKind


class State(Enum):
    IDLE = "idle"
    ACTIVE = "active"


class Input(Enum):
    """An event as the machine sees it: user messages by their own kind and by whether they were announced."""

    DIRECT = "direct"
    STEER = "steer"
    FOLLOW_UP = "followUp"
    QUEUED_DIRECT = "direct, announced by PromptQueued"
    QUEUED_STEER = "steer, announced by PromptQueued"
    QUEUED_FOLLOW_UP = "followUp, announced by PromptQueued"
    PROMOTION = "a followUp whose message is on the log heads the queue"
    OUTPUT = "agent-output"
    RESULT = "tool-result"
    RUN_STOP = "run-stop"
    PROMPT_QUEUED = "PromptQueued"
    PROMPT_REQUEUED = "PromptQueued for what waits or is over"
    WITHDRAWN = "PromptWithdrawn for what waits"
    WITHDRAWN_UNSEEN = "PromptWithdrawn for what was never on the log"
    WITHDRAWN_SPENT = "PromptWithdrawn for what is over"


class Action(Enum):
    """What is done about an input; the methods of `fold.CycleFold` say how."""

    OPEN_DIRECT = "open a cycle with the message as its direct root"
    OPEN_QUEUED = "take the message out of the queue and open a cycle with it as a followUp root"
    PLACE = "put the item into the active cycle"
    STEER = "put the message into the active cycle, and take it out of the queue if it waits there"
    ENQUEUE = "have the message wait, in its place if it was announced"
    ANNOUNCE = "have the prompt wait for its message"
    WITHDRAW = "take it out of the queue, and keep what was withdrawn"
    NOTE_WITHDRAWN = "keep that it was withdrawn"
    ANSWER = "attach the result to its call"
    STRAY = "keep the item outside all cycles"
    CLOSE = "end the active cycle"
    IGNORE = "nothing"


class Transition(Struct, frozen=True):
    """What an input leads to. `anomaly` is what was odd about it, if anything."""

    then: State
    action: Action
    anomaly: AnomalyKind | None = None


_IDLE, _ACTIVE = State.IDLE, State.ACTIVE

TRANSITIONS: Final[dict[tuple[State, Input], Transition]] = {
    (_IDLE, Input.DIRECT): Transition(_ACTIVE, Action.OPEN_DIRECT),
    (_IDLE, Input.STEER): Transition(_ACTIVE, Action.OPEN_DIRECT, "steer-while-idle"),
    (_IDLE, Input.FOLLOW_UP): Transition(_ACTIVE, Action.OPEN_DIRECT, "follow-up-not-queued"),
    (_IDLE, Input.QUEUED_DIRECT): Transition(_ACTIVE, Action.OPEN_QUEUED, "direct-was-queued"),
    (_IDLE, Input.QUEUED_STEER): Transition(_ACTIVE, Action.OPEN_QUEUED, "steer-while-idle"),
    (_IDLE, Input.QUEUED_FOLLOW_UP): Transition(_ACTIVE, Action.OPEN_QUEUED),
    (_IDLE, Input.PROMOTION): Transition(_ACTIVE, Action.OPEN_QUEUED),
    (_IDLE, Input.OUTPUT): Transition(_IDLE, Action.STRAY, "output-while-idle"),
    (_IDLE, Input.RESULT): Transition(_IDLE, Action.ANSWER),
    (_IDLE, Input.RUN_STOP): Transition(_IDLE, Action.IGNORE, "run-stop-while-idle"),
    (_IDLE, Input.PROMPT_QUEUED): Transition(_IDLE, Action.ANNOUNCE),
    (_IDLE, Input.PROMPT_REQUEUED): Transition(_IDLE, Action.IGNORE, "queued-twice"),
    (_IDLE, Input.WITHDRAWN): Transition(_IDLE, Action.WITHDRAW),
    (_IDLE, Input.WITHDRAWN_UNSEEN): Transition(_IDLE, Action.IGNORE, "withdrawn-not-queued"),
    (_IDLE, Input.WITHDRAWN_SPENT): Transition(_IDLE, Action.IGNORE, "withdrawn-not-queued"),
    (_ACTIVE, Input.DIRECT): Transition(_ACTIVE, Action.ENQUEUE, "direct-while-active"),
    (_ACTIVE, Input.STEER): Transition(_ACTIVE, Action.STEER),
    (_ACTIVE, Input.FOLLOW_UP): Transition(_ACTIVE, Action.ENQUEUE),
    (_ACTIVE, Input.QUEUED_DIRECT): Transition(_ACTIVE, Action.ENQUEUE, "direct-while-active"),
    (_ACTIVE, Input.QUEUED_STEER): Transition(_ACTIVE, Action.STEER),
    (_ACTIVE, Input.QUEUED_FOLLOW_UP): Transition(_ACTIVE, Action.ENQUEUE),
    (_ACTIVE, Input.PROMOTION): Transition(_ACTIVE, Action.IGNORE),
    (_ACTIVE, Input.OUTPUT): Transition(_ACTIVE, Action.PLACE),
    (_ACTIVE, Input.RESULT): Transition(_ACTIVE, Action.ANSWER),
    (_ACTIVE, Input.RUN_STOP): Transition(_IDLE, Action.CLOSE),
    (_ACTIVE, Input.PROMPT_QUEUED): Transition(_ACTIVE, Action.ANNOUNCE),
    (_ACTIVE, Input.PROMPT_REQUEUED): Transition(_ACTIVE, Action.IGNORE, "queued-twice"),
    (_ACTIVE, Input.WITHDRAWN): Transition(_ACTIVE, Action.WITHDRAW),
    (_ACTIVE, Input.WITHDRAWN_UNSEEN): Transition(_ACTIVE, Action.NOTE_WITHDRAWN),
    (_ACTIVE, Input.WITHDRAWN_SPENT): Transition(_ACTIVE, Action.IGNORE, "withdrawn-not-queued"),
}
