"""`rewindow export` and `rewindow import`."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import typer
from msgspec import Struct

from ...context.view import ViewFold
from ...core.clock import SystemClock, SystemEntropy
from ...core.errors import InvalidRequestError
from ...core.ids import Minter, SessionId
from ...core.text import visible
from ...log.events import Event
from ...log.events.session import TitleChanged
from ...log.redaction import redact_event
from ...log.store_protocol import SessionRow, Store
from ..output import find, redactor, shown, size, store, visible_json
from .foreign import FORMATS, Imported, Writer, read
from .jsonl import FORMAT, export_lines, import_lines, rereadable

# `rewindow export SESSION`: a whole session as JSON Lines, for another machine or to keep.


def export_session(
    session: str = typer.Argument(metavar="SESSION", help="The session's id, or the start of it."),
    output: str = typer.Option("-", "--output", "-o", metavar="FILE", help="Where to write it; - is standard output."),
    force: bool = typer.Option(False, "--force", "-f", help="Replace a file that is there."),
) -> None:
    """Write a session as JSON lines, for `rewindow import`. Everything it refers to is included."""
    if not force and os.path.isfile(output) and not os.path.abspath(output).startswith("/dev/"):
        raise InvalidRequestError(f"{shown(output)} is there already; --force replaces it")
    with store() as opened:
        said: list[str] = []
        lines = export_lines(opened, find(opened, session).session_id, redactor(), said.append)
        if output == "-":
            on_screen = map(_visible, lines) if sys.stdout.isatty() else lines
            _write(sys.stdout.fileno(), on_screen, "standard output")
        else:
            _write_file(Path(os.path.abspath(output)), lines)
    for sentence in said:
        typer.echo(f"rewindow: {visible(sentence)}", err=True)


def _write_file(path: Path, lines: Iterable[bytes]) -> None:
    # Complete or not at all under its name; only a device or a pipe is written to as it is.
    name = shown(str(path))
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                _write(descriptor, lines, name)
            finally:
                os.close(descriptor)
            return
        path = Path(os.path.realpath(path))  # only now, because what /dev/stdout leads to is no path where it is a pipe
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _write(descriptor, lines, name)
            os.fsync(descriptor)
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InvalidRequestError(f"cannot write {name}: {error.strerror}") from error


def _visible(line: bytes) -> bytes:
    return visible_json(line.decode()).encode()


def _write(descriptor: int, lines: Iterable[bytes], name: str) -> None:
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.writelines(lines)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InvalidRequestError(f"cannot write {name}: {error.strerror}") from error


# import foreign:
# The part of `rewindow import` that adds another program's conversation: makes its session, and prints the report.

LARGEST: Final = 256 << 20
"""Bytes of a conversation that fits into memory several times over."""


class Wanted(Struct, frozen=True):
    """What the command line says: a format, a directory, an id; each empty where it says nothing."""

    format: str
    cwd: str
    new_id: str


def import_foreign(opened: Store, source: IO[bytes], name: str, wanted: Wanted, largest: int = LARGEST) -> None:
    """Adds the conversation as a session, and prints what came of it; `largest` is in bytes.

    Raises:
        InvalidRequestError: it is no conversation, or too large; the directory is not one; the id is taken.
    """
    cwd = os.path.realpath(os.path.expanduser(wanted.cwd or "."))
    if not os.path.isdir(cwd):
        raise InvalidRequestError(f"{wanted.cwd} is not a directory")
    data = source.read(largest + 1)
    if len(data) > largest:
        raise InvalidRequestError(f"{name} holds more than {size(largest)}, which is too much for one conversation")
    clock = SystemClock()
    minter, now = Minter(clock, SystemEntropy()), clock.now()
    found, imported = read(data, name, Writer(minter, cwd, now), wanted.format)
    if not imported.report.imported:
        raise InvalidRequestError(f"{name}: nothing in it belongs to a conversation")
    # As the log of a running session does with everything it takes.
    hidden = redactor()
    events = tuple(redact_event(hidden, event) for event in imported.events)
    title = next((each.title for each in reversed(events) if isinstance(each, TitleChanged)), None)
    session_id = SessionId(wanted.new_id) if wanted.new_id else minter.session()
    opened.add(SessionRow(session_id=session_id, cwd=cwd, title=title, created_at=now, updated_at=now), events)
    row = opened.row(session_id)
    typer.echo(f"{row.session_id}  {row.events:,} events, {size(row.size)}, from {found.title}")
    _say(imported, events)


def _say(imported: Imported, events: tuple[Event, ...]) -> None:
    for line in imported.report.lines():
        typer.echo(visible(line))
    fold = ViewFold()
    for event in events:
        fold.apply(event)
    if fold.warning is not None:
        typer.echo(f"warning: {fold.warning}; the log keeps them, a model does not get to see them", err=True)


# import session:
# `rewindow import FILE`: a session that `rewindow export` wrote, or a conversation of another program.

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
