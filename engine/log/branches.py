"""Branches: the paths through one session's log, where each ends, and the rows that list them.

A log is never cut. To go back, a session makes a branch that shares another branch's path up to a position, and moves
the head, where events are added, to it. So the path of a branch is its parent's path as far as that lies before
`before`, then the events that are stamped with its own name. One path is active; most read models follow it alone.

Reading a log asks of every event whether it is on the active path, so the answer is one comparison. Each branch that
the path runs through has a bound, and the path has that branch's events below it. The active branch has no bound. The
bound of an ancestor is the smallest `before` of the branches between it and the active one: from where a path left a
branch it never returns to it.

Total: an imported log may say anything. A branch without a `BranchCreated` goes on from what was active before its
first event. `EventLog` owns a `Branches`; `path_of` is for logs that no `EventLog` has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from ..core.errors import InvalidRequestError
from ..core.ids import MAIN_BRANCH, BranchId, Seq, StatementId, ToolCallId
from ..core.text import cut_line, printable
from .events import BranchEvent, ConversationEvent, Event
from .events.conversation import RunStop, ToolCall, ToolResult
from .events.execution import ExecutionFinished, StatementRecorded
from .events.going_back import BranchCreated, EditBegun, HeadMoved
from .events.session import PromptQueued

E = TypeVar("E", bound=Event)

SHOWN_BRANCHES: Final = 20
"""How many branches, the newest, a sentence or a report names."""
_NAME_CHARS: Final = 20
_NO_BOUND: Final = sys.maxsize
_WORK: Final = ConversationEvent | PromptQueued | StatementRecorded
"""Requests and their results. All other events follow from these."""


class Branch(Struct, frozen=True):
    """A branch: the path of `parent` before position `before`, then its own events. The first one has no parent."""

    name: BranchId
    parent: BranchId | None = None
    before: Seq = Seq(0)


class Branches:
    """All branches, oldest first, and the active one. `apply` is for the log alone."""

    def __init__(self) -> None:
        self._branches: dict[BranchId, Branch] = {MAIN_BRANCH: Branch(MAIN_BRANCH)}
        self._bounds: dict[BranchId, int] = {MAIN_BRANCH: _NO_BOUND}
        self.active: BranchId = MAIN_BRANCH

    def apply(self, event: Event) -> bool:
        """Take the next event of the log; return whether it activates another path."""
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
        """Return why the log must not take this event next, or None."""
        match event:
            case BranchCreated(branch=branch) if branch in self._branches:
                return f"branch {branch} exists already"
            case BranchCreated(parent=parent) if parent not in self._branches:
                return f"there is no branch {parent}"
            case BranchCreated(before=before) if before < 0:
                return f"no branch can begin before event {before}"
            case HeadMoved(branch=branch) if branch not in self._branches:
                return f"there is no branch {branch}"
            case HeadMoved(branch=branch) if branch == self.active:
                return f"branch {branch} is active already"
            case _:
                return None

    @property
    def all(self) -> Sequence[Branch]:
        """All branches, oldest first. Every session starts on the first one."""
        return tuple(self._branches.values())

    def named(self, name: str) -> Branch | None:
        """Return the branch of that name, or None."""
        return self._branches.get(BranchId(name))

    @property
    def next_name(self) -> BranchId:
        """An unused name."""
        number = len(self._branches)
        while f"b{number}" in self._branches:
            number += 1
        return BranchId(f"b{number}")

    def holds(self, event: Event) -> bool:
        """Return whether an event of the log is on the active path. O(1)."""
        return event.seq < self._bounds.get(event.branch_id, 0)

    def path(self, events: Sequence[E], name: BranchId | None = None) -> Sequence[E]:
        """Select the events on the path of a branch, the active one by default, from those of the whole log."""
        if len(self._branches) == 1:
            return events
        bounds = self._bounds if name is None else self.bounds_of(name)
        return [event for event in events if event.seq < bounds.get(event.branch_id, 0)]

    def bounds_of(self, name: BranchId) -> dict[BranchId, int]:
        """Return the branches that a branch's path runs through, each with the position that bounds its events."""
        bounds: dict[BranchId, int] = {}
        bound = _NO_BOUND
        branch = self._branches.get(name)
        while branch is not None:
            bounds[branch.name] = bound
            bound = min(bound, branch.before)
            branch = None if branch.parent is None else self._branches[branch.parent]
        return bounds


def branches_of(events: Sequence[Event]) -> Branches:
    """Return the branches of a whole log."""
    branches = Branches()
    for event in events:
        branches.apply(event)
    return branches


def path_of(events: Sequence[E], everywhere: Collection[type[Event]] = ()) -> Sequence[E]:
    """Return the path that is active at the end of `events`, a log from its beginning.

    Events of the kinds in `everywhere` are included whatever their branch, because they concern the whole session.
    """
    branches = branches_of(events)
    if not everywhere:
        return branches.path(events)
    return [event for event in events if type(event) in everywhere or branches.holds(event)]


# --- where a path ends ------------------------------------------------------------------------------------------------
#
# A path may end anywhere: nothing is taken out of its middle, and the beginning of a well-formed conversation is
# well-formed. So the end of the statement decides, whatever run it belongs to.


def end_after(path: Sequence[Event], statement: int) -> Seq | None:
    """Return the position right behind the result of a statement, or None if the path has no such result.

    The path before that position has the statement and nothing later. If a run stopped with the statement, its stop is
    included. Statement 0 stands for the time before the first request.
    """
    if statement == 0:
        return next((event.seq for event in path if isinstance(event, _WORK)), _behind(path))
    place = _result(path, statement)
    if place is None:
        return None
    for event in path[place + 1 :]:
        if isinstance(event, RunStop):
            return Seq(event.seq + 1)
        if isinstance(event, _WORK | HeadMoved):  # where a branch begins, the stop belongs to later work
            break
    return Seq(path[place].seq + 1)


def end_before(path: Sequence[Event], statement: int) -> Seq | None:
    """Return the position of a statement's call or record, whichever is first; None if there is no such statement."""
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


def end_of(branch: Branch, branches: Branches, events: Sequence[Event]) -> Seq:
    """Return where the branch was left last: for the active one, the end of the log."""
    if branch.name == branches.active:
        return Seq(len(events))
    own = (event.seq for event in reversed(events) if event.branch_id == branch.name)
    return Seq(next(own, branch.before - 1) + 1)


def left_by_edit(events: Iterable[Event]) -> BranchId | None:
    """Return the branch that an edit without an end has left, or None. `events` are a log's, the newest first.

    If all its statements have ended, only the end of its run is missing.
    """
    ended, begun = 0, None
    for event in events:
        match event:
            case ExecutionFinished():
                ended += 1
            case EditBegun(statements=statements) if ended < statements:
                begun = event
            case HeadMoved(left=left) if begun is not None:
                return left
            case HeadMoved() | EditBegun():
                return None
            case RunStop() if begun is None:
                return None
            case _:
                pass
    return None


def _behind(path: Sequence[Event]) -> Seq:
    return Seq(path[-1].seq + 1 if path else 0)


def _result(path: Sequence[Event], statement: int) -> int | None:
    """Return the place of the statement's result on the path, or of its record if no model called it."""
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


# --- branches as rows -------------------------------------------------------------------------------------------------


class BranchRow(Struct, frozen=True):
    """A branch in a list. `shared` is the number of the last statement it shares with `parent`, `last` its last one."""

    name: BranchId
    parent: BranchId | None
    shared: int
    last: int
    is_active: bool


def branch_rows(branches: Branches, statements_below: Callable[[BranchId, int], int]) -> Sequence[BranchRow]:
    """Return a row for each branch, oldest first.

    Args:
        statements_below: `SessionFacts.statements_below` of the same log.
    """
    rows: list[BranchRow] = []
    for branch in branches.all:
        counts = {name: statements_below(name, bound) for name, bound in branches.bounds_of(branch.name).items()}
        last = sum(counts.values())
        shared = last - counts[branch.name]
        rows.append(BranchRow(branch.name, branch.parent, shared, last, branch.name == branches.active))
    return rows


def in_common(rows: Sequence[BranchRow], left: BranchId, right: BranchId) -> int:
    """Return the number of the last statement that both branches have, 0 if they share none."""
    reached = _reached(rows, left)
    other = _reached(rows, right)
    return next(min(number, other[name]) for name, number in reached.items() if name in other)


def _reached(rows: Sequence[BranchRow], name: BranchId) -> dict[BranchId, int]:
    """Return the branch and its ancestors, each with the last of its statements that the branch has."""
    by_name = {row.name: row for row in rows}
    row, number = by_name[name], by_name[name].last
    reached = {row.name: number}
    while row.parent is not None:
        number = min(number, row.shared)
        row = by_name[row.parent]
        reached[row.name] = number
    return reached


def branch_named(branches: Branches, name: str) -> Branch:
    """Return the branch of that name. Raises InvalidRequestError, with the names there are, if there is none."""
    found = branches.named(name)
    if found is None:
        shown = cut_line(printable(name), _NAME_CHARS)
        raise InvalidRequestError(f"There is no branch {shown}. The branches are {names_of(branches)}.")
    return found


def names_of(branches: Branches) -> str:
    """Return the branches' names for a sentence: the first one and the newest."""
    names = [branch.name for branch in branches.all]
    rest = len(names) - 1 - SHOWN_BRANCHES
    return ", ".join(names) if rest <= 0 else f"{', '.join([names[0], *names[-SHOWN_BRANCHES:]])} and {rest} more"
