"""The conversation: what was said, called and answered. The View and the request cycles are folds over these kinds.

A `ToolCall` with a `parent_id` is a helper called inside a statement: it and its result are on the log and in the
cycles, never in the View, because a provider must not see calls that its model did not make.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct, field

from ...core.execution import Display, Location, StatementNumber
from ...core.ids import EventId, LlmResponseId, MessageId, ToolCallId
from ...core.text import Exact
from .base import Event

PromptKind = Literal["direct", "steer", "follow_up"]
ResultStatus = Literal["ok", "error", "rejected", "cancelled"]
CondensationReason = Literal["asked", "budget", "refused"]
RunStopReason = Literal["completed", "interrupted", "error"]
StopCause = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"]


class Attachment(Struct, frozen=True, kw_only=True):
    """Something a prompt carried besides text: a link (`text` None) or an embedded text resource.

    `title`, `description` and `size` (in bytes) are what the client said of a link, to be shown again as it came.
    """

    uri: str
    name: str
    media_type: Exact | None = None
    text: str | None = None
    title: str | None = None
    description: str | None = None
    size: int | None = None


class ThinkingBlock(Struct, frozen=True, kw_only=True):
    """A model's thinking as its provider signed it; it must go back unchanged or not at all."""

    text: str
    signature: Exact | None = None
    provider: Exact | None = None


class UserMessage(Event, frozen=True, kw_only=True):
    """What the user said. An `aside` was said to the session itself, such as a slash command: no model reads it.

    `text` is what was typed. `content` is the order in which texts and attachments came, an attachment as its place
    among `attachments`; empty where that was the text (if any) and then the attachments.
    """

    kind: ClassVar[str] = "user_message"

    message_id: MessageId
    text: str
    prompt_kind: PromptKind = "direct"
    attachments: tuple[Attachment, ...] = ()
    aside: bool = False
    content: tuple[str | int, ...] = ()

    @property
    def waits(self) -> bool:
        return self.aside


class AgentText(Event, frozen=True, kw_only=True):
    """One finished (or interrupted) item of assistant text, holding exactly what was streamed.

    An `aside` is the session's own answer to the user's aside.
    """

    kind: ClassVar[str] = "agent_text"

    message_id: MessageId
    text: str
    llm_response_id: LlmResponseId | None = None
    aside: bool = False


class AgentReasoning(Event, frozen=True, kw_only=True):
    """One finished (or interrupted) item of the model's reasoning, with its signature where `provider` gave one."""

    kind: ClassVar[str] = "agent_reasoning"

    message_id: MessageId
    text: str
    signature: Exact | None = None
    provider: Exact | None = None
    llm_response_id: LlmResponseId | None = None


class ToolCall(Event, frozen=True, kw_only=True):
    """A call the model made (`parent_id` None), or one that a statement made through a helper.

    `typed`: the user wrote the statement, and the model passed it on. `rest_left_out`: the reply went on after this,
    with text or further statements, which are not on the log; user and model are told.
    """

    kind: ClassVar[str] = "tool_call"

    tool_call_id: ToolCallId
    tool: Exact
    arguments: dict[str, object] = field(default_factory=dict[str, object])
    llm_response_id: LlmResponseId | None = None
    thinking: tuple[ThinkingBlock, ...] = ()
    typed: bool = False
    parent_id: ToolCallId | None = None
    rest_left_out: bool = False


class ToolResult(Event, frozen=True, kw_only=True):
    """What came of the call `tool_call_id`; a call has one result at most. `parent_id` is that of the call.

    `locations` are places that it speaks of, absolute paths, the first few.
    """

    kind: ClassVar[str] = "tool_result"

    tool_call_id: ToolCallId
    status: ResultStatus
    text: str
    parent_id: ToolCallId | None = None
    locations: tuple[Location, ...] = ()


class ResultRerendered(Event, frozen=True, kw_only=True):
    """In the View the result of a statement was rendered anew, because handles that it shows have another policy now.

    `tool_call_id` is that of the result, `statement` the statement's index. From here on a model reads `text`; of that
    `displays` are all the renders, in their order. What the execution gave at first stays what it was.
    """

    kind: ClassVar[str] = "result_rerendered"

    tool_call_id: ToolCallId
    statement: StatementNumber
    text: str
    displays: tuple[Display, ...] = ()


class RunStop(Event, frozen=True, kw_only=True):
    """The agent went idle. `reason` is the boundary class of the request cycle, `cause` says why in more detail."""

    kind: ClassVar[str] = "run_stop"

    reason: RunStopReason
    cause: StopCause
    detail: str | None = None

    @property
    def waits(self) -> bool:
        return True


class Condensation(Event, frozen=True, kw_only=True):
    """Events leave the View for good; a summary may take their place at `summary_offset`, a gap of what remains."""

    kind: ClassVar[str] = "condensation"

    forgotten: tuple[EventId, ...]
    summary: str | None = None
    summary_offset: int | None = None


class CondensationRequest(Event, frozen=True, kw_only=True):
    """A condensation is wanted: a person asked, the budget is spent, or a provider refused the context as too long."""

    kind: ClassVar[str] = "condensation_request"

    reason: CondensationReason = "asked"


class NoCutPossible(Event, frozen=True, kw_only=True):
    """A condensation was wanted and nothing can leave the View. `tokens` is what its messages cost."""

    kind: ClassVar[str] = "no_cut_possible"

    tokens: int


ConversationEvent = (
    UserMessage
    | AgentText
    | AgentReasoning
    | ToolCall
    | ToolResult
    | ResultRerendered
    | RunStop
    | Condensation
    | CondensationRequest
    | NoCutPossible
)
