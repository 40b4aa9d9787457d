"""Which statements of a timeline are meant, which of them can run again, and a sentence on each that cannot.

Pure. Used by `replaying` and `editing`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from ...core.errors import InvalidRequestError
from ...core.text import more
from ...log.timeline import Cell
from .numbered import no_statement

_STOPPED: Final = ("cancelled", "timeout")
_REASONS: Final = 5
"""So many are told of why nothing can run again."""


def numbers_of(first: int, last: int | None, cells: Sequence[Cell]) -> tuple[int, int]:
    """Of the first and the last statement that are meant. Raises InvalidRequestError."""
    last = len(cells) if last is None else last
    for number in (first, last):
        if not 1 <= number <= len(cells):
            raise InvalidRequestError(no_statement(cells, str(number)))
    if first > last:
        raise InvalidRequestError(f"Statement {first} comes after statement {last}; name the earlier one first.")
    return first, last


def runs_anew(cell: Cell) -> bool:
    """Whether the statement runs again where nothing is set of what it left.

    One that was stopped does not: it would have to be waited for until its time limit, each time.
    """
    return not cell.omitted and cell.finished is not None and cell.finished.status not in _STOPPED


def check_any(found: Collection[object], reasons: Sequence[str]) -> None:
    """Raises InvalidRequestError where nothing runs again, with reasons."""
    if not found:
        left = len(reasons) - _REASONS
        said = "; ".join([*reasons[:_REASONS], *([more(left, "statement")] if left > 0 else ())])
        raise InvalidRequestError(f"Nothing can run again: {said}.")


def not_run(cells: Sequence[Cell], running: Collection[int], *, anew: bool, branch: str = "") -> tuple[str, ...]:
    """A sentence on each of the statements that does not run again.

    Args:
        running: the numbers of those that do.
        anew: whether nothing is set of what the others left.
        branch: whose numbers these are, where another one is active when that is read.
    """
    where = f" of {branch}" if branch else ""
    return tuple(
        f"statement {cell.statement.index}{where} {_why(cell, anew=anew)}"
        for cell in cells
        if cell.statement.index not in running
    )


def _why(cell: Cell, *, anew: bool) -> str:
    if cell.omitted:
        return "is left out, as the user asked"
    if cell.finished is not None and cell.finished.status in _STOPPED:
        left = "nothing is set of what it left" if anew else "what it left is set from what was kept"
        return f"was stopped ({cell.finished.status}) and is not run again; {left}"
    if cell.statement.withheld:
        return "held a secret in its source, which is not kept"
    return "has never run" if cell.finished is None else "left nothing that could be compared"
