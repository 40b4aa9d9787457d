"""The machine of request cycles: the values of the model, and the table of all rules.

    IDLE --message--> ACTIVE --run-stop--> IDLE --[a followUp whose message is on the log heads the queue]--> ACTIVE

The table says which action follows an input in a state. Completed, interrupted and failed runs end a cycle alike. A
followUp is on the log in one of two ways: as PromptQueued when it comes and UserMessage when its turn comes, or as
UserMessage alone, when it comes. The run-stop promotes the second kind, its UserMessage the first; both wait in one
queue. A withdrawal of an unknown prompt is ordinary during a run: a steer that no model call has read leaves no other
event.

Must not know how an action is carried out, which is `fold`, nor how cycles are shown, which is `views`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ...core.ids import MessageId, Seq
from ...core.text import title
from ..events.conversation import AgentReasoning, AgentText, RunStop, ToolCall, ToolResult, UserMessage
from ..user_message import spoken_text

RootKind = Literal["direct", "followUp"]
Output = AgentText | AgentReasoning | ToolCall
Item = UserMessage | Output | ToolResult
"""An item of a cycle after its root. A `UserMessage` there is always a steer, whatever its own kind."""
AnomalyKind = Literal[
    "steer-while-idle",
    "direct-while-active",
    "follow-up-not-queued",
    "direct-was-queued",
    "promoted-out-of-order",
    "queue-jumped",
    "duplicate-message",
    "queued-twice",
    "withdrawn-not-queued",
    "run-stop-while-idle",
    "output-while-idle",
    "result-without-call",
    "second-result",
    "late-result",
    "duplicate-call",
    "unknown-parent",
]

ANOMALIES: Final[dict[AnomalyKind, str]] = {
    "steer-while-idle": "a steer message arrived while the agent was idle; the message opened a cycle",
    "direct-while-active": "a direct message arrived while the agent was active; the message waits as a followUp",
    "follow-up-not-queued": "a followUp arrived while the agent was idle; the message was treated as direct",
    "direct-was-queued": "a queued message arrived as direct; the message was treated as a followUp",
    "promoted-out-of-order": "a followUp opened a cycle before older followUps in the queue",
    "queue-jumped": "a message opened a cycle while followUps of an earlier run were waiting",
    "duplicate-message": "the id of a user message was used before",
    "queued-twice": "a prompt was queued again while waiting or after its end; this was ignored",
    "withdrawn-not-queued": "a prompt was withdrawn that was not waiting; this was ignored",
    "run-stop-while-idle": "a run stopped while the agent was idle; this was ignored",
    "output-while-idle": "the agent produced output while idle; the output belongs to no cycle",
    "result-without-call": "a tool result answers no known call; the result belongs to no cycle",
    "second-result": "a tool call got a second result; only the first result is used",
    "late-result": "a tool result arrived after the cycle of its call had ended",
    "duplicate-call": "the id of a tool call was used before; later results belong to the newer call",
    "unknown-parent": "the parent of a tool call is not in the same cycle; the call has no parent",
}
"""Every kind of anomaly, as a sentence for people."""


class Anomaly(Struct, frozen=True):
    """An oddity of the log. `subject` is the id of the message or call, empty for a run-stop."""

    kind: AnomalyKind
    seq: Seq
    subject: str


class Waiting(Struct, frozen=True):
    """A followUp in the queue. `message` is None until its UserMessage is on the log.

    `since` counts the runs that had stopped when it came.
    """

    message_id: MessageId
    text: str
    since: int
    message: UserMessage | None = None


class Withdrawn(Struct, frozen=True):
    """A prompt that will not run. `text` is None for a steer, which leaves only its withdrawal on the log."""

    message_id: MessageId
    text: str | None


class RequestCycle(Struct, frozen=True):
    """One root message with everything up to its run-stop, which is None while the cycle is active.

    `number` counts from 1. `late` are results of calls in `items` that came after the end.
    """

    number: int
    root: UserMessage
    root_kind: RootKind
    items: tuple[Item, ...] = ()
    stop: RunStop | None = None
    late: tuple[ToolResult, ...] = ()

    @property
    def title(self) -> str:
        """`text.title` of the root."""
        return title(spoken_text(self.root), "(attachments)")


class Cycles(Struct, frozen=True):
    """The whole model at one moment. `strays` are outputs and results outside all cycles, in log order."""

    active: bool
    cycles: tuple[RequestCycle, ...]
    queue: tuple[Waiting, ...]
    withdrawn: tuple[Withdrawn, ...]
    strays: tuple[Item, ...]
    anomalies: tuple[Anomaly, ...]


# --- the table --------------------------------------------------------------------------------------------------------


class State(Enum):
    IDLE = "idle"
    ACTIVE = "active"


class Input(Enum):
    """An event as the machine sees it: a user message by its own kind and whether it was announced."""

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
    PROMPT_REQUEUED = "PromptQueued for a waiting or finished prompt"
    WITHDRAWN = "PromptWithdrawn for a waiting prompt"
    WITHDRAWN_UNSEEN = "PromptWithdrawn for a prompt that was never on the log"
    WITHDRAWN_SPENT = "PromptWithdrawn for a finished prompt"


class Action(Enum):
    """The reaction to an input; methods of `fold.CycleFold` carry it out."""

    OPEN_DIRECT = "open a cycle with the message as its direct root"
    OPEN_QUEUED = "take the message out of the queue and open a cycle with it as a followUp root"
    PLACE = "put the item into the active cycle"
    STEER = "put the message into the active cycle, and take it out of the queue if it waits there"
    ENQUEUE = "queue the message, in its announced place if there is one"
    ANNOUNCE = "queue the prompt until its message arrives"
    WITHDRAW = "take the prompt out of the queue, and record it as withdrawn"
    NOTE_WITHDRAWN = "record the prompt as withdrawn"
    ANSWER = "attach the result to its call"
    STRAY = "keep the item outside all cycles"
    CLOSE = "end the active cycle"
    IGNORE = "nothing"


class Transition(Struct, frozen=True):
    """The result of an input: next state, action, and the anomaly to note, if any."""

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


class FollowUps:
    """The queue of followUps, first in, first out. An announced one waits for its message."""

    def __init__(self) -> None:
        self._waiting: list[Waiting] = []
        self._announced: set[MessageId] = set()

    def announce(self, message_id: MessageId, text: str, since: int) -> None:
        """Queue a prompt whose message is still to come."""
        self._waiting.append(Waiting(message_id, text, since))
        self._announced.add(message_id)

    def enqueue(self, message: UserMessage, since: int) -> None:
        """Queue a message: in the place where it was announced, else at the end."""
        if message.message_id not in self._announced:
            self._waiting.append(Waiting(message.message_id, message.text, since, message))
            return
        self._announced.discard(message.message_id)
        place = self._place(message.message_id)
        self._waiting[place] = replace(self._waiting[place], text=message.text, message=message)

    def take(self, message_id: MessageId) -> Waiting:
        """Remove and return the first entry with this id, which must exist."""
        taken = self._waiting.pop(self._place(message_id))
        if taken.message is None:
            self._announced.discard(message_id)
        return taken

    def announced(self, message_id: MessageId) -> bool:
        """Return whether it waits for its message."""
        return message_id in self._announced

    def holds(self, message_id: MessageId) -> bool:
        return any(waiting.message_id == message_id for waiting in self._waiting)

    @property
    def head(self) -> Waiting | None:
        return self._waiting[0] if self._waiting else None

    @property
    def waiting(self) -> Sequence[Waiting]:
        """The entries in the order in which they came."""
        return self._waiting

    def _place(self, message_id: MessageId) -> int:
        return next(place for place, waiting in enumerate(self._waiting) if waiting.message_id == message_id)
