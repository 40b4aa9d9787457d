"""The paths through a session's log: where a branch leaves another one, and which of them is active."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from ...core.execution import Aspect, ReplayMode, StatementNumber
from ...core.ids import BlobDigest, BranchId, ExecutionId, Seq
from ...core.text import Exact
from .base import Event


class BranchCreated(Event, frozen=True, kw_only=True):
    """There is a branch `branch`: the path of `parent` as far as it lies before position `before`, then its own events.

    Stamped with the branch that was active, which it does not change.
    """

    kind: ClassVar[str] = "branch_created"

    branch: BranchId
    parent: BranchId
    before: Seq


class HeadMoved(Event, frozen=True, kw_only=True):
    """From here on the branch `branch` is active: this is the first event that is stamped with it since.

    `left` was active before; `statement` is the number of the last statement on the path that counts now, 0 for none.
    Prompts that waited go along: those that still wait are announced again.
    """

    kind: ClassVar[str] = "head_moved"

    branch: BranchId
    left: BranchId
    statement: StatementNumber

    @property
    def waits(self) -> bool:
        return True


BranchEvent = BranchCreated | HeadMoved


# replays:
# Statements that ran again on purpose, and what came out differently when they did.

ReplayOutcome = Literal["completed", "failed", "cancelled", "interrupted"]
"""`failed`: a timeout, a lost worker or a rejected statement ended it. `interrupted`: the whole program ended first."""


class ReplayBegun(Event, frozen=True, kw_only=True):
    """The statements `first` to `last`, by their numbers, are about to run again; `statements` of them can.

    Of a `live` replay the executions count from now on, unless it ends otherwise than completed.
    """

    kind: ClassVar[str] = "replay_begun"

    first: int
    last: int
    mode: ReplayMode
    statements: int


class EditBegun(Event, frozen=True, kw_only=True):
    """Another source is about to run in the place of statement `first`, then what came behind it, up to `last`.

    On the branch of that, whose first event it is but for the command; `statements` run, as new ones. It is over with
    the end of its run.
    """

    kind: ClassVar[str] = "edit_begun"

    first: int
    last: int
    statements: int


class Diverged(Event, frozen=True, kw_only=True):
    """In one aspect the execution came out otherwise than `against`, the earlier one of the same statement.

    `statement` is the number of that. `before` and `after` are what each came to, in a few words; empty is nothing.
    The record of the execution, which comes after it, is to be read with it.
    """

    kind: ClassVar[str] = "diverged"

    execution_id: ExecutionId
    against: ExecutionId
    statement: StatementNumber
    aspect: Aspect
    before: str
    after: str


class ReplayEnded(Event, frozen=True, kw_only=True):
    """The replay that had begun is over. Where it is not `completed`, everything is as before it; `detail` says why."""

    kind: ClassVar[str] = "replay_ended"

    outcome: ReplayOutcome
    detail: str = ""


ReplayEvent = ReplayBegun | EditBegun | Diverged | ReplayEnded


# rewinding:
# Files that go back to what they held: what a rewind is about to do to them, and what it has done.


class FileToRestore(Struct, frozen=True, kw_only=True):
    """One file: what the session last wrote there, and what it is to hold again. `path` is where it really is.

    The digests are xxh3 hex, empty for no file. `present` and `wanted` are the contents as blobs: None for no file, and
    where the content is not kept; a digest may then stand for its state (`unread-...`). Modes are permission bits, None
    where they are not known.
    """

    path: str
    present: BlobDigest | None = None
    present_digest: Exact = ""
    present_mode: int | None = None
    wanted: BlobDigest | None = None
    wanted_digest: Exact = ""
    wanted_mode: int | None = None


class FileLeft(Struct, frozen=True, kw_only=True):
    """A file that a rewind leaves as it is, and why: a clause about the file."""

    path: str
    reason: str


class RewindBegun(Event, frozen=True, kw_only=True):
    """The files go back to where statement `statement` left them, 0 being the beginning, and the session with them.

    `since` is the position on the log from which on what was written is undone. The head moves to `branch`, which is
    new or was left there; where it is None, the conversation stays, and what ran after the statement is left out of the
    namespace. Durable before the first of `files` is replaced, so that whoever opens the session after a kill can
    finish it; of those `left` it is known beforehand. `cancelled`: the rewind that began last was given up, `files` go
    back to what they held before it, and the session stays where it is.
    """

    kind: ClassVar[str] = "rewind_begun"

    statement: StatementNumber
    since: Seq
    branch: BranchId | None = None
    files: tuple[FileToRestore, ...] = ()
    left: tuple[FileLeft, ...] = ()
    cancelled: bool = False


class Rewound(Event, frozen=True, kw_only=True):
    """The rewind that began last has ended: `restored` hold again what they were to hold, `left` are as they were.

    `statement` is the one that the files went back to, 0 for the beginning. `cancelled`: somebody gave it up, and what
    it had replaced is as before; `restored` are then those of which that was not possible.
    """

    kind: ClassVar[str] = "rewound"

    statement: StatementNumber
    restored: tuple[FileToRestore, ...] = ()
    left: tuple[FileLeft, ...] = ()
    cancelled: bool = False


RewindingEvent = RewindBegun | Rewound
