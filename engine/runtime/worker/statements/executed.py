"""What the interpreter knows of a statement when it has ended, before it is put into words for the host.

Must not know how it is told. Made by `interpreter`, compared by `rerun`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....log.events import Event
from ..handles.shown import BoardReport
from ..writes.touching import Noticed
from .executor import Result


@dataclass(frozen=True, slots=True)
class Executed:
    """A statement that has run, with what its nodes and the guard have to say. `rebound` are injected names."""

    result: Result
    report: BoardReport
    stops: tuple[str, ...]
    noticed: Noticed
    rebound: tuple[Event, ...]
