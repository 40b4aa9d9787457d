"""What the message lists of all providers share: roles, content as text, and thinking blocks.

Must not know which provider wrote the list. Called by each format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, cast

from ...core.errors import InvalidRequestError
from ...core.text import cut_line
from ...log.events.conversation import ThinkingBlock
from .document import Document, Fields, Item
from .writer import Reply, Report, Writer

REDACTED: Final = "[redacted thinking]"

_THINKER: Final = "anthropic"
"""The provider whose signatures `thinking` blocks have, whichever program wrote them."""


def role_of(item: Item, roles: Sequence[str]) -> str:
    """Return the message's role.

    Raises:
        InvalidRequestError: it is not one of `roles`.
    """
    role = item.fields.get("role")
    if role not in roles:
        said = "the message has no role" if role is None else f"the role is {cut_line(str(role), _NAME_CHARS)!r}"
        item.refuse(f"{said}; known roles are {', '.join(roles)}")
    return str(role)


def note_unread(fields: Fields, read: Collection[str], report: Report, where: str = "fields") -> None:
    """Count fields that have a value but are not read."""
    for key, value in fields.items():
        if key not in read and value is not None and value is not False and value not in ("", [], {}):
            report.ignored[f"{cut_line(key, _NAME_CHARS)} {where}"] += 1


def system(item: Item, writer: Writer) -> None:
    """Take a system message: the prompt if it comes first.

    A later one becomes a user message with a label.
    """
    text = joined(item.fields.get("content"), item.place, writer.report)
    if not writer.begun:
        writer.system(text)
        return
    writer.report.noted["later system messages, as user messages"] += 1
    writer.user(f"[system] {text}")


def think(block: Fields, reply: Reply, report: Report) -> None:
    """Take a block of the type `thinking` or `redacted_thinking`."""
    if block.get("type") == "redacted_thinking":
        report.noted["redacted thinking blocks"] += 1
        reply.reasoning(REDACTED)
        return
    text, signature = block.get("thinking"), block.get("signature")
    if not isinstance(text, str):
        text = ""
    if isinstance(signature, str) and signature:
        reply.thinking(ThinkingBlock(text=text, signature=signature, provider=_THINKER))
    elif text:
        reply.thinking(ThinkingBlock(text=text))


def think_aloud(fields: Fields, reply: Reply, report: Report) -> None:
    """Take the reasoning of a message as gateways save it.

    That is `thinking_blocks`, or a text, or both with the same text.
    """
    listed = fields.get("thinking_blocks")
    members = cast("list[object]", listed) if isinstance(listed, list) else []
    blocks = [cast("Fields", block) for block in members if isinstance(block, dict)]
    for block in blocks:
        think(block, reply, report)
    known = [block.get("thinking") for block in blocks]
    for key in ("reasoning_content", "reasoning"):
        text = fields.get(key)
        if isinstance(text, str) and text and text not in known and text != "".join(map(str, known)):
            reply.reasoning(text)
            known.append(text)


def refuse_without_messages(document: Document) -> None:
    """Raise InvalidRequestError for an empty list."""
    if not document.items:
        Item(document.name, {}).refuse("the file contains no message")


# Content: text, or a list of typed parts. A part that is not text becomes a bracketed note. The parts of all
# formats are known here, because logs mix them.

_TEXTS: Final = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Types of text parts, with the field of the text."""
_NOTE_CHARS: Final = 200
_NAME_CHARS: Final = 80


def parts_of(content: object, place: str) -> Iterator[Fields]:
    """Yield the parts of a content; a text is one part.

    Raises:
        InvalidRequestError: it is neither text nor parts.
    """
    match content:
        case None | "":
            return
        case str():
            yield {"type": "text", "text": content}
        case dict():
            yield cast("Fields", content)
        case list():
            for number, part in enumerate(cast("list[object]", content), 1):
                if not isinstance(part, (str, dict)):
                    raise InvalidRequestError(f"{place}: part {number} of the content is neither text nor an object")
                yield from parts_of(cast("object", part), place)
        case _:
            raise InvalidRequestError(f"{place}: the content is neither text nor a list of parts")


def text_of(part: Fields, report: Report) -> str:
    """Return the part's text, or a note, which the report counts."""
    kind = part.get("type")
    text = part.get(_TEXTS.get(kind, "")) if isinstance(kind, str) else part.get("text")
    if isinstance(text, str):
        return text
    name = kind if isinstance(kind, str) and kind else "part without a type"
    for word, describe in _NOTES:
        if word in name:
            report.noted[f"{word} parts"] += 1
            return f"[{word}{_detail(describe(part))}]"
    report.noted[f"{cut_line(name, _NAME_CHARS)} parts"] += 1
    return f"[{cut_line(name, _NAME_CHARS)}: left out]"


def joined(content: object, place: str, report: Report) -> str:
    """Return the whole content as text, a line for each part.

    Raises:
        InvalidRequestError: it is neither text nor parts.
    """
    return "\n".join(text_of(part, report) for part in parts_of(content, place))


def _image(part: Fields) -> str:
    urls = part.get("image_urls")
    addresses = cast("list[object]", urls) if isinstance(urls, list) else [part.get("image_url")]
    named = [_address(address) for address in addresses]
    return ", ".join(name for name in named if name) or _source(part)


def _audio(part: Fields) -> str:
    inner = part.get("input_audio", part)
    return _first(cast("Fields", inner), "transcript", "format") if isinstance(inner, dict) else ""


def _file(part: Fields) -> str:
    inner = part.get("file")
    named = _first(cast("Fields", inner), "filename", "file_id") if isinstance(inner, dict) else ""
    return named or _first(part, "filename", "title", "name") or _source(part)


_NOTES: Final[tuple[tuple[str, Callable[[Fields], str]], ...]] = (
    ("image", _image),
    ("audio", _audio),
    ("video", _file),
    ("document", _file),
    ("file", _file),
)
"""A word in a part's type, and how to describe such a part."""


def _source(part: Fields) -> str:
    source = part.get("source")
    if not isinstance(source, dict):
        return ""
    fields = cast("Fields", source)
    return _address(fields.get("url")) or _first(fields, "media_type", "file_id")


def _address(address: object) -> str:
    if isinstance(address, dict):
        address = cast("Fields", address).get("url")
    if not isinstance(address, str):
        return ""
    head, comma, _ = address.partition(",")
    return head if address.startswith("data:") and comma else address


def _first(fields: Fields, *keys: str) -> str:
    return next((value for key in keys if isinstance(value := fields.get(key), str) and value), "")


def _detail(text: str) -> str:
    line = " ".join(text.split())
    return f": {cut_line(line, _NOTE_CHARS)}" if line else ""
