"""Whole answers of providers as they stream them, with a text in pieces and perhaps a call of the tool `python`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
