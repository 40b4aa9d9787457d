"""Content blocks: what people write into prompts and what agents show; the same shapes as in the MCP.

Source: ACP v1 schema, `ContentBlock` and below. Must not know where blocks occur.
"""

from typing import Annotated, Literal

from pydantic import Field

from acp_adapter.wire.model import ForgivingList, ForgivingModel


class Annotations(ForgivingModel):
    """Hints for whoever shows a block; `priority` runs from 0 to 1, `last_modified` is ISO 8601."""

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
    """A resource that the agent can read itself; `size` in bytes."""

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
