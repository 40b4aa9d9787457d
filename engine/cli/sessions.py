"""`rewindow sessions`: the sessions there are."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable
from typing import Final

import typer
from msgspec.structs import replace

from ..core.text import cut_line
from ..log.store_protocol import SessionRow
from ..session.directories import alike
from .complaints import complaint
from .output.columns import aligned
from .output.json_lines import check_formats, print_rows
from .output.opened import redactor, store
from .output.printing import shown, size

_COLUMNS: Final = ("session", "last used", "events", "size", "past", "values", "directory", "title")
"""`past` is what of the size is kept for rebuilds beside the log, and `values` what of that are copies of values."""
_FOR_ROOM: Final = slice(4, 6)
"""Those two are left out in a terminal of less than _WIDE cells, where nothing would be left of the titles."""
_WIDE: Final = 110
_CELL_CHARS: Final = 200
"""What a cell shows at most, because each is as wide as the longest of its column."""
_YIELDING: Final = (-1, -2)
"""The columns that become narrower where a terminal has no room: first the title, then the directory."""


def sessions(
    as_json: bool = typer.Option(False, "--json", help="Print one JSON array."),
    as_lines: bool = typer.Option(False, "--jsonl", help="Print one JSON object per line."),
    cwd: str = typer.Option("", "--cwd", metavar="DIR", help="List only those of this directory."),
) -> None:
    """List the sessions, most recently used first."""
    check_formats(as_json, as_lines)
    with store() as opened:
        found = opened.rows(cwds=alike(opened.directories(), cwd) if cwd else None)
        hidden = redactor()
        rows = [replace(row, title=row.title and hidden.redact(row.title)) for row in found]
    if as_json or as_lines:
        print_rows([json.dumps(_fields(row)).encode() for row in rows], as_lines=as_lines)
    elif rows:
        typer.echo("\n".join(_table(rows)))
    elif cwd:
        typer.echo(f"No sessions in {shown(cwd)}.")
    else:
        typer.echo("No sessions yet. Begin one with `rewindow run`, or configure `rewindow-acp` in your editor.")
    for row in rows:
        if row.complaint:
            typer.echo(complaint(row.complaint), err=True)


def _table(rows: Iterable[SessionRow]) -> list[str]:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    table = [list(_COLUMNS), *map(_cells, rows)]
    if width is not None and width < _WIDE:
        for row in table:
            del row[_FOR_ROOM]
    return aligned(table, width, _YIELDING)


def _cells(row: SessionRow) -> list[str]:
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.updated_at))
    texts = (cut_line(shown(text), _CELL_CHARS) for text in (row.session_id, row.cwd, row.title or ""))
    session, directory, title = texts
    sizes = (size(count) for count in (row.size, row.contents_size, row.droppable_size))
    return [session, used, f"{row.events:,}", *sizes, directory, title]


def _fields(row: SessionRow) -> dict[str, object]:
    return {
        "session_id": row.session_id,
        "cwd": row.cwd,
        "title": row.title,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "events": row.events,
        "size": row.size,
        "past_size": row.contents_size,
        "values_size": row.droppable_size,
    }
