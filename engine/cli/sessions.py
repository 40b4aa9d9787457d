"""`rewindow sessions`: the sessions there are."""

from __future__ import annotations

import json
import time

import typer
from rich.console import Console
from rich.table import Table

from .opened import store


def sessions(as_json: bool = typer.Option(False, "--json", help="One JSON object per line.")) -> None:
    """List the sessions, the most recently used first."""
    with store() as opened:
        rows = opened.rows()
    if as_json:
        for row in rows:
            typer.echo(
                json.dumps(
                    {
                        "session_id": row.session_id,
                        "cwd": row.cwd,
                        "title": row.title,
                        "created_at": row.created_at,
                        "updated_at": row.updated_at,
                        "events": row.events,
                    }
                )
            )
        return
    if not rows:
        typer.echo("No sessions yet. Configure the command `rewindow-acp` in your editor and prompt it.")
        return
    table = Table("session", "last used", "events", "directory", box=None, pad_edge=False)
    for row in rows:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.updated_at))
        table.add_row(row.session_id, used, f"{row.events:,}", row.cwd)
    Console(soft_wrap=True).print(table)
