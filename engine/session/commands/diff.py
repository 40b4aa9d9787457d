"""`/diff A B`: what two branches differ in, in Markdown, which `rewindow diff` prints as well."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

from ...core.errors import InvalidRequestError
from ...core.text import code_span, more, printable
from ...log.timeline import Cell
from ..past.branch_diff import BranchDiff, Differing
from .command import CommandContext
from .timeline import cell_line

SHOWN_ROWS: Final = 50


def diff_glance(context: CommandContext, argument: str) -> str:
    left, *others = argument.split()
    if len(others) > 1:
        return "`/diff` takes two branches, or one to be compared with the active one."
    active = next(row.name for row in context.branches() if row.is_active)
    try:
        found = context.diff(left, *(others or (active,)))
    except InvalidRequestError as error:
        return str(error)
    return "\n".join(diff_lines(found, context.cwd))


def diff_lines(diff: BranchDiff, cwd: str) -> Sequence[str]:
    """Headings and lists: what is in common, the statements of each, the names and the files that differ."""
    left, right = (code_span(printable(name)) for name in (diff.left, diff.right))
    common = (
        "no statement" if not diff.shared else "statement 1" if diff.shared == 1 else f"statements 1 to {diff.shared}"
    )
    lines = [f"{left} and {right} have {common} in common."]
    for name, cells in ((left, diff.left_cells), (right, diff.right_cells)):
        lines += _listed(f"On {name} alone:", map(_cell, cells))
    lines += _listed("Names that differ:", (_name(each, left, right) for each in diff.names))
    lines += _listed("Files that differ:", (_file(each, left, right, cwd) for each in diff.files))
    if len(lines) == 1:
        lines.append("They differ in nothing.")
    return lines


def _listed(heading: str, rows: Iterable[str]) -> Sequence[str]:
    rows = list(rows)
    if not rows:
        return ()
    rest = [f"- {more(len(rows) - SHOWN_ROWS)}"] if len(rows) > SHOWN_ROWS else []
    return ("", heading, "", *(f"- {row}" for row in rows[:SHOWN_ROWS]), *rest)


def _cell(cell: Cell) -> str:
    return f"statement {cell_line(cell)}"


def _name(each: Differing, left: str, right: str) -> str:
    sides = ((each.left, left), (each.right, right))
    said = (f"{code_span(printable(side.shown))} on {name}" if side else f"none on {name}" for side, name in sides)
    return f"{code_span(each.name)}: {', '.join(said)}"


def _file(each: Differing, left: str, right: str, cwd: str) -> str:
    path = code_span(printable(os.path.relpath(each.name, cwd)))
    if each.left is not None and each.right is not None:
        return f"{path}: different content"
    return f"{path}: on {left if each.right is None else right} alone"
