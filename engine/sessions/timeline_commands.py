"""`/timeline` and `/omit`: the statements that ran, and which of them the namespace is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..cutting import ELLIPSIS, more
from ..projection.results import result_text
from ..text import as_printed, code_span, fenced, printable, visible
from ..timeline.index import Cell
from .command import CommandContext
from .numbered import no_statement, numbered

SHOWN_STATEMENTS: Final = 20


def timeline_glance(context: CommandContext, argument: str) -> str:
    cells = context.timeline.cells
    if argument:
        return _one_statement(cells, argument)
    if not cells:
        return "No statement has run yet."
    lines = [cell_line(cell) for cell in cells[-SHOWN_STATEMENTS:]]
    if len(cells) > SHOWN_STATEMENTS:
        lines.insert(0, more(len(cells) - SHOWN_STATEMENTS, "statement", "before these"))
    return "\n".join(lines)


async def omit(context: CommandContext, argument: str) -> str:
    cells = context.timeline.cells
    if not argument:
        omitted = [cell_line(cell) for cell in cells if cell.omitted]
        return "\n".join(omitted) or "No statement is left out; `/omit 3` leaves statement 3 out."
    cell = numbered(cells, argument)
    if cell is None:
        return no_statement(cells, argument)
    await context.omit(cell.statement.statement_id, not cell.omitted)
    now = "is left out of the namespace" if cell.omitted else "is in the namespace again"
    return f"Statement {argument} {now}, which is rebuilt when it is needed next. `/omit {argument}` takes that back."


def _one_statement(cells: Sequence[Cell], argument: str) -> str:
    cell = numbered(cells, argument)
    if cell is None:
        return no_statement(cells, argument)
    output = result_text(cell.finished) if cell.finished is not None else "[running]"
    return f"{cell_line(cell)}\n\n{fenced(visible(cell.statement.source), 'python')}\n\n{fenced(as_printed(output))}"


def cell_line(cell: Cell) -> str:
    """A statement as it is listed: its number, the beginning of its source, and how it ended."""
    first, _, rest = cell.statement.source.strip().partition("\n")
    status = f"{cell.finished.status}, {cell.finished.time_ms:.0f} ms" if cell.finished else "running"
    status += ", left out" if cell.omitted else ""
    return f"{cell.statement.index}. {code_span(printable(first) + (f' {ELLIPSIS}' if rest else ''))} ({status})"
