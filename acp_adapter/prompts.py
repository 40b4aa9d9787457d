"""What a prompt's content blocks mean to the engine: the text, and what was attached. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from acp_adapter.errors import Code, ProtocolError
from acp_adapter.wire.v1.shapes.content import (
    ContentBlock,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from engine.events.conversation import Attachment, PromptKind

MAX_CHARS: Final = 1_000_000
"""Of a prompt's text; attachments may be longer."""


def read_prompt(blocks: Sequence[ContentBlock]) -> tuple[str, tuple[Attachment, ...]]:
    """The prompt's text, its text blocks joined by newlines, and its attachments in order.

    Raises:
        ProtocolError: invalid params, for an empty prompt or a kind of block that this agent did not advertise.
    """
    texts: list[str] = []
    attachments: list[Attachment] = []
    for position, block in enumerate(blocks):
        match block:
            case TextContent(text=text):
                texts.append(text)
            case ResourceLink():
                attachments.append(Attachment(uri=block.uri, name=block.name, media_type=block.mime_type))
            case EmbeddedResource(resource=TextResourceContents() as resource):
                name = resource.uri.rstrip("/").rsplit("/", 1)[-1]
                attachments.append(
                    Attachment(uri=resource.uri, name=name, media_type=resource.mime_type, text=resource.text)
                )
            case EmbeddedResource():
                raise ProtocolError(
                    Code.INVALID_PARAMS, f"prompt[{position}]: binary resources are not supported; send a resource_link"
                )
            case _:
                raise ProtocolError(
                    Code.INVALID_PARAMS, f"prompt[{position}]: {block.type} content is not advertised by this agent"
                )
    if sum(map(len, texts)) > MAX_CHARS:
        raise ProtocolError(
            Code.INVALID_PARAMS, f"prompt: its text has more than {MAX_CHARS:,} characters; attach a file"
        )
    if not texts and not attachments:
        raise ProtocolError(Code.INVALID_PARAMS, "prompt: must hold at least one content block")
    return "\n".join(texts), tuple(attachments)


def wanted_kind(meta: Mapping[str, Any] | None) -> PromptKind | None:
    """What the client wants a prompt to be that comes while a turn is running: `_meta.rewindow.promptKind`.

    Raises:
        ProtocolError: invalid params, for a kind that there is not.
    """
    ours = (meta or {}).get("rewindow")
    kind = cast("dict[str, Any]", ours).get("promptKind") if isinstance(ours, dict) else None
    match kind:
        case None:
            return None
        case "steer":
            return "steer"
        case "followUp":
            return "follow_up"
        case _:
            raise ProtocolError(Code.INVALID_PARAMS, '_meta.rewindow.promptKind: must be "steer" or "followUp"')
