"""A copy of a session's directories, in which its statements can run again without reaching the originals.

The files are those of the directories now. A file that the session has changed gets its content before the session's
first change, from the log. What git would ignore is left out, as in comparisons (`listing`), and so are links that lead
out of the directories, because code that follows one would reach an original. A path on the log may be anything, as the
session may come from elsewhere: such a file is written only at its place below the copy (`safe_open`). Blocks.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...core.domain import is_inside
from ...core.errors import InvalidRequestError, StoreError
from ...core.execution import DIRECTORY, LINK
from ...core.ids import BlobDigest
from ...files.safe_open import Place, place_to_write
from ...files.search.ignore_files import place_of
from ...log.events import Event
from ...log.file_history import FileToRestore, is_unknown, restorable
from .listing import MOST_ENTRIES, Lister, State, TooLargeError, TooSlowError

MOST_BYTES: Final = 1 << 30
"""Of the files of one directory. A larger one is not copied."""
TOO_LARGE: Final = "{} has more than {} GiB or {:,} entries, so it is not copied"
_FILE_MODE: Final = 0o644


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
        if copied is not None and copied not in real.values():
            _put_back(file, copied, blob_get, tuple(real.values()))
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


def _put_back(
    file: FileToRestore, copied: str, blob_get: Callable[[BlobDigest], bytes], copies: tuple[str, ...]
) -> None:
    """Give a copied file the content that it had before the session's first change, as far as the log knows it.

    Raises OSError, also if it would be written elsewhere than in the copies.
    """
    if file.wanted_digest.startswith(LINK):
        return
    is_gone = not file.wanted_digest
    content = None if is_gone or file.wanted_digest == DIRECTORY else _content(file, blob_get)
    if content is None and not is_gone and file.wanted_digest != DIRECTORY:
        return
    with place_to_write(copied, copies, making=not is_gone, follows=False) as place:
        if is_gone:
            if not place.missing:
                _remove(place)
        elif content is None:
            with suppress(FileExistsError):
                os.mkdir(place.name, dir_fd=place.directory)
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(place.name, flags, dir_fd=place.directory), "wb") as target:
                target.write(content)
                os.fchmod(target.fileno(), (file.wanted_mode or _FILE_MODE) & 0o777 | stat.S_IWUSR)


def _content(file: FileToRestore, blob_get: Callable[[BlobDigest], bytes]) -> bytes | None:
    if is_unknown(file.wanted, file.wanted_digest) or file.wanted is None:
        return None
    try:
        return blob_get(file.wanted)
    except (KeyError, StoreError):
        return None


def _remove(place: Place) -> None:
    try:
        state = os.lstat(place.name, dir_fd=place.directory)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(state.st_mode):
        shutil.rmtree(place.name, dir_fd=place.directory)
    else:
        os.remove(place.name, dir_fd=place.directory)
