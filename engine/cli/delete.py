"""`rewindow delete SESSION...`: removes sessions for good."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..core.errors import EngineError
from ..log.store_protocol import SessionRow
from ..session.scratch import Scratch
from .complaints import complaint
from .output.opened import find, settings, store
from .output.printing import shown, size


def delete(
    sessions: Annotated[list[str], typer.Argument(help="Ids of sessions, or the starts of them.", metavar="SESSION")],
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Delete sessions with everything they refer to. `rewindow gc` gives the disk space back."""
    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to ask on; give --yes to delete without being asked")
    with store() as opened:
        rows = {row.session_id: row for row in (find(opened, start) for start in sessions)}
        if not yes and not _confirmed(list(rows.values())):
            typer.echo("Nothing was deleted.")
            raise typer.Exit(1)
        failed = False
        for session_id in rows:
            try:
                opened.delete(session_id)
                Scratch(settings().state_dir, session_id).remove()
                typer.echo(f"deleted {session_id}")
            except EngineError as error:
                failed = True
                typer.echo(complaint(error), err=True)
    if failed:
        raise typer.Exit(1)


def _confirmed(rows: list[SessionRow]) -> bool:
    for row in rows:
        title = f"  {shown(row.title)}" if row.title else ""
        typer.echo(f"{row.session_id}  {row.events:,} events, {size(row.size)}  {shown(row.cwd)}{title}")
    return typer.confirm("Delete this for good?" if len(rows) == 1 else f"Delete these {len(rows)} for good?")
