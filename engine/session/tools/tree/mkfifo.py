"""`os.mkfifo`: a new named pipe."""

from __future__ import annotations

import os

import msgspec

from ..workspace import Workspace
from .act import Name, TreeAct, again, free, protected_of


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`mode` are permission bits, of which the umask takes some away."""

    path: str
    mode: int


def perform(workspace: Workspace, arguments: Arguments) -> TreeAct:
    """The act that makes it. Raises as `free`."""
    name = free(workspace, arguments.path)
    return TreeAct(
        paths=(name.path,), protected=protected_of(name), do=lambda: _make(workspace, name, arguments.mode & 0o777)
    )


def _make(workspace: Workspace, name: Name, mode: int) -> None:
    with again(workspace, name) as place:
        os.mkfifo(place.name, mode, dir_fd=place.directory)
