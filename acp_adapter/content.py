"""Content blocks, which MCP defines too: shapes, and what those of prompts and system prompts are for the engine.

The same in each version of the protocol. A prompt becomes texts, attachments and pictures, in the order in which they
came. Kinds of content that no version advertises are refused. Source of the shapes: ACP v1 schema, `ContentBlock`.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, cast
from urllib.parse import unquote

from pydantic import Field

from acp_adapter.jsonrpc.messages import Code, ProtocolError, WireShapeError
from acp_adapter.requests import Prompt
from acp_adapter.wire import ForgivingList, ForgivingModel, from_wire, given
from engine.core.pictures import GivenPicture, Picture, PictureContent, description
from engine.log.events.conversation import Attachment, PromptKind


class Annotations(ForgivingModel):
    """Hints for display; `priority` is between 0 and 1, `last_modified` is ISO 8601."""

    audience: ForgivingList[Literal["assistant", "user"]] | None = None
    last_modified: str | None = None
    priority: float | None = None


class TextContent(ForgivingModel):
    type: Literal["text"] = "text"
    text: str
    annotations: Annotations | None = None


class ImageContent(ForgivingModel):
    """`data` is base64."""

    type: Literal["image"] = "image"
    data: str
    mime_type: str
    uri: str | None = None
    annotations: Annotations | None = None


class AudioContent(ForgivingModel):
    """`data` is base64."""

    type: Literal["audio"] = "audio"
    data: str
    mime_type: str
    annotations: Annotations | None = None


class ResourceLink(ForgivingModel):
    """A resource that the agent can read; `size` in bytes."""

    type: Literal["resource_link"] = "resource_link"
    uri: str
    name: str
    mime_type: str | None = None
    title: str | None = None
    description: str | None = None
    size: int | None = None
    annotations: Annotations | None = None


class TextResourceContents(ForgivingModel):
    uri: str
    text: str
    mime_type: str | None = None


class BlobResourceContents(ForgivingModel):
    """`blob` is base64."""

    uri: str
    blob: str
    mime_type: str | None = None


class EmbeddedResource(ForgivingModel):
    type: Literal["resource"] = "resource"
    resource: TextResourceContents | BlobResourceContents
    annotations: Annotations | None = None


ContentBlock = Annotated[
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource, Field(discriminator="type")
]


# --- prompts ----------------------------------------------------------------------------------------------------------

_LARGEST: Final = 1 << 63
"""Sizes from here on are dropped, because the log cannot store them."""


def read_prompt(session_id: str, blocks: Sequence[ContentBlock], meta: Mapping[str, Any] | None) -> Prompt:
    """Return a prompt as a value. Raises ProtocolError (invalid params)."""
    if not blocks:
        raise _refused("prompt: must have at least one content block")
    content = tuple(_read_block(index, block) for index, block in enumerate(blocks))
    return Prompt(session_id, content, _read_kind(meta))


_PICTURES: Final = "image/"
_PICTURE: Final = "picture-{number}"
"""The name of a picture for which the client names no URI; `number` counts blocks of the prompt."""


def _read_block(index: int, block: ContentBlock) -> str | Attachment | GivenPicture:
    match block:
        case TextContent(text=text):
            return text
        case ResourceLink():
            return Attachment(
                uri=block.uri,
                name=block.name,
                media_type=block.mime_type,
                title=block.title,
                description=block.description,
                size=block.size if block.size is not None and 0 <= block.size < _LARGEST else None,
            )
        case EmbeddedResource(resource=TextResourceContents() as resource):
            uri = resource.uri
            return Attachment(uri=uri, name=_name_in(uri), media_type=resource.mime_type, text=resource.text)
        case ImageContent():
            return _picture(index, block.data, block.mime_type, block.uri or "")
        case EmbeddedResource(resource=BlobResourceContents(mime_type=str() as kind) as resource) if kind.startswith(
            _PICTURES
        ):
            return _picture(index, resource.blob, kind, resource.uri)
        case EmbeddedResource():
            raise _refused(f"prompt[{index}]: binary resources are not supported; send a resource_link")
        case _:
            raise _refused(f"prompt[{index}]: {block.type} content is not advertised by this agent")


def _picture(index: int, data: str, media_type: str, uri: str) -> GivenPicture:
    try:
        content = b64decode(data, validate=True)
    except (Base64Error, ValueError):
        raise _refused(f"prompt[{index}]: the data of the image is not base64") from None
    return GivenPicture(_name_in(uri) or _PICTURE.format(number=index + 1), media_type, content, uri)


def picture_block(picture: Picture, content: PictureContent | None, uri: str | None = None) -> ContentBlock:
    """Return a picture as an image, or its description if it has no content."""
    if content is None:
        return TextContent(text=description(picture))
    data = b64encode(content).decode("ascii")
    return ImageContent(data=data, mime_type=picture.media_type, **given(uri=uri))


class _Held(ForgivingModel):
    content: ContentBlock


def contents_in(blocks: Sequence[Mapping[str, object]]) -> list[ContentBlock]:
    """Return the blocks of an MCP server's answer that are no text, as they came, without those that are no content."""
    found: list[ContentBlock] = []
    for block in blocks:
        with suppress(WireShapeError):
            content = from_wire(_Held, {"content": block}).content
            found += [] if isinstance(content, TextContent) else [content]
    return found


# --- instructions -----------------------------------------------------------------------------------------------------


class SystemPrompt(ForgivingModel):
    """Instructions of the client. Unstable in the schema."""

    strict_fields = frozenset({"mode", "content"})
    mode: str
    content: list[ContentBlock]


ONLY_APPEND: Final = 'systemPrompt.mode: must be "append", because the agent\'s own instructions explain how it works'


def read_instructions(prompt: SystemPrompt | None, meta: Mapping[str, Any] | None) -> str:
    """Return the client's instructions; "" for none. Raises ProtocolError (invalid params).

    Clients that are older than `systemPrompt` have it in `_meta`: a text, or `{"append": text}`. Both are added to the
    agent's own instructions.
    """
    if prompt is None:
        given = (meta or {}).get("systemPrompt")
        text: object = cast("dict[str, Any]", given).get("append") if isinstance(given, dict) else given
        return text if isinstance(text, str) else ""
    if prompt.mode != "append":
        raise _refused(ONLY_APPEND)
    texts = [block.text for block in prompt.content if isinstance(block, TextContent)]
    if not prompt.content or len(texts) < len(prompt.content):
        raise _refused("systemPrompt.content: must be one or more text blocks")
    return "\n\n".join(texts)


# --- parts ------------------------------------------------------------------------------------------------------------


def _name_in(uri: str) -> str:
    """Return the last part of the path, as a person would write it."""
    return unquote(uri.partition("#")[0].partition("?")[0].rstrip("/").rsplit("/", 1)[-1])


def _read_kind(meta: Mapping[str, Any] | None) -> PromptKind | None:
    """Return the client's choice for a prompt during a running turn: `_meta.rewindow.promptKind`."""
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
            raise _refused('_meta.rewindow.promptKind: must be "steer" or "followUp"')


def _refused(message: str) -> ProtocolError:
    return ProtocolError(Code.INVALID_PARAMS, message)
