"""Moves a session to another place on its log: the head, the namespace, and the files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Final, NamedTuple, TypeVar

import anyio
import anyio.to_thread
from msgspec.structs import replace

from ...context.tail.feed import changes_of
from ...context.view import ViewFold
from ...core.errors import InvalidRequestError, SessionReadOnlyError, StoreError
from ...core.ids import BranchId, Seq
from ...files import temporary_files
from ...log.branches import branch_named, end_after, end_of, names_of
from ...log.event_log import EventLog
from ...log.events import UNSTAMPED, Event
from ...log.events.conversation import RunStop
from ...log.events.execution import FileWritten, StatementOmitted, StatementRecorded
from ...log.events.going_back import BranchCreated, FileLeft, FileToRestore, HeadMoved, RewindBegun, Rewound
from ...log.events.session import ServerConnected, ServerLost
from ...log.facts import SessionFacts
from ...log.file_history import Restorable, restorable, reversed_
from ...log.redaction import HIDDEN
from ...log.store_protocol import Store
from ...log.timeline import Timeline
from ..cancellation import to_the_end
from ..editor_files import SessionBuffers
from ..journal import FilesPutBack, Journal
from ..live_environment import LiveEnvironment
from ..parts import SessionParts
from ..preparing import Preparer
from ..repair import enforce_view, repair
from ..requests import ActiveRequest, Gone, no_statement
from ..tools import Replaced, Workspace, restore

# Moves the head of a session's log: to a new branch that goes as far as a statement, or to one that there is.
#
# Owns what a move appends and in which order. The worker is ended first, so that what it kept of its values is
# recorded before; whoever uses the namespace next gets one that is rebuilt from the new path. Then come BranchCreated
# where the branch is new, HeadMoved, the end of what the path leaves open (a run whose statements go on elsewhere),
# and what still waits, announced again, because a PromptQueued is on one branch alone. A kill anywhere in between
# leaves a log whose active path `repair` makes whole like any other. Called between two runs, one at a time. Must not
# know commands.

T = TypeVar("T")
_INTERRUPTED: Final = RunStop(reason="interrupted", cause="cancelled", detail="another branch goes on from here")


class Goal(NamedTuple):
    """Where a session goes: to the branch, which is new or was left at position `since` of the log.

    None leaves the conversation as it is, and what ran after statement `statement` out of the namespace. That is the
    last one which counts then, 0 for none.
    """

    branch: BranchId | None
    since: Seq
    statement: int


def reach(log: EventLog, timeline: Timeline, view: ViewFold, goal: Goal) -> None:
    """Records that the session is there now. What is on the log of that already is not recorded again."""
    if goal.branch is None:
        for cell in timeline.cells[goal.statement :]:
            if not cell.omitted:
                log.append(StatementOmitted(statement_id=cell.statement.statement_id))
        return
    left = log.branches.active
    if goal.branch == left:
        return
    if log.branches.named(goal.branch) is None:
        log.append(_created(log, goal.branch, goal.since))
    path = log.branches.path(log.events, goal.branch)
    last = next((event.index for event in reversed(path) if isinstance(event, StatementRecorded)), 0)
    log.append(HeadMoved(branch=goal.branch, left=left, statement=last))
    repair(log, timeline, _INTERRUPTED)
    enforce_view(log, view.warning)
    _tell_servers(log)


def _created(log: EventLog, branch: BranchId, end: Seq) -> BranchCreated:
    """A branch that shares the active path before position `end`."""
    shared = [event for event in log.path if event.seq < end]
    parent = shared[-1].branch_id if shared else log.branches.active
    return BranchCreated(branch=branch, parent=parent, before=Seq(shared[-1].seq + 1 if shared else 0))


class Head:
    """One session's."""

    def __init__(
        self,
        *,
        log: EventLog,
        timeline: Timeline,
        view: ViewFold,
        environment: LiveEnvironment,
        preparer: Preparer,
    ) -> None:
        self._log = log
        self._timeline = timeline
        self._view = view
        self._environment = environment
        self._preparer = preparer

    def after(self, statement: int, *, conversation: bool = True) -> Goal:
        """Back to the result of that statement, 0 for the beginning; with the `conversation` on a new branch.

        Raises:
            InvalidRequestError: there is no such statement.
        """
        # The beginning is that of the whole log: what another branch has written since is of a later time, too.
        end = end_after(self._log.path if statement else self._log.events, statement)
        if end is None:
            raise InvalidRequestError(no_statement(self._timeline.cells, str(statement)))
        return Goal(self._log.branches.next_name if conversation else None, end, statement)

    def end_of(self, name: str) -> Goal:
        """Over to the end of another branch.

        Raises:
            InvalidRequestError: there is no such branch, or it is active already.
        """
        branches = self._log.branches
        found = branch_named(branches, name)
        if found.name == branches.active:
            raise InvalidRequestError(f"{found.name} is active already; there are {names_of(branches)}")
        statements = [event for event in self._log.events if isinstance(event, StatementRecorded)]
        last = next((event.index for event in reversed(branches.path(statements, found.name))), 0)
        return Goal(found.name, end_of(found, branches, self._log.events), last)

    async def branch_at(self, end: Seq, request: ActiveRequest) -> BranchId:
        """Makes a branch that shares the active path before position `end`, and moves to it."""
        branch = self._log.branches.next_name
        await self.go(Goal(branch, end, 0), request, _nothing)
        return branch

    async def back_to(self, branch: BranchId, request: ActiveRequest) -> None:
        """Moves to the end of a branch that was left a moment ago; files stay as they are."""
        await self.go(self.end_of(branch), request, _nothing)

    async def go(self, goal: Goal, request: ActiveRequest, before: Callable[[], Awaitable[T]]) -> T:
        """Goes there; what comes of `before`, which is done when the worker has ended. Nothing is awaited after it."""
        async with self._environment.step, self._environment.ended():
            done = await before()
            reach(self._log, self._timeline, self._view, goal)
            if goal.branch is not None:
                for prompt in request.announcements():
                    self._log.append(prompt)
                self._preparer.forget()
            return done


async def _nothing() -> None:
    """What is done before a move that takes no files along."""


def _tell_servers(log: EventLog) -> None:
    """Says again what became of each MCP server last, where the path says something else: it is so on every branch."""
    latest: dict[str, Event] = {}
    said: dict[str, Event] = {}
    for event in log.events:
        if isinstance(event, ServerConnected | ServerLost):
            latest[event.module] = event
            if log.branches.holds(event):
                said[event.module] = event
    for module, event in latest.items():
        if module not in said or list(changes_of(said[module])) != list(changes_of(event)):
            log.append(replace(event, seq=UNSTAMPED))


# rewinding:
# Puts the files of a session back to what they held at a position of its log, and records that.
#
# What is to be done is durable before the first file is replaced, each file is replaced as a whole, and the end is
# recorded: so whoever opens the session after a kill finishes it, and each file is as before or as after. Which
# contents are wanted is known to `log.timeline.workspace`, how a file is replaced to `session.tools.restoring`. Must
# not know why somebody goes back, nor what becomes of the conversation. Made by
# `session_runtime`, and by `reopening` where a
# rewind is open.
#
# A cancel brings back what was replaced, after a kill as well, because that is recorded before the first one. A
# content that is not kept (it holds a secret, or is too large) cannot be brought back, so the files that hold one
# come last, and from the first of them on there is no way back.

_HIDDEN: Final = "a secret in its path is not kept, so which file it is nobody knows"
_UNSAVED: Final = "it has unsaved changes in the editor"
_LOST: Final = "what it held then is not in the store"


class FileRewinding:
    """The files of one session. `buffers` says what an editor holds of them; None where none is attached."""

    def __init__(
        self,
        log: EventLog,
        journal: Journal,
        store: Store,
        workspace: Workspace,
        facts: SessionFacts,
        buffers: SessionBuffers | None = None,
    ) -> None:
        self._log = log
        self._journal = journal
        self._store = store
        self._workspace = workspace
        self._facts = facts
        self._buffers = buffers
        self._reported: Container[str] = ()
        """Files that are left alone where other programs run them."""

    def plan(self, at: Seq) -> Restorable:
        """What is to be done for the files to be as they were at that position of the log. Looks at no file."""
        found = restorable(self._log.since(at))
        hidden = [FileLeft(path=file.path, reason=_HIDDEN) for file in found.files if HIDDEN in file.path]
        files = [file for file in found.files if HIDDEN not in file.path]
        return Restorable(tuple(sorted(files, key=_is_lost)), (*found.left, *hidden))

    async def rewind(self, begun: RewindBegun) -> Rewound:
        """Does what a `plan` says, which is recorded by `begun`; the end, which is not recorded yet.

        Nothing is awaited after the last file. A cancel, or a defect, takes back what is done, and that is recorded.

        Raises:
            SessionReadOnlyError: nothing can be recorded; no file was touched.
        """
        seq = self._log.append(begun)
        replaced: list[FileToRestore] = []
        try:
            await self._journal.durable(seq)
            return await self._go(begun, replaced)
        except BaseException:
            await to_the_end(lambda: self._give_up(begun, replaced))
            raise

    async def finish(self, begun: RewindBegun) -> Rewound:
        """The same of one that is on the log, because a process was killed in the middle of it.

        What that process has replaced is not known, so a cancel takes nothing back: the rewind stays open.
        """
        return await (self._bring_back(begun) if begun.cancelled else self._go(begun, []))

    async def _go(self, begun: RewindBegun, replaced: list[FileToRestore]) -> Rewound:
        """Into `replaced` goes each file that was not as it is to be."""
        done: list[FileToRestore] = []
        left = list(begun.left)
        self._reported = self._reported_paths()
        for place, file in enumerate(begun.files):
            self._journal.signal(FilesPutBack(place, len(begun.files)))
            put = partial(self._put, file)
            outcome = await (to_the_end(put) if _is_lost(file) else put())
            if isinstance(outcome, FileLeft):
                left.append(outcome)
            else:
                done.append(file)
                replaced += [file] * outcome
        if begun.files:
            self._journal.signal(FilesPutBack(len(begun.files), len(begun.files)))
        return Rewound(statement=begun.statement, restored=tuple(done), left=tuple(left))

    async def _give_up(self, begun: RewindBegun, replaced: Sequence[FileToRestore]) -> None:
        """Brings back what these files held before, the last one first, also if the process is killed meanwhile."""
        files = tuple(map(reversed_, reversed(replaced)))
        back = RewindBegun(statement=begun.statement, since=begun.since, files=files, cancelled=True)
        with suppress(SessionReadOnlyError):  # which is no reason to leave them
            await self._journal.durable(self._log.append(back))
        self._log.append(await self._bring_back(back))

    async def _bring_back(self, begun: RewindBegun) -> Rewound:
        self._reported = self._reported_paths()
        lost = [reversed_(file) for file in begun.files if isinstance(await self._put(file), FileLeft)]
        return Rewound(statement=begun.statement, restored=tuple(lost), cancelled=True)

    async def _put(self, file: FileToRestore) -> FileLeft | bool:
        """Whether the file had to be replaced to hold what is wanted; or that it is left as it was, and why."""
        try:
            if self._buffers is not None and await self._buffers.unsaved(file.path, changes=True) is not None:
                raise OSError(_UNSAVED)
            async with nullcontext() if self._buffers is None else self._buffers.acting():
                before = await anyio.to_thread.run_sync(self._restore, file)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return FileLeft(path=file.path, reason=reason)
        if before is not None and self._buffers is not None:
            self._buffers.note_replaced(file.path, before.data)
        return before is not None

    def _restore(self, file: FileToRestore) -> Replaced | None:
        try:
            wanted = self._store.blob_get(file.wanted) if file.wanted is not None else None
        except (KeyError, StoreError):
            raise OSError(_LOST) from None
        if wanted is None and file.wanted_digest:  # which an export has left out
            raise OSError(_LOST)
        return restore(self._workspace, file, wanted, is_trusted=file.path not in self._reported)

    def _reported_paths(self) -> Container[str]:
        """The files of which the log repeats what somebody else said of them: an import, or a worker of a model's."""
        if not self._facts.is_foreign:
            return ()
        imported = self._facts.imported_at
        return {path for event in self._log.events for path in _reported(event, is_imported=event.seq <= imported)}


def _reported(event: Event, *, is_imported: bool) -> Iterable[str]:
    """The paths of which the event says what they held, without this program having seen it."""
    match event:
        case FileWritten(path=path) if is_imported or event.noticed:
            return (path,)
        case Rewound(restored=files) | RewindBegun(files=files) if is_imported:
            return (file.path for file in files)
        case _:
            return ()


def _is_lost(file: FileToRestore) -> bool:
    """Whether what the file holds now could not be brought back."""
    return file.present is None and bool(file.present_digest)


# rewinder:
# Takes a session to another place on its log as a whole: head and namespace (`head`), and files (`rewinding`).
#
# Owns the order in which that happens. What is to be done is durable first; then the files go back, which may be
# given up; then, with nothing awaited in between, the head moves, and the command that asked for it and the end of
# the files are recorded where it leads. A kill leaves either nothing to be seen of it, or a RewindBegun that says all
# that is to be done: `carry_on` does the rest when the session is opened. Must not know commands.
# Made by `session_runtime`.


class Rewinder:
    """One session's."""

    def __init__(self, log: EventLog, head: Head, files: FileRewinding) -> None:
        self._log = log
        self._head = head
        self._files = files

    async def go(self, goal: Goal, request: ActiveRequest, *, files: bool) -> Gone:
        """Goes there, with the `files` or without. Raises SessionReadOnlyError."""
        found = self._files.plan(goal.since)
        begun = None
        if files and (found.files or found.left):
            begun = RewindBegun(
                statement=goal.statement, since=goal.since, branch=goal.branch, files=found.files, left=found.left
            )

        async def put_back() -> Rewound | None:
            return None if begun is None else await self._files.rewind(begun)

        rewound = await self._head.go(goal, request, put_back)
        request.begin()
        if rewound is not None:
            self._log.append(rewound)
        return Gone(found, rewound)


async def carry_on(parts: SessionParts, begun: RewindBegun) -> None:
    """Does the rest of what was under way when the last process of the session died."""
    records = str(parts.settings.state_dir / temporary_files.FOLDER)
    workspace = Workspace(parts.cwd, parts.directories, records=records)
    files = FileRewinding(parts.log, parts.journal, parts.store, workspace, parts.facts)
    rewound = await files.finish(begun)
    if not begun.cancelled:
        reach(parts.log, parts.timeline, parts.view, Goal(begun.branch, begun.since, begun.statement))
    parts.log.append(rewound)
