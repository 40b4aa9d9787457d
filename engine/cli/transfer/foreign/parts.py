"""The content of a message, which is text or a list of typed parts, as text. What is no text becomes a bracketed note.

Knows the parts of every format, because logs mix them. Must not know messages. Called by each format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, cast

from ....core.errors import InvalidRequestError
from ....core.text import cut_line
from .document import Fields
from .report import Report

_TEXTS: Final = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""The types of parts that are text, with the field that holds it."""
_NOTE_CHARS: Final = 200
_NAME_CHARS: Final = 80


def parts_of(content: object, place: str) -> Iterator[Fields]:
    """The parts of a content; a text is one part.

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
                    raise InvalidRequestError(f"{place}: part {number} of its content is neither text nor an object")
                yield from parts_of(cast("object", part), place)
        case _:
            raise InvalidRequestError(f"{place}: its content is neither text nor a list of parts")


def text_of(part: Fields, report: Report) -> str:
    """The part's text, or a note in its place, which the report counts."""
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
    """The whole content as one text, each part on a line of its own. Raises InvalidRequestError as `parts_of`."""
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
"""What a part is by a word in its type, and what a note says about it."""


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
