"""What a prompt's content means to the engine: the text, and what was attached. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from acp_adapter.requests import Binary, Content, Document, Link, Media, Text
from acp_adapter.rpc.errors import Code, ProtocolError
from engine.events.conversation import Attachment, PromptKind

MAX_CHARS: Final = 1_000_000
"""Of a prompt's text; attachments may be longer."""


def read_prompt(content: Sequence[Content]) -> tuple[str, tuple[Attachment, ...]]:
    """The prompt's text, its text blocks joined by newlines, and its attachments in order.

    Raises:
        ProtocolError: invalid params, for an empty prompt or a kind of content that this agent did not advertise.
    """
    texts: list[str] = []
    attachments: list[Attachment] = []
    for position, block in enumerate(content):
        match block:
            case Text(text):
                texts.append(text)
            case Link(uri, name, media_type):
                attachments.append(Attachment(uri=uri, name=name, media_type=media_type))
            case Document(uri, text, media_type):
                name = uri.rstrip("/").rsplit("/", 1)[-1]
                attachments.append(Attachment(uri=uri, name=name, media_type=media_type, text=text))
            case Binary():
                raise _refused(f"prompt[{position}]: binary resources are not supported; send a resource_link")
            case Media(kind):
                raise _refused(f"prompt[{position}]: {kind} content is not advertised by this agent")
    if sum(map(len, texts)) > MAX_CHARS:
        raise _refused(f"prompt: its text has more than {MAX_CHARS:,} characters; attach a file")
    if not texts and not attachments:
        raise _refused("prompt: must hold at least one content block")
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
            raise _refused('_meta.rewindow.promptKind: must be "steer" or "followUp"')


def _refused(message: str) -> ProtocolError:
    return ProtocolError(Code.INVALID_PARAMS, message)
