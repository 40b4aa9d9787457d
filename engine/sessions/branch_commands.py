"""`/branch` and `/rewind`: going over to another path through the session's log, and going back on a new one."""

from __future__ import annotations

from ..cutting import plural
from ..text import code_span, printable
from .branch_rows import BranchRow
from .command import CommandContext
from .numbered import no_statement, number_in


async def branch(context: CommandContext, argument: str) -> str:
    if argument:
        await context.switch(argument)
        return _now(context)
    return "\n".join(map(_line, context.branches()))


async def rewind(context: CommandContext, argument: str) -> str:
    statement = number_in(argument)
    if statement is None:
        return no_statement(context.timeline.cells, argument)
    await context.rewind(statement)
    return _now(context)


def _now(context: CommandContext) -> str:
    row = next(row for row in context.branches() if row.is_active)
    return (
        f"This is branch {code_span(printable(row.name))} now, {_extent(row)}. Its namespace is rebuilt when it is "
        "needed next; files are as they were left, on whatever branch."
    )


def _line(row: BranchRow) -> str:
    start = "" if row.parent is None else f", from {code_span(printable(row.parent))} {_place(row.shared)}"
    active = ", active" if row.is_active else ""
    return f"- {code_span(printable(row.name))}{start}: {_extent(row)}{active}"


def _extent(row: BranchRow) -> str:
    return f"with {row.last} {plural(row.last, 'statement')}" if row.last else "without statements"


def _place(statement: int) -> str:
    return f"after statement {statement}" if statement else "at the beginning"
