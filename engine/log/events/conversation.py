"""The conversation: messages, calls and results. The View and the request cycles are folds over these kinds.

A `ToolCall` with a `parent_id` was made by a statement. It and its result are on the log and in the cycles but never in
the View, because a provider must not see calls that its model did not make.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from msgspec import Struct, field

from ...core.execution import Display, Location, StatementNumber
from ...core.ids import BlobDigest, EventId, LlmResponseId, MessageId, ToolCallId
from ...core.pictures import Picture
from ...core.text import Exact, Named
from .base import Event

PromptKind = Literal["direct", "steer", "follow_up"]
ResultStatus = Literal["ok", "error", "rejected", "cancelled"]
CondensationReason = Literal["asked", "budget", "refused"]
RunStopReason = Literal["completed", "interrupted", "error"]
StopCause = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"]


class Attachment(Struct, frozen=True, kw_only=True):
    """An attachment of a prompt: a `picture`, an embedded `text`, or a link, which has neither.

    `title`, `description` and `size` (in bytes) are the client's words about a link, shown again unchanged.
    """

    uri: str
    name: str
    media_type: str | None = None
    text: str | None = None
    title: str | None = None
    description: str | None = None
    size: int | None = None
    picture: Picture | None = None


class ThinkingBlock(Struct, frozen=True, kw_only=True):
    """A model's thinking as its provider signed it. It must be sent back unchanged or not at all."""

    text: str
    signature: Exact | None = None
    provider: Exact | None = None


class UserMessage(Event, frozen=True, kw_only=True):
    """A user's message. An `aside` is for the session itself, such as a slash command: no model reads it.

    `text` is what was typed. `content` is the order of texts and attachments, an attachment as its index in
    `attachments`; empty if it is the text, if any, and then the attachments. If the text calls a command of a file or a
    server, models read `expansion` in its place, which that command gave.
    """

    kind: ClassVar[str] = "user_message"

    message_id: MessageId
    text: str
    prompt_kind: PromptKind = "direct"
    attachments: tuple[Attachment, ...] = ()
    aside: bool = False
    content: tuple[str | int, ...] = ()
    expansion: str = ""

    @property
    def waits(self) -> bool:
        return self.aside


class AgentText(Event, frozen=True, kw_only=True):
    """One finished or interrupted item of assistant text, exactly as it was streamed.

    An `aside` is the session's own answer to the user's aside.
    """

    kind: ClassVar[str] = "agent_text"

    message_id: MessageId
    text: str
    llm_response_id: LlmResponseId | None = None
    aside: bool = False


class AgentReasoning(Event, frozen=True, kw_only=True):
    """One finished or interrupted item of the model's reasoning, with the signature of `provider`, if any."""

    kind: ClassVar[str] = "agent_reasoning"

    message_id: MessageId
    text: str
    signature: Exact | None = None
    provider: Exact | None = None
    llm_response_id: LlmResponseId | None = None


class ToolCall(Event, frozen=True, kw_only=True):
    """A call by the model (`parent_id` None), or by a statement.

    `typed`: the user wrote the statement, and the model passed it on. `rest_left_out`: the reply went on with text or
    further statements, which are not on the log; user and model are told. `refused`: the model's call could not be run,
    so it is no statement, and its result says why; older logs lack it.
    """

    kind: ClassVar[str] = "tool_call"

    tool_call_id: ToolCallId
    tool: Named
    arguments: dict[str, object] = field(default_factory=dict[str, object])
    llm_response_id: LlmResponseId | None = None
    thinking: tuple[ThinkingBlock, ...] = ()
    typed: bool = False
    parent_id: ToolCallId | None = None
    rest_left_out: bool = False
    refused: bool = False


class ToolResult(Event, frozen=True, kw_only=True):
    """The result of the call `tool_call_id`, which has one at most. `parent_id` is the call's.

    `locations` are the first few places that it mentions, as absolute paths. A model gets the `pictures` after `text`.
    `answer` is the stored answer of an MCP server, if it has more than text: JSON with the blocks of `content`.
    """

    kind: ClassVar[str] = "tool_result"

    tool_call_id: ToolCallId
    status: ResultStatus
    text: str
    parent_id: ToolCallId | None = None
    locations: tuple[Location, ...] = ()
    pictures: tuple[Picture, ...] = ()
    answer: BlobDigest | None = None


class ResultRerendered(Event, frozen=True, kw_only=True):
    """The View renders a statement's result again, because handles that it shows have another policy now.

    `tool_call_id` is the result's, `statement` the statement's index. From here on a model reads `text`, which begins
    with `calls`: superseded calls, each with the one that has its effect now; older logs lack it. `displays` are the
    renders in it, in order. The record of the execution does not change.
    """

    kind: ClassVar[str] = "result_rerendered"

    tool_call_id: ToolCallId
    statement: StatementNumber
    text: str
    displays: tuple[Display, ...] = ()
    calls: str = ""


CONTINUED_ELSEWHERE: Final = "another branch continues from here"
"""The detail of a `RunStop` that ends a request on a new branch which has only a part of it. No work was stopped."""


class RunStop(Event, frozen=True, kw_only=True):
    """The agent became idle. `reason` is how the request cycle ended; `cause` says why in more detail."""

    kind: ClassVar[str] = "run_stop"

    reason: RunStopReason
    cause: StopCause
    detail: str | None = None

    @property
    def waits(self) -> bool:
        return True


class Condensation(Event, frozen=True, kw_only=True):
    """Events left the View for good. A summary may replace them at `summary_offset`, a gap between remaining events."""

    kind: ClassVar[str] = "condensation"

    forgotten: tuple[EventId, ...]
    summary: str | None = None
    summary_offset: int | None = None


class CondensationRequest(Event, frozen=True, kw_only=True):
    """A condensation was requested: by a person, by a spent budget, or by a provider's refusal of a long context."""

    kind: ClassVar[str] = "condensation_request"

    reason: CondensationReason = "asked"


class SummaryCallEnded(Event, frozen=True, kw_only=True):
    """The model call for the summary of a condensation has ended. Its reply is no part of the conversation.

    With a `server`, the MCP server of that name asked for the reply. `answered`, `model`, the provider's counts of
    tokens, and `dollars` are as in ModelCallEnded.
    """

    kind: ClassVar[str] = "summary_call_ended"

    answered: bool
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    model: str = ""
    dollars: float | None = None
    server: str = ""


class NoCutPossible(Event, frozen=True, kw_only=True):
    """A condensation was requested, but nothing can leave the View. `tokens` is the size of its messages."""

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
    | SummaryCallEnded
    | NoCutPossible
)
