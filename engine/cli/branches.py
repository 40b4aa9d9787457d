"""`rewindow branches SESSION`: the branches of a session."""

from __future__ import annotations

import typer

from ..log.branches import branches_of
from ..session.branch_rows import BranchRow, BranchStatements, branch_rows
from .output.columns import aligned
from .output.json_lines import check_formats, print_json_rows
from .output.opened import find, store
from .output.printing import shown

_COLUMNS = ("branch", "from", "statements", "")


def branches(
    session: str = typer.Argument(metavar="SESSION", help="The session's id, or the start of it."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON array."),
    as_lines: bool = typer.Option(False, "--jsonl", help="Print one JSON object per line."),
) -> None:
    """List the branches of a session, oldest first."""
    check_formats(as_json, as_lines)
    with store() as opened:
        events = opened.load(find(opened, session).session_id)
    statements = BranchStatements()
    for event in events:
        statements.apply(event)
    rows = branch_rows(branches_of(events), statements)
    if as_json or as_lines:
        print_json_rows([_fields(row) for row in rows], ("branch", "parent"), as_lines=as_lines)
    else:
        typer.echo("\n".join(aligned([_COLUMNS, *map(_cells, rows)], None, ())))


def _cells(row: BranchRow) -> tuple[str, ...]:
    start = "" if row.parent is None else f"{shown(row.parent)} after {row.shared}" if row.shared else shown(row.parent)
    return shown(row.name), start, str(row.last), "active" if row.is_active else ""


def _fields(row: BranchRow) -> dict[str, object]:
    return {
        "branch": row.name,
        "parent": row.parent,
        "shared": row.shared,
        "statements": row.last,
        "active": row.is_active,
    }
