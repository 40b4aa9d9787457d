"""The messages of a model call: a View as exchanges, and these in pydantic-ai's types for any provider.

An exchange is a reply of the model, the results of its calls, and the texts after it: the shape that every API
requires, whatever the log looks like. Roles alternate, the first and last message are the user's, no text is blank,
every call is answered in the next message, and thinking is sent back only to the provider that signed it. Must not know
wire formats, which pydantic-ai does. Imports pydantic-ai, so `provider` imports it late. Called by `provider_stream`.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from ...core.ids import BlobDigest, LlmResponseId, ToolCallId
from ...core.pictures import Picture, PictureContent
from ...log.events import Event
from ...log.events.conversation import (
    AgentReasoning,
    AgentText,
    ResultStatus,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ...log.user_message import pictures_in, user_text
from ..tail.results import read_text, with_note, written_call, written_result
from ..view import Summary, Window
from .providers import Provider

ReplyEvent = AgentText | AgentReasoning | ToolCall
Said = str | Picture
"""What the user's side says: texts, and pictures after the text that describes them."""


@dataclass(slots=True)
class Exchange:
    """`reply` is empty only in the first exchange.

    `results` are those of its calls; `texts` has no blank texts. Pictures of results are in the results.
    """

    response: LlmResponseId | None = None
    reply: list[ReplyEvent] = field(default_factory=list[ReplyEvent])
    results: dict[ToolCallId, ToolResult] = field(default_factory=dict[ToolCallId, ToolResult])
    texts: list[Said] = field(default_factory=list[Said])
    answered: bool = False

    @property
    def calls(self) -> Sequence[ToolCall]:
        return [event for event in self.reply if isinstance(event, ToolCall)]

    def continued_by(self, event: ReplyEvent) -> bool:
        """Return whether `event` is part of the same reply.

        If a log names no replies, a result ends one.
        """
        if not self.reply or self.texts or event.llm_response_id != self.response:
            return False
        return self.response is not None or not self.answered


def exchanges(events: Iterable[Event]) -> list[Exchange]:
    """Divide events into exchanges, in order, the first without a reply.

    A call keeps its own result, wherever that is. A second result or call with one id, a result without a call, and
    calls by statements are omitted. A call without a result is kept; the caller handles it.
    """
    entries = list(events)
    results: dict[ToolCallId, ToolResult] = {}
    for event in entries:
        if isinstance(event, ToolResult) and event.parent_id is None:
            results.setdefault(event.tool_call_id, event)
    called: set[ToolCallId] = set()
    found = [Exchange()]
    for event in entries:
        last = found[-1]
        match event:
            case UserMessage():
                _add_text(last, user_text(event))
                last.texts += pictures_in(event)
            case Summary():
                _add_text(last, f"[Summary of the earlier conversation]\n{event.text}")
            case ToolResult():
                last.answered = last.answered or event.tool_call_id in last.results
            case AgentText() | AgentReasoning() if event.text.strip() or isinstance(event, AgentReasoning):
                _exchange_of(found, event)
            case ToolCall(parent_id=None) if event.tool_call_id not in called:
                called.add(event.tool_call_id)
                result = results.get(event.tool_call_id)
                holder = _exchange_of(found, event)
                if result is not None:
                    holder.results[event.tool_call_id] = result
            case _:
                pass
    return found


def _add_text(exchange: Exchange, text: str) -> None:
    if text.strip():
        exchange.texts.append(text)


def _exchange_of(found: list[Exchange], event: ReplyEvent) -> Exchange:
    """Return the exchange of `event`: the last one, or a new one for another reply."""
    if not found[-1].continued_by(event):
        found.append(Exchange(response=event.llm_response_id))
    found[-1].reply.append(event)
    return found[-1]


# --- messages --------------------------------------------------------------------------------------------------------


CONTINUED: Final = "(continue)"
"""The user's message if an API requires one and there is none."""
NO_OUTPUT: Final = "(no output)"
NO_RESULT: Final = "(no result)"
_OUTCOMES: Final[dict[ResultStatus, Literal["success", "failed", "denied", "interrupted"]]] = {
    "ok": "success",
    "error": "failed",
    "rejected": "denied",
    "cancelled": "interrupted",
}
"""Providers have a form of their own for a result that failed."""
_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Ids that every API accepts: Anthropic's pattern, OpenAI's length."""
_TOOL_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_ID_MARK: Final = "|"
"""Separates the id of a thinking item from its signature, which is base64 and does not contain it."""


class Dialect(Struct, frozen=True):
    """The API that a conversation is written for.

    `system` is pydantic-ai's name of it in messages.

    Without `calls_tools` calls and results are text, and no thinking is sent back, because APIs accept it beside calls
    only.
    """

    provider: Provider
    system: str
    calls_tools: bool = True


def signature_of(part: ThinkingPart) -> str | None:
    """Return the signature to keep of a thinking part, with the part's id if it has one: both are sent back."""
    if not part.signature:
        return None
    return f"{part.id}{_ID_MARK}{part.signature}" if part.id else part.signature


def to_messages(
    source: Window | Iterable[Event],
    dialect: Dialect,
    *,
    instructions: str = "",
    tail: str = "",
    pictures: Mapping[BlobDigest, PictureContent] = MappingProxyType({}),
) -> list[ModelMessage]:
    """Return the messages of a call, never empty.

    The last is a request and has the instructions.

    Args:
        source: a View, whose enforced events are used, or events.
        dialect: the API.
        instructions: the system prompt.
        tail: the end of the last request.
        pictures: the contents of pictures; others are only described.
    """
    events = source.ready(open_run=True) if isinstance(source, Window) else source
    messages: list[ModelMessage] = []
    returns: list[ModelRequestPart] = []
    texts: list[Said] = []
    for exchange in exchanges(events):
        if reply := _reply(exchange, dialect):
            messages += [_request(returns, texts, pictures), ModelResponse(parts=reply, provider_name=dialect.system)]
            returns, texts = _answers(exchange, dialect)
        texts += exchange.texts
    if dialect.provider.cache_points:
        last = _request(returns, texts, pictures)
        last.parts = [*last.parts, UserPromptPart([CachePoint(), tail] if tail.strip() else [CachePoint()])]
    else:
        last = _request(returns, [*texts, tail] if tail.strip() else texts, pictures)
    last.instructions = instructions or None
    return [*messages, last]


def _request(
    returns: Sequence[ModelRequestPart], texts: Sequence[Said], pictures: Mapping[BlobDigest, PictureContent]
) -> ModelRequest:
    # One message, because templates of local models refuse two user messages in a row.
    content: list[str | BinaryContent] = []
    for said in texts if texts or returns else [CONTINUED]:
        if isinstance(said, Picture):
            data = None if said.content is None else pictures.get(said.content)
            content += [] if data is None else [BinaryContent(data, media_type=said.media_type)]
        elif content and isinstance(content[-1], str):
            content[-1] = f"{content[-1]}\n\n{said}"
        else:
            content.append(said)
    if not content:
        return ModelRequest(parts=list(returns))
    text = content[0] if len(content) == 1 and isinstance(content[0], str) else None
    return ModelRequest(parts=[*returns, UserPromptPart(content if text is None else text)])


def _answers(exchange: Exchange, dialect: Dialect) -> tuple[list[ModelRequestPart], list[Said]]:
    """Return the answers to the calls of a reply: results, and what the user says first.

    Pictures are the user's, because few providers take them in a result.
    """
    shown = [picture for call in exchange.calls for picture in _pictures(call, exchange)]
    if dialect.calls_tools:
        return [_returned(call, exchange) for call in exchange.calls], [*shown]
    results = [with_note(written_result(_result(call, exchange)), call) for call in exchange.calls]
    return [], [*results, *shown]


def _pictures(call: ToolCall, exchange: Exchange) -> Sequence[Picture]:
    result = exchange.results.get(call.tool_call_id)
    return () if result is None else result.pictures


def _returned(call: ToolCall, exchange: Exchange) -> ToolReturnPart:
    text = with_note(_result(call, exchange), call)
    result = exchange.results.get(call.tool_call_id)
    outcome = "success" if result is None else _OUTCOMES[result.status]
    return ToolReturnPart(_tool_name(call), text, _call_id(call.tool_call_id), outcome=outcome)


def _result(call: ToolCall, exchange: Exchange) -> str:
    result = exchange.results.get(call.tool_call_id)
    if result is None:
        return NO_RESULT
    text = read_text(result)
    return text if text.strip() else NO_OUTPUT


def _reply(exchange: Exchange, dialect: Dialect) -> list[ModelResponsePart]:
    """Return thinking, text and calls in the order that APIs require.

    Empty if none can be sent.
    """
    calls = exchange.calls
    if not dialect.calls_tools:
        texts = [event.text for event in exchange.reply if isinstance(event, AgentText)]
        written = "\n\n".join([*texts, *map(written_call, calls)])
        return [TextPart(written)] if written else []
    # Calls have all the thinking of their reply, in order, and condensation cannot separate them.
    blocks = list(dict.fromkeys(block for call in calls for block in call.thinking))
    parts: list[ModelResponsePart] = [
        _thinking(block, dialect)
        for block in blocks
        if _goes_back(block, dialect) and (block.text or not dialect.provider.signs_calls)
    ]
    for event in exchange.reply:
        if isinstance(event, AgentText):
            parts.append(TextPart(event.text))
        elif isinstance(event, AgentReasoning) and not calls and _goes_back(event, dialect):
            parts.append(_thinking(event, dialect))
    # Anthropic refuses thinking at the end of a message, OpenAI a reasoning item that nothing follows.
    while not calls and parts and isinstance(parts[-1], ThinkingPart):
        parts.pop()
    return [*parts, *(_call(call, dialect) for call in calls)]


def _goes_back(block: ThinkingBlock | AgentReasoning, dialect: Dialect) -> bool:
    signer = dialect.provider.signer
    if not block.signature or signer is None or block.provider != signer:
        return False
    return not dialect.provider.signs_calls or _is_base64(_signature(block)[1])


def _signature(block: ThinkingBlock | AgentReasoning) -> tuple[str | None, str]:
    """Split the id and the signature that `signature_of` joined."""
    identity, mark, signature = (block.signature or "").rpartition(_ID_MARK)
    return identity if mark else None, signature


def _is_base64(text: str) -> bool:
    # Gemini's are bytes: an unreadable one, perhaps from an import, would make every later request fail.
    try:
        return bool(b64decode(text, validate=True))
    except ValueError:
        return False


def _thinking(block: ThinkingBlock | AgentReasoning, dialect: Dialect) -> ThinkingPart:
    identity, signature = _signature(block)
    return ThinkingPart(block.text, id=identity, signature=signature, provider_name=dialect.system)


def _call(call: ToolCall, dialect: Dialect) -> ToolCallPart:
    part = ToolCallPart(_tool_name(call), dict(call.arguments), _call_id(call.tool_call_id))
    signed = next((block for block in call.thinking if _goes_back(block, dialect) and not block.text), None)
    if dialect.provider.signs_calls and signed is not None:
        part.provider_name = dialect.system
        part.provider_details = {"thought_signature": _signature(signed)[1]}
    return part


def _tool_name(call: ToolCall) -> str:
    return _TOOL_NAME.sub("_", call.tool)[:64] or "tool"


def _call_id(call: ToolCallId) -> str:
    """Return the id, or one made of it if some API would refuse it: another provider may have made it."""
    return call if _CALL_ID.fullmatch(call) else f"call_{blake2b(call.encode(), digest_size=16).hexdigest()}"
