"""`rewindow export` and `rewindow import`, and the table of foreign formats.

A format is a module and a row of FORMATS. Owns files and pipes, and what the commands print. Must not know how a format
is read. Called by `cli`.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import typer
from msgspec import Struct

from ...context.view import ViewFold
from ...core.clock import SystemClock, SystemEntropy
from ...core.durable import sync
from ...core.errors import InvalidRequestError
from ...core.ids import Minter, SessionId
from ...core.text import visible
from ...log.events import Event
from ...log.events.session import TitleChanged
from ...log.redaction import redact_event
from ...log.store_protocol import SessionRow, Store
from ..output import find, redactor, shown, size, store, visible_json
from . import anthropic, openai, openhands
from .document import Document, parse
from .jsonl import FORMAT, export_lines, import_lines, rereadable
from .writer import Imported, Writer


@dataclass(frozen=True, slots=True)
class Format:
    """A foreign format.

    `recognises` reports whether a document looks like it; `read` writes the conversation, or raises
    InvalidRequestError.
    """

    name: str
    title: str
    recognises: Callable[[Document], bool]
    read: Callable[[Document, Writer], None]


FORMATS: Final[tuple[Format, ...]] = (
    Format(openhands.NAME, openhands.TITLE, openhands.recognises, openhands.read),
    Format(anthropic.NAME, anthropic.TITLE, anthropic.recognises, anthropic.read),
    Format(openai.NAME, openai.TITLE, openai.recognises, openai.read),
)
"""In the order in which they are tried."""

OWN: Final = "rewindow"
_NAMES: Final = (OWN, *(each.name for each in FORMATS))
_HEADER: Final = re.compile(rb'\s*\{\s*"format"\s*:\s*"%s"' % FORMAT.encode())
_HEAD_BYTES: Final = 1000

LARGEST: Final = 256 << 20
"""Bytes of a conversation, which must fit into memory several times."""


def export_session(
    session: str = typer.Argument(metavar="SESSION", help="The session's id, or any unique beginning of it."),
    output: str = typer.Option("-", "--output", "-o", metavar="FILE", help="The file to write; - is standard output."),
    force: bool = typer.Option(False, "--force", "-f", help="Overwrite an existing file."),
) -> None:
    """Write a session as JSON lines, for `rewindow import`. The file has all its stored contents."""
    if not force and os.path.isfile(output) and not os.path.abspath(output).startswith("/dev/"):
        raise InvalidRequestError(f"{shown(output)} already exists; --force overwrites it")
    with store() as opened:
        remarks: list[str] = []
        lines = export_lines(opened, find(opened, session).session_id, redactor(), remarks.append)
        if output == "-":
            on_screen = map(_visible, lines) if sys.stdout.isatty() else lines
            _write(sys.stdout.fileno(), on_screen, "standard output")
        else:
            _write_file(Path(os.path.abspath(output)), lines)
    for sentence in remarks:
        typer.echo(f"rewindow: {visible(sentence)}", err=True)


def _write_file(path: Path, lines: Iterable[bytes]) -> None:
    """Replace the file atomically; write to a device or pipe directly."""
    name = shown(str(path))
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                _write(descriptor, lines, name)
            finally:
                os.close(descriptor)
            return
        path = Path(os.path.realpath(path))  # only now: if /dev/stdout is a pipe, it leads to no path
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _write(descriptor, lines, name)
            sync(descriptor)
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


def import_session(
    file: str = typer.Argument(metavar="FILE", help="The file to import; - is standard input."),
    new_id: str = typer.Option(
        "", "--as", metavar="NEW_ID", help="The id of the new session; default: the exported id."
    ),
    chosen_format: str = typer.Option(
        "", "--format", metavar="FORMAT", help=f"One of {', '.join(_NAMES)}; default: detected from the content."
    ),
    cwd: str = typer.Option(
        "", "--cwd", metavar="DIR", help="The directory for another program's conversation; default: the current one."
    ),
) -> None:
    """Add an exported session or another program's conversation. An invalid file adds nothing."""
    if chosen_format not in ("", *_NAMES):
        raise typer.BadParameter(f"{chosen_format!r} is not a known format; use one of {', '.join(_NAMES)}")
    name = "standard input" if file == "-" else shown(file)
    try:
        with store() as opened, _source(file) as source:
            _add(opened, source, name, ImportOptions(chosen_format, cwd, new_id))
    except OSError as error:
        raise InvalidRequestError(f"cannot read {name}: {error.strerror}") from error


def _add(opened: Store, source: IO[bytes], name: str, options: ImportOptions) -> None:
    head = source.read(_HEAD_BYTES)
    source.seek(0)
    if options.format != OWN and (options.format or not _HEADER.match(head)):
        import_foreign(opened, source, name, options)
        return
    if options.cwd:
        raise InvalidRequestError("an exported session has its own directory; import it without --cwd")
    new_id = SessionId(options.new_id) if options.new_id else None
    remarks: list[str] = []
    row = import_lines(opened, source, name, new_id, redactor(), remarks.append)
    typer.echo(f"{row.session_id}  {row.events:,} events, {size(row.size)}")
    for sentence in remarks:
        typer.echo(f"rewindow: {sentence}", err=True)


@contextmanager
def _source(file: str) -> Generator[IO[bytes]]:
    """Open the file, so that it can be read from its start repeatedly."""
    descriptor = sys.stdin.fileno() if file == "-" else file
    with open(descriptor, "rb", closefd=file != "-") as stream, rereadable(stream) as source:
        yield source


class ImportOptions(Struct, frozen=True):
    """The options of `import`; each is empty if not given."""

    format: str
    cwd: str
    new_id: str


def import_foreign(opened: Store, source: IO[bytes], name: str, options: ImportOptions, largest: int = LARGEST) -> None:
    """Add another program's conversation as a session, and print a report.

    Args:
        largest: the most bytes.

    Raises:
        InvalidRequestError: it is not a conversation or too large, the directory does not exist, or the id is taken.
    """
    cwd = os.path.realpath(os.path.expanduser(options.cwd or "."))
    if not os.path.isdir(cwd):
        raise InvalidRequestError(f"{options.cwd} is not a directory")
    data = source.read(largest + 1)
    if len(data) > largest:
        raise InvalidRequestError(f"{name} has more than {size(largest)}, the limit for one conversation")
    clock = SystemClock()
    minter, now = Minter(clock, SystemEntropy()), clock.now()
    found, imported = read(data, name, Writer(minter, cwd, now), options.format)
    if not imported.report.imported:
        raise InvalidRequestError(f"{name} contains no conversation")
    # The log of a running session redacts everything too.
    hidden = redactor()
    events = tuple(redact_event(hidden, event) for event in imported.events)
    title = next((each.title for each in reversed(events) if isinstance(each, TitleChanged)), None)
    session_id = SessionId(options.new_id) if options.new_id else minter.session()
    opened.add(SessionRow(session_id=session_id, cwd=cwd, title=title, created_at=now, updated_at=now), events)
    row = opened.row(session_id)
    typer.echo(f"{row.session_id}  {row.events:,} events, {size(row.size)}, from {found.title}")
    _report(imported, events)


def _report(imported: Imported, events: tuple[Event, ...]) -> None:
    for line in imported.report.lines():
        typer.echo(visible(line))
    fold = ViewFold()
    for event in events:
        fold.apply(event)
    if fold.warning is not None:
        typer.echo(f"warning: {fold.warning}; they stay in the log, but models do not see them", err=True)


def recognised(document: Document) -> Format:
    """Return the first format that the document looks like.

    Raises:
        InvalidRequestError: it looks like none.
    """
    for each in FORMATS:
        if each.recognises(document):
            return each
    known = ", ".join(each.title for each in FORMATS)
    raise InvalidRequestError(f"{document.name} is not a known conversation; known are {known}, and Rewindow's export")


def read(data: bytes, name: str, writer: Writer, chosen_format: str | None = None) -> tuple[Format, Imported]:
    """Read a conversation in the named format, or in the one it looks like.

    Raises:
        InvalidRequestError: it is not a conversation of that format. The error names the line or item.
    """
    document = parse(data, name)
    found = next((each for each in FORMATS if each.name == chosen_format), None) or recognised(document)
    if document.replaced:
        writer.report.noted["invalid Unicode characters, replaced"] += document.replaced
    found.read(document, writer)
    return found, writer.finish()
