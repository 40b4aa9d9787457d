"""Pickles the groups of one statement: small ones at once, large ones in a forked process.

Pickling may call user code. Then it runs under the guard. A group has no copy if the guard stops an act, or if the
namespace is different afterwards.

The forked child has the namespace as it was at the fork, almost for free, so the next statement may run meanwhile. It
writes one record for each group into a shared memory file, which the worker reads after its end. The child never calls
user code itself. For a group that needs that, it forks again, so everything that the code does (hang, exit, print,
change the namespace) ends with that process: it is killed at its limit, and the next groups find the namespace
unchanged.

The child must not be noticed. Its standard streams are /dev/null, and all other descriptors apart from the memory file
are closed at once. Otherwise a pipe that the next statement closes would stay open in the child, and both could write a
buffered file. It handles no signal of the user, dies with the worker, and runs no finalizer, because it leaves with
`os._exit` and without garbage collection. Its end sends no signal (`system.quiet_fork`).

A record is a state, which is written last, and a size, followed by data or a reason. So every group that the child had
finished is there if it was killed. Must not know what is pickled. Used by `keeper`.
"""

from __future__ import annotations

import gc
import os
import signal
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar

from ...system import quiet_fork
from ...system.descriptors import close_others, keep_high, memory_file
from ...system.own_process import become_subreaper, die_with_parent
from ...system.process_table import children_of
from ...system.processes import ProcessHandle
from ..guarding.guard import OutsideGuard
from ..processes.ending import end_below, end_tree
from .naming import SIZE, BoundNames, ForeignCode, header
from .pickler import GroupPickler, RunsCodeError, Sink, Surroundings
from .reasons import (
    CHANGED,
    ENDED,
    NO_PROCESS,
    TOO_MANY,
    Clock,
    FileSink,
    MemorySink,
    NotKeptError,
    kept_from,
    took_longer,
    why_not_kept,
)

CODE_SECONDS: Final = 10.0
"""The time limit of one group whose pickling calls user code."""
TOTAL_SECONDS: Final = 60.0
"""The time limit of all groups of one child."""
TOTAL_BYTES: Final = 256 << 20
"""The size limit of all groups of one child."""
_HEAD: Final = struct.Struct("<BQ")
_EMPTY: Final = 0
_DATA: Final = 1
_REASON: Final = 2
Names = tuple[str, ...]
Write = Callable[[int, int, Names, bool], "int | str | None"]
"""Pickles a group into the file at an offset: descriptor, offset, names, whether user code may run.

Returns the size of the data, or the reason why there is none, or None if user code would have to run.
"""
SMALL_BYTES: Final = 64 << 10
"""The largest group that is saved after every statement, in bytes of its pickle."""
LARGE_BYTES: Final = 64 << 20
"""The same after a statement that acted outside, or that does not run again."""
_LABEL: Final = "copying values"
T = TypeVar("T")


class GroupWriter:
    """Writes groups of one namespace as it is now. All groups in memory share one time limit."""

    def __init__(self, known: Surroundings, guard: OutsideGuard, limit: int, seconds: float) -> None:
        self._known = known
        self._guard = guard
        self._limit = limit
        self._clock = Clock(seconds)
        self._bound = BoundNames(known.namespace)
        self._foreign = ForeignCode()

    def in_memory(self, names: Names) -> bytes:
        """The group's data, if it is small and needs no user code.

        Raises:
            RunsCodeError: it needs user code.
            TooLargeError: it is larger than SMALL_BYTES.
            Exception: it cannot be pickled; `why_not_kept` says why.
        """
        sink = MemorySink(SMALL_BYTES, self._clock)
        has_code = self._dump(sink, names, runs_code=False)
        return header(has_code=has_code) + sink.taken()

    def in_memory_guarded(self, names: Names) -> bytes:
        """The same with user code, in this process."""
        sink = MemorySink(self._limit, self._clock)
        has_code = self._guarded(lambda: self._dump(sink, names, runs_code=True))
        return header(has_code=has_code) + sink.taken()

    def in_file(self, descriptor: int, offset: int, names: Names, runs_code: bool) -> int | str | None:
        """Write the group at the offset, as `Write`. With `runs_code`, this process must end afterwards."""
        clock = Clock(CODE_SECONDS if runs_code else TOTAL_SECONDS)
        body = FileSink(descriptor, offset + SIZE, self._limit, clock)
        try:
            if runs_code:
                has_code = self._guarded(lambda: self._dump(body, names, runs_code=True))
            else:
                has_code = self._dump(body, names, runs_code=False)
            FileSink(descriptor, offset, SIZE, clock).write(header(has_code=has_code))
        except RunsCodeError:
            return None
        except BaseException as error:
            return why_not_kept(error)
        return SIZE + body.size

    def _dump(self, sink: Sink, names: Names, *, runs_code: bool) -> bool:
        """Pickle the group; return whether it contains code."""
        values = {name: self._known.namespace[name] for name in names}
        pickler = GroupPickler(sink, frozenset(names), self._known, self._bound, self._foreign, runs_code=runs_code)
        pickler.dump(values)
        return pickler.has_code

    def _guarded(self, work: Callable[[], T]) -> T:
        before = _bindings(self._known.namespace)
        self._guard.arm(_LABEL, _refusal, replay=False)
        try:
            return work()
        finally:
            phrases, _ = self._guard.ended()
            self._guard.disarm()
            # Checked before the exception, which it may have caused.
            if phrases:
                raise NotKeptError(kept_from("; ".join(phrases)))
            if before != _bindings(self._known.namespace):
                raise NotKeptError(CHANGED)


def _bindings(namespace: Mapping[str, object]) -> list[tuple[str, int]]:
    # A copy, because the user's threads may bind names meanwhile.
    return [(name, id(value)) for name, value in dict(namespace).items()]


def _refusal(phrase: str) -> Exception:
    return PermissionError(f"copying a value must have no outside effects; this copying {phrase}")


class Copies:
    """One child, from its fork until all its records are taken.

    Raises:
        OSError: no process or no file is available.
    """

    def __init__(self, groups: tuple[Names, ...], write: Write) -> None:
        self._groups = list(groups)
        self._offset = 0
        self._deadline = time.monotonic() + TOTAL_SECONDS
        self._late = False
        self._memory = keep_high(memory_file("rewindow-values"))
        worker = os.getpid()
        try:
            self.pid = quiet_fork.fork()
            if self.pid == 0:
                _become_child(worker, self._memory, groups, write)
            self._process = ProcessHandle(self.pid, keep_high)
        except BaseException:
            os.close(self._memory)
            raise

    @property
    def ended(self) -> bool:
        """Whether the child has written everything; ends a child at its time limit."""
        if self._process.ended_within(0):
            return True
        if time.monotonic() < self._deadline:
            return False
        self._late = True
        self.end()
        return self._process.ended_within(1)

    def end(self) -> None:
        """End the child and everything below it."""
        end_tree(self.pid)

    def take(self) -> Finished | None:
        """The result of the next group; None after the last one, when everything is released."""
        if not self._groups:
            self._close()
            return None
        names = self._groups.pop(0)
        # Because a statement may have closed or replaced our descriptor.
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
        """Release the descriptors, if the child's records are not needed any more, or not in this process."""
        with suppress(OSError):
            os.close(self._memory)
        with suppress(OSError):
            self._process.close()


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of one group: its data, or the reason why there is none."""

    names: Names
    data: bytes
    reason: str


# --- in the child ----------------------------------------------------------------------------------------------------
def _become_child(worker: int, memory: int, groups: tuple[Names, ...], write: Write) -> NoReturn:
    try:
        gc.disable()
        _take_signals_back()
        if not die_with_parent(signal.SIGKILL, worker):
            os._exit(0)
        os.setsid()
        become_subreaper()
        close_others(memory)
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
    """Write the record of a group; return the offset of the next record."""
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
    """Do the work in a forked process; return why it may not have finished, or ""."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            if die_with_parent(signal.SIGKILL, parent):
                work()
        finally:
            os._exit(0)
    with ProcessHandle(pid) as process:
        late = not process.ended_within(CODE_SECONDS)
        if late:
            end_tree(pid)
        os.waitpid(pid, 0)
    if children_of("self"):
        # Because C code may start a process that the guard does not see.
        end_below(os.getpid())
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
    return took_longer(CODE_SECONDS) if late else ""
