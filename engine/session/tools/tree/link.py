"""`os.link`: a further name for a file, which from then on has the same content under both."""

from __future__ import annotations

import os
import stat
from functools import partial

import msgspec

from ..landing import replace_file
from ..workspace import Workspace
from .act import Hold, Name, TreeAct, again, free, protected_of, there


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`path` is the new name of what has the name `source`; links are not followed."""

    path: str
    source: str


def perform(workspace: Workspace, arguments: Arguments) -> TreeAct:
    """The act that links it. Raises as `free`, and FileNotFoundError without a source."""
    source, name = there(workspace, arguments.source, changes=False), free(workspace, arguments.path)
    becomes = ((name.path, source.path),) if source.is_file else ()
    return TreeAct(
        paths=(name.path,),
        protected=protected_of(source, name),
        do=lambda: _link(workspace, source, name),
        put=partial(_put, workspace, source, name) if name.protected and source.is_file else None,
        becomes=becomes,
        source=source.path,
    )


def _put(workspace: Workspace, source: Name, name: Name, data: bytes, hold: Hold) -> None:
    assert source.state is not None
    with again(workspace, source), again(workspace, name) as new:
        replace_file(new, data, None, workspace, stat.S_IMODE(source.state.st_mode), hold=hold)


def _link(workspace: Workspace, source: Name, name: Name) -> None:
    with again(workspace, source) as old, again(workspace, name) as new:
        os.link(old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory, follow_symlinks=False)
