"""Answers of providers as they stream them: whole ones, and beginnings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.support.llm_server import Answer, chunk, sse


def chat(text: str, call: str | None = None, call_id: str = "call_1") -> Answer:
    """A chat completion: one character in each chunk, and each chunk written by itself. `call` is the arguments."""
    pieces = [sse(chunk(content=char)) for char in text]
    if call is not None:
        function = {"name": "python", "arguments": call}
        pieces.append(sse(chunk(tool_calls=[{"index": 0, "id": call_id, "type": "function", "function": function}])))
    return Answer(pieces=(*pieces, sse(chunk("stop" if call is None else "tool_calls"), "[DONE]")))


def anthropic(text: str, call: str | None = None, call_id: str = "toolu_1") -> Answer:
    """A message of Anthropic's, in the same way."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": []}
    usage = {"input_tokens": 1, "output_tokens": 1}
    start = {
        "type": "message_start",
        "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage},
    }
    parts: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": char} for char in text])
    ]
    if call is not None:
        tool = {"type": "tool_use", "id": call_id, "name": "python", "input": {}}
        parts.append((tool, [{"type": "input_json_delta", "partial_json": call}]))
    blocks: list[dict[str, Any]] = []
    for index, (block, deltas) in enumerate(parts):
        blocks.append({"type": "content_block_start", "index": index, "content_block": block})
        blocks += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        blocks.append({"type": "content_block_stop", "index": index})
    reason = {"stop_reason": "end_turn" if call is None else "tool_use", "stop_sequence": None}
    end = [{"type": "message_delta", "delta": reason, "usage": {"output_tokens": 2}}, {"type": "message_stop"}]
    return Answer(pieces=tuple(sse(event) for event in [start, *blocks, *end]))


ANSWERS: dict[str, Callable[..., Answer]] = {"chat": chat, "anthropic": anthropic}
"""By the name of the API."""


# --- of each provider -------------------------------------------------------------------------------------------------

CHAT: Final = "openai-chat:gpt-4o"
CLAUDE: Final = "anthropic:claude-opus-4-8"
GEMINI: Final = "google:gemini-2.5-flash"
RESPONSES: Final = "openai-responses:gpt-5"
MISTRAL: Final = "mistral:mistral-large-latest"


def _counted_chat() -> bytes:
    counts = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    usage = {**counts, "prompt_tokens_details": {"cached_tokens": 5}}
    return sse(chunk(content="hi"), chunk("stop"), {**chunk(), "choices": [], "usage": usage}, "[DONE]")


def _counted_responses() -> bytes:
    part = {"type": "output_text", "text": "hi", "annotations": []}
    item = {"id": "i", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    counts = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
    usage = {**counts, "input_tokens_details": {"cached_tokens": 5}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole = {
        "id": "r", "object": "response", "created_at": 1, "model": "m", "parallel_tool_calls": False,
        "tool_choice": "auto", "tools": [], "status": "completed", "output": [item], "usage": usage,
    }  # fmt: skip
    place = {"item_id": "i", "output_index": 0, "content_index": 0}
    return sse(
        {"type": "response.created", "sequence_number": 0, "response": {**whole, "output": [], "usage": None}},
        {
            "type": "response.output_item.added",
            "sequence_number": 1,
            "output_index": 0,
            "item": {**item, "content": []},
        },
        {"type": "response.output_text.delta", "sequence_number": 2, **place, "delta": "hi", "logprobs": []},
        {"type": "response.completed", "sequence_number": 3, "response": whole},
    )


def _counted_claude() -> bytes:
    counts = {"input_tokens": 4, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": []}
    start = {**message, "stop_reason": None, "stop_sequence": None, "usage": counts}
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    return sse(
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    )


def _counted_gemini() -> bytes:
    said = {"content": {"role": "model", "parts": [{"text": "hi"}]}, "finishReason": "STOP", "index": 0}
    counts = {"promptTokenCount": 11, "cachedContentTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 18}
    return sse({"candidates": [said], "usageMetadata": counts})


WHOLE: Final = {
    CHAT: _counted_chat(),
    RESPONSES: _counted_responses(),
    CLAUDE: _counted_claude(),
    GEMINI: _counted_gemini(),
    MISTRAL: _counted_chat(),
}
"""The text "hi", with counts."""


def _begun_claude() -> tuple[bytes, ...]:
    start = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": []}
    usage = {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    delta = {"type": "text_delta", "text": "half"}
    return (
        sse({"type": "message_start", "message": {**start, **usage}}),
        sse({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        sse({"type": "content_block_delta", "index": 0, "delta": delta}),
    )


def _begun_responses() -> tuple[bytes, ...]:
    place = {"item_id": "t1", "output_index": 0, "content_index": 0}
    message = {"type": "message", "id": "t1", "role": "assistant", "status": "in_progress", "content": []}
    part = {"type": "output_text", "text": "", "annotations": []}
    return (
        sse({"type": "response.output_item.added", "output_index": 0, "item": message, "sequence_number": 1}),
        sse({"type": "response.content_part.added", **place, "part": part, "sequence_number": 2}),
        sse({"type": "response.output_text.delta", **place, "delta": "half", "sequence_number": 3, "logprobs": []}),
    )


def _begun_gemini() -> tuple[bytes, ...]:
    return (sse({"candidates": [{"content": {"parts": [{"text": "half"}], "role": "model"}}]}),)


BEGUN: Final[dict[str, tuple[bytes, ...]]] = {
    CHAT: (sse(chunk(role="assistant", content="half")),),
    RESPONSES: _begun_responses(),
    CLAUDE: _begun_claude(),
    GEMINI: _begun_gemini(),
    MISTRAL: (sse(chunk(role="assistant", content="half")),),
}
PINGS: Final = {
    CHAT: b": ping\n\n",
    RESPONSES: b": ping\n\n",
    CLAUDE: sse({"type": "ping"}),
    GEMINI: sse({"usageMetadata": {"promptTokenCount": 1}}),
    MISTRAL: b": ping\n\n",
}
