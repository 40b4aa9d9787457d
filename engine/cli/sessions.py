"""`rewindow sessions`: the sessions there are."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..ports import SessionRow
from ..terminal.opened import store
from ..terminal.printing import shown, size

_ENDLESS: Final = 100_000
"""Characters in a line that does not go to a terminal, so that nothing is cut off."""


def sessions(
    as_json: bool = typer.Option(False, "--json", help="One JSON object per line."),
    cwd: str = typer.Option("", "--cwd", metavar="DIR", help="Only those of this directory."),
) -> None:
    """List the sessions, the most recently used first."""
    with store() as opened:
        rows = [row for row in opened.rows() if not cwd or os.path.realpath(row.cwd) == os.path.realpath(cwd)]
    if as_json:
        for row in rows:
            typer.echo(json.dumps(_fields(row)))
    elif rows:
        # Through typer, because rich ends the process in its own way where the reader has left.
        console = Console(width=None if sys.stdout.isatty() else _ENDLESS)
        with console.capture() as captured:
            console.print(_table(rows))
        typer.echo(captured.get(), nl=False)
    elif cwd:
        typer.echo(f"No sessions in {shown(cwd)}.")
    else:
        typer.echo("No sessions yet. Configure the command `rewindow-acp` in your editor and prompt it.")


def _table(rows: list[SessionRow]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("session", no_wrap=True, min_width=max(len(row.session_id) for row in rows))
    for name in ("last used", "events", "size", "directory", "title"):
        table.add_column(name, no_wrap=True)
    for row in rows:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.updated_at))
        cells = (row.session_id, used, f"{row.events:,}", size(row.size), shown(row.cwd), shown(row.title or ""))
        table.add_row(*map(Text, cells))  # as they are: a directory's name may look like markup
    return table


def _fields(row: SessionRow) -> dict[str, object]:
    return {
        "session_id": row.session_id,
        "cwd": row.cwd,
        "title": row.title,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "events": row.events,
        "size": row.size,
    }
