"""What is at a path at one moment: pinned first, and opened only where it is a regular file, so that nothing waits.

Owns how a file is named, read and compared before and after somebody else's code has written it. To pin opens nothing:
a pipe does not block, a device is not started, and whatever is put in the place of a file meanwhile, the pinned one is
read. Must not know who writes, nor what becomes of a content. Called by the worker before an act (`worker.preimages`)
and by the host after it (`sessions.touches`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from os import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDONLY
from typing import Final, Literal, NamedTuple

import xxhash

from ..core.execution import UNREAD

LARGEST: Final = 64 << 20
"""Bytes of the largest content that is kept."""
PIECE: Final = 32 << 10
_MOST_LINKS: Final = 40
"""As many as the kernel follows."""
_MISSING: Final = (errno.ENOENT, errno.ENOTDIR)

# Bound here, because a statement may replace them in their module, and its replacement would act in the middle of ours.
_open, _close, _read, _fstat, _readlink = os.open, os.close, os.read, os.fstat, os.readlink
_encode, _join, _split = os.fsencode, os.path.join, os.path.split

Kind = Literal["nothing", "file", "directory", "other"]
Path = str | bytes


class Pinned(NamedTuple):
    """What a path led to. `place` is where that really is; `descriptor` pins it, and is -1 where nothing is there."""

    place: bytes
    kind: Kind
    descriptor: int = -1
    state: os.stat_result | None = None

    @property
    def size(self) -> int:
        return 0 if self.state is None else self.state.st_size

    @property
    def mode(self) -> int | None:
        """The permission bits; None where nothing is there."""
        return None if self.state is None else stat.S_IMODE(self.state.st_mode)

    @property
    def mark(self) -> str:
        """Stands for the digest of a content that is not read, and changes whenever the content does."""
        return "" if self.state is None else mark_of(self.state)

    def close(self) -> None:
        if self.descriptor >= 0:
            _close(self.descriptor)

    def pieces(self, limit: int = LARGEST + 1) -> Iterator[bytes]:
        """The content of the file, `PIECE` bytes at most at a time, until there are `limit` bytes or more.

        Raises OSError where it may not be read.
        """
        descriptor = _open(_link(self.descriptor), O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        try:
            while limit > 0 and (piece := _read(descriptor, PIECE)):
                yield piece
                limit -= len(piece)
        finally:
            _close(descriptor)


def mark_of(state: os.stat_result) -> str:
    """What stands for the digest of a file in that state, see `Pinned.mark`."""
    parts = state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
    return f"{UNREAD}{xxhash.xxh3_64_hexdigest(repr(parts).encode())}"


def pinned(path: Path | int, directory: int | None = None, *, follows: bool = True) -> Pinned:
    """What is at the path; to be closed.

    Args:
        path: as the operating system takes it; a descriptor stands for the file that it is open on.
        directory: a descriptor of the directory that a relative path begins at; None for the working directory.
        follows: a link at the end of the path stands for what it leads to, also where there is nothing yet.

    Raises:
        OSError: nobody can tell: a part of the path may not be searched, links lead in a circle, a name is too long.
        ValueError, TypeError: it is no path.
    """
    if isinstance(path, int):
        path, directory, follows = _link(path), None, True
    for _ in range(_MOST_LINKS):
        try:
            return _found(_open(path, O_PATH | O_CLOEXEC | (0 if follows else O_NOFOLLOW), dir_fd=directory))
        except OSError as error:
            if error.errno not in _MISSING:
                raise
        place, target = _missing(path, directory)
        if target is None or not follows:
            return Pinned(place, "nothing")
        path, directory = _join(_split(place)[0], target), None
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _found(descriptor: int) -> Pinned:
    try:
        state = _fstat(descriptor)
        place = _encode(_readlink(_link(descriptor)))
    except BaseException:
        _close(descriptor)
        raise
    return Pinned(place, _kind(state), descriptor, state)


def _missing(path: Path, directory: int | None) -> tuple[bytes, bytes | None]:
    """Where a file of that name would come to be, and where the link leads that has the name.

    Raises OSError where the directory above it is missing, too.
    """
    above, name = _split(_encode(path))
    pin = _open(above or b".", O_PATH | O_DIRECTORY | O_CLOEXEC, dir_fd=directory)
    try:
        target = None
        with suppress(OSError):  # because there is no link of that name
            target = _readlink(name, dir_fd=pin)
        return _join(_encode(_readlink(_link(pin))), name), target
    finally:
        _close(pin)


def _kind(state: os.stat_result) -> Kind:
    # A file without a name (a memfd, one that was removed while it is open) is nobody's to find again.
    if stat.S_ISREG(state.st_mode) and state.st_nlink:
        return "file"
    return "directory" if stat.S_ISDIR(state.st_mode) else "other"


def _link(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"
