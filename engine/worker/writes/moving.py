"""Moves a file to another mount: a copy beside the target, renamed over it, and then the source is removed.

For a process that may write both, where the kernel renames nothing from one mount to the other. Used by `routed_tree`.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Final

from ..guarding.routes import original

_PIECE: Final = 1 << 20
_open, _close, _replace, _unlink = (original(each) for each in (os.open, os.close, os.replace, os.unlink))


def move_file(source: str, target: str) -> None:
    """Has `target` be what `source` is, with its permissions and times. Raises OSError (EXDEV) for what is no file."""
    state = os.lstat(source)
    if not stat.S_ISREG(state.st_mode):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, target)
    beside = f"{target}.{os.urandom(4).hex()}.tmp"
    try:
        _copy(source, beside, state)
        _replace(beside, target)
    except BaseException:
        with suppress(OSError):
            _unlink(beside)
        raise
    _unlink(source)


def _copy(source: str, target: str, state: os.stat_result) -> None:
    given = _open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        taken = _open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, stat.S_IMODE(state.st_mode))
        try:
            while os.sendfile(taken, given, None, _PIECE):
                pass
            os.fchmod(taken, stat.S_IMODE(state.st_mode))
            os.utime(taken, ns=(state.st_atime_ns, state.st_mtime_ns))
        finally:
            _close(taken)
    finally:
        _close(given)
