"""A checkpoint: a paused copy of the worker, how it is forked, and what it must not share with the worker.

**The fork.** The copy is not a child of the worker but of its parent, the zygote. A worker's tree is ended with the
worker, a cancel ends what a statement has started, and a statement that waits for its children would wait for ours.
With one thread, the kernel makes a sibling (`quiet_fork.fork_beside`). Otherwise the process forks twice. The middle
process ends, and its child goes to the nearest subreaper. That would be the worker, which stops being one for that
moment; then it is the zygote.

But the zygote ends every child that it does not know, because orphans of dead workers become its children in the same
way. So the copy reports on a socket that it exists, and the kernel tells the zygote which process reported. Until then
the copy is in its original's session, and the zygote spares children in the sessions of workers. Before it treats a
child as an orphan, it checks whether the copy has reported. The worker continues at once, but runs nothing of a
statement until the copy has reported and is out of reach (`PendingCheckpoint`), because a statement may end its whole
session. If both share descriptors of a statement, it waits until the copy has its own. Whichever process is killed at
whatever moment, no process stays: a copy that is no longer expected finds the socket closed, or is an orphan like
others. The zygote ends a known one when the socket closes over which it was requested. From before the first fork no
signal is handled: a statement's handler could raise in the middle.

**Descriptors.** A fork copies memory, but not what descriptors refer to. Unchanged, the copy would read on where the
worker has read, keep locks and ports that the worker has closed, and keep pipes open. So in the copy

- a regular file is opened again, at the same position;
- a file in memory, which cannot be opened again, is copied;
- a pipe or a socket becomes one whose other end is closed, because its peer belongs to the worker;
- the pipes of stdout and stderr lead nowhere, until a restored worker gets its own.

Everything else (devices, directories) is shared, and so is what cannot be opened again.

**The pause.** The copy shares the worker's memory until one of them writes. It has a socket to the host and ends when
that is closed. Descriptors of a new worker arrive on it. Then the copy forks again, and the child becomes the worker,
with a channel, pipes and a hand-over socket of its own. The checkpoint stays unchanged for the next time. If possible
it waits in the middle of its fork: the steps that Python and modules of statements perform in a forked process are left
to the restored workers. So it writes to little memory and runs nothing of a statement.

There is no checkpoint if a fork would not work: threads are not copied, and a wait for a thread or its lock would never
end. Nor is there one while a device of a GPU is open, whose memory is not copied. What a copy lacks is reported:
processes, peers of pipes and sockets, shared memory. Must not know when checkpoints are made. Called by `child`.
"""

from __future__ import annotations

import fcntl
import os
import random
import re
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import Struct

from ....core.text import plural
from ....files.pins import opened_again, path_of
from ...system import passing, quiet_fork
from ...system.descriptors import is_high, keep_high, memory_file, new_flag, open_descriptors, set_flag
from ...system.own_process import (
    become_subreaper,
    block_signals,
    die_with_parent,
    drop_pending,
    set_blocked,
    usable_processors,
)
from ...system.process_table import children_of, threads_of
from ...system.processes import ProcessHandle
from ..framing import frame
from ..protocol import FromCheckpoint, NotTaken, Paused

_SAYS: Final = b"C"
_PATIENCE_MS: Final = 1000
"""The time limit for a copy to report; a statement waits meanwhile."""
_EXIT_LOST: Final = 72
# Bound here, because statements may replace them.
_state_of_random, _set_random = random.getstate, random.setstate
_ACCESS: Final = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_SYNC | getattr(os, "O_DIRECT", 0)
"""The flags of a descriptor that a second open of its file keeps."""
_COPIED: Final = 64 << 20
"""The largest file in memory that is copied, in bytes; the copy of a larger one is empty."""
_PIECE: Final = 1 << 20
_MEMORY_FILE: Final = "/memfd:"
_Copies = dict[tuple[int, int], int]
"""The descriptor of the copy of each file in memory, by the file's identity."""
PASSED_TO_TAKE: Final = 2
"""The descriptors for a new checkpoint: its socket to the host, and the one for its report to the zygote."""
PASSED_TO_RESTORE: Final = 6
"""The descriptors for a restored worker: channel, stdout and stderr pipes, hand-over socket, the socket for outlines,
and the one for its report to the zygote."""
_EXIT_FAILED: Final = 73
_LOST_IN_FORKS: Final = {b"libgomp": "OpenMP", b"libcuda.so": "CUDA"}
"""Libraries that do not work in a copy: their threads are missing, so the next call hangs or fails."""
_RESTARTED: Final = re.compile(rb"/[^/\n]*openblas[^/\n]*$", re.MULTILINE)
"""The libraries that start their threads again in a copy. Each has one for each processor but the first."""
_GPUS: Final = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")
"""How the devices begin whose memory a fork does not copy."""
_SHARED: Final = (b" rw-s ", b" rwxs ", b" -w-s ", b" -wxs ")
"""The access rights of a shared, writable mapping."""
_CHUNK: Final = 4096


class _Copy(Struct, frozen=True):
    """What a copy needs to become independent. `ready`: a flag for its report; `zygote`: its future parent.

    `separate` gives it its own descriptors; with `shares` the original waits for that. Then the copy calls `live`.
    """

    known: int
    separate: Callable[[], None]
    live: Callable[[bool], None]
    shares: bool
    ready: int
    zygote: int


class PendingCheckpoint(Struct):
    """A copy that this process has made, and that may not have reported yet.

    `process` pins it, and it reports on `ready`. Without these it has reported.
    """

    ready: int = -1
    process: ProcessHandle | None = None

    def wait(self) -> None:
        """Wait until it has reported, or has failed and was ended. Call it once."""
        if self.process is None:
            return
        try:
            _has_come(self.ready, self.process)
        finally:
            os.close(self.ready)
            self.process.close()


def _go_on(_: bool) -> None: ...


def fork_off(
    known: int,
    separate: Callable[[], None],
    live: Callable[[bool], None] = _go_on,
    *,
    reaps: bool,
    shares: bool,
    amid: bool = False,
) -> PendingCheckpoint | None:
    """Fork the copy; return the copy to wait for, None in the copy itself. Call it with all signals blocked.

    Args:
        known: the socket for the report to the zygote; closed in the copy.
        separate: called in the copy; must not raise.
        live: runs in the copy; it returns in a process that continues like this one. Its argument says whether it runs
            in the middle of the fork. Then it may fork others, which return in its place (`quiet_fork.fork_beside`).
        reaps: this process is a subreaper.
        shares: wait for the end of `separate`, not only until the copy is out of reach.
        amid: this process itself is in the middle of a fork.

    Raises:
        OSError: there is no copy.
    """
    state = _state_of_random()
    copy = _Copy(known, separate, live, shares, new_flag(), os.getppid())
    try:
        coming = _fork_beside(copy, amid) if amid or quiet_fork.can_be_beside() else _fork_twice(copy, reaps)
    except BaseException:
        os.close(copy.ready)
        raise
    if coming is None:
        # Python reseeds `random` in every forked process, but a copy must continue like the original.
        _set_random(state)
    return coming


def _fork_beside(copy: _Copy, amid: bool) -> PendingCheckpoint | None:
    process = quiet_fork.fork_beside(partial(_begin, copy), amid=amid)
    return None if process is None else PendingCheckpoint(copy.ready, process)


def _begin(copy: _Copy) -> None:
    _become(copy, None)
    copy.live(True)


def _fork_twice(copy: _Copy, reaps: bool) -> PendingCheckpoint | None:
    was_pending = signal.SIGCHLD in signal.sigpending()
    is_quiet = quiet_fork.is_quiet()
    if reaps:
        become_subreaper(on=False)
    try:
        middle = quiet_fork.fork()
    except BaseException:
        become_subreaper(on=reaps)
        raise
    if middle == 0:
        _become_middle(copy)
        return None
    status = quiet_fork.wait(middle)
    if reaps:
        become_subreaper()
    if not is_quiet and not was_pending:
        drop_pending(signal.SIGCHLD)
    if status:
        raise OSError("the copied process did not become a checkpoint")
    os.close(copy.ready)
    return PendingCheckpoint()


def _become_middle(copy: _Copy) -> None:
    """Become the middle process; returns only in the copy."""
    try:
        middle = ProcessHandle(os.getpid())
        pid = os.fork()
        if pid:
            os._exit(0 if _has_come(copy.ready, ProcessHandle(pid)) else _EXIT_LOST)
    except BaseException:
        os._exit(_EXIT_LOST)
    _become(copy, middle)
    copy.live(False)


def _become(copy: _Copy, middle: ProcessHandle | None) -> None:
    """Become the copy; returns when it is the zygote's child. `middle` pins its parent until then."""
    try:
        os.write(copy.known, _SAYS)
        # Only after the report, because until then the zygote spares it for being in the worker's session.
        os.setsid()
        if not copy.shares:
            set_flag(copy.ready)
        os.close(copy.known)
        copy.separate()
        if copy.shares:
            set_flag(copy.ready)
        os.close(copy.ready)
        if middle is not None:
            middle.ended_within(None)
            middle.close()
        # Only now, because its parent was the middle process until now.
        if not die_with_parent(signal.SIGKILL, copy.zygote):
            os._exit(_EXIT_LOST)
    except BaseException:
        os._exit(_EXIT_LOST)


def _has_come(ready: int, process: ProcessHandle) -> bool:
    """Wait for the report of the copy, which `process` pins; end it and return False if none comes in time."""
    poll = select.poll()
    poll.register(ready, select.POLLIN)
    poll.register(process, select.POLLIN)
    if ready in (descriptor for descriptor, _ in poll.poll(_PATIENCE_MS)):
        return True
    with suppress(OSError):
        process.send(signal.SIGKILL)
    return False


# --- descriptors of a copy --------------------------------------------------------------------------------------------


class Shared(Struct):
    """The descriptors of a worker that a copy must not share, by number.

    `outputs` are those of stdout and stderr, `files` those of regular files, `ends` those of pipes and sockets; `lost`
    of these belong to statements. `gpus` are those of devices whose memory is not copied. In the copy, `null` replaces
    outputs and `dead` replaces ends.
    """

    outputs: tuple[list[int], list[int]]
    files: list[int]
    ends: list[int]
    lost: int
    gpus: int
    null: int
    dead: int

    @property
    def has_statements(self) -> bool:
        """Whether a statement has any: its reads would move the copy's position, or the copy would keep its port."""
        return bool(self.files or self.lost)

    def close(self) -> None:
        """Close the descriptors that only the copy needs."""
        os.close(self.null)
        os.close(self.dead)


def shared(spares: tuple[int, int], kept: frozenset[int]) -> Shared:
    """Find the descriptors that a copy of this process would share. Does as much as possible before the fork.

    Args:
        spares: two descriptors of stdout and stderr.
        kept: descriptors for the copy.
    """
    places = [_identity(os.fstat(spare)) for spare in spares]
    found = Shared(outputs=([], []), files=[], ends=[], lost=0, gpus=0, null=-1, dead=-1)
    for descriptor in open_descriptors():
        if descriptor in kept:
            continue
        with suppress(OSError):
            file = os.fstat(descriptor)
            if _identity(file) in places:
                found.outputs[places.index(_identity(file))].append(descriptor)
            elif stat.S_ISREG(file.st_mode):
                found.files.append(descriptor)
            elif stat.S_ISFIFO(file.st_mode) or stat.S_ISSOCK(file.st_mode):
                found.ends.append(descriptor)
                found.lost += not is_high(descriptor)
            elif stat.S_ISCHR(file.st_mode):
                found.gpus += path_of(descriptor).startswith(_GPUS)
    found.null, found.dead = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), _dead_end()
    return found


def separate(shared: Shared) -> None:
    """Give this forked copy its own descriptors."""
    for source, targets in ((shared.null, shared.outputs[0] + shared.outputs[1]), (shared.dead, shared.ends)):
        for target in targets:
            # The channel has closed itself, as in every forked process.
            with suppress(OSError):
                _replace(source, target)
    shared.close()
    open_files_anew(shared)


def open_files_anew(shared: Shared) -> None:
    """Give a copy, even of a copy, its own positions in files, and its own files in memory."""
    copies: _Copies = {}
    for descriptor in shared.files:
        with suppress(OSError):
            _open_anew(descriptor, copies)


def give_outputs(shared: Shared, pipes: tuple[int, int]) -> None:
    """Replace the descriptors of stdout and stderr by these."""
    for pipe, descriptors in zip(pipes, shared.outputs, strict=True):
        for descriptor in descriptors:
            _replace(pipe, descriptor)


def _identity(file: os.stat_result) -> tuple[int, int]:
    return file.st_dev, file.st_ino


def _dead_end() -> int:
    """A socket whose other end is closed: reading finds the end, writing raises BrokenPipeError."""
    ours, theirs = socket.socketpair()
    theirs.close()
    return ours.detach()


def _replace(source: int, target: int) -> None:
    os.dup2(source, target, inheritable=os.get_inheritable(target))


def _open_anew(descriptor: int, copies: _Copies) -> None:
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & _ACCESS
    is_memory = path_of(descriptor).startswith(_MEMORY_FILE)
    fresh = _opened_copy(descriptor, flags, copies) if is_memory else opened_again(descriptor, flags)
    try:
        os.lseek(fresh, place, os.SEEK_SET)
        _replace(fresh, descriptor)
    finally:
        os.close(fresh)


def _opened_copy(descriptor: int, flags: int, copies: _Copies) -> int:
    """A descriptor of the copy of a file in memory, which all descriptors of that file share."""
    source = _identity(os.fstat(descriptor))
    known = copies.get(source)
    copy = _copied(descriptor) if known is None else known
    try:
        fresh = opened_again(copy, flags)
    finally:
        if known is None:
            os.close(copy)
    copies[source] = descriptor
    return fresh


def _copied(descriptor: int) -> int:
    fresh = memory_file(path_of(descriptor)[len(_MEMORY_FILE) :].removesuffix(" (deleted)"))
    # Opened again, because this descriptor may be write-only.
    source = opened_again(descriptor, os.O_RDONLY)
    try:
        size, at = os.fstat(source).st_size, 0
        while at < size <= _COPIED and (data := os.pread(source, _PIECE, at)):
            at += os.pwrite(fresh, data, at)
    finally:
        os.close(source)
    return fresh


# --- the checkpoint ---------------------------------------------------------------------------------------------------


class Restoring:
    """The descriptors that a restored worker gets from the host."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        channel, stdout, stderr, handover, outlines = descriptors
        self.channel, self.handover, self.outlines = (
            socket.socket(fileno=keep_high(each)) for each in (channel, handover, outlines)
        )
        self.pipes = (stdout, stderr)


def take(handover: socket.socket, spares: tuple[int, int]) -> Restoring | PendingCheckpoint | None:
    """Make a checkpoint of this worker, if possible. Also returns in each worker that is restored from it.

    Returns, in this worker, the copy to wait for before a statement's code runs. If there is no checkpoint, returns
    None and tells the host why. There is none if the host is gone, or a statement has closed the hand-over socket.
    """
    try:
        passed = _received(handover, PASSED_TO_TAKE, socket.MSG_DONTWAIT)
    except (OSError, ValueError):
        return None
    life, known = passing.adopted(passed[0]), passed[1]
    started, children, hindrance = time.monotonic(), len(children_of("self") or ()), _hindrance()
    coming, found, blocked = None, None, block_signals()
    try:
        if not hindrance:
            found = shared(spares, frozenset(passed))
            hindrance = "a GPU in use" * bool(found.gpus)
        if found is not None and not hindrance:
            pause = _Pause(life, found, started, children)
            coming = fork_off(known, partial(separate, found), pause.live, reaps=True, shares=found.has_statements)
            if coming is None:
                return pause.over()
    except OSError as error:
        hindrance = error.strerror or str(error)
    finally:
        set_blocked(blocked)
    if hindrance:
        _say(life, NotTaken(hindrance))
    if found is not None:
        found.close()
    life.close()
    os.close(known)
    return coming


class _Pause:
    """The life of a paused copy. `started` is the time of the request, `children` counts those of its original."""

    def __init__(self, life: socket.socket, found: Shared, started: float, children: int) -> None:
        self._life = life
        self._found = found
        self._started = started
        self._children = children
        self._passed: list[int] = []

    def live(self, amid: bool) -> None:
        """Wait as long as the host keeps the checkpoint. Returns in the workers that are restored from it."""
        try:
            in_common = _in_common(self._children, self._found.lost)
            _say(self._life, Paused(time.monotonic() - self._started, in_common))
            while self._is_original(amid):
                for each in self._passed:
                    os.close(each)
        except BaseException:
            os._exit(_EXIT_FAILED)

    def _is_original(self, amid: bool) -> bool:
        """Whether this is the waiting process, and not a worker that was restored from it."""
        try:
            self._passed = _received(self._life, PASSED_TO_RESTORE)
        except (OSError, ValueError):
            os._exit(0)
        with suppress(OSError):  # because the host finds the sockets closed
            coming = fork_off(
                self._passed[-1], partial(open_files_anew, self._found), reaps=False, shares=True, amid=amid
            )
            if coming is None:
                return False
            coming.wait()
        return True

    def over(self) -> Restoring:
        """The descriptors of a restored worker."""
        try:
            self._life.close()
            restoring = Restoring(self._passed[:-1])
            give_outputs(self._found, restoring.pipes)
            for pipe in restoring.pipes:
                os.close(pipe)
        except BaseException:
            os._exit(_EXIT_FAILED)
        return restoring


def _received(connection: socket.socket, number: int, flags: int = 0) -> list[int]:
    """Receive the next descriptors. Raises OSError, and ValueError if some are missing."""
    data, descriptors = passing.receive(connection, number, flags)
    if not data or len(descriptors) != number:
        for descriptor in descriptors:
            os.close(descriptor)
        raise ValueError("the host has exited")
    return descriptors


def _say(connection: socket.socket, message: FromCheckpoint) -> None:
    with suppress(OSError):
        connection.send(frame(message), socket.MSG_DONTWAIT)


def _hindrance() -> str:
    """Why a copy would not work, as a phrase; empty if it would."""
    others = len(sys._current_frames()) - 1  # pyright: ignore[reportPrivateUsage] -- documented
    if others:
        return f"{others} running {plural(others, 'thread')} of statements"
    tasks = threads_of(os.getpid())
    return threads_of_libraries(tasks - 1, _mappings()) if tasks > 1 else ""


def threads_of_libraries(threads: int, mappings: bytes) -> str:
    """Whose threads would be missing in a copy, as a phrase; empty if they are started again."""
    for library, name in _LOST_IN_FORKS.items():
        if library in mappings:
            return f"running threads of {name}"
    restarted = len(set(_RESTARTED.findall(mappings))) * (usable_processors() - 1)
    return f"{threads} running {plural(threads, 'thread')} of a library" if threads > restarted else ""


def _in_common(children: int, lost: int) -> tuple[str, ...]:
    """Phrases on what a copy shares with others, or lacks."""
    mappings = _mappings()
    shared = sum(map(mappings.count, _SHARED))
    found = ((children, "child processes"), (lost, "open pipes and sockets"), (shared, "mappings of shared memory"))
    return tuple(f"{what}: {number}" for number, what in found if number)


def _mappings() -> bytes:
    """The mappings of this process according to the kernel, a line for each; empty if unreadable."""
    pieces = list[bytes]()
    with suppress(OSError):
        # Not with `open`, which is slow here.
        descriptor = os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC)
        while piece := os.read(descriptor, _CHUNK):
            pieces.append(piece)
        os.close(descriptor)
    return b"".join(pieces)
