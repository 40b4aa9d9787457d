"""`session/prompt`: shapes, reader and writer.

The response ends the turn. Source of the shapes: ACP v1 schema, `PromptRequest`, `PromptResponse`.
"""

from typing import Final

from acp_adapter.content import ContentBlock, read_prompt
from acp_adapter.jsonrpc.messages import Json
from acp_adapter.requests import Prompt, PromptEnded, StopReason
from acp_adapter.wire import ForgivingModel, WireModel, from_wire, given, to_wire


class PromptRequest(ForgivingModel):
    session_id: str
    prompt: list[ContentBlock]


class Usage(WireModel):
    """Tokens of all turns of the session. Unstable in the schema."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    cached_read_tokens: int


class PromptResponse(WireModel):
    stop_reason: StopReason
    usage: Usage | None = None


def _read_prompt(params: object) -> Prompt:
    request = from_wire(PromptRequest, params)
    return read_prompt(request.session_id, request.prompt, request.meta)


def _write_ended(reply: PromptEnded) -> Json:
    spent = reply.spent
    usage = Usage(
        total_tokens=spent.input_tokens + spent.output_tokens,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cached_read_tokens=spent.cached_tokens,
    )
    return to_wire(PromptResponse(stop_reason=reply.reason, **given(usage=usage if spent.input_tokens else None)))


READERS: Final = {"session/prompt": _read_prompt}
WRITERS: Final = {"session/prompt": _write_ended}
