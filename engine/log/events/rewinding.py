"""Files that go back to what they held: what a rewind is about to do to them, and what it has done."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from ...core.execution import StatementNumber
from ...core.ids import BlobDigest, BranchId, Seq
from ...core.text import Exact
from .base import Event


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
