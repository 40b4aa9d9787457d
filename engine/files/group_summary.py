"""The summary of a group: a line for each member, and below it as much of the member as its share of the budget holds.

Pure over the parts: the same parts, budget, level and counter give the same text. Members stand in the order in which
the group has them, whatever their salience, so that a summary changes in one place where one member changes. Who gets
how much is decided by `group_layout`. Each text starts with a visible character and ends with a newline, so that counts
add up; the whole is counted once more, because a renderer may break that. Called by GroupHandle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..core.cutting import DOTS
from .group_layout import Entry, Measure, Sheet, laid_out, members
from .group_parts import Part, distinct
from .rendered import RenderedView

EMPTY: Final = "(empty group: nothing was added yet)"


def summarize(
    parts: Sequence[Part], budget: int, lod: int, levels: Sequence[int], count: Callable[[str], int]
) -> RenderedView:
    """The summary, never over `budget` tokens; empty where not even "..." fits.

    Args:
        parts: the members, in their order; one that is there twice counts once.
        budget: in tokens, at least 1.
        lod: the finest level that a member may get.
        levels: those that there are.
        count: exact tokens.
    """
    if not parts:
        return _first((EMPTY, "(empty)", DOTS), budget, count)
    sheet = laid_out(distinct(parts), budget, lod, Measure(levels, count))
    if not any(entry.is_listed for entry in sheet.entries):
        return _first((f"{DOTS} {members(len(sheet.entries))}", DOTS), budget, count, whole=False)
    return _written(sheet, budget, count)


def _first(candidates: Sequence[str], budget: int, count: Callable[[str], int], *, whole: bool = True) -> RenderedView:
    """The first of the lines that fits."""
    for candidate in candidates:
        tokens = count(candidate + "\n")
        if tokens <= budget:
            return RenderedView(text=candidate + "\n", tokens=tokens, whole=whole)
    return RenderedView(text="", tokens=0, whole=False)


def _written(sheet: Sheet, budget: int, count: Callable[[str], int]) -> RenderedView:
    """The text; bodies are left out from the least salient on until its exact tokens fit."""
    bare: set[int] = set()
    for entry in [*reversed(sheet.by_salience), None]:
        text, is_whole = _text(sheet, bare)
        tokens = count(text)
        if tokens <= budget:
            return RenderedView(text=text, tokens=tokens, whole=is_whole)
        bare.add(id(entry))
    return _first((DOTS,), budget, count, whole=False)


def _text(sheet: Sheet, bare: set[int]) -> tuple[str, bool]:
    """The text without what stands below the entries in `bare`, by their identity; and whether nothing is left out."""
    texts: list[str] = []
    is_whole = True
    waiting: list[Entry | str] = _reversed(sheet)
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, str):
            texts.append(entry)
            is_whole = is_whole and not entry
            continue
        texts.append(entry.line)
        if id(entry) in bare:
            is_whole = False
        elif entry.part.render is None:
            is_whole = is_whole and _is_listed(entry)
            waiting += _reversed(entry.inner) if entry.inner is not None else []
        else:
            texts.append(entry.body)
            is_whole = is_whole and entry.is_whole
    return "".join(texts), is_whole


def _is_listed(group: Entry) -> bool:
    """Whether all members of the group have their lines."""
    if group.inner is None:
        return not group.part.parts
    return all(entry.is_listed for entry in group.inner.entries)


def _reversed(sheet: Sheet) -> list[Entry | str]:
    """What stands in a group, the last of it first."""
    return [sheet.note, *(entry for entry in reversed(sheet.entries) if entry.is_listed)]
