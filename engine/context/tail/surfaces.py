"""The groups in the tail, and what is pinned: the surface that a model works on, as it is now.

A group whose summary stands in the result of a statement is named there, and not rendered again; every other is shown,
the important ones first, each within its own budget, and where there is no room for all of them within less. A group
that another one shows is left to that. A pinned view is shown where its content has changed since a result showed it.
Sections of the tail (`sections`); the Board provides the surfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...core.cutting import DOTS
from .part import EMPTY, Count, Part

_GROUPS: Final = "Groups, as they are now:\n"
_PINS: Final = "Pinned:\n"
_SMALLEST: Final = 24
"""Tokens below which a surface is not worth its line."""
_NAMED: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """A group, or a pinned handle.

    `heading` is a line without its colon and newline. `shown_in` is the index of the statement whose result shows it as
    it is, 0 where none does. `render` gives its text within a budget of tokens, and `text` that within its own.
    """

    obj_id: str
    name: str
    heading: str
    text: str
    render: Callable[[int], str]
    shown_in: int = 0


def groups(surfaces: Sequence[Surface], budget: int, count: Count) -> Part:
    """The summaries of groups, the first of them as the more important ones; then where the others are."""
    fresh = [each for each in surfaces if not each.shown_in]
    there = _there([each for each in surfaces if each.shown_in])
    part = _surfaces(_GROUPS, fresh, budget - (count(there) if there else 0), count, bare=False)
    if not there:
        return part
    if not part.text and budget < count(there):
        return EMPTY
    return Part(part.text + there, part.tokens + count(there), part.nodes)


def pins(surfaces: Sequence[Surface], budget: int, count: Count) -> Part:
    """What is pinned, with the reasons, and the content where no result shows it."""
    return _surfaces(_PINS, surfaces, budget, count, bare=True)


def _there(surfaces: Sequence[Surface]) -> str:
    if not surfaces:
        return ""
    named = ", ".join(f"{each.name} (statement {each.shown_in})" for each in surfaces[:_NAMED])
    rest = f" and {len(surfaces) - _NAMED} more" if len(surfaces) > _NAMED else ""
    return f"As results show them: {named}{rest}\n"


def _surfaces(heading: str, wanted: Sequence[Surface], budget: int, count: Count, *, bare: bool) -> Part:
    """As many as fit, whole where there is room for all, else each with what those before it have left.

    Args:
        bare: whether the heading of one says something by itself.
    """
    if not wanted:
        return EMPTY
    whole = [(each, _block(each, each.text)) for each in wanted]
    if count(heading) + sum(count(text) for _, text in whole) <= budget:
        return _part(heading, whole, "", count)
    room = budget - count(heading) - count(_left_out(wanted))
    kept: list[tuple[Surface, str]] = []
    left: list[Surface] = []
    for place, (each, text) in enumerate(whole):
        # Of what is left, the more important ones may take half, so that the others are not only named.
        share = room if place == len(whole) - 1 else max(room // 2, _SMALLEST)
        block = text if count(text) <= share else _smaller(each, share, count, bare=bare)
        if block and count(block) <= room:
            room -= count(block)
            kept.append((each, block))
        else:
            left.append(each)
    part = _part(heading, kept, _left_out(left), count) if kept else EMPTY
    return part if part.tokens <= budget else EMPTY


def _smaller(surface: Surface, room: int, count: Count, *, bare: bool) -> str:
    line = _block(surface, "")
    inner = room - count(f"{surface.heading}:\n")
    text = surface.render(inner) if inner >= _SMALLEST and not surface.shown_in else ""
    if text:
        return _block(surface, text)
    return line if bare and inner >= 0 else ""


def _block(surface: Surface, text: str) -> str:
    if surface.shown_in:
        return f"{surface.heading}, as the result of statement {surface.shown_in} shows it\n"
    return f"{surface.heading}:\n{text}" if text else f"{surface.heading}\n"


def _part(heading: str, kept: Sequence[tuple[Surface, str]], note: str, count: Count) -> Part:
    costs = [count(text) for _, text in kept]
    nodes = {each.obj_id: cost for (each, _), cost in zip(kept, costs, strict=True)}
    text = "".join((heading, *(text for _, text in kept), note))
    return Part(text, count(heading) + sum(costs) + (count(note) if note else 0), nodes)


def _left_out(left: Sequence[Surface]) -> str:
    if not left:
        return ""
    names = ", ".join(each.name for each in left[:_NAMED])
    rest = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return f"{DOTS} not shown for want of room: {names}{rest}\n"
