"""Load a session from the store and make its log whole; or make a fork of one.

A session may be loaded with other directories than before. It goes on there, which is recorded, and its statements run
again there, because the old directory may be gone. Loaded with the prompt stage, because a new
session does not need it. Called by `registry`, which has acquired the session for writing.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import Final, NamedTuple

import anyio.to_thread
from msgspec.structs import replace

from ..core.domain import is_inside
from ..core.errors import InvalidRequestError, StoreError
from ..core.ids import MAIN_BRANCH, BranchId, EventId, Seq, SessionId
from ..core.mcp_servers import McpServer
from ..core.text import printable
from ..files.protected import Protection
from ..files.protected_names import is_in_git
from ..files.safe_open import opened_directory, sync_directory
from ..log.branches import left_by_edit, path_of
from ..log.events import Event
from ..log.events.codec import encode
from ..log.events.execution import ExecutionStarted, ValuesDropped, ValuesKept
from ..log.events.going_back import BranchCreated, HeadMoved, RewindBegun, Rewound
from ..log.events.session import (
    ConfigChanged,
    DomainEntered,
    EnvironmentRestored,
    InstructionsGiven,
    OthersWrote,
    PicturesWithdrawn,
    ProjectionSent,
    ServersNamed,
    SessionMoved,
    SessionOpened,
    TitleChanged,
    WorkspaceCloned,
)
from ..log.facts import SessionFacts
from ..log.file_history import open_rewind, open_touches
from ..log.rebuild_plan import KeptValues
from ..log.store.schema import names_in
from ..log.store_protocol import SessionRow, Store
from .directories import (
    ProjectEnvironment,
    additional,
    check_working_directory,
    find_project_environment,
    missing,
    real_places,
    spelled,
)
from .journal import Journal
from .parts import HostServices, SessionParts, assemble, newly_named
from .policy import NETWORK, OFF, Policy
from .repair import enforce_view, repair
from .session import Session


class _Place(NamedTuple):
    cwd: str
    directories: tuple[str, ...]
    confined: bool


async def reopen(
    services: HostServices,
    session_id: SessionId,
    journal: Journal,
    cwd: str | None = None,
    directories: Sequence[str] | None = None,
    *,
    confined: bool = False,
    servers: Sequence[McpServer] = (),
) -> Session:
    """Load the session, repair it if its last process died, and make the repair durable.

    It is not served yet. `cwd` and `directories` are where it goes on, `confined` to these or not; None for where it
    was. `servers` are its MCP servers from now on.

    Raises:
        InvalidRequestError: a given path is not absolute, or `cwd` is not a directory. Or it is to be confined, but was
            not always, or to other directories. Or it was imported, and only the file says where it works. Or one of
            its directories leads elsewhere than before.
    """
    row = await anyio.to_thread.run_sync(services.store.row, session_id)
    place = _place(services, row, cwd, directories, confined)
    history = await anyio.to_thread.run_sync(services.store.load, session_id)
    gap = next((position for position, event in enumerate(history) if event.seq != position), None)
    if gap is not None:
        raise StoreError(f"event {gap} of session {session_id} is missing; restore the store from a backup")
    was = _places(history)
    if confined:
        _check_confined(session_id, place, was)
    _check_chosen(session_id, row, history, cwd, directories)
    _check_real(session_id, place, history)
    cloned, clone_notes = await _provide_clone(services, session_id, place.cwd, history)
    project = find_project_environment(place.cwd, services.environ, services.settings.python)
    notes = [*_notes(row, place, project), *clone_notes]
    parts = assemble(
        services,
        session_id,
        place.cwd,
        place.directories,
        project,
        journal,
        history,
        notes,
        confined=confined,
        servers=servers,
    )
    if journal.failure is not None:  # read-only
        return Session(parts)
    settled = [*await _settle(parts), *await _finish_rewind(parts)]
    left = left_by_edit(reversed(parts.log.events))
    appended = [*settled, *repair(parts.log, parts.timeline), *enforce_view(parts.log, parts.view.warning)]
    appended += _leave_edit(parts, left)
    appended += [parts.log.at(parts.log.append(event)) for event in (*cloned, *newly_named(parts))]
    if appended:
        await journal.durable(appended[-1].seq)
    if place != _Place(row.cwd, row.directories, bool(was) and was[-1].confined):
        await _move(parts, project)
    return Session(parts, appended)


async def _provide_clone(
    services: HostServices, session_id: SessionId, cwd: str, history: Sequence[Event]
) -> tuple[Sequence[Event], Sequence[str]]:
    """Make the session's clone if it has one and that is missing; return the event and sentences on it."""
    if services.clones is None or not services.clones.is_clone(cwd):
        return (), ()
    from .clones import clone_lines  # only with `workspaces`

    provide = partial(services.clones.provide, session_id, cwd, history, services.store.blob_get)
    cloned = await anyio.to_thread.run_sync(provide)
    check_working_directory(cwd)
    return () if cloned is None else (cloned,), clone_lines(cloned, history)


async def _settle(parts: SessionParts) -> Sequence[Event]:
    """Record what an interrupted statement's own code had written.

    Returns what it appended.
    """
    start = len(parts.log)
    cell = next((cell for cell in parts.timeline.cells if cell.started and not cell.finished), None)
    if cell is not None and cell.started is not None and cell.started.seq > parts.facts.imported_at:
        from .working_tree.changes import cut_short_changes

        inner = (each.tool_call_id for each in reversed(parts.log.open_calls))
        call = next(inner, cell.statement.tool_call_id)
        for event in await cut_short_changes(parts, cell.started.execution_id, call):
            parts.log.append(event)
    imported = parts.facts.imported_at
    touched = [each for each in open_touches(parts.log.path) if each.seq > imported]  # an import may name any file
    if touched and cell is not None and cell.started is not None:
        from .touches import Touches, touch_records

        # A tool that was killed may have replaced a file, and the rename would be lost if the power failed.
        await anyio.to_thread.run_sync(_make_durable, {os.path.dirname(each.path) for each in touched})
        execution = touched[0].execution_id
        call = cell.statement.tool_call_id if cell.started.mode is None else cell.started.rerun_call
        await Touches(touch_records(parts), execution, call, touched[0].seq, lambda _: False).settle()
    return parts.log.since(start)


def _make_durable(folders: Iterable[str]) -> None:
    for folder in folders:
        with suppress(OSError), opened_directory(folder) as directory:
            sync_directory(directory)


async def _finish_rewind(parts: SessionParts) -> Sequence[Event]:
    """Finish a rewind that was interrupted; return what it appended."""
    start = len(parts.log)
    begun = open_rewind(reversed(parts.log.events))
    if begun is not None:
        from .past.rewinding import finish_rewind  # few loads need it

        await finish_rewind(parts, begun)
    return parts.log.since(start)


def _leave_edit(parts: SessionParts, left: BranchId | None) -> Sequence[Event]:
    """Go back to the branch that an interrupted edit left, if one did; return what it appended."""
    start = len(parts.log)
    if left is not None:
        from .past.rewinding import leave_edit  # few loads need it

        leave_edit(parts, left)
    return parts.log.since(start)


def _places(history: Iterable[Event]) -> list[_Place]:
    """Return where the session has been, in order."""
    moves = (event for event in history if isinstance(event, SessionOpened | SessionMoved))
    return [_Place(event.cwd, event.directories, event.confined) for event in moves]


def _check_confined(session_id: SessionId, place: _Place, was: Iterable[_Place]) -> None:
    """Check that everything recorded is from the directories that the session is opened in.

    Its client sees all of it.

    Raises:
        InvalidRequestError: something may be from elsewhere.
    """
    roots = (place.cwd, *place.directories)
    for each in was:
        beyond = [path for path in (each.cwd, *each.directories) if not is_inside(path, roots)]
        if not each.confined or beyond:
            what = f"showed files of {beyond[0]}" if beyond else "was not confined to its directories"
            raise InvalidRequestError(
                f"session {session_id} {what}; open it with the same directories, or open another session"
            )


def _check_chosen(
    session_id: SessionId,
    row: SessionRow,
    history: Sequence[Event],
    cwd: str | None,
    directories: Sequence[str] | None,
) -> None:
    """Check that someone here has chosen the directories of an imported session.

    Its file may name a home directory, or everything. A move since the import counts as a choice, and so do the
    caller's arguments, and starting the program there.

    Raises:
        InvalidRequestError: no one has chosen them.
    """
    newest = next((event for event in reversed(history) if _chooses_place(event)), None)
    if not isinstance(newest, OthersWrote):
        return
    named = (*((row.cwd,) if cwd is None else ()), *(row.directories if directories is None else ()))
    try:
        here = (os.path.realpath(cwd or "."),)
    except FileNotFoundError:  # the directory in which the program was started is gone
        here = ()
    # A rewind restores no file that others run, by the names below the session's directories. So the file may not name
    # a directory that is itself such a place.
    protection = Protection(here)
    if any(os.path.realpath(path) not in here for path in named):
        protection.places()  # finds the repositories
    beyond = [
        path
        for path in named
        if not is_inside(real := os.path.realpath(path), here) or is_in_git(real, here) or protection.why(real)
    ]
    if beyond:
        raise InvalidRequestError(
            f"session {session_id} was imported, and only its file names the directory {printable(beyond[0])};"
            " start there to allow this"
        )


def _check_real(session_id: SessionId, place: _Place, history: Iterable[Event]) -> None:
    """Check that the directories still lead to the same places.

    A statement may have replaced one by a link.

    Raises:
        InvalidRequestError: one leads elsewhere now.
    """
    known: dict[str, str] = {}
    for event in history:
        if isinstance(event, SessionOpened | SessionMoved) and event.real:
            known.update(zip((event.cwd, *event.directories), event.real, strict=False))
    for path, now in zip((place.cwd, *place.directories), real_places(place.cwd, place.directories), strict=True):
        if known.get(path, now) != now:
            was = printable(f"{path} was {known[path]} and now leads to {now}")
            raise InvalidRequestError(f"session {session_id}: {was}; to work there, load the session with that path")


def _chooses_place(event: Event) -> bool:
    return isinstance(event, SessionMoved) or (isinstance(event, OthersWrote) and event.by == "import")


def _place(
    services: HostServices, row: SessionRow, cwd: str | None, directories: Sequence[str] | None, confined: bool
) -> _Place:
    chosen = services.directory_of(row.session_id, row.cwd if cwd is None else spelled(cwd))
    is_clone = services.clones is not None and services.clones.is_clone(chosen)
    if cwd is not None and not is_clone:
        advice = "load the session with another cwd" if chosen == _before(row) else "choose one that exists"
        check_working_directory(chosen, advice)
    return _Place(chosen, row.directories if directories is None else additional(directories, chosen), confined)


def _before(row: SessionRow) -> str:
    # Empty if the row is damaged.
    return spelled(row.cwd) if row.cwd else ""


def _notes(row: SessionRow, place: _Place, project: ProjectEnvironment) -> list[str]:
    was = printable(row.cwd) or "a directory whose name is unreadable"
    moved = [f"This session was in {was} and continues in {place.cwd}."] if place.cwd != _before(row) else []
    amiss = [project.note] if moved and project.note else []
    return [*moved, *amiss, *missing(place.directories)]


async def _move(parts: SessionParts, project: ProjectEnvironment) -> None:
    event = SessionMoved(
        cwd=parts.cwd,
        directories=parts.directories,
        confined=parts.spec.confined,
        python=project.python,
        packages=project.packages,
        real=real_places(parts.cwd, parts.directories),
    )
    seq = parts.log.append(event)
    parts.store.move(parts.session_id, parts.cwd, parts.directories)
    await parts.journal.durable(seq)


# --- forks ------------------------------------------------------------------------------------------------------------

_EVERYWHERE: Final = frozenset(
    (
        *(*Policy.FOLLOWS, *KeptValues.FOLLOWS),
        *(InstructionsGiven, OthersWrote, PicturesWithdrawn, ServersNamed, SessionMoved, WorkspaceCloned),
    )
)


def fork(store: Store, source: SessionId, new: SessionId, now: float) -> None:
    """Add a session `new` to the store, from the stored events of `source`; all or nothing.

    It has no title in the store. See `forked` for its events. Contents are shared by both sessions.

    Raises:
        SessionNotFoundError: there is no such source.
        StoreError: the source cannot be read, or the new one cannot be written.
    """
    row = replace(store.row(source), session_id=new, title=None, created_at=now, updated_at=now, archived=False)
    store.add(row, _with_contents(store, store.contents(source), forked(store.load(source))))


def copy_for_replay(
    store: Store, row: SessionRow, log: Sequence[Event], target: Store, new: SessionId, moved: Mapping[str, str]
) -> None:
    """Add a session `new` to the store `target` like a fork of another one, to replay it in copies of its directories.

    Nothing is written to `store`. The copy's statements are sandboxed, because others may have written them, and have
    no network, because answers are recorded.

    Args:
        store: with the contents of the session.
        row: of the session.
        log: its whole log.
        target: gets the copy.
        new: the name of the copy.
        moved: the copies of directories. What statements might write is below them.

    Raises:
        StoreError: the contents cannot be read.
        InvalidRequestError: the log has no events.
    """
    real = {os.path.realpath(path): os.path.realpath(copy) for path, copy in moved.items()}
    events = [_in_copies(event, real) if isinstance(event, DomainEntered) else event for event in forked(log)]
    if events:
        seq, event_id = _next(events)
        events.append(ConfigChanged(seq=seq, event_id=event_id, at=events[-1].at, option=NETWORK, value=OFF))
        seq, event_id = _next(events)
        events.append(OthersWrote(seq=seq, event_id=event_id, at=events[-1].at, by="client"))
    target.add(replace(row, session_id=new), _with_contents(store, store.contents(row.session_id), events))


def _in_copies(event: DomainEntered, copies: Mapping[str, str]) -> DomainEntered:
    """Return the rights as they are in copies of directories, by real paths."""

    def moved(path: str) -> str:
        for each, copy in copies.items():
            if is_inside(path, (each,)):
                return os.path.normpath(os.path.join(copy, os.path.relpath(path, each)))
        return path

    return replace(event, writable=tuple(map(moved, event.writable)))


def forked(log: Sequence[Event]) -> Sequence[Event]:
    """Return the events of the new session, from those of a whole log. Pure.

    These are the events of the active path, as one branch, with new positions. Other branches add what holds for the
    whole session: mode and options, remembered answers, that others wrote in it, where it was, and saved values of the
    path. Ids stay, because events name each other by them, and no two sessions share a log. The log may end anywhere,
    like after a crash: loading it ends what is open.
    """
    path = path_of(log, _EVERYWHERE)
    rewinds = (event for event in reversed(path) if isinstance(event, RewindBegun | Rewound))
    # An unfinished rewind is not done twice.
    left_out = {event.seq for event in takewhile(lambda event: isinstance(event, RewindBegun), rewinds)}
    taken = [
        event
        for event in _without_other_values(path)
        if not isinstance(event, BranchCreated) and event.seq not in left_out
    ]
    there, here = _facts_of(log), _facts_of(taken)
    left = tuple(place for place in there.writable if place not in here.writable)
    if left or (there.is_foreign and not here.is_foreign):
        taken.append(_of_others(log, left))
    before = [event.seq for event in taken]
    return [_at(Seq(place), event, before) for place, event in enumerate(taken)]


def _of_others(log: Sequence[Event], writable: tuple[str, ...]) -> OthersWrote:
    """Record in the fork that others wrote on a branch that it leaves behind.

    `writable` are the directories that they could write.
    """
    seq, event_id = _next(log)
    return OthersWrote(seq=seq, event_id=event_id, at=log[-1].at, by="model", writable=writable)


def _next(log: Sequence[Event]) -> tuple[Seq, EventId]:
    """Return position and id of the next event of a log."""
    last, number = log[-1], log[-1].event_id[1:]
    next_id = int(number) + 1 if number.isascii() and number.isdigit() else len(log)
    return Seq(last.seq + 1), EventId(f"e{next_id}")


# --- titles -----------------------------------------------------------------------------------------------------------


def retitle(store: Store, session_id: SessionId, title: str, now: float) -> None:
    """Give a stored session, which nobody has open, another title; durable when it returns.

    Raises:
        SessionNotFoundError, SessionInUseError.
        StoreError: it cannot be read or written.
    """
    errors: list[Exception] = []
    store.acquire(session_id, lambda _, error: None if error is None else errors.append(error))
    try:
        seq, event_id = _next(store.load(session_id))
        store.retitle(session_id, title)
        store.submit(session_id, TitleChanged(seq=seq, event_id=event_id, at=now, title=title))
    finally:
        store.release(session_id)  # waits for the commit
    if errors:
        raise StoreError(f"session {session_id} keeps its old title: {errors[0]}") from errors[0]


def _facts_of(events: Iterable[Event]) -> SessionFacts:
    facts = SessionFacts()
    for event in events:
        facts.apply(event)
    return facts


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
    """Return the event at its new place. `before` has the original positions, which positions in the event refer to."""
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
    """Yield the events, each after the contents that it names first.

    Lost contents are left out.
    """
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
                    if type(error) is not StoreError:  # subclasses mean that the whole store is unreadable
                        raise
        yield event
