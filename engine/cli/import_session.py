"""`rewindow import FILE`: a session that `rewindow export` wrote, here."""

from __future__ import annotations

import sys

import typer

from ..errors import InvalidRequestError
from ..ids import SessionId
from ..store.jsonl_import import import_lines
from .opened import store
from .printing import shown, size


def import_session(
    file: str = typer.Argument(help="What `rewindow export` wrote; - is standard input."),
    new_id: str = typer.Option("", "--as", metavar="NEW_ID", help="The id it gets here, instead of its own."),
) -> None:
    """Add an exported session; nothing is added where anything is wrong with it."""
    name = "standard input" if file == "-" else shown(file)
    try:
        with store() as opened, open(sys.stdin.fileno() if file == "-" else file, "rb", closefd=file != "-") as source:
            row = import_lines(opened, source, name, SessionId(new_id) if new_id else None)
    except OSError as error:
        raise InvalidRequestError(f"cannot read {name}: {error.strerror}") from error
    typer.echo(f"{row.session_id}  {row.events:,} events, {size(row.size)}")
