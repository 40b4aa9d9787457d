"""`os.symlink`: a new symbolic link, which may lead anywhere: what is opened by it is looked at where it leads."""

from __future__ import annotations

import os

import msgspec

from ..workspace import Workspace
from .act import Name, TreeAct, again, free, protected_of


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`path` is the link, `target` what it holds."""

    path: str
    target: str


def perform(workspace: Workspace, arguments: Arguments) -> TreeAct:
    """The act that makes it. Raises as `free`."""
    name = free(workspace, arguments.path)
    return TreeAct(
        paths=(name.path,), protected=protected_of(name), do=lambda: _make(workspace, name, arguments.target)
    )


def _make(workspace: Workspace, name: Name, target: str) -> None:
    with again(workspace, name) as place:
        os.symlink(target, place.name, dir_fd=place.directory)
