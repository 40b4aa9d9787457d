"""`session/prompt` in version 1: the content of a prompt, and why its turn ended."""

from __future__ import annotations

from typing import Final

from acp_adapter.replies import PromptEnded
from acp_adapter.requests import Binary, Content, Document, Link, Media, Prompt, Text
from acp_adapter.wire.codec import Json
from acp_adapter.wire.model import from_wire, to_wire
from acp_adapter.wire.v1.shapes.content import (
    ContentBlock,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from acp_adapter.wire.v1.shapes.prompts import PromptRequest, PromptResponse


def _read_prompt(params: object) -> Prompt:
    request = from_wire(PromptRequest, params)
    return Prompt(request.session_id, tuple(_content(block) for block in request.prompt), request.meta)


def _content(block: ContentBlock) -> Content:
    match block:
        case TextContent():
            return Text(block.text)
        case ResourceLink():
            return Link(block.uri, block.name, block.mime_type, block.title, block.description, block.size)
        case EmbeddedResource(resource=TextResourceContents() as resource):
            return Document(resource.uri, resource.text, resource.mime_type)
        case EmbeddedResource():
            return Binary(block.resource.uri)
        case _:
            return Media(block.type)


def _write_ended(reply: PromptEnded) -> Json:
    return to_wire(PromptResponse(stop_reason=reply.reason))


READERS: Final = {"session/prompt": _read_prompt}
WRITERS: Final = {"session/prompt": _write_ended}
