"""`os.rename` and `os.replace`: another name for a file or a directory, in the place of a file that has it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from ..landing import replace_file
from ..workspace import Workspace
from .act import Hold, Name, TreeAct, again, carried_protected, name_at, protected_of, there

_IN_PARTS: Final = "its files have to be written one by one, because {}"
MOST_FILES: Final = 5_000
"""So many files of a directory are kept track of."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`source` is given the name `path`; links are not followed."""

    path: str
    source: str


def perform(workspace: Workspace, arguments: Arguments) -> TreeAct:
    """The act that renames it.

    Raises as `name_at`, FileNotFoundError without a source, IsADirectoryError or NotADirectoryError where only one is a
    directory, and OSError (EFBIG) for a directory with more than `MOST_FILES` files.
    """
    source, target = there(workspace, arguments.source), name_at(workspace, arguments.path)
    if target.protected and source.is_directory:
        raise OSError(errno.EXDEV, _IN_PARTS.format(target.protected), arguments.path)
    if target.state is not None and source.is_directory != target.is_directory:
        kind, number = (NotADirectoryError, errno.ENOTDIR) if source.is_directory else (IsADirectoryError, errno.EISDIR)
        raise kind(number, os.strerror(number), arguments.path)
    becomes = tuple(_becomes(source, target))
    return TreeAct(
        paths=(source.path, target.path),
        protected=protected_of(source, target) or carried_protected(workspace, source, becomes),
        do=lambda: _rename(workspace, source, target),
        put=partial(_put, workspace, source, target) if target.protected and source.is_file else None,
        becomes=becomes,
        source=source.path,
    )


def _becomes(source: Name, target: Name) -> Iterator[tuple[str, str | None]]:
    if source.is_file:
        yield source.path, None
        yield target.path, source.path
    elif target.is_file:
        yield target.path, None
    if source.is_directory:
        for count, path in enumerate(_files_below(source.path)):
            if count == MOST_FILES:
                sentence = f"it has more than {MOST_FILES:,} files, which are not kept track of; bash() can rename it"
                raise OSError(errno.EFBIG, sentence, source.path)
            yield path, None
            yield target.path + path.removeprefix(source.path), path


def _files_below(path: str) -> Iterator[str]:
    for folder, _, names in os.walk(path):
        for name in names:
            found = os.path.join(folder, name)
            if stat.S_ISREG(os.lstat(found).st_mode):
                yield found


def _put(workspace: Workspace, source: Name, target: Name, data: bytes, hold: Hold) -> None:
    assert source.state is not None
    with again(workspace, source) as old, again(workspace, target) as new:
        replace_file(new, data, target.state, workspace, stat.S_IMODE(source.state.st_mode), hold=hold)
        os.unlink(old.name, dir_fd=old.directory)


def _rename(workspace: Workspace, source: Name, target: Name) -> None:
    with again(workspace, source) as old, again(workspace, target) as new:
        os.rename(old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory)
