"""`rewindow import FILE`: a session that `rewindow export` wrote, or a conversation of another program."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Final

import typer

from ....core.errors import InvalidRequestError
from ....core.ids import SessionId
from ....log.store_protocol import Store
from ...output.opened import redactor, store
from ...output.printing import shown, size
from ..foreign import FORMATS
from ..jsonl_export import FORMAT
from ..jsonl_import import import_lines
from ..spool import rereadable
from .import_foreign import Wanted, import_foreign

OWN: Final = "rewindow"
_NAMES: Final = (OWN, *(each.name for each in FORMATS))
_HEADER: Final = re.compile(rb'\s*\{\s*"format"\s*:\s*"%s"' % FORMAT.encode())
_HEAD_BYTES: Final = 1000


def import_session(
    file: str = typer.Argument(metavar="FILE", help="What to import; - is standard input."),
    new_id: str = typer.Option("", "--as", metavar="NEW_ID", help="The id that it gets here, instead of its own."),
    wanted: str = typer.Option(
        "", "--format", metavar="FORMAT", help=f"One of {', '.join(_NAMES)}; default: found out from the content."
    ),
    cwd: str = typer.Option(
        "", "--cwd", metavar="DIR", help="Where another program's conversation continues; default: here."
    ),
) -> None:
    """Add an exported session or another program's conversation. If anything is wrong with it, nothing is added."""
    if wanted not in ("", *_NAMES):
        raise typer.BadParameter(f"{wanted!r} is no format; known are {', '.join(_NAMES)}")
    name = "standard input" if file == "-" else shown(file)
    try:
        with store() as opened, _source(file) as source:
            _add(opened, source, name, Wanted(wanted, cwd, new_id))
    except OSError as error:
        raise InvalidRequestError(f"cannot read {name}: {error.strerror}") from error


def _add(opened: Store, source: IO[bytes], name: str, wanted: Wanted) -> None:
    head = source.read(_HEAD_BYTES)
    source.seek(0)
    if wanted.format != OWN and (wanted.format or not _HEADER.match(head)):
        import_foreign(opened, source, name, wanted)
        return
    if wanted.cwd:
        raise InvalidRequestError("an exported session has its own directory; import it without --cwd")
    new_id = SessionId(wanted.new_id) if wanted.new_id else None
    said: list[str] = []
    row = import_lines(opened, source, name, new_id, redactor(), said.append)
    typer.echo(f"{row.session_id}  {row.events:,} events, {size(row.size)}")
    for sentence in said:
        typer.echo(f"rewindow: {sentence}", err=True)


@contextmanager
def _source(file: str) -> Generator[IO[bytes]]:
    """The file, to be read from its start as often as needed."""
    descriptor = sys.stdin.fileno() if file == "-" else file
    with open(descriptor, "rb", closefd=file != "-") as stream, rereadable(stream) as source:
        yield source
