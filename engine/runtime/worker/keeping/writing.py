"""Pickles the groups of one statement: small ones at once, large ones in a forked process."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import select
import signal
import struct
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar

from ..guarding.guard import OutsideGuard
from ..processes.brands import children_of
from ..processes.ending import end_below, end_tree
from ..processes.system import become_subreaper, die_with_parent
from . import pickler
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

# A fork whose end nobody hears of who does not ask for this child: no SIGCHLD, and `os.wait()` does not see it.
#
# A statement may have a handler for SIGCHLD, which would run, and raise, in the middle of the worker's own work; and
# one that waits for its own children would be told of ours. The kernel knows children that end without a signal, and
# a plain wait leaves them out; `fork` of the C library cannot make one. So the system call is made directly, between
# the two halves of what Python does around it. What is lost is what the C library does: it takes care of its locks,
# one of which another thread may hold at that moment, and then the child hangs at its first allocation. So this is
# for a process with one thread; with more of them (numpy brings some), or where the number of the call is not known,
# `os.fork` has to do.
#
# The kernel also makes a child of the parent's, beside this process, which no call of the C library does either. That
# one is to live long and run anything, so it is told its thread's id, which the C library keeps and has from its own
# fork.
#
# Used by `copies` and `forking_off`.

_CLONE: Final = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
_THREAD_ID_AT: Final = {"x86_64": 3, "aarch64": 4}.get(platform.machine(), 0)
"""Which argument of the call is the address of the id of the new process's thread."""
_CLONE_PIDFD: Final = 0x1000
_CLONE_PARENT: Final = 0x8000
_CLONE_CHILD_CLEARTID: Final = 0x200000
_CLONE_CHILD_SETTID: Final = 0x1000000
_PR_GET_TID_ADDRESS: Final = 40
_THREADS: Final = "/proc/self/task"
_WAIT_FOR_ALL: Final = 0x40000000
"""Of waitpid: children without a signal, too."""
# Of PyDLL, because these are to be called with the interpreter's lock.
_C: Final = ctypes.PyDLL(None, use_errno=True)
_C.syscall.restype = ctypes.c_long
# Looked up now, because in a child each first time copies pages of memory.
_BEFORE, _IN_PARENT, _IN_CHILD = _C.PyOS_BeforeFork, _C.PyOS_AfterFork_Parent, _C.PyOS_AfterFork_Child


def is_quiet() -> bool:
    """Whether nobody would hear of a child that `fork` made now."""
    return _CLONE is not None and len(os.listdir(_THREADS)) == 1


def fork() -> int:
    """As `os.fork`. Raises OSError."""
    if _CLONE is None or not is_quiet():
        with warnings.catch_warnings():
            # Python 3.12 and later print that this may deadlock, which a statement would show as its own.
            warnings.simplefilter("ignore", DeprecationWarning)
            return os.fork()
    _BEFORE()
    pid = _call((0, 0, 0, 0, 0))
    (_IN_PARENT if pid else _IN_CHILD)()
    _check(pid)
    return pid


def can_be_beside() -> bool:
    """Whether `fork_beside` can be called: with one thread, where the kernel says where that one's id is kept."""
    return is_quiet() and _thread_id() is not None


def fork_beside(first: Callable[[], None], *, amid: bool = False) -> int | None:
    """Forks a child of the parent's. None in it, in this process a descriptor that pins it.

    `first` is called in the child, ahead of what Python and a statement's modules do there after a fork: the import
    lock is held, and locks of modules may be. It must not raise, import, or start a thread. It may fork again, `amid`
    this fork: for Python the two are one fork, whose child is whoever returns.

    Raises:
        OSError: there is none.
    """
    pinned = ctypes.c_int()
    flags = _CLONE_PARENT | _CLONE_PIDFD | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID
    arguments = [flags, 0, ctypes.addressof(pinned), 0, 0]
    arguments[_THREAD_ID_AT] = _thread_id() or 0
    if not amid:
        _BEFORE()
    pid = _call(arguments)
    if pid == 0:
        first()
    if not amid:
        (_IN_PARENT if pid else _IN_CHILD)()
    _check(pid)
    return pinned.value if pid else None


def _call(arguments: Sequence[int]) -> int:
    """The system call: 0 in the child, in this process the child's id, or less than 0 by the number of the error."""
    pid = _C.syscall(ctypes.c_long(_CLONE or 0), *map(ctypes.c_long, arguments))
    return pid if pid >= 0 else -ctypes.get_errno()


def _check(pid: int) -> None:
    if pid < 0:
        raise OSError(-pid, os.strerror(-pid))


def _thread_id() -> int | None:
    """The address at which the C library keeps the id of this thread; None where the kernel does not say."""
    address = ctypes.c_void_p()
    is_said = _C.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0) == 0
    return address.value if is_said else None


def wait(pid: int) -> int:
    """Waits for the end of a child; its status, as from `os.waitpid`."""
    return os.waitpid(pid, _WAIT_FOR_ALL)[1]


def reap(pid: int) -> None:
    """Takes the exit status of a child that has ended, if nobody else did."""
    with suppress(OSError):
        os.waitpid(pid, os.WNOHANG | _WAIT_FOR_ALL)


# copies:
# Pickles groups in a forked process: what is too large to wait for, and what calls code of the user's.
#
# The child has the namespace as it was at the fork, for next to nothing, so the next statement may run meanwhile. It
# writes one record for each group into a memory file, which it shares with the worker; the worker reads them when the
# child has ended. The child itself never calls code of the user's. For a group that does, it forks once more, so that
# whatever that code does (hang, exit, print, change the namespace) is over with that process: it is ended when its
# time is over, and the groups after it find the namespace as it was.
#
# What keeps the child from being noticed: its standard streams are /dev/null, and all other descriptors but the
# memory file are closed at once. Otherwise a pipe that the next statement closes would stay open in the child, and a
# buffered file could be written by both. It handles no signal of the user's, dies with the worker, and never runs a
# finalizer, because it leaves by `os._exit` and without collecting garbage. Of its end nobody is told (`quiet_fork`).
#
# A record is a state, which is written last, and the size of what follows: data or a reason. So whatever the child
# had finished when it was ended is there. Must not know what is pickled. Used by `keeper`.

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
        self._memory = pickler.keep_high(os.memfd_create("rewindow-values", os.MFD_CLOEXEC))
        worker = os.getpid()
        try:
            self.pid = fork()
            if self.pid == 0:
                _become_child(worker, self._memory, groups, write)
            self._process = pickler.keep_high(os.pidfd_open(self.pid))
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
        reap(self.pid)
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
        pickler.close_others(memory)
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


# writing:
# Pickles the groups of one statement: small ones into memory, those of a process of its own into a file.
#
# Owns what happens around code of the user's that pickling calls: it runs under the guard, an act that it was kept
# from costs the group its copy, and so does a namespace that is another afterwards. Used by `keeper`, and in its
# children.

SMALL_BYTES: Final = 64 << 10
"""What a group may come to that is kept after every statement: bytes of its pickle."""
LARGE_BYTES: Final = 64 << 20
"""The same after a statement that has acted, or that does not run again."""
_LABEL: Final = "copying values"


T = TypeVar("T")


def _refusal(phrase: str) -> Exception:
    return PermissionError(f"copying a value touches nothing outside; it {phrase}")


class GroupWriter:
    """Writes the groups of one namespace as it is now, all with the same clock where they go into memory."""

    def __init__(self, known: Surroundings, guard: OutsideGuard, limit: int, seconds: float) -> None:
        self._known = known
        self._guard = guard
        self._limit = limit
        self._clock = Clock(seconds)
        self._bound = BoundNames(known.namespace)
        self._foreign = ForeignCode()

    def in_memory(self, names: Names) -> bytes:
        """The group's data, if it is small and no code of the user's has to run.

        Raises:
            RunsCodeError: some would have to.
            TooLargeError: it is larger than SMALL_BYTES.
            Exception: it cannot be pickled; `why_not_kept` says why.
        """
        sink = MemorySink(SMALL_BYTES, self._clock)
        has_code = self._dump(sink, names, runs_code=False)
        return header(has_code=has_code) + sink.taken()

    def in_memory_guarded(self, names: Names) -> bytes:
        """The same where code of the user's has to run and there is no other process for it."""
        sink = MemorySink(self._limit, self._clock)
        has_code = self._guarded(lambda: self._dump(sink, names, runs_code=True))
        return header(has_code=has_code) + sink.taken()

    def in_file(self, descriptor: int, offset: int, names: Names, runs_code: bool) -> int | str | None:
        """Writes the group at the offset; what `copies.Write` says. `runs_code`: in a process that ends afterwards."""
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
        """Whether there is code in it."""
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
            # Ahead of what was raised, which may have come of it.
            if phrases:
                raise NotKeptError(kept_from("; ".join(phrases)))
            if before != _bindings(self._known.namespace):
                raise NotKeptError(CHANGED)


def _bindings(namespace: Mapping[str, object]) -> list[tuple[str, int]]:
    # A copy, because threads of the user's may bind names meanwhile.
    return [(name, id(value)) for name, value in dict(namespace).items()]
