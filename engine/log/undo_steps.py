"""Which executions changed files, and which of these were undone: the steps of undo and redo.

A disk has no branches, so the steps follow each other in the order of the whole log. A rewind or a switch goes back to
the steps of its place on the log. An execution that changes files after an undo ends what can be redone.

Pure. Used by `session.past.undoing`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ..core.ids import ExecutionId, Seq
from .events import Event
from .events.execution import FileTouched, FileWritten
from .events.going_back import RewindBegun, Rewound
from .file_history import Restorable, restorable, reversed_


class Steps(Struct, frozen=True):
    """Executions that changed files, in order: those that are in effect, and those that can be redone."""

    done: tuple[ExecutionId, ...] = ()
    undone: tuple[ExecutionId, ...] = ()


def steps_of(events: Iterable[Event]) -> Steps:
    """Return the steps at the end of a log."""
    now = Steps()
    places, states = list[Seq](), list[Steps]()
    begun: RewindBegun | None = None
    for event in events:
        match event:
            case FileWritten(execution_id=execution) if execution not in now.done:
                now = Steps((*now.done, execution))
            case RewindBegun():
                begun = event
                continue
            case Rewound(cancelled=False, undone=None) if begun is not None:
                place = bisect_left(places, begun.since) - 1
                now = states[place] if place >= 0 else Steps()
            case Rewound(cancelled=False, undone=str() as execution, is_redo=True):
                rest = tuple(each for each in now.undone if each != execution)
                now = Steps((*now.done, execution), rest)
            case Rewound(cancelled=False, undone=str() as execution):
                rest = tuple(each for each in now.done if each != execution)
                now = Steps(rest, (*now.undone, execution))
            case _:
                continue
        places.append(event.seq)
        states.append(now)
    return now


def files_of(events: Iterable[Event], execution: ExecutionId, *, despite_doubt: bool = False) -> Restorable:
    """Return how to undo the changes of one execution. `despite_doubt` as in `restorable`."""
    own = (each for each in events if isinstance(each, FileTouched | FileWritten) and each.execution_id == execution)
    return restorable(own, despite_doubt=despite_doubt)


def plan_of(events: Sequence[Event], begun: RewindBegun) -> Restorable:
    """Return what a rewind, an undo or a redo that is on the log would have restored, had nothing kept it from that."""
    before = events[: begun.seq]
    if begun.undone is None:
        return restorable(before[begun.since :], despite_doubt=True)
    if begun.is_redo:
        return files_again(before, begun.undone)
    return files_of(before, begun.undone, despite_doubt=True)


def files_again(events: Sequence[Event], execution: ExecutionId) -> Restorable:
    """Return how to redo what was undone last of an execution."""
    for event in reversed(events):
        if isinstance(event, Rewound) and event.undone == execution and not event.is_redo and not event.cancelled:
            return Restorable(tuple(map(reversed_, reversed(event.restored))), ())
    return Restorable((), ())
