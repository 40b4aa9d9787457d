"""What a tool that changes a file wants done: computed before anybody is asked, and done by `landing` afterwards."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Final, NamedTuple

from .changes import extent_of
from .workspace import Workspace

LARGEST: Final = 64 << 20
"""Bytes of the largest file that is changed: what it held is kept, so that it can be given back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file as it is to be.

    Args:
        path: absolute, the real place of the file, links resolved.
        before: what it holds; None for a new file.
        after: what it is to hold.
        value: plain data that the statement gets when that is done.
        mode: the permission bits that a new file is to have, less those of the umask; None for the usual ones.
        protected: why the file is protected, as `Protection.why`.
    """

    path: str
    protected: str
    before: bytes | None
    after: bytes
    value: object
    mode: int | None = None


class Found(NamedTuple):
    """A file that is to be changed: its real place, why it is protected, and what it holds, unsaved or not; None where
    there is none yet."""

    path: str
    protected: str
    data: bytes | None


def file_to_change(workspace: Workspace, path: str) -> Found:
    """The file at `path`.

    Raises:
        OSError: it lies outside the workspace, is no regular file, may not be written, or has more than `LARGEST`
            bytes (EFBIG).
    """
    with workspace.to_write(workspace.absolute(path)) as target:
        place = target.place
        place.check_writable()
        if place.path in workspace.unsaved:
            return Found(place.path, target.protected, workspace.unsaved[place.path])
        with place.opened() as file:
            if file is not None:
                check_size(os.fstat(file.fileno()).st_size, path)
            return Found(place.path, target.protected, None if file is None else file.read(LARGEST))


def check_size(size: int, path: str) -> None:
    """Raises OSError (EFBIG) for a file that is, or would become, larger than `LARGEST`."""
    if size > LARGEST:
        most = f"files of more than {LARGEST >> 20} MiB are not changed by tools, because what they hold is kept"
        raise OSError(errno.EFBIG, most, path)


def change_to(workspace: Workspace, found: Found, after: bytes, *, mode: int | None = None) -> Change:
    """The change of that file, with what a statement is told of it (`runtime.results.written`).

    Raises:
        OSError: it would have more than `LARGEST` bytes (EFBIG).
    """
    place, protected, before = found
    check_size(len(after), workspace.shown(place))
    added, removed, line = extent_of(before, after)
    value = {
        "path": workspace.shown(place),
        "created": before is None,
        "added": added,
        "removed": removed,
        "line": line,
        "size": len(after),
    }
    return Change(path=place, protected=protected, before=before, after=after, value=value, mode=mode)
