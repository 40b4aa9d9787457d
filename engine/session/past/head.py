"""Moves the head of a session's log: to a new branch that goes as far as a statement, or to one that there is.

Owns what a move appends and in which order. The worker is ended first, so that what it kept of its values is recorded
before; whoever uses the namespace next gets one that is rebuilt from the new path. Then come BranchCreated where the
branch is new, HeadMoved, the end of what the path leaves open (a run whose statements go on elsewhere), and what still
waits, announced again, because a PromptQueued is on one branch alone. A kill anywhere in between leaves a log whose
active path `repair` makes whole like any other. Called between two runs, one at a time. Must not know commands.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from ...context.tail.feed import changes_of
from ...context.view import ViewFold
from ...core.errors import InvalidRequestError
from ...core.ids import BranchId, Seq
from ...log.branches import end_after
from ...log.event_log import EventLog
from ...log.events import UNSTAMPED, Event
from ...log.events.conversation import RunStop
from ...log.events.execution import StatementOmitted, StatementRecorded
from ...log.events.going_back import BranchCreated, HeadMoved
from ...log.events.session import PromptQueued, ServerConnected, ServerLost
from ...log.timeline import Timeline
from ..branch_rows import branch_named, end_of, names_of
from ..live_environment import LiveEnvironment
from ..preparer import Preparer
from ..repair import enforce_view, repair
from .numbered import no_statement

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
    """One session's. `waiting` are the announcements of what waits, in its order."""

    def __init__(
        self,
        *,
        log: EventLog,
        timeline: Timeline,
        view: ViewFold,
        environment: LiveEnvironment,
        preparer: Preparer,
        waiting: Callable[[], Sequence[PromptQueued]],
    ) -> None:
        self._log = log
        self._timeline = timeline
        self._view = view
        self._environment = environment
        self._preparer = preparer
        self._waiting = waiting

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

    async def branch_at(self, end: Seq) -> BranchId:
        """Makes a branch that shares the active path before position `end`, and moves to it."""
        branch = self._log.branches.next_name
        await self.go(Goal(branch, end, 0), _nothing)
        return branch

    async def back_to(self, branch: BranchId) -> None:
        """Moves to the end of a branch that was left a moment ago; files stay as they are."""
        await self.go(self.end_of(branch), _nothing)

    async def go(self, goal: Goal, before: Callable[[], Awaitable[T]]) -> T:
        """Goes there; what comes of `before`, which is done when the worker has ended. Nothing is awaited after it."""
        async with self._environment.step, self._environment.ended():
            done = await before()
            reach(self._log, self._timeline, self._view, goal)
            if goal.branch is not None:
                for prompt in self._waiting():
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
