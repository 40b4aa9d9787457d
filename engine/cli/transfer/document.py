"""A foreign conversation as a list of JSON objects, each with its place for messages. Must not know any format.

Accepts an array, an object with `messages` or `events`, and objects one after another: JSON Lines, but also many files
joined by `cat`. The result can be stored in events: it has valid Unicode, 64-bit integers, finite floats and a limited
depth. Called by `commands`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NoReturn, cast

from msgspec import Struct, field

from ...core.errors import InvalidRequestError
from ...core.plain_data import DEEPEST, integer, number
from ...core.text import valid_text

Fields = dict[str, Any]

_NAMES: Final[dict[type[object], str]] = {
    list: "an array",
    str: "text",
    bool: "a truth value",
    int: "a number",
    float: "a number",
}
_LISTS: Final = ("messages", "events")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


class Item(Struct, frozen=True):
    """One object. `place` is its position, such as `log.jsonl, line 3`."""

    place: str
    fields: Fields

    def refuse(self, reason: str) -> NoReturn:
        """Raise InvalidRequestError with the place and the reason."""
        raise InvalidRequestError(f"{self.place}: {reason}")


class Document(Struct, frozen=True):
    """A parsed file.

    `around` is the object that contained the list; `replaced` counts invalid Unicode characters.
    """

    name: str
    items: tuple[Item, ...]
    around: Fields = field(default_factory=dict[str, Any])
    replaced: int = 0


def parse(data: bytes, name: str) -> Document:
    """Parse a document.

    Lone surrogates become U+FFFD. Integers beyond 64 bits and non-finite floats become text.

    Args:
        name: its name in messages.

    Raises:
        InvalidRequestError: it is not such a document. The error names the line or item.
    """
    try:
        text = data.decode(json.detect_encoding(data)).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(
            f"{name}: byte {error.start} is not valid {error.encoding}: {error.reason}"
        ) from error
    values = list(_values(text, name))
    if not values:
        raise InvalidRequestError(f"{name} is empty")
    cleaner = _Cleaner()
    around: Fields = {}
    places = [place for place, _ in values]
    members: list[object] = [cleaner.clean(value, place) for place, value in values]
    if len(members) == 1 and isinstance(members[0], dict):
        around, inner = _opened(cast("Fields", members[0]))
        if inner is not None:
            members, places = inner, [f"{name}, item {number}" for number in range(1, len(inner) + 1)]
    elif len(members) == 1 and isinstance(members[0], list):
        members = cast("list[object]", members[0])
        places = [f"{name}, item {number}" for number in range(1, len(members) + 1)]
    items = tuple(_item(place, member) for place, member in zip(places, members, strict=True))
    return Document(name, items, around, cleaner.replaced)


def loads(text: str) -> object:
    """Parse one JSON value, under the same limits.

    Raises:
        ValueError: it is not JSON, or nested too deep.
    """
    try:
        return _Cleaner().clean(_DECODER.decode(text), "value")
    except (RecursionError, InvalidRequestError) as error:
        raise ValueError(str(error)) from error


def _values(text: str, name: str) -> Iterator[tuple[str, object]]:
    at, line, counted = _past_space(text, 0), 1, 0
    while at < len(text):
        line += text.count("\n", counted, at)
        counted = at
        place = f"{name}, line {line}"
        try:
            value, at = _DECODER.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise InvalidRequestError(
                f"{name}, line {error.lineno}: this is not JSON: {error.msg} (column {error.colno})"
            ) from error
        except RecursionError as error:
            raise InvalidRequestError(f"{place}: the JSON is nested too deeply") from error
        yield place, value
        at = _past_space(text, at)


def _past_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _opened(value: Fields) -> tuple[Fields, list[object] | None]:
    for key in _LISTS:
        if isinstance(value.get(key), list):
            return {name: each for name, each in value.items() if name != key}, value[key]
    return {}, None


def _item(place: str, member: object) -> Item:
    if not isinstance(member, dict):
        raise InvalidRequestError(f"{place}: this must be a JSON object, not {_type(member)}")
    fields = cast("Fields", member)
    if any(isinstance(fields.get(key), list) for key in _LISTS) and "role" not in fields and "kind" not in fields:
        raise InvalidRequestError(f"{place}: the file has more than one conversation; import them one at a time")
    return Item(place, fields)


def _type(value: object) -> str:
    return _NAMES.get(type(value), "null")


def _float(digits: str) -> float | str:
    return number(float(digits))


_DECODER: Final = json.JSONDecoder(parse_int=integer, parse_float=_float, parse_constant=_float)


class _Cleaner:
    """Copies values, and replaces and counts lone surrogates."""

    def __init__(self) -> None:
        self.replaced = 0

    def clean(self, value: object, place: str, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise InvalidRequestError(f"{place}: the JSON is nested more than {DEEPEST} deep")
        match value:
            case str():
                return self._text(value)
            case list():
                return [self.clean(each, place, depth + 1) for each in cast("list[object]", value)]
            case dict():
                pairs = cast("dict[str, object]", value).items()
                return {self._text(key): self.clean(each, place, depth + 1) for key, each in pairs}
            case _:
                return value

    def _text(self, text: str) -> str:
        clean = valid_text(text)
        if clean is not text:
            self.replaced += clean.count(_REPLACEMENT) - text.count(_REPLACEMENT)
        return clean
