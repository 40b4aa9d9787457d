"""Move a session to another place on its log: files, namespace, and head.

`Rewinder` owns the order. What must be done is durable first. Then the files go back, which may be cancelled. Then,
without an await, the head moves, and the command and the result of the files are recorded on the branch that it leads
to. A kill leaves either nothing, or a RewindBegun that says everything to be done. `finish_rewind` does the rest when
the session is opened. Must not know commands. Made by `session_runtime`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Final, NamedTuple, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
from msgspec.structs import replace

from ...context.tail.feed import changes_of
from ...context.view import ViewFold
from ...core.errors import InvalidRequestError, SessionReadOnlyError, StoreError
from ...core.ids import BranchId, Seq
from ...files import temporary_files
from ...files.protected import may_make_repository
from ...files.safe_open import SyncedTogether
from ...log.branches import branch_named, end_after, end_of, names_of
from ...log.event_log import EventLog
from ...log.events import UNSTAMPED, Event
from ...log.events.conversation import CONTINUED_ELSEWHERE, RunStop
from ...log.events.execution import StatementOmitted, StatementRecorded
from ...log.events.going_back import BranchCreated, FileLeft, FileToRestore, HeadMoved, RewindBegun, Rewound
from ...log.events.session import ServerConnected, ServerLost
from ...log.facts import SessionFacts
from ...log.file_history import Restorable, is_unknown, restorable, reversed_, stages
from ...log.store_protocol import Store
from ...log.timeline import Timeline
from ..cancellation import shielded
from ..editor_files import EditorBuffers
from ..journal import FilesPutBack, Journal
from ..live_environment import LiveEnvironment
from ..name_guard import allow_names
from ..parts import SessionParts
from ..preparing import Preparer
from ..repair import enforce_view, repair
from ..requests import ActiveRequest, MoveResult, no_such_statement
from ..tools import Replaced, Workspace, restore
from ..working_tree.baseline import Baseline
from ..working_tree.changes import TreeComparison, close_acts
from .left_files import ONLY_COPY, Claims, OnlyCopies, leaving, why_protected, why_unknown, without_protected
from .merging import Merger

T = TypeVar("T")
_INTERRUPTED: Final = RunStop(reason="interrupted", cause="cancelled", detail=CONTINUED_ELSEWHERE)


class Destination(NamedTuple):
    """Where a session goes: to a branch, which is new or was left at position `since` of the log.

    Without a branch the conversation stays as it is, and the statements after number `statement` are left out of the
    namespace. `statement` is the last one that counts then, 0 for none.
    """

    branch: BranchId | None
    since: Seq
    statement: int


def move_head(log: EventLog, timeline: Timeline, view: ViewFold, goal: Destination) -> None:
    """Record that the session is there now. What is on the log already is not recorded again."""
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
    _repeat_server_news(log)


def _created(log: EventLog, branch: BranchId, end: Seq) -> BranchCreated:
    """Return a branch that shares the active path before position `end`."""
    shared = [event for event in log.path if event.seq < end]
    parent = shared[-1].branch_id if shared else log.branches.active
    return BranchCreated(branch=branch, parent=parent, before=Seq(shared[-1].seq + 1 if shared else 0))


class Head:
    """Moves the head of one session's log, between two runs.

    The worker ends first, so its saved values are recorded before. The next use rebuilds the namespace from the new
    path. Then come BranchCreated (for a new branch), HeadMoved, the end of what the path leaves open (a run whose
    statements go on elsewhere), what still waits, announced again, because a PromptQueued is on one branch only, and
    the message that asked for the move. They are one transaction, so a kill leaves the head where it was, or all of it.
    """

    def __init__(
        self,
        *,
        log: EventLog,
        journal: Journal,
        timeline: Timeline,
        view: ViewFold,
        environment: LiveEnvironment,
        preparer: Preparer,
    ) -> None:
        self._log = log
        self._journal = journal
        self._timeline = timeline
        self._view = view
        self._environment = environment
        self._preparer = preparer

    def after(self, statement: int, *, conversation: bool = True) -> Destination:
        """Return the way back to the end of that statement; 0 is the beginning.

        With the `conversation`, on a new branch.

        Raises:
            InvalidRequestError: there is no such statement.
        """
        # 0 is the beginning of the whole log, because files that other branches wrote go back too.
        end = end_after(self._log.path if statement else self._log.events, statement)
        if end is None:
            raise InvalidRequestError(no_such_statement(self._timeline.cells, str(statement)))
        return Destination(self._log.branches.next_name if conversation else None, end, statement)

    def end_of(self, name: str) -> Destination:
        """Return the way to the end of another branch.

        Raises:
            InvalidRequestError: there is no such branch, or it is active already.
        """
        branches = self._log.branches
        found = branch_named(branches, name)
        if found.name == branches.active:
            raise InvalidRequestError(f"branch {found.name} is active already; the branches are {names_of(branches)}")
        statements = [event for event in self._log.events if isinstance(event, StatementRecorded)]
        last = next((event.index for event in reversed(branches.path(statements, found.name))), 0)
        return Destination(found.name, end_of(found, branches, self._log.events), last)

    async def branch_at(self, end: Seq, request: ActiveRequest, begun: Event) -> BranchId:
        """Make a branch that shares the active path before position `end`, and move to it. `begun` says what for."""
        branch = self._log.branches.next_name
        await self.go(Destination(branch, end, 0), request, _nothing, begun)
        return branch

    async def back_to(self, branch: BranchId, request: ActiveRequest) -> None:
        """Move to the end of a branch that was just left. Files stay as they are."""
        await self.go(self.end_of(branch), request, _nothing)

    async def go(
        self,
        goal: Destination,
        request: ActiveRequest,
        before: Callable[[], Awaitable[T]],
        begun: Event | None = None,
    ) -> T:
        """Move there after `before` is done, and append the message and `begun`; return the result of `before`.

        The worker has ended before `before`. Nothing is awaited after it.
        """
        async with self._environment.step, self._environment.ended():
            done = await before()
            with self._journal.together():
                move_head(self._log, self._timeline, self._view, goal)
                if goal.branch is not None:
                    for prompt in request.announcements():
                        self._log.append(prompt)
                    self._preparer.forget()
                request.append_message()
                if begun is not None:
                    self._log.append(begun)
            return done


async def _nothing() -> None:
    """Do nothing before a move that changes no files."""


def _repeat_server_news(log: EventLog) -> None:
    """Repeat the latest news of each MCP server if the path says something else.

    They hold on every branch.
    """
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


_AT_ONCE: Final = 8
"""Threads that restore files, because each file waits for the disk."""
_IN_A_ROW: Final = 16
"""Files that a thread restores one after the other, because to begin a thread's work takes as long as a file."""
_UNSAVED: Final = "the file has unsaved changes in the editor"
_LOST: Final = "the earlier content is not in the store"


class FileRewinder:
    """Restores the files of one session to an earlier position of its log.

    `buffers` are the editor's, if attached. `comparison` tells other sessions that this one writes. Without a `merger`,
    files that somebody else has changed stay.

    The plan is durable before the first file is replaced, each file is replaced atomically, and the end is recorded. So
    after a kill the next open finishes it, and each file has the old or the new content. A cancel restores what was
    replaced, even after a kill, because the way back is recorded before its first file. A file whose present content is
    not stored (a secret, too large) stays as it is, because nothing could bring that back.

    `log.file_history` knows the wanted contents, `left_files` which files stay, and `tools.restoring` replaces one.
    Must not know why someone goes back, nor what happens to the conversation.
    """

    def __init__(
        self,
        log: EventLog,
        journal: Journal,
        store: Store,
        workspace: Workspace,
        facts: SessionFacts,
        buffers: EditorBuffers | None = None,
        comparison: TreeComparison | None = None,
        merger: Merger | None = None,
    ) -> None:
        self._log = log
        self._journal = journal
        self._store = store
        self._workspace = workspace
        self._facts = facts
        self._buffers = buffers
        self._comparison = comparison
        self._merger = merger
        self._spares_protected = False
        """Whether files that other programs run are left alone."""
        self._claims = Claims((), facts)

    def without_protected(self, found: Restorable) -> Restorable:
        """Return the plan without files that are protected now, which are named instead. Blocks."""
        return without_protected(found, self._workspace)

    def has_protected(self, found: Restorable) -> bool:
        """Return whether other programs run one of the files. Blocks."""
        return any(why_protected(self._workspace, file.path) for file in found.files)

    def plan(self, at: Seq) -> Restorable:
        """Return what restores the files to that position of the log. Looks at no file."""
        return self.ordered(restorable(self._log.since(at)))

    def ordered(self, found: Restorable) -> Restorable:
        """Return the files in the order in which they can be restored, without those that must stay as they are."""
        return leaving(found, why_unknown)

    async def merged(self, found: Restorable, *, is_dry: bool = False) -> Restorable:
        """Return the plan with what somebody else has changed merged, or left. With `is_dry`, only to be looked at."""
        if self._merger is None:
            return found
        changed = await anyio.to_thread.run_sync(self._merger.changed, found)
        unsaved = {path: await self._why_unsaved(path) for path in changed}
        free = [path for path in changed if not unsaved[path]]
        plan = leaving(found, lambda file: unsaved.get(file.path, ""))
        return await anyio.to_thread.run_sync(partial(self._merger.merge, plan, free, is_dry=is_dry)) if free else plan

    async def rewind(self, begun: RewindBegun, *, protected: bool = True) -> Rewound:
        """Carry out a plan, recorded by `begun`; return its end, not yet recorded.

        Nothing is awaited after the last file. A cancel or a defect undoes everything, and that is recorded.

        Raises:
            SessionReadOnlyError: nothing can be recorded; no file was touched.
        """
        self._spares_protected = not protected
        seq = self._log.append(begun)
        replaced: list[FileToRestore] = []
        acts: Sequence[tuple[Baseline, int]] = ()
        if self._comparison is not None:
            acts = await anyio.to_thread.run_sync(self._comparison.open_acts)
        try:
            await self._journal.durable(seq)
            return await self._go(begun, replaced)
        except BaseException:
            await shielded(lambda: self._give_up(begun, replaced))
            raise
        finally:
            await shielded(lambda: anyio.to_thread.run_sync(close_acts, acts))

    async def finish(self, begun: RewindBegun) -> Rewound:
        """Carry out a plan that is on the log already, because a process was killed.

        It is unknown which files that process replaced. So a cancel undoes nothing, and the rewind stays open.
        """
        return await (self._bring_back(begun) if begun.cancelled else self._go(begun, []))

    async def _go(self, begun: RewindBegun, replaced: list[FileToRestore]) -> Rewound:
        """Restore the files; add each that had another content to `replaced`."""
        self._claims = Claims(self._log.events, self._facts)
        found = Restorable(begun.files, begun.left)
        plan = await anyio.to_thread.run_sync(self._claims.without_untrusted, found, self._workspace)
        left = list(plan.left)
        done: list[FileToRestore] = []
        copies = OnlyCopies(each.path for each in left)
        for stage in stages(plan.files):
            outcomes = await self._put_together(stage, begun, replaced)
            done += [file for file in stage if not outcomes[file.path]]
            for file in stage:
                if reason := outcomes[file.path]:
                    copies.leave(file)
                    left.append(FileLeft(path=file.path, reason=reason))
        for file in [each for each in done if copies.has(each)]:
            if not (await self._put([reversed_(file)], []))[file.path]:
                done.remove(file)
                left.append(FileLeft(path=file.path, reason=ONLY_COPY))
        if begun.files:
            self._journal.signal(FilesPutBack(len(begun.files), len(begun.files)))
        return replace(_end_of(begun), restored=tuple(done), left=tuple(left))

    async def _put_together(
        self, files: Sequence[FileToRestore], begun: RewindBegun, replaced: list[FileToRestore]
    ) -> Mapping[str, str]:
        """Restore files whose order does not matter, several at a time; return why some are left, by path.

        Those that may together make a repository come one by one: what is there already decides about the next one.
        """
        reasons: dict[str, str] = {}
        limit = anyio.CapacityLimiter(_AT_ONCE)
        in_turn = [file for file in files if may_make_repository(file.path)]
        files = [file for file in files if not may_make_repository(file.path)]
        size = max(1, min(_IN_A_ROW, len(files) // _AT_ONCE))

        async def put(some: Sequence[FileToRestore]) -> None:
            async with limit:
                self._journal.signal(FilesPutBack(len(replaced), len(begun.files)))
                reasons.update(await self._put(some, replaced))

        async with anyio.create_task_group() as tasks:
            for start in range(0, len(files), size):
                tasks.start_soon(put, files[start : start + size])
        if in_turn:
            await put(in_turn)
        return reasons

    async def _give_up(self, begun: RewindBegun, replaced: Sequence[FileToRestore]) -> None:
        """Undo the files in reverse order, even if the process is killed meanwhile."""
        files = tuple(map(reversed_, reversed(replaced)))
        back = RewindBegun(
            statement=begun.statement,
            since=begun.since,
            files=files,
            cancelled=True,
            undone=begun.undone,
            is_redo=begun.is_redo,
        )
        with suppress(SessionReadOnlyError):  # and restore them anyway
            await self._journal.durable(self._log.append(back))
        self._log.append(await self._bring_back(back))

    async def _bring_back(self, begun: RewindBegun) -> Rewound:
        self._claims = Claims(self._log.events, self._facts, is_way_back=True)
        lost = [reversed_(file) for file in begun.files if (await self._put([file], []))[file.path]]
        return replace(_end_of(begun), restored=tuple(lost), cancelled=True)

    async def _put(self, files: Sequence[FileToRestore], replaced: list[FileToRestore]) -> Mapping[str, str]:
        """Restore files in their order; return for each path why it is left alone, or "".

        Those that had another content are added to `replaced`, even if a cancel or a defect ends this.
        """
        reasons = {file.path: await self._why_unsaved(file.path) for file in files}
        free = [file for file in files if not reasons[file.path]]
        allow_names(file.path for file in free)
        async with nullcontext() if self._buffers is None else self._buffers.acting():
            await anyio.to_thread.run_sync(self._restore_each, free, reasons, replaced)
        return reasons

    async def _why_unsaved(self, path: str) -> str:
        """Return why the editor's text of a file must not be lost, or ""."""
        try:
            unsaved = None if self._buffers is None else await self._buffers.unsaved(path, changes=True)
        except (OSError, ValueError) as error:
            return _reason(error)
        return "" if unsaved is None else _UNSAVED

    def _restore_each(
        self, files: Sequence[FileToRestore], reasons: dict[str, str], replaced: list[FileToRestore]
    ) -> None:
        with SyncedTogether() as sync:
            for file in files:
                anyio.from_thread.check_cancelled()
                try:
                    before = self._restore(file, sync)
                except (OSError, ValueError) as error:
                    reasons[file.path] = _reason(error)
                    continue
                if before is not None:
                    replaced.append(file)
                    if self._buffers is not None and self._buffers.editor is not None:
                        anyio.from_thread.run_sync(self._buffers.note_replaced, file.path, before.data)

    def _restore(self, file: FileToRestore, sync: SyncedTogether) -> Replaced | None:
        try:
            wanted = self._store.blob_get(file.wanted) if file.wanted is not None else None
        except (KeyError, StoreError):
            raise OSError(_LOST) from None
        if is_unknown(file.wanted if wanted is not None else None, file.wanted_digest):  # an export leaves it out
            raise OSError(_LOST)
        is_trusted = not self._spares_protected and not file.is_merged and not self._claims.has(file)
        return restore(self._workspace, file, wanted, is_trusted=is_trusted, sync=sync)


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def _end_of(begun: RewindBegun) -> Rewound:
    return Rewound(statement=begun.statement, undone=begun.undone, is_redo=begun.is_redo)


class Rewinder:
    """Moves one session with its files."""

    def __init__(self, log: EventLog, head: Head, files: FileRewinder) -> None:
        self._log = log
        self._head = head
        self._files = files

    async def go(self, goal: Destination, request: ActiveRequest, *, files: bool, protected: bool = True) -> MoveResult:
        """Move there, with or without the `files`, and with or without those that are `protected`.

        Raises SessionReadOnlyError.
        """
        # Before the plan is recorded, because another process may have to finish it.
        found = await self._plan(goal, spares_protected=files and not protected)
        found = await self._files.merged(found) if files else found
        begun = None
        if files and (found.files or found.left):
            begun = RewindBegun(
                statement=goal.statement, since=goal.since, branch=goal.branch, files=found.files, left=found.left
            )

        async def put_back() -> Rewound | None:
            return None if begun is None else await self._files.rewind(begun, protected=protected)

        rewound = await self._head.go(goal, request, put_back)
        if rewound is not None:
            self._log.append(rewound)
        return MoveResult(found, rewound)

    async def look(
        self, goal: Destination, request: ActiveRequest, *, files: bool, protected: bool = True
    ) -> MoveResult:
        """Return what `go` would do, as far as can be told before."""
        found = Restorable((), ())
        if files:
            found = await self._plan(goal, spares_protected=not protected)
            found = await self._files.merged(found, is_dry=True)
        request.append_message()
        return MoveResult(found, None)

    async def _plan(self, goal: Destination, *, spares_protected: bool) -> Restorable:
        found = self._files.plan(goal.since)
        return await anyio.to_thread.run_sync(self._files.without_protected, found) if spares_protected else found


def leave_edit(parts: SessionParts, left: BranchId) -> None:
    """Go back from an edit during which the session's last process died, as after a cancel. Files stay as they are."""
    if parts.log.branches.named(left) is not None:  # an imported log may name any
        move_head(parts.log, parts.timeline, parts.view, Destination(left, Seq(0), 0))


async def finish_rewind(parts: SessionParts, begun: RewindBegun) -> None:
    """Finish a rewind during which the session's last process died."""
    records = str(parts.settings.state_dir / temporary_files.FOLDER)
    workspace = Workspace(parts.cwd, parts.directories, records=records)
    files = FileRewinder(parts.log, parts.journal, parts.store, workspace, parts.facts)
    rewound = await files.finish(begun)
    if not begun.cancelled and begun.undone is None:
        move_head(parts.log, parts.timeline, parts.view, Destination(begun.branch, begun.since, begun.statement))
    parts.log.append(rewound)
