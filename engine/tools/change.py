"""What a tool that changes a file wants done: computed before anybody is asked, and done by `landing` afterwards."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Final

from ..confinement import place_to_write
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
    """

    path: str
    before: bytes | None
    after: bytes
    value: object
    mode: int | None = None


def file_to_change(workspace: Workspace, path: str) -> tuple[str, bytes | None]:
    """The real place of the file at `path`, and what it holds, unsaved or not; None where there is none yet.

    Raises:
        OSError: it lies outside the workspace, is no regular file, may not be written, or has more than `LARGEST`
            bytes (EFBIG).
    """
    with place_to_write(workspace.absolute(path), workspace.roots) as place:
        place.check_writable()
        if place.path in workspace.unsaved:
            return place.path, workspace.unsaved[place.path]
        with place.opened() as file:
            if file is not None:
                check_size(os.fstat(file.fileno()).st_size, path)
            return place.path, None if file is None else file.read(LARGEST)


def check_size(size: int, path: str) -> None:
    """Raises OSError (EFBIG) for a file that is, or would become, larger than `LARGEST`."""
    if size > LARGEST:
        most = f"files of more than {LARGEST >> 20} MiB are not changed by tools, because what they hold is kept"
        raise OSError(errno.EFBIG, most, path)


def change_to(
    workspace: Workspace, place: str, before: bytes | None, after: bytes, *, mode: int | None = None
) -> Change:
    """The change of the file at that real place, with what a statement is told of it (`tool_values.written`).

    Raises:
        OSError: it would have more than `LARGEST` bytes (EFBIG).
    """
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
    return Change(path=place, before=before, after=after, value=value, mode=mode)
