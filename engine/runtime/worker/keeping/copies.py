"""Pickles groups in a forked process: what is too large to wait for, and what calls code of the user's.

The child has the namespace as it was at the fork, for next to nothing, so the next statement may run meanwhile. It
writes one record for each group into a memory file, which it shares with the worker; the worker reads them when the
child has ended. The child itself never calls code of the user's. For a group that does, it forks once more, so that
whatever that code does (hang, exit, print, change the namespace) is over with that process: it is ended when its time
is over, and the groups after it find the namespace as it was.

What keeps the child from being noticed: its standard streams are /dev/null, and all other descriptors but the memory
file are closed at once. Otherwise a pipe that the next statement closes would stay open in the child, and a buffered
file could be written by both. It handles no signal of the user's, dies with the worker, and never runs a finalizer,
because it leaves by `os._exit` and without collecting garbage. Of its end nobody is told (`quiet_fork`).

A record is a state, which is written last, and the size of what follows: data or a reason. So whatever the child had
finished when it was ended is there. Must not know what is pickled. Used by `keeper`.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn

from ..processes.ending import end_below, end_tree
from ..processes.proc import children_of
from ..processes.system import become_subreaper, die_with_parent
from . import descriptors, quiet_fork
from .reasons import ENDED, NO_PROCESS, TOO_MANY, took_longer

CODE_SECONDS: Final = 10.0
"""How long one group may take that calls code of the user's."""
TOTAL_SECONDS: Final = 60.0
"""How long all groups of one child may take."""
TOTAL_BYTES: Final = 256 << 20
"""What the groups of one child may come to."""
_HEAD: Final = struct.Struct("<BQ")
_EMPTY: Final = 0
_DATA: Final = 1
_REASON: Final = 2

Names = tuple[str, ...]
Write = Callable[[int, int, Names, bool], "int | str | None"]
"""Pickles a group into the file at an offset: descriptor, offset, names, whether code of the user's may run.

Gives the size of the data, or the reason why there is none, or None where it would have to run such code.
"""


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of one group: its data, or the reason why there is none."""

    names: Names
    data: bytes
    reason: str


class Copies:
    """One child, from its fork until all it has written is taken.

    Raises:
        OSError: there is no process or no file to be had.
    """

    def __init__(self, groups: tuple[Names, ...], write: Write) -> None:
        self._groups = list(groups)
        self._offset = 0
        self._deadline = time.monotonic() + TOTAL_SECONDS
        self._late = False
        self._memory = descriptors.keep_high(os.memfd_create("rewindow-values", os.MFD_CLOEXEC))
        worker = os.getpid()
        try:
            self.pid = quiet_fork.fork()
            if self.pid == 0:
                _become_child(worker, self._memory, groups, write)
            self._process = descriptors.keep_high(os.pidfd_open(self.pid))
        except BaseException:
            os.close(self._memory)
            raise

    @property
    def ended(self) -> bool:
        """Whether all that will be written is there; ends a child whose time is over."""
        if _has_ended(self._process, 0):
            return True
        if time.monotonic() < self._deadline:
            return False
        self._late = True
        self.end()
        return _has_ended(self._process, 1000)

    def end(self) -> None:
        """Ends the child with all below it."""
        end_tree(self.pid)

    def take(self) -> Finished | None:
        """What became of the next group; None when there are no more, and then everything is given back."""
        if not self._groups:
            self._close()
            return None
        names = self._groups.pop(0)
        # A statement may have closed the file under us, or put another in its place.
        try:
            state, size = _HEAD.unpack(os.pread(self._memory, _HEAD.size, self._offset))
            content = os.pread(self._memory, size, self._offset + _HEAD.size) if 0 < size <= TOTAL_BYTES else b""
        except (OSError, struct.error, OverflowError):
            state, size, content = _EMPTY, 0, b""
        self._offset += _HEAD.size + size
        if state == _DATA and len(content) == size > 0:
            return Finished(names, content, "")
        if state == _REASON:
            return Finished(names, b"", content.decode("utf-8", "replace"))
        return Finished(names, b"", took_longer(TOTAL_SECONDS) if self._late else ENDED)

    def _close(self) -> None:
        quiet_fork.reap(self.pid)
        self.leave()

    def leave(self) -> None:
        """Gives the descriptors back; what the child writes is of no use here."""
        for descriptor in (self._memory, self._process):
            with suppress(OSError):
                os.close(descriptor)


def _has_ended(process: int, milliseconds: int) -> bool:
    # Through a descriptor, because a statement may have taken the child's exit status itself.
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(milliseconds))


# --- in the child ----------------------------------------------------------------------------------------------------


def _become_child(worker: int, memory: int, groups: tuple[Names, ...], write: Write) -> NoReturn:
    try:
        gc.disable()
        _take_signals_back()
        if not die_with_parent(signal.SIGKILL, worker):
            os._exit(0)
        os.setsid()
        become_subreaper()
        descriptors.close_others(memory)
        offset = 0
        for names in groups:
            offset = _record(memory, offset, names, write)
    finally:
        os._exit(0)


def _take_signals_back() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)


def _record(memory: int, offset: int, names: Names, write: Write) -> int:
    """Writes what became of a group; returns where the next record goes."""
    if offset > TOTAL_BYTES:
        return _put_reason(memory, offset, TOO_MANY)
    written = _written(memory, offset, names, write, runs_code=False)
    if written is not None:
        return written
    try:
        reason = _in_process_of_its_own(lambda: _written(memory, offset, names, write, runs_code=True))
    except OSError:
        reason = NO_PROCESS
    state, size = _HEAD.unpack(os.pread(memory, _HEAD.size, offset).ljust(_HEAD.size, b"\0"))
    if not reason and state != _EMPTY:
        return offset + _HEAD.size + size
    return _put_reason(memory, offset, reason or ENDED)


def _written(memory: int, offset: int, names: Names, write: Write, *, runs_code: bool) -> int | None:
    outcome = write(memory, offset + _HEAD.size, names, runs_code)
    if outcome is None:
        return None
    if isinstance(outcome, str):
        return _put_reason(memory, offset, outcome)
    os.pwrite(memory, _HEAD.pack(_DATA, outcome), offset)
    return offset + _HEAD.size + outcome


def _put_reason(memory: int, offset: int, reason: str) -> int:
    data = reason.encode("utf-8", "replace")
    os.pwrite(memory, data, offset + _HEAD.size)
    os.pwrite(memory, _HEAD.pack(_REASON, len(data)), offset)
    return offset + _HEAD.size + len(data)


def _in_process_of_its_own(work: Callable[[], object]) -> str:
    """Does the work in a forked process; returns why it may not have come to an end, or nothing."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            if die_with_parent(signal.SIGKILL, parent):
                work()
        finally:
            os._exit(0)
    process = os.pidfd_open(pid)
    late = not _has_ended(process, int(CODE_SECONDS * 1000))
    if late:
        end_tree(pid)
    os.waitpid(pid, 0)
    os.close(process)
    if children_of("self"):
        # C code may start a process unseen by the guard.
        end_below(os.getpid())
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
    return took_longer(CODE_SECONDS) if late else ""
