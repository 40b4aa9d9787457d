"""`ls(path)`: the entries of a directory, directories with a trailing slash."""

from __future__ import annotations

import os
from typing import Final

import msgspec

from ...core.text import more
from ...files.safe_open import opened_directory
from .workspace import Workspace, name_text

MAX_ENTRIES: Final = 2_000


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str


def perform(workspace: Workspace, arguments: Arguments, limit: int = MAX_ENTRIES) -> list[str]:
    """Names sorted as text; after `limit` a last line says how many there are more.

    Raises:
        OSError: it is no readable directory, or lies outside the workspace.
    """
    path = workspace.absolute(arguments.path)
    with opened_directory(path, workspace.roots) as directory, os.scandir(directory) as entries:
        names = sorted(_name(entry) for entry in entries)
    if len(names) > limit:
        names = [*names[:limit], more(len(names) - limit)]
    return names


def _name(entry: os.DirEntry[str]) -> str:
    name = name_text(entry.name)
    return f"{name}/" if entry.is_dir() else name
