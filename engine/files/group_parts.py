"""What a group's summary is made of: one immutable value for each member, taken when the summary is made anew.

A paused group keeps its parts, so it shows what it showed, whatever becomes of its members. Must not know nodes. Made
by nodes; divided by `group_shares`, written out by `group_summary`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .rendered import RenderedView

_TOP: Final = -1
_MARKS: Final = 6
"""Tokens of a member's line besides its name and title, at most."""


@dataclass(frozen=True, slots=True)
class Salience:
    """What makes a part worth more tokens than another: its pin, a change that no model has read, its last use."""

    pinned: bool = False
    changed: bool = False
    touched: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One member, as it is now.

    `key` says which member it is, so that one that is met twice counts once. `name` is what statements call it, and
    `title` what it is about; both are on one line. `lod` is the finest level that it asks for by itself. `need` is at
    least as many tokens as it could use. `render` gives its text for a level and a budget, at least 1, in tokens; where
    it is None the part is a group, and `parts` are its own.
    """

    key: str
    name: str
    title: str
    lod: int
    need: int
    render: Callable[[int, int], RenderedView] | None
    salience: Salience = Salience()
    parts: tuple[Part, ...] = ()


def need_of(parts: Sequence[Part]) -> int:
    """At least as many tokens as a group of these could use: each has a line of its own."""
    return sum(part.need + len(f"{part.name}{part.title}".encode("utf-8", "replace")) + _MARKS for part in parts)


def distinct(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Each member once in the whole tree: at the place that is nearest to the top, and of those the first."""
    found: list[tuple[int, Part]] = []
    seen: set[str] = set()
    level = [(_TOP, part) for part in parts]
    while level:
        # By level, so that what is nearer to the top comes first; and not by recursion, because nothing bounds depth.
        first = len(found)
        for holder, part in level:
            if part.key not in seen:
                seen.add(part.key)
                found.append((holder, part))
        level = [(index, inner) for index in range(first, len(found)) for inner in found[index][1].parts]
    held: dict[int, list[Part]] = {}
    for index in range(len(found) - 1, -1, -1):
        holder, part = found[index]
        whole = replace(part, parts=tuple(reversed(held.get(index, ())))) if part.parts else part
        held.setdefault(holder, []).append(whole)
    return tuple(reversed(held.get(_TOP, ())))
