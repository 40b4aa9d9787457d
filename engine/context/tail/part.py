"""What one section contributes to the tail: a text within a budget, its exact tokens, and which handles they are about.

A section is written as lines: it begins with a visible character that is no slash and ends with a newline, so that the
tokens of sections add up to those of the tail (see `core.tokens.pieces`). Plain values; made by the sections' modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...core.cutting import DOTS

Count = Callable[[str], int]
"""Exact tokens of a text."""
_NAMED: Final = 12
"""Of what is left out, so many are named."""


@dataclass(frozen=True, slots=True)
class Part:
    """`nodes` are the tokens that are about one handle, by its id."""

    text: str = ""
    tokens: int = 0
    nodes: Mapping[str, int] = field(default_factory=dict[str, int])


EMPTY: Final = Part()


@dataclass(frozen=True, slots=True)
class Block:
    """A text about a handle that is shown whole or not at all; it ends with a newline."""

    obj_id: str
    name: str
    text: str


def blocks(
    heading: str, wanted: Sequence[Block], budget: int, count: Count, *, older: int = 0, advice: str = ""
) -> Part:
    """The first of the blocks that fit below `heading`, in their order; a line names the others, or counts them.

    Args:
        older: how many more there are, which only the line counts.
        advice: ends that line: how what is left out can be had.
    """
    if not wanted and not older:
        return EMPTY
    costs = [count(block.text) for block in wanted]
    if not older and count(heading) + sum(costs) <= budget:
        return _part(heading, list(zip(wanted, costs, strict=True)), "", count)
    for named in (_NAMED, 0):  # because a line of long names may have no room where one that counts them has
        room = budget - count(heading) - count(_left_out(wanted, older, advice, named))
        kept: list[tuple[Block, int]] = []
        left: list[Block] = []
        for block, cost in zip(wanted, costs, strict=True):
            if cost <= room:
                room -= cost
                kept.append((block, cost))
            else:
                left.append(block)
        part = _part(heading, kept, _left_out(left, older, advice, named), count)
        if part.tokens <= budget:
            return part
    return EMPTY


def _part(heading: str, kept: Iterable[tuple[Block, int]], note: str, count: Count) -> Part:
    kept = list(kept)
    nodes: dict[str, int] = {}
    for block, cost in kept:
        nodes[block.obj_id] = nodes.get(block.obj_id, 0) + cost
    text = "".join((heading, *(block.text for block, _ in kept), note))
    return Part(text, count(heading) + sum(cost for _, cost in kept) + (count(note) if note else 0), nodes)


def _left_out(left: Sequence[Block], older: int, advice: str, named: int) -> str:
    number = len(left) + older
    if not number:
        return ""
    names = ", ".join(dict.fromkeys(block.name for block in left[:named]))
    which = names and f"{': ' if number == len(left[:named]) else ', among them '}{names}"
    return f"{DOTS} {number} not shown for want of room{which}{advice}\n"
