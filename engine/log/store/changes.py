"""What a commit writes: changes of sessions as values.

A store makes them, and a committer writes them in one transaction. They decide nothing, and know no database.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from msgspec import Struct

from ...core.ids import BlobDigest, Seq, SessionId
from ..store_protocol import SessionRow
from .writable import WritableSession


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """Content that an event names, written by the same commit."""

    digest: BlobDigest
    data: bytes


@dataclass(frozen=True, slots=True)
class Create:
    session: WritableSession
    row: SessionRow


class Append(Struct, frozen=True):
    """The next event of a session. `values` are its columns; `at` becomes the session's `updated_at`.

    A committer inserts all events of a transaction with one call. `size` is that of the JSON in bytes. `names` are the
    digests in it, `contents` those that are not known to be stored. `droppable` and `dropped_before` are the event's. A
    Struct, because one is made for every event, in a tenth of the time of a frozen dataclass.
    """

    session: WritableSession
    values: tuple[SessionId, Seq, str, str, str]
    """Session, position, branch, kind and JSON."""
    size: int
    at: float
    names: tuple[BlobDigest, ...] = ()
    contents: tuple[Content, ...] = ()
    droppable: bool = False
    dropped_before: Seq | None = None


@dataclass(frozen=True, slots=True)
class Retitle:
    session: WritableSession
    title: str | None


@dataclass(frozen=True, slots=True)
class Move:
    session: WritableSession
    cwd: str
    directories: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listen:
    """Reports the committed position to a new listener, which may have missed it."""

    session: WritableSession


@dataclass(frozen=True, slots=True)
class Barrier:
    """Sets `passed` when all earlier changes are committed, failed or waiting, and listeners know.

    Waiting changes of the session `giving_up` are then given up.
    """

    giving_up: WritableSession | None = None
    passed: threading.Event = field(default_factory=threading.Event)
    last: bool = False


Change = Create | Append | Retitle | Move | Listen
