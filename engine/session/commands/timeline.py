"""`/timeline` and `/omit`: the statements that ran, and which of them the namespace is made of.

Where there are branches the list says which is active, where it left its parent, and how far others go along with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...context.tail.results import result_text
from ...core.text import ELLIPSIS, as_printed, code_span, fenced, more, plural, printable, visible
from ...log.timeline import Cell
from ..branch_rows import BranchRow, in_common
from ..past.numbered import no_statement, numbered
from .branches import branch_words
from .command import CommandContext

SHOWN_STATEMENTS: Final = 20
SHOWN_BRANCHES: Final = 3
"""Of those that end at one statement."""
_BACK: Final = "`/rewind K` goes back to where statement K had ended, `/rewind 0` to the beginning"
_OVER: Final = "`/branch NAME` over to another branch"


def timeline_glance(context: CommandContext, argument: str) -> str:
    cells = context.timeline.cells
    if argument:
        return _one_statement(cells, argument)
    if not cells:
        return "No statement has run yet."
    rows = context.branches()
    active = next(row for row in rows if row.is_active)
    others = [(row, in_common(rows, active.name, row.name)) for row in rows if not row.is_active]
    lines = [_line_among(cell, others) for cell in cells[-SHOWN_STATEMENTS:]]
    if len(cells) > SHOWN_STATEMENTS:
        lines.insert(0, more(len(cells) - SHOWN_STATEMENTS, "statement", "before these"))
    if not others:
        return "\n".join([*lines, "", f"{_BACK}."])
    return "\n".join([f"Branch {branch_words(active)}:", "", *lines, "", f"{_BACK}, {_OVER}."])


def _line_among(cell: Cell, others: Sequence[tuple[BranchRow, int]]) -> str:
    ended = [row for row, common in others if common == cell.statement.index]
    names = [code_span(printable(row.name)) for row in ended[:SHOWN_BRANCHES]]
    names += [f"{len(ended) - SHOWN_BRANCHES} more"] if len(ended) > SHOWN_BRANCHES else []
    have = "has" if len(ended) == 1 else "have"
    return cell_line(cell) + (f"; the last that {' and '.join(names)} {have}, too" if ended else "")


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
    output = result_text(cell.finished) or "(no output)" if cell.finished is not None else "[running]"
    return f"{cell_line(cell)}\n\n{fenced(visible(cell.statement.source), 'python')}\n\n{fenced(as_printed(output))}"


def cell_line(cell: Cell) -> str:
    """A statement as it is listed: its number, the beginning of its source, and how it ended."""
    first, _, rest = cell.statement.source.strip().partition("\n")
    status = f"{cell.finished.status}, {cell.finished.time_ms:.0f} ms" if cell.finished else "running"
    files = len({each.path for each in cell.finished.artifacts}) if cell.finished else 0
    status += f", changed {files} {plural(files, 'file')}" if files else ""
    status += f", ran {len(cell.executions)} times" if len(cell.executions) > 1 else ""
    differed = list(dict.fromkeys(each.aspect for run in cell.executions[-1:] for each in run.divergences))
    status += f", last differed in {', '.join(differed)}" if differed else ""
    status += ", left out" if cell.omitted else ""
    return f"{cell.statement.index}. {code_span(printable(first) + (f' {ELLIPSIS}' if rest else ''))} ({status})"
