"""Values at the edges of what programs take, and changes of a JSON value to such ones."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any, Final

from conformance.values import is_list, is_object

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
"""Strings: empty, blank, with line ends of every kind, of several widths, half a surrogate pair, long."""
NUMBERS: Final = (0, -1, 1, 2**31, 2**32, 2**53, 2**63, 2**64, -(2**63) - 1, 0.5, 1e308, -0.0)
OTHERS: Final[tuple[Any, ...]] = (None, True, False, [], {}, [[]], {"": {}}, [None] * 50)
_UNKNOWN: Final = ("unknown", "_meta", "", "__proto__", "jsonrpc", "id")
_STRICT_DEPTH: Final = 32
_STRICT_NUMBER: Final = 2**63


def boundary(random: Random) -> Any:
    """Any value at an edge."""
    groups: tuple[tuple[Any, ...], ...] = (TEXTS, NUMBERS, OTHERS, (_nested(_DEPTH),))
    return copy.deepcopy(random.choice(random.choice(groups)))


def changed(value: Any, random: Random) -> Any:
    """The value with one thing different somewhere within it: replaced, gone, unknown, or there twice."""
    value = copy.deepcopy(value)
    places = list(_places(value))
    if not places:
        return boundary(random)
    holder, key = random.choice(places)
    act = random.choice(("replace", "replace", "replace", "remove", "add", "repeat"))
    if act == "replace":
        holder[key] = boundary(random)
    elif act == "remove":
        del holder[key]
    elif is_object(holder):
        holder[random.choice(_UNKNOWN)] = boundary(random) if act == "add" else holder[key]
    else:
        holder.insert(key, boundary(random) if act == "add" else copy.deepcopy(holder[key]))
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container within with each of its keys."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        keys: list[Any] = [*one] if is_object(one) else [*range(len(one))] if is_list(one) else []
        for key in keys:
            found.append((one, key))
            waiting.append(one[key])
    return found


def is_plain(value: Any) -> bool:
    """Whether every parser of JSON takes it: some refuse deep nesting, large numbers and half surrogate pairs."""
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


def encoded(message: Any, random: Random | None = None) -> bytes:
    """A line. With a random source, in one of the ways in which JSON may be written."""
    way = random.choice(("compact", "compact", "spaced", "escaped", "crlf")) if random else "escaped"
    plain = way in ("compact", "crlf") and is_plain(message)
    separators = (", ", " : ") if way == "spaced" else (",", ":")
    text = json.dumps(message, ensure_ascii=not plain, separators=separators)
    return text.encode() + (b"\r\n" if way == "crlf" else b"\n")
