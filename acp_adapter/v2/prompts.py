"""`session/prompt`: shapes, reader and writer.

The response says that the message has its place in the conversation. Source of the shapes: ACP v2 schema,
`PromptRequest`, `PromptResponse`.
"""

from typing import Final

from acp_adapter.content import ContentBlock, read_prompt
from acp_adapter.jsonrpc.messages import Json
from acp_adapter.requests import Prompt, PromptInserted
from acp_adapter.wire import ForgivingModel, WireModel, from_wire, to_wire


class PromptRequest(ForgivingModel):
    session_id: str
    prompt: list[ContentBlock]


class PromptResponse(WireModel):
    message_id: str


def _read_prompt(params: object) -> Prompt:
    request = from_wire(PromptRequest, params)
    return read_prompt(request.session_id, request.prompt, request.meta)


def _write_inserted(reply: PromptInserted) -> Json:
    return to_wire(PromptResponse(message_id=reply.message_id))


READERS: Final = {"session/prompt": _read_prompt}
WRITERS: Final = {"session/prompt": _write_inserted}
