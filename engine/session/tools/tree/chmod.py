"""`os.chmod`: the permission bits of a file or a directory."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

import msgspec

from ..workspace import Workspace
from .act import Name, TreeAct, again, pinned, protected_of, there

_PERMISSIONS: Final = 0o777
_MINOR: Final = 0o755
"""A file that may be written by its owner alone is nobody's surprise."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`mode` are permission bits; a link stands for what it leads to."""

    path: str
    mode: int


def perform(workspace: Workspace, arguments: Arguments) -> TreeAct:
    """The act that changes them. Raises as `name_at`, and PermissionError for bits that run a program as its owner."""
    if arguments.mode & ~_PERMISSIONS:
        raise PermissionError(errno.EPERM, "only the bits that chmod names u, g and o are set here", arguments.path)
    name = there(workspace, arguments.path, follows=True, changes=False)
    is_minor = not arguments.mode & ~_MINOR
    assert name.state is not None
    return TreeAct(
        paths=(name.path,),
        protected=protected_of(name),
        do=lambda: _change(workspace, name, arguments.mode),
        detail=f"{_spelled(name.state.st_mode)} -> {_spelled(arguments.mode)}",
        is_minor=is_minor,
    )


def _spelled(mode: int) -> str:
    return f"{stat.filemode(mode)[1:]} ({stat.S_IMODE(mode):o})"


def _change(workspace: Workspace, name: Name, mode: int) -> None:
    with again(workspace, name) as place, pinned(place) as path:
        os.chmod(path, mode)
