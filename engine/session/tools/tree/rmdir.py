"""`os.rmdir`: removes an empty directory."""

from __future__ import annotations

import errno
import os

import msgspec

from ....files.safe_open import opened_directory
from ..workspace import Workspace
from .act import Name, TreeAct, again, protected_of, there


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`path` is that of the directory."""

    path: str


def perform(workspace: Workspace, arguments: Arguments) -> TreeAct:
    """The act that removes it. Raises as `name_at`, and OSError where it is none or not empty."""
    name = there(workspace, arguments.path)
    if not name.is_directory:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), arguments.path)
    with opened_directory(name.path, workspace.roots) as directory:
        if os.listdir(directory):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), arguments.path)
    return TreeAct(paths=(name.path,), protected=protected_of(name), do=lambda: _remove(workspace, name))


def _remove(workspace: Workspace, name: Name) -> None:
    with again(workspace, name) as place:
        os.rmdir(place.name, dir_fd=place.directory)
