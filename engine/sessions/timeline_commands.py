"""`/timeline` and `/omit`: the statements that ran, and which of them the namespace is made of.

Where there are branches the list says which is active, where it left its parent, and where others leave it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..cutting import ELLIPSIS, more
from ..projection.results import result_text
from ..text import as_printed, code_span, fenced, printable, visible
from ..timeline.index import Cell
from .branch_commands import branch_words
from .branch_rows import BranchRow
from .command import CommandContext
from .numbered import no_statement, numbered

SHOWN_STATEMENTS: Final = 20


def timeline_glance(context: CommandContext, argument: str) -> str:
    cells = context.timeline.cells
    if argument:
        return _one_statement(cells, argument)
    if not cells:
        return "No statement has run yet."
    rows = context.branches()
    active = next(row for row in rows if row.is_active)
    lines = [
        _line_among(cell, [row for row in rows if row.parent == active.name]) for cell in cells[-SHOWN_STATEMENTS:]
    ]
    if len(cells) > SHOWN_STATEMENTS:
        lines.insert(0, more(len(cells) - SHOWN_STATEMENTS, "statement", "before these"))
    if len(rows) == 1:
        return "\n".join(lines)
    back = "`/rewind K` goes back to the end of statement K, `/branch NAME` over to another branch."
    return "\n".join([f"Branch {branch_words(active)}:", "", *lines, "", back])


def _line_among(cell: Cell, leaving: Sequence[BranchRow]) -> str:
    names = ", ".join(code_span(printable(row.name)) for row in leaving if row.shared == cell.statement.index)
    return cell_line(cell) + (f"; {names} leaves here" if names else "")


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
    status += f", ran {len(cell.executions)} times" if len(cell.executions) > 1 else ""
    differed = list(dict.fromkeys(each.aspect for run in cell.executions[-1:] for each in run.divergences))
    status += f", last differed in {', '.join(differed)}" if differed else ""
    status += ", left out" if cell.omitted else ""
    return f"{cell.statement.index}. {code_span(printable(first) + (f' {ELLIPSIS}' if rest else ''))} ({status})"
