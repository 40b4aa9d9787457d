"""The values of the request-cycle model: cycles, what waits, what belongs to no cycle, and what was odd about the log.

Owns their shapes only. Must not know how they are made nor how they are shown. Built by `fold`, read by the two views
(`rounds`, `steps`) and by `plain`.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from ...core.ids import MessageId, Seq
from ...core.text import title
from ..events.conversation import AgentReasoning, AgentText, RunStop, ToolCall, ToolResult, UserMessage
from ..user_message import spoken_text

RootKind = Literal["direct", "followUp"]
Output = AgentText | AgentReasoning | ToolCall
Item = UserMessage | Output | ToolResult
"""What lies in a cycle after its root. A `UserMessage` there is always a steer, whatever its own kind is."""
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
    "steer-while-idle": "a steer came while the agent was idle; it opened a cycle",
    "direct-while-active": "a direct message came while the agent was active; it waits as a followUp",
    "follow-up-not-queued": "a followUp that had not waited came while the agent was idle; it counts as direct",
    "direct-was-queued": "a message that had waited came as direct; it counts as a followUp",
    "promoted-out-of-order": "a followUp became a root although others had waited longer",
    "queue-jumped": "a message became a root although followUps of an earlier run waited",
    "duplicate-message": "the id of a user message was used before",
    "queued-twice": "a prompt was queued that waits already, or is over; ignored",
    "withdrawn-not-queued": "a prompt was withdrawn that does not wait; ignored",
    "run-stop-while-idle": "a run stopped while the agent was idle; ignored",
    "output-while-idle": "the agent put something out while idle; it belongs to no cycle",
    "result-without-call": "a tool result answers no known call; it belongs to no cycle",
    "second-result": "a tool call was answered before; the first result counts",
    "late-result": "a tool result came after the cycle of its call had ended",
    "duplicate-call": "the id of a tool call was used before; results from here on are the newer call's",
    "unknown-parent": "the parent of a tool call is not in its cycle; the call stands alone",
}
"""Every kind of anomaly, as a sentence for people."""


class Anomaly(Struct, frozen=True):
    """What the log should not have held. `subject` is the message's or call's id, empty for a run-stop."""

    kind: AnomalyKind
    seq: Seq
    subject: str


class Waiting(Struct, frozen=True):
    """A followUp in the queue. `message` is None until its UserMessage is on the log.

    `since` is how many runs had stopped when it came.
    """

    message_id: MessageId
    text: str
    since: int
    message: UserMessage | None = None


class Withdrawn(Struct, frozen=True):
    """A prompt that will not run. `text` is None for a steer, of which the log has nothing but the withdrawal."""

    message_id: MessageId
    text: str | None


class RequestCycle(Struct, frozen=True):
    """One root message with all that came of it up to its run-stop (`None` while the cycle is the active one).

    `number` counts from 1. `late` are results of calls in `items` that came when the cycle had ended.
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
    """The whole model at one moment. `strays` are outputs and results that belong to no cycle, in log order."""

    active: bool
    cycles: tuple[RequestCycle, ...]
    queue: tuple[Waiting, ...]
    withdrawn: tuple[Withdrawn, ...]
    strays: tuple[Item, ...]
    anomalies: tuple[Anomaly, ...]
