"""A new session that goes on from the active path of another one.

Owns which events it has: those of the path, and of other branches those that hold for the whole session (its mode and
options, what was allowed for good, that others wrote in it, where it was, and the copies that were kept of the path's
values), as one branch, with positions of their own. Ids stay, because events name each other by them, and no two
sessions share a log. Contents stay where they are, and belong to both. The events are as a log is that was left
anywhere: whoever loads it ends what is open. Called by `registry`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final

from msgspec.structs import replace

from ...core.errors import StoreError
from ...core.ids import MAIN_BRANCH, EventId, Seq, SessionId
from ...log.branches import path_of
from ...log.events import Event
from ...log.events.codec import encode
from ...log.events.execution import ExecutionStarted, ValuesDropped, ValuesKept
from ...log.events.going_back import BranchCreated, HeadMoved, RewindBegun, Rewound
from ...log.events.session import EnvironmentRestored, OthersWrote, ProjectionSent, ServersNamed, SessionMoved
from ...log.facts import Provenance
from ...log.past import KeptValues
from ...log.store.schema import names_in
from ...log.store_protocol import Store
from ..policy import Policy

_EVERYWHERE: Final = frozenset((*Policy.FOLLOWS, *KeptValues.FOLLOWS, OthersWrote, ServersNamed, SessionMoved))


def fork(store: Store, source: SessionId, new: SessionId, now: float) -> None:
    """Adds a session `new` to the store, of what `forked` makes of what the store has of `source`; all or nothing.

    It is without a title in the store.

    Raises:
        SessionNotFoundError: there is no such source.
        StoreError: it cannot be read, or the new one not be written.
    """
    row = replace(store.row(source), session_id=new, title=None, created_at=now, updated_at=now)
    store.add(row, _with_contents(store, store.contents(source), forked(store.load(source))))


def forked(log: Sequence[Event]) -> Sequence[Event]:
    """The events of the new session, made of those of a whole log. Pure."""
    path = path_of(log, _EVERYWHERE)
    rewinds = (event for event in reversed(path) if isinstance(event, RewindBegun | Rewound))
    # What is being done to files is not done twice.
    left_out = {event.seq for event in takewhile(lambda event: isinstance(event, RewindBegun), rewinds)}
    taken = [
        event
        for event in _without_other_values(path)
        if not isinstance(event, BranchCreated) and event.seq not in left_out
    ]
    if not _provenance(taken).is_foreign and _provenance(log).is_foreign:
        taken.append(_of_others(log))
    before = [event.seq for event in taken]
    return [_at(Seq(place), event, before) for place, event in enumerate(taken)]


def _of_others(log: Sequence[Event]) -> OthersWrote:
    """Says of the fork that others wrote on a branch that it leaves behind."""
    last, number = log[-1], log[-1].event_id[1:]
    next_id = int(number) + 1 if number.isascii() and number.isdigit() else len(log)
    return OthersWrote(seq=Seq(last.seq + 1), event_id=EventId(f"e{next_id}"), at=last.at, by="model")


def _provenance(events: Iterable[Event]) -> Provenance:
    provenance = Provenance()
    for event in events:
        if type(event) in Provenance.FOLLOWS:
            provenance.apply(event)
    return provenance


def _without_other_values(path: Iterable[Event]) -> Iterator[Event]:
    known: set[str] = set()
    for event in path:
        match event:
            case ExecutionStarted(execution_id=execution):
                known.add(execution)
            case EnvironmentRestored(event_id=rebuild):
                known.add(rebuild)
            case ValuesKept(execution_id=execution) if execution not in known:
                continue
            case _:
                pass
        yield event


def _at(place: Seq, event: Event, before: Sequence[Seq]) -> Event:
    """The event at its place; the positions that it names are those in the log that it comes from, `before`."""
    moved = replace(event, seq=place, branch_id=MAIN_BRANCH)
    match moved:
        case ProjectionSent(position=position):
            return replace(moved, position=bisect_left(before, position))
        case ValuesDropped(before=position):
            return replace(moved, before=Seq(bisect_left(before, position)))
        case RewindBegun(since=position):
            return replace(moved, since=Seq(bisect_left(before, position)))
        case HeadMoved():
            return replace(moved, branch=MAIN_BRANCH, left=MAIN_BRANCH)
        case _:
            return moved


def _with_contents(store: Store, held: Iterable[str], events: Iterable[Event]) -> Iterator[Event | bytes]:
    """The events, each behind the contents that it is the first to name; those that are lost are left out."""
    waiting = set(held)
    for event in events:
        for name in names_in(encode(event).decode()) if waiting else ():
            if name in waiting:
                waiting.discard(name)
                try:
                    yield store.blob_get(name)
                except KeyError:
                    continue
                except StoreError as error:
                    if type(error) is not StoreError:  # because the others say that the whole store cannot be read
                        raise
        yield event
