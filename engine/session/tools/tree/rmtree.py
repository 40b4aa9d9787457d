"""`shutil.rmtree`: removes a directory with all that is in it, as one act. What its files held is kept by whoever
records it."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator

import msgspec

from ..stale import stale
from ..workspace import Workspace
from .act import SINCE, Name, TreeAct, again, carried_protected, protected_of, there
from .rename import MOST_FILES


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`path` is that of the directory; a link is not followed."""

    path: str


def perform(workspace: Workspace, arguments: Arguments) -> TreeAct:
    """The act that removes it.

    Raises as `name_at`, NotADirectoryError, PermissionError where something in it may not be removed, and OSError
    (EFBIG) where it holds more than `MOST_FILES` names.
    """
    name = there(workspace, arguments.path)
    if not name.is_directory:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), arguments.path)
    found = dict(_entries(name.path, None))
    becomes = tuple(
        (os.path.join(name.path, path), None) for path, state in found.items() if stat.S_ISREG(state.st_mode)
    )
    return TreeAct(
        paths=(name.path,),
        protected=protected_of(name) or carried_protected(workspace, name, becomes),
        do=lambda: _remove(workspace, name, found),
        becomes=becomes,
    )


def _entries(top: str, directory: int | None) -> Iterator[tuple[str, os.stat_result]]:
    """What is in the directory at `top`, which begins at `directory`: paths below it and their states, links as such.

    Raises before anything is removed what would keep it from being removed as a whole.
    """
    count = 0
    for folder, folders, files, descriptor in os.fwalk(top, onerror=_raise, dir_fd=directory):
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=descriptor, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)
        for each in (*folders, *files):
            count += 1
            if count > MOST_FILES:
                sentence = f"it holds more than {MOST_FILES:,} names, which are not kept track of; bash() can remove it"
                raise OSError(errno.EFBIG, sentence, top)
            yield os.path.relpath(os.path.join(folder, each), top), os.lstat(each, dir_fd=descriptor)


def _remove(workspace: Workspace, name: Name, found: dict[str, os.stat_result]) -> None:
    with again(workspace, name) as place:
        now = dict(_entries(place.name, place.directory))
        if _identities(now) != _identities(found):
            raise stale(workspace.shown(name.path), SINCE, None, b"")
        shutil.rmtree(place.name, dir_fd=place.directory)


def _identities(found: dict[str, os.stat_result]) -> dict[str, tuple[int, ...]]:
    return {path: Name(path, "", state).identity for path, state in found.items()}


def _raise(error: OSError) -> None:
    raise error
