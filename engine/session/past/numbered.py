"""Statements by their numbers, as people give them to commands: the one that is meant, or which there are.

Pure. Used by the commands that take a statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...core.text import cut_line, printable
from ...log.timeline import Cell

_SHOWN_CHARS: Final = 20
_NUMBER_DIGITS: Final = 9


def number_in(text: str) -> int | None:
    """The whole number that a text is; None where it is none, or none that a statement could have."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS else None


def numbered(cells: Sequence[Cell], text: str) -> Cell | None:
    """The statement of that number; None where there is none."""
    number = number_in(text)
    return cells[number - 1] if number is not None and 1 <= number <= len(cells) else None


def no_statement(cells: Sequence[Cell], text: str) -> str:
    """One sentence for somebody who named a statement that there is not."""
    if not cells:
        return "No statement has run yet."
    there = "the only one is 1" if len(cells) == 1 else f"they are numbered from 1 to {len(cells)}"
    return f"There is no statement {cut_line(printable(text), _SHOWN_CHARS)}; {there}."
