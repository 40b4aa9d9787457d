"""Write a file's content from the log to a directory that nobody works in yet: a copy, or a fresh clone.

So it need not be atomic, and whatever is there is replaced. A path on a log may be anything, as the session may come
from elsewhere: a file is written only below the given directories (`safe_open`), and through no link, which a
repository may have where the log has a directory. Blocks. Called by `clones`, and for
copies of directories.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ..core.domain import is_inside
from ..core.errors import StoreError
from ..core.execution import DIRECTORY, LINK
from ..core.ids import BlobDigest
from ..files.safe_open import Place, place_to_write
from ..log.events.going_back import FileToRestore
from ..log.file_history import is_unknown

_FILE_MODE: Final = 0o644


def put_back(file: FileToRestore, path: str, blob_get: Callable[[BlobDigest], bytes], roots: tuple[str, ...]) -> bool:
    """Write the content that is wanted to `path`; return whether the log has it.

    Args:
        file: the content, as the log has it.
        path: where; it need not be that of `file`.
        blob_get: `Store.blob_get`.
        roots: as for `place_to_write`.

    Raises OSError, also if it would be written elsewhere than in the roots, or if a link is on the way.
    """
    is_gone, is_directory = not file.wanted_digest, file.wanted_digest == DIRECTORY
    content = None if is_gone or is_directory else _content(file, blob_get)
    if content is None and not is_gone and not is_directory:
        return False
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    if not any(is_inside(path, (root,)) and real == os.path.normpath(path) for root in map(os.path.realpath, roots)):
        raise OSError(errno.ELOOP, "a link is on the way", path)
    with place_to_write(path, roots, making=not is_gone, follows=False) as place:
        if place.path != real:
            raise OSError(errno.ESTALE, "a link is on the way by now", path)
        if is_gone:
            if not place.missing:
                _remove(place)
        elif content is None:
            _make_directory(place, file)
        elif file.wanted_digest.startswith(LINK):
            _remove(place)
            os.symlink(content, os.fsencode(place.name), dir_fd=place.directory)
        else:
            _write(place, file, content)
    return True


def _make_directory(place: Place, file: FileToRestore) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(place.name, dir_fd=place.directory).st_mode):
            _remove(place)
    with suppress(FileExistsError):
        os.mkdir(place.name, dir_fd=place.directory)
    if file.wanted_mode is not None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        made = os.open(place.name, flags, dir_fd=place.directory)
        try:
            os.fchmod(made, file.wanted_mode & 0o777 | stat.S_IRWXU)
        finally:
            os.close(made)


def _write(place: Place, file: FileToRestore, content: bytes) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(place.name, dir_fd=place.directory).st_mode):
            _remove(place)
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
