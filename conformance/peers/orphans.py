"""Ends what programs left behind under an environment of their own, where no mark tells any more whose it is.

Linux gives a process whose parent has ended to the next ancestor that asked for such (PR_SET_CHILD_SUBREAPER in
prctl(2)). While a run lasts, that is us; when it is over, every child that was not there before is an orphan of some
program, since the programs themselves have ended. Elsewhere than on Linux nothing is asked for, and nothing is ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SET_CHILD_SUBREAPER: Final = 36
_ROUNDS: Final = 100
"""An orphan that is ended may leave children of its own, which are ended in the next round."""


@contextmanager
def no_orphans() -> Generator[None]:
    """Ends, when the block is over, what became our child meanwhile. Not for blocks that start children to keep."""
    if sys.platform != "linux" or not _adopt(yes=True):
        yield
        return
    before = _children()
    try:
        yield
    finally:
        for _ in range(_ROUNDS):
            if not (left := _children() - before):
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
        _adopt(yes=False)


def _adopt(*, yes: bool) -> bool:
    """Whether the system took it."""
    try:
        return ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


def _children() -> set[int]:
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in parentheses, may hold anything; behind it come the state and the parent.
            parent = path.read_bytes().rpartition(b")")[2].split()[1]
            if int(parent) == os.getpid():
                found.add(int(path.parent.name))
    return found
