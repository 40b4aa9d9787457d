"""`rewindow diff SESSION A B`: what two branches differ in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from ..core.text import visible
from ..log.branches import branches_of
from ..log.redaction import redact_event
from ..log.timeline import Cell
from ..session.commands.diff import diff_lines
from ..session.past.branch_diff import Differing, Side
from ..session.past.branch_diff import diff as compare
from .output.json_lines import print_json
from .output.opened import find, redactor, store


def diff(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, or the start of it.")],
    left: Annotated[str, typer.Argument(metavar="A", help="A branch.")],
    right: Annotated[str | None, typer.Argument(metavar="B", help="Another branch; default: the active one.")] = None,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Compare two branches: statements, names and files."""
    with store() as opened:
        row = find(opened, session)
        hidden = redactor()
        events = [redact_event(hidden, event) for event in opened.load(row.session_id)]
    branches = branches_of(events)
    found = compare(events, branches, left, branches.active if right is None else right)
    if not as_json:
        typer.echo(visible("\n".join(diff_lines(found, row.cwd))))
        return
    print_json(
        {
            "left": {"branch": found.left, "statements": _statements(found.left_cells)},
            "right": {"branch": found.right, "statements": _statements(found.right_cells)},
            "shared": found.shared,
            "names": {each.name: {"left": _value(each.left), "right": _value(each.right)} for each in found.names},
            "files": [_file(each) for each in found.files],
        },
        ("branch", "status", "left_digest", "right_digest"),
    )


def _statements(cells: Sequence[Cell]) -> list[dict[str, object]]:
    return [
        {
            "statement": cell.statement.index,
            "source": cell.statement.source,
            "status": cell.finished.status if cell.finished else None,
        }
        for cell in cells
    ]


def _value(side: Side | None) -> str | None:
    return None if side is None else side.shown


def _file(each: Differing) -> dict[str, object]:
    digests = (None if side is None else side.digest for side in (each.left, each.right))
    return dict(zip(("path", "left_digest", "right_digest"), (each.name, *digests), strict=True))
