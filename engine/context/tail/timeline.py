"""The timeline section: the statements that condensation took from the View, as they would be written now.

The newest first where not all fit, each whole or else by its first line; those without room are counted. What they gave
is left to the summary. Small, because a tail is read anew by every call. A section of the tail (`sections`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ...core.cutting import DOTS, plural
from ...core.text import printable
from ...files.tails import PastStatement
from .part import EMPTY, Count, Part
from .superseded import Policy, as_it_is_now

HEADING: Final = "Statements that the summary stands for, with handles as they are now:\n"
TIMELINE_TOKENS: Final = 1_200
"""At most this, however much room there is."""


class Past:
    """The statements as blocks, made from the newest on, and only as many as are asked for."""

    def __init__(
        self, statements: Sequence[PastStatement], left_out: int, policies: Mapping[str, Policy], count: Count
    ) -> None:
        self._statements = statements[::-1]
        self._left_out = left_out
        self._policies = policies
        self._count = count
        self._blocks: list[tuple[str, int]] = []

    def within(self, budget: int) -> Part:
        """As many as fit, in the order in which they ran; within `budget` tokens."""
        if not self._statements:
            return EMPTY
        count, number = self._count, len(self._statements)
        room = min(budget, TIMELINE_TOKENS) - count(HEADING)
        note = count(_earlier(number + self._left_out))
        kept: list[tuple[str, int]] = []
        for place in range(number):
            is_last = place == number - 1 and not self._left_out
            block = self._fitting(place, room if is_last else room - note)
            if block is None:
                break
            kept.append(block)
            room -= block[1]
        if not kept:
            return EMPTY
        left = _earlier(number - len(kept) + self._left_out)
        text = "".join((HEADING, left, *(text for text, _ in reversed(kept))))
        tokens = count(HEADING) + (count(left) if left else 0) + sum(tokens for _, tokens in kept)
        return Part(text, tokens)

    def _fitting(self, place: int, room: int) -> tuple[str, int] | None:
        """A statement as a block of at most so many tokens."""
        if place == len(self._blocks):
            text = _block(self._statements[place], self._policies)
            self._blocks.append((text, self._count(text)))
        if self._blocks[place][1] <= room:
            return self._blocks[place]
        head = _head(self._blocks[place][0], self._statements[place].lines_left_out)
        tokens = self._count(head)
        return (head, tokens) if tokens <= room else None


def past(
    statements: Sequence[PastStatement], left_out: int, policies: Mapping[str, Policy], count: Count
) -> Callable[[int], Part]:
    """The section, as a function from a budget.

    Args:
        statements: oldest first.
        left_out: how many older ones there are.
        policies: of the handles that there are, by their ids.
        count: exact tokens.
    """
    return Past(statements, left_out, policies, count).within


def _block(statement: PastStatement, policies: Mapping[str, Policy]) -> str:
    ended = f", {statement.ended}" if statement.ended else ""
    files = f" (looked at {', '.join(statement.files)})" if statement.files else ""
    rest = f"\n{_rest(statement.lines_left_out)}" if statement.lines_left_out else ""
    return f"# statement {statement.index}{printable(ended + files)}\n{as_it_is_now(statement, policies)}{rest}\n"


def _head(block: str, left_out: int) -> str:
    """The heading of a block and the first line below it, and how many are missing; the block lacks some itself."""
    heading, *lines = block.rstrip("\n").split("\n")  # no lines: a statement without a source
    # Its last line says what it lacks, where it lacks anything.
    missing = len(lines[1:]) - bool(left_out) + left_out
    return "\n".join([heading, *lines[:1], *([_rest(missing)] if missing else ())]) + "\n"


def _rest(lines: int) -> str:
    return f"# {DOTS} {lines} more {plural(lines, 'line')}"


def _earlier(statements: int) -> str:
    return f"# {DOTS} {statements} earlier {plural(statements, 'statement')}\n" if statements else ""
