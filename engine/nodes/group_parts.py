"""What a group's summary is made of: one immutable value for each member, taken when the summary is made anew.

A paused group keeps its parts, so it shows what it showed, whatever becomes of its members. Must not know nodes. Made
by nodes; divided by `group_shares`, written out by `group_summary`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .rendered import RenderedView


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


def distinct(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Each member once in the whole tree: at the place that is nearest to the top, and of those the first."""
    return _distinct(parts, set())


def _distinct(parts: Sequence[Part], seen: set[str]) -> tuple[Part, ...]:
    own = list({part.key: part for part in reversed(parts) if part.key not in seen}.values())[::-1]
    seen.update(part.key for part in own)
    return tuple(replace(part, parts=_distinct(part.parts, seen)) if part.parts else part for part in own)
