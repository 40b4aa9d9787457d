"""What a prompt's content means to the engine: texts and attachments, in the order in which they came. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote

from acp_adapter.requests import Binary, Content, Document, Link, Media, Text
from acp_adapter.rpc.errors import Code, ProtocolError
from engine.log.events.conversation import Attachment, PromptKind

_LARGEST: Final = 1 << 63
"""Sizes from here on are left out, because no log can hold them."""


def read_prompt(content: Sequence[Content]) -> list[str | Attachment]:
    """The prompt's blocks.

    Raises:
        ProtocolError: invalid params, for an empty prompt or a kind of content that this agent did not advertise.
    """
    if not content:
        raise _refused("prompt: must hold at least one content block")
    return [_block(position, block) for position, block in enumerate(content)]


def _block(position: int, block: Content) -> str | Attachment:
    match block:
        case Text(text):
            return text
        case Link():
            return Attachment(
                uri=block.uri,
                name=block.name,
                media_type=block.media_type,
                title=block.title,
                description=block.description,
                size=block.size if block.size is not None and 0 <= block.size < _LARGEST else None,
            )
        case Document(uri, text, media_type):
            return Attachment(uri=uri, name=_name_in(uri), media_type=media_type, text=text)
        case Binary():
            raise _refused(f"prompt[{position}]: binary resources are not supported; send a resource_link")
        case Media(kind):
            raise _refused(f"prompt[{position}]: {kind} content is not advertised by this agent")


def _name_in(uri: str) -> str:
    """The last part of the path, as a person would write it."""
    return unquote(uri.partition("#")[0].partition("?")[0].rstrip("/").rsplit("/", 1)[-1])


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
            raise _refused('_meta.rewindow.promptKind: must be "steer" or "followUp"')


def _refused(message: str) -> ProtocolError:
    return ProtocolError(Code.INVALID_PARAMS, message)
