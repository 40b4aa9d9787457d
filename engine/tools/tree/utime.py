"""`os.utime`: the times at which a file was last read and changed."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from ..workspace import Workspace
from .act import Name, TreeAct, again, pinned, there


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`times` are those of access and of change, in nanoseconds since the epoch; None for now."""

    path: str
    times: tuple[int, int] | None
    follows: bool = True


def perform(workspace: Workspace, arguments: Arguments) -> TreeAct:
    """The act that sets them. Raises as `name_at`."""
    name = there(workspace, arguments.path, follows=arguments.follows, changes=False)
    return TreeAct(paths=(name.path,), do=lambda: _set(workspace, name, arguments.times), is_minor=True)


def _set(workspace: Workspace, name: Name, times: tuple[int, int] | None) -> None:
    # Of what is set nothing reads before it was set, so the name is compared as it was.
    how: dict[str, Any] = {} if times is None else {"ns": times}
    with again(workspace, name) as place:
        if name.is_file or name.is_directory:
            with pinned(place) as path:
                os.utime(path, **how)
        else:
            os.utime(place.name, **how, dir_fd=place.directory, follow_symlinks=False)
