"""A foreign conversation as a list of JSON objects with their places, unique names, and a report of the import."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterator
from typing import Any, Final, NoReturn, cast

from msgspec import Struct, field

from ....core.errors import InvalidRequestError
from ....core.ids import LlmResponseId, ToolCallId
from ....core.plain_data import DEEPEST, integer, number
from ....core.text import valid_text

# Bytes as a list of JSON objects, each with the place that messages call it by. Must not know any format.
#
# Takes an array, an object with `messages` or `events`, and objects one after the other: JSON Lines, but also what
# `cat` makes of many files. What comes out is fit for an event: Unicode, 64-bit integers, finite floats, not too
# deep.

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
    """One object; `place` is where it stands, such as `log.jsonl, line 3`."""

    place: str
    fields: Fields

    def refuse(self, reason: str) -> NoReturn:
        """Raises InvalidRequestError with the place and the reason."""
        raise InvalidRequestError(f"{self.place}: {reason}")


class Document(Struct, frozen=True):
    """What was read. `around` is the object that held the list; `replaced` counts characters that were no Unicode."""

    name: str
    items: tuple[Item, ...]
    around: Fields = field(default_factory=dict[str, Any])
    replaced: int = 0


def parse(data: bytes, name: str) -> Document:
    """The document. Lone surrogates become U+FFFD; integers beyond 64 bit and non-finite floats become text.

    Args:
        name: what messages call it.

    Raises:
        InvalidRequestError: it is no such document; it names the line or the item.
    """
    try:
        text = data.decode(json.detect_encoding(data)).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{name}: byte {error.start} is no {error.encoding}: {error.reason}") from error
    values = list(_values(text, name))
    if not values:
        raise InvalidRequestError(f"{name}: it is empty")
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
    """One JSON value, as fit for an event as a document's. Raises ValueError for anything else."""
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
                f"{name}, line {error.lineno}: this is no JSON: {error.msg} (column {error.colno})"
            ) from error
        except RecursionError as error:
            raise InvalidRequestError(f"{place}: the JSON is nested too deep") from error
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
        raise InvalidRequestError(f"{place}: this is {_type(member)}, where a JSON object was due")
    fields = cast("Fields", member)
    if any(isinstance(fields.get(key), list) for key in _LISTS) and "role" not in fields and "kind" not in fields:
        raise InvalidRequestError(f"{place}: there is more than one conversation; import them one at a time")
    return Item(place, fields)


def _type(value: object) -> str:
    return _NAMES.get(type(value), "null")


def _float(digits: str) -> float | str:
    return number(float(digits))


_DECODER: Final = json.JSONDecoder(parse_int=integer, parse_float=_float, parse_constant=_float)


class _Cleaner:
    """Copies values with every lone surrogate replaced, and counts those."""

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


# names:
# Names that a conversation uses more than once, made unique: on a log a tool call and a reply have theirs alone.
#
# Some servers give every reply the same id, and some programs count their calls anew after each message. Must not
# know any format. Used by `writer`.


class UniqueNames:
    """Gives each name once as it is, then as `name#2`, `name#3`, whatever names there are besides."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._uses: Counter[str] = Counter()

    def take(self, name: str) -> str:
        """The name, or the first of its variants that is free."""
        free = name
        while free in self._taken:
            self._uses[name] += 1
            free = f"{name}#{self._uses[name] + 1}"
        self._taken.add(free)
        return free


class Batches:
    """Which replies are one batch: those of one id, as long as nothing ends it.

    A batch ends when something other than the model's output comes and none of its calls waits for its result. An id
    that is used again afterwards is another batch, and gets a name of its own: the View keeps what has one name
    together, so that with a server whose ids are all the same nothing could ever be condensed.
    """

    def __init__(self) -> None:
        self._names = UniqueNames()
        self._given: str | None = None
        self._named = LlmResponseId("")
        self._calls: set[ToolCallId] = set()
        self._is_interrupted = False

    def name(self, given: str, open_calls: Container[ToolCallId]) -> LlmResponseId:
        """The name of the batch that a reply with the id `given` belongs to."""
        waits = any(call in open_calls for call in self._calls)
        if given != self._given or (self._is_interrupted and not waits):
            self.end()
            self._given, self._named = given, LlmResponseId(self._names.take(given))
        return self._named

    def called(self, call: ToolCallId) -> None:
        """A reply of the batch made this call."""
        self._calls.add(call)

    def interrupt(self) -> None:
        """Something other than the model's output came."""
        self._is_interrupted = True

    def end(self) -> None:
        """A reply came that belongs to no batch so far."""
        self._given, self._is_interrupted = None, False
        self._calls.clear()


# report:
# What an import made of a conversation, counted: what became events, what became notes in texts, what was left out.
#
# Must not know any format. Filled while reading, shown by `rewindow import`.

_KINDS: Final = 12
"""Kinds that one line names."""


class Report:
    """Counts by the name that a person would use; each line of `lines` is a sentence for that person."""

    def __init__(self) -> None:
        self.imported: Counter[str] = Counter()
        self.noted: Counter[str] = Counter()
        self.ignored: Counter[str] = Counter()
        self.system_chars = 0

    def lines(self) -> Iterator[str]:
        """At most four lines, the first always there."""
        yield f"imported: {_listed(self.imported)}"
        if self.system_chars:
            yield (
                f"system prompt: {self.system_chars:,} characters, kept as an attachment of the first message;"
                " the agent has instructions of its own"
            )
        if self.noted:
            yield f"turned into notes: {_listed(self.noted)}"
        if self.ignored:
            yield f"ignored: {_listed(self.ignored)}"


def _listed(counts: Counter[str]) -> str:
    shown = [f"{name} {count:,}" for name, count in counts.most_common(_KINDS)]
    if len(counts) > _KINDS:
        shown.append(f"and other kinds {len(counts) - _KINDS:,}")
    return ", ".join(shown) or "nothing"
