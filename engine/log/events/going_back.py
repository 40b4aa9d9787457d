"""Going back: branches and moves of the head, statements that run again, and files that are restored."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from ...core.execution import Aspect, ReplayMode, StatementNumber
from ...core.ids import BlobDigest, BranchId, ExecutionId, Seq
from ...core.text import Exact
from .base import Event

ReplayOutcome = Literal["completed", "failed", "cancelled", "interrupted"]
"""`failed`: a timeout, a lost worker or a rejected statement ended it. `interrupted`: the whole program ended first."""


class BranchCreated(Event, frozen=True, kw_only=True):
    """A branch was created: the path of `parent` before position `before`, then the branch's own events.

    It is stamped with the active branch, which it does not change.
    """

    kind: ClassVar[str] = "branch_created"

    branch: BranchId
    parent: BranchId
    before: Seq


class HeadMoved(Event, frozen=True, kw_only=True):
    """From here on `branch` is active. It is also the first event that has this branch again.

    `left` was active before. `statement` is the number of the last statement on the new path, 0 for none. Waiting
    prompts move along: those that still wait are announced again.
    """

    kind: ClassVar[str] = "head_moved"

    branch: BranchId
    left: BranchId
    statement: StatementNumber

    @property
    def waits(self) -> bool:
        return True


class ReplayBegun(Event, frozen=True, kw_only=True):
    """The statements numbered `first` to `last` are about to run again; `statements` of them can.

    The executions of a `live` replay count from now on, unless the replay does not complete.
    """

    kind: ClassVar[str] = "replay_begun"

    first: int
    last: int
    mode: ReplayMode
    statements: int


class EditBegun(Event, frozen=True, kw_only=True):
    """A new source is about to replace statement `first`, and the statements up to `last` run after it.

    It is the first event of its branch, after the command. `statements` run, as new ones. The end of the run ends it.
    """

    kind: ClassVar[str] = "edit_begun"

    first: int
    last: int
    statements: int


class Diverged(Event, frozen=True, kw_only=True):
    """An execution differs in one aspect from `against`, the earlier one of the same statement.

    `statement` is the statement's number. `before` and `after` are both sides in a few words, empty for nothing. It
    precedes the record of the execution and belongs to it.
    """

    kind: ClassVar[str] = "diverged"

    execution_id: ExecutionId
    against: ExecutionId
    statement: StatementNumber
    aspect: Aspect
    before: str
    after: str


class ReplayEnded(Event, frozen=True, kw_only=True):
    """The replay has ended. Unless it is `completed`, everything is as before it, and `detail` says why."""

    kind: ClassVar[str] = "replay_ended"

    outcome: ReplayOutcome
    detail: str = ""


class OwnContents(Struct, frozen=True, kw_only=True):
    """What the session alone would have in place of both contents of a file, if these have others' changes, too.

    Contents and digests as in `FileToRestore`.
    """

    present: BlobDigest | None = None
    present_digest: Exact = ""
    wanted: BlobDigest | None = None
    wanted_digest: Exact = ""


class FileToRestore(Struct, frozen=True, kw_only=True):
    """One file of a rewind: what the session last wrote (`present`), and what to restore (`wanted`).

    `path` is its real path. Digests are xxh3 hex, empty for no file. `present` and `wanted` are contents as blobs, None
    for no file or if the content is not kept; a digest may then stand for the file's state (`unread-...`). Modes are
    permission bits, None if unknown. `source` is the path from which what is present was moved, usually empty.

    If somebody else had changed the file and a rewind merged that, `own` has what is the session's of it. `is_merged`:
    this is that rewind, `present` is what it found, and `wanted` is the result.
    """

    path: str
    present: BlobDigest | None = None
    present_digest: Exact = ""
    present_mode: int | None = None
    wanted: BlobDigest | None = None
    wanted_digest: Exact = ""
    wanted_mode: int | None = None
    source: str = ""
    own: OwnContents | None = None
    is_merged: bool = False


class FileLeft(Struct, frozen=True, kw_only=True):
    """A file that a rewind does not restore, and the reason, a clause about the file."""

    path: str
    reason: str


class RewindBegun(Event, frozen=True, kw_only=True):
    """The files, and the session with them, go back to the end of statement `statement`; 0 is the beginning.

    Writes from position `since` on are undone. The head moves to `branch`, which is new or was left there. If it is
    None, the conversation stays, and the namespace omits what ran after the statement. The event is durable before the
    first of `files` is replaced, so a session that is opened after a crash can finish the rewind. `left` are the files
    that are known not to be restorable. `cancelled`: the last rewind was given up, `files` get their content from
    before it, and the session stays.

    With `undone`, only the files of that execution go back, and nothing else changes; with `is_redo` they get what it
    had left again. `statement` is its statement then.
    """

    kind: ClassVar[str] = "rewind_begun"

    statement: StatementNumber
    since: Seq
    branch: BranchId | None = None
    files: tuple[FileToRestore, ...] = ()
    left: tuple[FileLeft, ...] = ()
    cancelled: bool = False
    undone: ExecutionId | None = None
    is_redo: bool = False


class Rewound(Event, frozen=True, kw_only=True):
    """The last rewind has ended: `restored` have the wanted content, `left` are unchanged.

    The files have their contents after `statement`; 0 is the beginning. `cancelled`: the rewind was cancelled, and its
    file changes were undone; `restored` then lists the files for which that failed. `undone` and `is_redo` as in
    `RewindBegun`.
    """

    kind: ClassVar[str] = "rewound"

    statement: StatementNumber
    restored: tuple[FileToRestore, ...] = ()
    left: tuple[FileLeft, ...] = ()
    cancelled: bool = False
    undone: ExecutionId | None = None
    is_redo: bool = False


BranchEvent = BranchCreated | HeadMoved
ReplayEvent = ReplayBegun | EditBegun | Diverged | ReplayEnded
RewindingEvent = RewindBegun | Rewound
