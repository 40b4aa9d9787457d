"""`os.remove`: removes a file, a link or a pipe. What a file held is kept by whoever records it."""

from __future__ import annotations

import errno
import os

import msgspec

from ..workspace import Workspace
from .act import Name, TreeAct, again, protected_of, there


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`path` is that of the name; a link is not followed."""

    path: str


def perform(workspace: Workspace, arguments: Arguments) -> TreeAct:
    """The act that removes it. Raises as `name_at`, and IsADirectoryError."""
    name = there(workspace, arguments.path)
    if name.is_directory:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), arguments.path)
    becomes = ((name.path, None),) if name.is_file else ()
    return TreeAct(
        paths=(name.path,), protected=protected_of(name), do=lambda: _remove(workspace, name), becomes=becomes
    )


def _remove(workspace: Workspace, name: Name) -> None:
    with again(workspace, name) as place:
        os.unlink(place.name, dir_fd=place.directory)
