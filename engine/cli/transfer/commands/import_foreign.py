"""The part of `rewindow import` that adds another program's conversation: makes its session, and prints the report."""

from __future__ import annotations

import os
from typing import IO, Final

import typer
from msgspec import Struct

from ....context.view import ViewFold
from ....core.clock import SystemClock, SystemEntropy
from ....core.errors import InvalidRequestError
from ....core.ids import Minter, SessionId
from ....core.text import visible
from ....log.events import Event
from ....log.events.session import TitleChanged
from ....log.redaction import redact_event
from ....log.store_protocol import SessionRow, Store
from ...output.opened import redactor
from ...output.printing import size
from ..foreign import Imported, Writer, read

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
