"""The text of a statement's value: its repr, with long containers elided as IPython elides them.

Of a built-in container the first `MOST_ITEMS` items are shown, wherever it stands in the value, and an ellipsis marks
the rest. Only exact built-in types are looked into: any other object decides by its own repr. May run user code (a
repr), so whatever that raises is raised. Called by `executor`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, cast

from ....core.text import DOTS

MOST_ITEMS: Final = 1_000
"""Items of one container that are shown, as in IPython."""
_DEEPEST: Final = 20
"""Containers in containers that are looked into; deeper ones show their own repr."""

_BRACKETS: Final[dict[type, tuple[str, str]]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    dict: ("{", "}"),
}


def value_text(value: object) -> str:
    """The repr of the value; of a container with more than `MOST_ITEMS` items the first of them."""
    return _elided(value, _DEEPEST) if _is_long(value, _DEEPEST, [MOST_ITEMS * 10], set()) else repr(value)


def _kind(value: object) -> type:
    return type(value)


def _is_long(value: object, depth: int, room: list[int], above: set[int]) -> bool:
    """Whether anything in the value is too long; looks at `room` containers at most, and leaves cycles to repr."""
    if _kind(value) not in _BRACKETS or depth == 0 or room[0] <= 0 or id(value) in above:
        return False
    room[0] -= 1
    items = cast("list[object]", value)
    if len(items) > MOST_ITEMS:
        return True
    inner: Iterable[object] = cast("dict[object, object]", value).values() if _kind(value) is dict else items
    above.add(id(value))
    found = any(_is_long(each, depth - 1, room, above) for each in inner)
    above.discard(id(value))
    return found


def _elided(value: object, depth: int, above: tuple[int, ...] = ()) -> str:
    if _kind(value) not in _BRACKETS or depth == 0 or not value:
        return repr(value)
    opening, closing = _BRACKETS[_kind(value)]
    if id(value) in above:
        return f"{opening}{DOTS}{closing}"
    above = (*above, id(value))
    items = cast("list[object]", value)
    if _kind(value) is dict:
        pairs = islice(cast("dict[object, object]", value).items(), MOST_ITEMS)
        shown = [f"{_elided(key, depth - 1, above)}: {_elided(each, depth - 1, above)}" for key, each in pairs]
    else:
        shown = [_elided(each, depth - 1, above) for each in islice(items, MOST_ITEMS)]
    if len(items) > MOST_ITEMS:
        shown.append(DOTS)
    comma = "," if _kind(value) is tuple and len(items) == 1 else ""
    return f"{opening}{', '.join(shown)}{comma}{closing}"
