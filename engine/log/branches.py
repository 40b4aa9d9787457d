"""Branches: the paths through one session's log, as a fold over the whole of it.

A log is never cut. To go back, a branch is made that shares another one's path up to a position, and the head, which is
where events are added, moves to it. So the path of a branch is its parent's path as far as that lies before `before`,
then the events that are stamped with its own name; and one path is active, by which all read models go that must not
know of the others.

Whether an event is on the active path is asked of every event when a log is read, so it is one comparison: for each
branch that the path runs through there is a bound, and what is stamped with it counts below that. The bound of the
active branch is the end of the log, that of its parent is `before`, and that of each further one is the smaller of its
child's `before` and of the bounds after it: a path that was left early never comes as far as where it left others.

Total: an imported log may say anything. A branch that nobody made goes on from what was active before its first event.
Must not know what events mean. Owned by `EventLog`; `path_of` is for logs that no `EventLog` holds.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from ..core.ids import MAIN_BRANCH, BranchId, Seq, StatementId, ToolCallId
from .events import BranchEvent, ConversationEvent, Event
from .events.conversation import RunStop, ToolCall, ToolResult
from .events.execution import ExecutionFinished, StatementRecorded
from .events.going_back import BranchCreated, HeadMoved
from .events.session import PromptQueued

E = TypeVar("E", bound=Event)
_NO_BOUND: Final = sys.maxsize


class Branch(Struct, frozen=True):
    """A branch: the path of `parent` before position `before`, then its own events. The first one has no parent."""

    name: BranchId
    parent: BranchId | None = None
    before: Seq = Seq(0)


class Branches:
    """Which there are, in the order in which they were made, and which is active. `apply` is for the log alone."""

    def __init__(self) -> None:
        self._branches: dict[BranchId, Branch] = {MAIN_BRANCH: Branch(MAIN_BRANCH)}
        self._bounds: dict[BranchId, int] = {MAIN_BRANCH: _NO_BOUND}
        self.active: BranchId = MAIN_BRANCH

    def apply(self, event: Event) -> bool:
        """Takes the next event of the log. Returns whether another path is active from this event on."""
        if type(event) is BranchCreated:
            self._create(event)
        if event.branch_id == self.active:
            return False
        if event.branch_id not in self._branches:
            self._branches[event.branch_id] = Branch(event.branch_id, self.active, event.seq)
        self.active = event.branch_id
        self._bounds = self.bounds_of(self.active)
        return True

    def _create(self, event: BranchCreated) -> None:
        if event.branch not in self._branches:
            parent = event.parent if event.parent in self._branches else self.active
            before = Seq(min(max(event.before, 0), event.seq))
            self._branches[event.branch] = Branch(event.branch, parent, before)

    def refusal(self, event: BranchEvent) -> str | None:
        """Why the log must not take this event next, or None."""
        match event:
            case BranchCreated(branch=branch) if branch in self._branches:
                return f"there is a branch {branch} already"
            case BranchCreated(parent=parent) if parent not in self._branches:
                return f"there is no branch {parent}"
            case BranchCreated(before=before) if before < 0:
                return f"no branch can begin at {before}"
            case HeadMoved(branch=branch) if branch not in self._branches:
                return f"there is no branch {branch}"
            case HeadMoved(branch=branch) if branch == self.active:
                return f"branch {branch} is active already"
            case _:
                return None

    @property
    def all(self) -> Sequence[Branch]:
        """In the order in which they were made; the first is the one that every session starts on."""
        return tuple(self._branches.values())

    def named(self, name: str) -> Branch | None:
        """The branch of that name; None where there is none."""
        return self._branches.get(BranchId(name))

    @property
    def next_name(self) -> BranchId:
        """A name that no branch has."""
        number = len(self._branches)
        while f"b{number}" in self._branches:
            number += 1
        return BranchId(f"b{number}")

    def holds(self, event: Event) -> bool:
        """Whether an event of the log is on the active path. O(1)."""
        return event.seq < self._bounds.get(event.branch_id, 0)

    def path(self, events: Sequence[E], name: BranchId | None = None) -> Sequence[E]:
        """Those of the whole log's `events` that are on the path of the branch `name`, the active one by default."""
        if len(self._branches) == 1:
            return events
        bounds = self._bounds if name is None else self.bounds_of(name)
        return [event for event in events if event.seq < bounds.get(event.branch_id, 0)]

    def bounds_of(self, name: BranchId) -> dict[BranchId, int]:
        """The branches that the path of this one runs through: it has their events below these positions."""
        bounds: dict[BranchId, int] = {}
        bound = _NO_BOUND
        branch = self._branches.get(name)
        while branch is not None:
            bounds[branch.name] = bound
            bound = min(bound, branch.before)
            branch = None if branch.parent is None else self._branches[branch.parent]
        return bounds


def branches_of(events: Sequence[Event]) -> Branches:
    """The branches of a log; what a `Branches` holds that was told of all its events."""
    branches = Branches()
    for event in events:
        branches.apply(event)
    return branches


def path_of(events: Sequence[E], everywhere: Collection[type[Event]] = ()) -> Sequence[E]:
    """The path that is active at the end of `events`, a log from its beginning.

    Of the kinds `everywhere` those of other branches are among them: what they say holds for the whole session.
    """
    branches = branches_of(events)
    if not everywhere:
        return branches.path(events)
    return [event for event in events if type(event) in everywhere or branches.holds(event)]


# ends:
# Where a path ends that goes as far as a statement: what a branch shares that begins there.
#
# A path may end anywhere, because nothing is taken out of its middle: the properties of the View judge it as it is,
# and the beginning of a well-formed conversation is well-formed. So a statement's own end decides, whatever run it
# stands in. Pure. Called by `sessions.head`.

_WORK: Final = ConversationEvent | PromptQueued | StatementRecorded
"""What somebody asked for or what came of it; all else follows by itself, such as a call to which nothing was said."""


def end_after(path: Sequence[Event], statement: int) -> Seq | None:
    """The position before which the path holds the result of statement `statement`, and nothing that came of it.

    0 is before the first request. A run that stopped with the statement is held to its stop. None where no such
    statement has a result.
    """
    if statement == 0:
        return next((event.seq for event in path if isinstance(event, _WORK)), _behind(path))
    place = _result(path, statement)
    if place is None:
        return None
    for event in path[place + 1 :]:
        if isinstance(event, RunStop):
            return Seq(event.seq + 1)
        if isinstance(event, _WORK | HeadMoved):  # where a branch begins, the stop is of a later time
            break
    return Seq(path[place].seq + 1)


def end_before(path: Sequence[Event], statement: int) -> Seq | None:
    """The position before which the path has nothing of statement `statement`, neither its call nor its record.

    None where there is no such statement.
    """
    calls: dict[ToolCallId, Seq] = {}
    for event in path:
        match event:
            case ToolCall(tool_call_id=call, parent_id=None):
                calls[call] = event.seq
            case StatementRecorded(index=index, tool_call_id=call) if index == statement:
                return calls.get(call, event.seq)
            case _:
                pass
    return None


def _behind(path: Sequence[Event]) -> Seq:
    return Seq(path[-1].seq + 1 if path else 0)


def _result(path: Sequence[Event], statement: int) -> int | None:
    """The place on the path of the statement's result, or of its record where no model asked for it."""
    recorded: StatementId | None = None
    calls: set[ToolCallId] = set()
    call: ToolCallId | None = None
    for place, event in enumerate(path):
        match event:
            case ToolCall(tool_call_id=made, parent_id=None):
                calls.add(made)
            case StatementRecorded(index=index) if index == statement:
                recorded, call = event.statement_id, event.tool_call_id
            case ExecutionFinished(statement_id=found) if found == recorded and call not in calls:
                return place
            case ToolResult(tool_call_id=answered) if answered == call and recorded is not None:
                return place
            case _:
                pass
    return None
