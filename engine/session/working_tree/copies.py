"""A copy of a session's directories, in which its statements can run again without reaching the originals.

The files are those of the directories now. A file that the session has changed gets its content before the session's
first change, from the log. What git would ignore is left out, as in comparisons (`listing`), and so are links that lead
out of the directories, because code that follows one would reach an original. Blocks.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ...core.domain import is_inside
from ...core.errors import InvalidRequestError
from ...core.execution import LINK
from ...core.ids import BlobDigest
from ...files.search.ignore_files import place_of
from ...log.events import Event
from ...log.file_history import restorable
from ..putting_back import put_back
from .listing import MOST_ENTRIES, Lister, State, TooLargeError, TooSlowError

MOST_BYTES: Final = 1 << 30
"""Of the files of one directory. A larger one is not copied."""
TOO_LARGE: Final = "{} has more than {} GiB or {:,} entries, so it is not copied"


def copy_directories(
    directories: Sequence[str], events: Sequence[Event], blob_get: Callable[[BlobDigest], bytes], place: Path
) -> Mapping[str, str]:
    """Copy the directories below `place`; return the copy of each.

    A directory that is inside another one is part of its copy. One that does not exist is empty, but for what the log
    has.

    Args:
        events: the session's whole log.
        blob_get: `Store.blob_get`.

    Raises:
        InvalidRequestError: a directory is too large.
        OSError: a copy cannot be written.
    """
    normal = {each: os.path.normpath(each) for each in directories}
    roots = [each for each in normal.values() if not any(_is_below(each, other) for other in normal.values())]
    copies = {root: str(place / str(number)) for number, root in enumerate(dict.fromkeys(roots))}
    real = {os.path.realpath(root): copy for root, copy in copies.items()}
    for root, copy in copies.items():
        os.mkdir(copy)
        if os.path.isdir(root):
            _copy(os.path.realpath(root), copy, real)
    for file in restorable(events, despite_doubt=True).files:
        copied = _moved(os.path.normpath(file.path), real)
        if copied is not None and copied not in real.values() and not file.wanted_digest.startswith(LINK):
            put_back(file, copied, blob_get, tuple(real.values()))
    found = {each: moved for each, path in normal.items() if (moved := _moved(path, copies)) is not None}
    for copy in found.values():
        os.makedirs(copy, exist_ok=True)
    return found


def _is_below(path: str, other: str) -> bool:
    return path != other and is_inside(path, (other,))


def _moved(path: str, copies: Mapping[str, str]) -> str | None:
    for root, copy in copies.items():
        if is_inside(path, (root,)):
            return os.path.normpath(os.path.join(copy, os.path.relpath(path, root)))
    return None


def _copy(root: str, copy: str, copies: Mapping[str, str]) -> None:
    try:
        entries = Lister().list_tree(place_of(root, (root,)))
    except (TooLargeError, TooSlowError):
        entries = None
    if entries is None or sum(state.size for state in entries.values()) > MOST_BYTES:
        raise InvalidRequestError(TOO_LARGE.format(root, MOST_BYTES >> 30, MOST_ENTRIES))
    for path, state in entries.items():
        source, target = os.path.join(root, path.rstrip("/")), os.path.join(copy, path.rstrip("/"))
        os.makedirs(target if state.is_directory else os.path.dirname(target), exist_ok=True)
        if state.is_link:
            _copy_link(source, target, copies)
        elif stat.S_ISREG(state.mode):
            _copy_file(source, target, state)


def _copy_file(source: str, target: str, state: State) -> None:
    try:
        shutil.copyfile(source, target, follow_symlinks=False)
    except OSError as error:
        if error.filename == target:
            raise
        return  # it is gone by now, or may not be read, as for statements
    os.chmod(target, stat.S_IMODE(state.mode) & 0o777 | stat.S_IWUSR)
    os.utime(target, ns=(state.modified, state.modified))


def _copy_link(source: str, target: str, copies: Mapping[str, str]) -> None:
    copied = _moved(os.path.realpath(source), copies)
    if copied is not None:
        os.symlink(os.path.relpath(copied, os.path.dirname(target)), target)
