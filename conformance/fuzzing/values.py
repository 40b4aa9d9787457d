"""Random JSON: boundary values, mutations, and instances of a schema.

Instances understands as much of JSON Schema as protocols and tools use, and makes a string for the rest. The result is
fuzz, so an instance that the schema forbids does no harm.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from conformance.documents import resolve
from conformance.values import Object, as_list, as_object, as_text, is_list, is_object

_DEPTH: Final = 40
_LONG: Final = 100_000


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


TEXTS: Final = (
    "",
    " ",
    "\0",
    "a\nb",
    "\r",
    "\u2028",
    "\ufeff",
    "ä€😀",
    "\ud800",
    "x" * _LONG,
    "null",
    "../..",
    "~",
    "%2e%2e",
    "-1",
    "1e999",
)
"""Strings: empty, blank, all line ends, several widths, a lone surrogate, long."""
NUMBERS: Final = (0, -1, 1, 2**31, 2**32, 2**53, 2**63, 2**64, -(2**63) - 1, 0.5, 1e308, -0.0)
OTHERS: Final[tuple[Any, ...]] = (None, True, False, [], {}, [[]], {"": {}}, [None] * 50)
_UNKNOWN: Final = ("unknown", "_meta", "", "__proto__", "jsonrpc", "id")
_STRICT_DEPTH: Final = 32
_STRICT_NUMBER: Final = 2**63


def boundary_value(random: Random) -> Any:
    """Return a random boundary value."""
    groups: tuple[tuple[Any, ...], ...] = (TEXTS, NUMBERS, OTHERS, (_nested(_DEPTH),))
    return copy.deepcopy(random.choice(random.choice(groups)))


def mutate(value: Any, random: Random) -> Any:
    """Return a copy with one random change: a value replaced, removed, added or repeated."""
    value = copy.deepcopy(value)
    places = list(_containers(value))
    if not places:
        return boundary_value(random)
    holder, key = random.choice(places)
    act = random.choice(("replace", "replace", "replace", "remove", "add", "repeat"))
    if act == "replace":
        holder[key] = boundary_value(random)
    elif act == "remove":
        del holder[key]
    elif is_object(holder):
        holder[random.choice(_UNKNOWN)] = boundary_value(random) if act == "add" else holder[key]
    else:
        holder.insert(key, boundary_value(random) if act == "add" else copy.deepcopy(holder[key]))
    return value


def _containers(value: Any) -> list[tuple[Any, Any]]:
    """Return every container with each of its keys."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        keys: list[Any] = [*one] if is_object(one) else [*range(len(one))] if is_list(one) else []
        for key in keys:
            found.append((one, key))
            waiting.append(one[key])
    return found


def is_widely_accepted(value: Any) -> bool:
    """Whether all JSON parsers accept it. Some reject deep nesting, large numbers and lone surrogates."""
    waiting = [(value, 0)]
    while waiting:
        one, depth = waiting.pop()
        if depth > _STRICT_DEPTH:
            return False
        if isinstance(one, str):
            if any("\ud800" <= char <= "\udfff" for char in one):
                return False
        elif isinstance(one, int | float) and abs(one) >= _STRICT_NUMBER:
            return False
        children = [*one, *one.values()] if is_object(one) else one if is_list(one) else ()
        waiting += [(child, depth + 1) for child in children]
    return True


def encode_message(message: Any, random: Random | None = None) -> bytes:
    """Encode a line. With a random source, in one of several valid JSON styles."""
    way = random.choice(("compact", "compact", "spaced", "escaped", "crlf")) if random else "escaped"
    plain = way in ("compact", "crlf") and is_widely_accepted(message)
    separators = (", ", " : ") if way == "spaced" else (",", ":")
    text = json.dumps(message, ensure_ascii=not plain, separators=separators)
    return text.encode() + (b"\r\n" if way == "crlf" else b"\n")


# --- instances of a schema --------------------------------------------------------------------------------------------


_DEEPEST: Final = 6
_WORDS: Final = ("a", "word", "two words", "x" * 300)
_UNIONS: Final = ("anyOf", "oneOf")
_OPTIONAL_CHANCE: Final = 0.4
_DEFAULT_CHANCE: Final = 0.1
"""The probability that an optional field is present, and that a default is used."""


class Instances:
    """Makes instances. `fixed` replaces values of the same type, by property name."""

    def __init__(self, document: Object, random: Random, fixed: Mapping[str, Any]) -> None:
        self._document = document
        self._random = random
        self._fixed = fixed

    def of(self, schema: Any, depth: int = 0) -> Any:
        """Return an instance of a schema of the document."""
        if not is_object(schema):
            return self._random.choice(_WORDS)
        if "$ref" in schema:
            schema = {**as_object(resolve(self._document, as_text(schema["$ref"]).removeprefix("#"))), **_rest(schema)}
        for key in ("const", "default"):
            if key in schema and (key == "const" or self._random.random() < _DEFAULT_CHANCE):
                return copy.deepcopy(schema[key])
        if is_list(schema.get("enum")) and schema["enum"]:
            return copy.deepcopy(self._random.choice(schema["enum"]))
        for key in _UNIONS:
            branches = as_list(schema.get(key))
            if branches:
                chosen = self._random.choice(branches)
                return self._merged([{k: v for k, v in schema.items() if k != key}, chosen], depth)
        if schema.get("allOf"):
            return self._merged([{k: v for k, v in schema.items() if k != "allOf"}, *as_list(schema["allOf"])], depth)
        return self._typed(schema, depth)

    def _merged(self, schemas: list[Any], depth: int) -> Any:
        """Return an instance of all schemas: objects are merged, otherwise the last one wins."""
        values = [self.of(schema, depth) for schema in schemas if as_object(schema).keys() - {"description", "title"}]
        found: Any = {}
        for value in values:
            found = {**found, **value} if is_object(found) and is_object(value) else value
        return found

    def _typed(self, schema: Object, depth: int) -> Any:
        kinds = schema.get("type", "object" if "properties" in schema else "string")
        kind = self._random.choice(kinds) if is_list(kinds) and kinds else kinds
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                count = 0 if depth > _DEEPEST else self._random.choice((0, 1, 1, 2))
                return [self.of(schema.get("items", {}), depth + 1) for _ in range(count)]
            case "integer" | "number":
                low = schema.get("minimum", 0)
                return self._random.choice((low, low if isinstance(low, bool) else low + 1, schema.get("maximum", 7)))
            case "boolean":
                return self._random.choice((False, True))
            case "null":
                return None
            case _:
                return self._random.choice(_WORDS)

    def _object(self, schema: Object, depth: int) -> Object:
        wanted = set(map(str, as_list(schema.get("required"))))
        made: Object = {}
        for name, inner in as_object(schema.get("properties")).items():
            if name in wanted or (depth <= _DEEPEST and self._random.random() < _OPTIONAL_CHANCE):
                made[name] = self.of(inner, depth + 1)
                if name in self._fixed and type(made[name]) is type(self._fixed[name]):
                    made[name] = copy.deepcopy(self._fixed[name])
        return made


def _rest(schema: Object) -> Object:
    return {key: value for key, value in schema.items() if key != "$ref"}
