"""What a model reads, as messages of pydantic-ai, which knows the wire format of each provider.

Owns how exchanges become requests and responses: roles alternate, the first and the last message are the user's,
nothing is blank, every call is answered in the next message, and thinking goes back to who signed it or not at all.
Imports pydantic-ai, so it is imported as `library` says.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from pydantic_ai.messages import (
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

from ...core.ids import ToolCallId
from ...log.events import Event
from ...log.events.conversation import AgentReasoning, AgentText, ThinkingBlock, ToolCall
from ..tail.written import with_note, written_call, written_result
from ..view import Window
from .exchanges import Exchange, exchanges
from .providers import Provider

CONTINUED: Final = "(continue)"
"""Stands where an API asks for a user's message and there is none: before, between and after replies."""
NO_OUTPUT: Final = "(no output)"
NO_RESULT: Final = "(no result)"
_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""What every API takes: Anthropic's pattern, at OpenAI's length."""
_TOOL_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_ID_MARK: Final = "|"
"""Between the id of a thinking item and its signature, which is base64 and has none."""


class Dialect(Struct, frozen=True):
    """Whose API a conversation is written for; `system` is what pydantic-ai calls it in messages.

    Without `calls_tools` calls and their results are text, and no thinking goes back, as APIs want it beside calls
    alone.
    """

    provider: Provider
    system: str
    calls_tools: bool = True


def signature_of(part: ThinkingPart) -> str | None:
    """The signature to keep of a thinking part, with the part's id where it has one: both must go back."""
    if not part.signature:
        return None
    return f"{part.id}{_ID_MARK}{part.signature}" if part.id else part.signature


def to_messages(
    source: Window | Iterable[Event], dialect: Dialect, *, instructions: str = "", tail: str = ""
) -> list[ModelMessage]:
    """The messages of one model call, never empty and ending in a request, which carries the instructions.

    Args:
        source: a View, of which the enforced reading is taken, or the events of one.
        dialect: whose API it is for.
        instructions: the system prompt.
        tail: goes last in the last request.
    """
    events = source.ready(open_run=True) if isinstance(source, Window) else source
    messages: list[ModelMessage] = []
    returns: list[ModelRequestPart] = []
    said: list[str] = []
    for exchange in exchanges(events):
        if reply := _reply(exchange, dialect):
            messages += [_request(returns, said), ModelResponse(parts=reply, provider_name=dialect.system)]
            returns, said = _answers(exchange, dialect)
        said += exchange.said
    if dialect.provider.cache_points:
        last = _request(returns, said)
        last.parts = [*last.parts, UserPromptPart([CachePoint(), tail] if tail.strip() else [CachePoint()])]
    else:
        last = _request(returns, [*said, tail] if tail.strip() else said)
    last.instructions = instructions or None
    return [*messages, last]


def _request(returns: Sequence[ModelRequestPart], said: Sequence[str]) -> ModelRequest:
    # One text and not several, because templates of local models refuse two user messages in a row.
    text = "\n\n".join(said) if said or returns else CONTINUED
    return ModelRequest(parts=[*returns, UserPromptPart(text)] if text else list(returns))


def _answers(exchange: Exchange, dialect: Dialect) -> tuple[list[ModelRequestPart], list[str]]:
    """What the calls of a reply are answered: as results, or as what the user says first."""
    if dialect.calls_tools:
        return [_returned(call, exchange) for call in exchange.calls], []
    return [], [with_note(written_result(_result(call, exchange)), call) for call in exchange.calls]


def _returned(call: ToolCall, exchange: Exchange) -> ToolReturnPart:
    text = with_note(_result(call, exchange), call)
    return ToolReturnPart(_tool_name(call), text, _call_id(call.tool_call_id))


def _result(call: ToolCall, exchange: Exchange) -> str:
    result = exchange.results.get(call.tool_call_id)
    if result is None:
        return NO_RESULT
    return result.text if result.text.strip() else NO_OUTPUT


def _reply(exchange: Exchange, dialect: Dialect) -> list[ModelResponsePart]:
    """Thinking, text, calls, in the order in which APIs want them; empty where nothing of it can be sent."""
    calls = exchange.calls
    if not dialect.calls_tools:
        texts = [event.text for event in exchange.reply if isinstance(event, AgentText)]
        written = "\n\n".join([*texts, *map(written_call, calls)])
        return [TextPart(written)] if written else []
    # The calls know all the thinking of their reply, in order, and condensation cannot part them from it.
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
    """The id and the signature that `signature_of` joined."""
    identity, mark, signature = (block.signature or "").rpartition(_ID_MARK)
    return identity if mark else None, signature


def _is_base64(text: str) -> bool:
    # Gemini's are bytes: one that cannot be read would spoil every later request, and an import may bring it.
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
    """The id itself where every API takes it, else one made of it: it may come from another provider."""
    return call if _CALL_ID.fullmatch(call) else f"call_{blake2b(call.encode(), digest_size=16).hexdigest()}"
