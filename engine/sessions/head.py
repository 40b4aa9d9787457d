"""Moves the head of a session's log: to a new branch that goes as far as a statement, or to one that there is.

Owns what a move appends and in which order. The worker is ended first, so that what it kept of its values is recorded
before; whoever uses the namespace next gets one that is rebuilt from the new path. Then come BranchCreated where the
branch is new, HeadMoved, the end of what the path leaves open (a run whose statements go on elsewhere), and what still
waits, announced again, because a PromptQueued is on one branch alone. A kill anywhere in between leaves a log whose
active path `repair` makes whole like any other. Called between two runs, one at a time. Must not know commands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from ..cutting import cut_line
from ..errors import InvalidRequestError
from ..events import UNSTAMPED, Event
from ..events.branches import BranchCreated, HeadMoved
from ..events.conversation import RunStop
from ..events.execution import StatementRecorded
from ..events.session import PromptQueued, ServerConnected, ServerLost
from ..ids import BranchId, Seq
from ..log import EventLog
from ..timeline.ends import end_after
from ..timeline.index import Timeline
from ..view import ViewFold
from .live_environment import LiveEnvironment
from .numbered import no_statement
from .preparer import Preparer
from .repair import enforce_view, repair

_SHOWN_CHARS: Final = 20
_INTERRUPTED: Final = RunStop(reason="interrupted", cause="cancelled", detail="it goes on on another branch")


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

    async def rewind(self, statement: int) -> BranchId:
        """Makes a branch that goes as far as the result of that statement, 0 for the beginning, and moves to it.

        Raises:
            InvalidRequestError: there is no such statement.
        """
        end = end_after(self._log.path, statement)
        if end is None:
            raise InvalidRequestError(no_statement(self._timeline.cells, str(statement)))
        return await self.branch_at(end)

    async def branch_at(self, end: Seq) -> BranchId:
        """Makes a branch that shares the active path before position `end`, and moves to it."""
        shared = [event for event in self._log.path if event.seq < end]
        parent = shared[-1].branch_id if shared else self._log.branches.active
        before = Seq(shared[-1].seq + 1 if shared else 0)
        branch = self._log.branches.next_name
        await self._move(branch, BranchCreated(branch=branch, parent=parent, before=before))
        return branch

    async def switch(self, name: str) -> None:
        """Moves to the end of another branch.

        Raises:
            InvalidRequestError: there is no such branch, or it is active already.
        """
        branches = self._log.branches
        found = branches.named(name)
        if found is None or found.name == branches.active:
            there = ", ".join(branch.name for branch in branches.all)
            wrong = "is active already" if found else "is none of the session's branches"
            raise InvalidRequestError(f"{cut_line(name, _SHOWN_CHARS)} {wrong}; there are {there}")
        await self._move(found.name)

    async def _move(self, branch: BranchId, *created: Event) -> None:
        async with self._environment.step:
            await self._environment.rest()
            for event in created:
                self._log.append(event)
            left = self._log.branches.active
            path = self._log.branches.path(self._log.events, branch)
            last = next((event.index for event in reversed(path) if isinstance(event, StatementRecorded)), 0)
            self._log.append(HeadMoved(branch=branch, left=left, statement=last))
            repair(self._log, self._timeline, _INTERRUPTED)
            enforce_view(self._log, self._view.warning)
            self._tell_servers()
            for prompt in self._waiting():
                self._log.append(prompt)
            self._preparer.forget()

    def _tell_servers(self) -> None:
        """Says again what became of each MCP server last, where that is not on the path: it is so on every branch."""
        latest: dict[str, Event] = {}
        for event in self._log.events:
            if isinstance(event, ServerConnected | ServerLost):
                latest[event.module] = event
        for event in latest.values():
            if not self._log.branches.holds(event):
                self._log.append(replace(event, seq=UNSTAMPED))
