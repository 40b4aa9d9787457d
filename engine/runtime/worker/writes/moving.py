"""Moves files where the kernel renames nothing: to another mount, and out of the scratch directory to the host.

Between mounts that this process may write there is a copy beside the target, renamed over it. What the host writes is
copied as by any code, so that it is asked about and recorded. The source is removed last. Used by `routed_tree`.
"""

from __future__ import annotations

import errno
import os
import shutil
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


def bring_file(source: str, target: str) -> None:
    """Has the host write to `target` what the file `source` of scratch holds. Raises OSError: EXDEV where either is
    anything but a file, because a copy of that would be another thing than the rename; else what the write raises."""
    for place in (source, target):
        if os.path.lexists(place) and not stat.S_ISREG(os.lstat(place).st_mode):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, target)
    shutil.copy2(source, target)
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
