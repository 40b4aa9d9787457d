"""Limits of a worker or program with all its processes: memory, number of processes, and scratch space.

`set_limits` sets the kernel's limits in the forked child. RLIMIT_DATA limits what one process allocates. It does not
cover memory shared between processes, files in memory (memfd), and the number of processes. So `Watch` counts the whole
tree while a statement or program runs: anonymous and shared memory, each page by its share (PSS), swapped memory, and
unmapped parts of memfds. Pages of files on disk do not count, because the kernel frees them when needed.

PSS is expensive, because the kernel walks every page. So an upper bound that the kernel keeps is read first, and
nothing else is counted while that is below the limit. The interval between looks grows with their cost, so that they
take a tenth of one processor at most.

Processes are counted too, because a fork bomb uses up the processors before the memory, and RLIMIT_NPROC has no effect
on root. Counting stops at the limit, so a look at a fork bomb takes milliseconds. In a realm the kernel limits their
number, and the watch ends a statement that reaches the limit. A look at hundreds of busy processes would wait for each
of their locks, so these are stopped for a look.

Children and threads that a statement leaves behind may do the same. So a worker with children or several threads is
also watched between statements, less often. The kernel has no limit for a directory that outlives the worker and that
the host can read. So the watch counts the scratch directory of processes in a domain.

Must not know what a statement is. Used by the zygote, which may read all of these processes, and by the host for
checkpoints.
"""

from __future__ import annotations

import errno
import math
import os
import resource
import signal
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from ....core.domain import Domain
from ...system.process_table import children_of, pids, read, threads_of

_BLOCK: Final = 512
_LEAST: Final = 4096
"""The least bytes that each file or directory counts, which also limits their number, so a count ends."""
_FULL_LOOK_SECONDS: Final = 0.05
"""Between two checks whether a realm is full. Other processes wait for a processor until a fork bomb is ended."""
LOOK_SECONDS: Final = 0.25
"""Between two looks. A tree can exceed its limit by as much as it allocates in this time."""
IDLE_LOOK_SECONDS: Final = 1.0
"""The same if only processes that statements left behind are watched."""
MOST_PROCESSES: Final = 1000
"""The most processes in one tree: more than builds and tests on many cores need; a fork bomb has them in a second."""
_TASKS_OF_A_CORE: Final = 64
_FEW: Final = 100
"""Threads are counted too if a realm has at most this many processes."""
_MANY: Final = 300
"""With this many processes in a realm, a look would get no processor, so they are stopped for it."""
_NEARLY: Final = 20
"""A realm counts as full this many tasks below its limit, because the zygote, copies and commands have some."""
_SHARE: Final = 9
"""The shortest wait before the next look, as a multiple of the time of the last one."""
_GROWTH: Final = 64
"""A scratch directory may always grow by its bound divided by this: caches, and files not yet on the disk."""
_EVERYTHING: Final = 1 << 62
_MOST: Final = 2
"""A scratch directory is counted up to this multiple of its limit if a statement may have filled it."""
_KIB: Final = 1024
_BOUND: Final = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
_EXACT: Final = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")
_ALONE: Final = (b"Private_Dirty:",)
_MEMFD: Final = "/memfd:"
_LEFT: Final = "the remaining processes of statements"
_HEADER_FIELDS: Final = 6
"""In the first line of a named mapping in smaps: addresses, rights, offset, device, inode, name."""


def set_limits(data_bytes: int, open_files: int) -> None:
    """Limit this process and everything that it starts, for good. A lower limit stays."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_DATA, data_bytes)
    _lower(resource.RLIMIT_NOFILE, open_files)


def _lower(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


# --- the size of a scratch directory ----------------------------------------------------------------------------------


def held(directory: str, enough: int, since: float = math.inf) -> int:
    """Count the bytes on the disk in a directory, without following links, until the count exceeds `enough`.

    Files that changed after `since`, in seconds since the epoch, are left out. The result also exceeds `enough` if a
    path is longer than the kernel accepts, or a directory may not be read: a program can write into an open one.
    """
    total, waiting = 0, [directory]
    while waiting and total <= enough:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    if found.st_ctime < since:  # a time that no program can set
                        total += max(found.st_blocks * _BLOCK, _LEAST)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    if total > enough:
                        break
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EACCES):
                return enough + 1  # because files in this directory, or deeper ones, could not be counted
            continue  # it was removed during the count
    return total


# --- the memory of a tree of processes --------------------------------------------------------------------------------


def _excess_of(pids: Sequence[int], limit: int, is_wanted: Callable[[], bool]) -> int:
    """The bytes of all the processes if they exceed `limit`, else 0; also 0 if `is_wanted` interrupts the count."""
    if _bound(pids) <= limit:
        return 0
    memfds = _memfds(pids)
    held = 0
    for pid in pids:
        if is_wanted():
            return 0
        held += _proportional(pid)
        if held > limit:  # the exact excess is not worth the time
            return held
    held += _unmapped(pids, memfds)
    return held if held > limit else 0


def _bound(pids: Sequence[int]) -> int:
    """An upper bound of the bytes of all the processes."""
    return sum(map(bound_of, pids)) + sum(_memfds(pids).values())


def bound_of(pid: int) -> int:
    """An upper bound of the bytes of a process, which counts shared memory in full."""
    return _sum(f"/proc/{pid}/status", _BOUND)


def parts_of(pid: int) -> tuple[int, int]:
    """The bytes of a process, shared ones by its share, and those that no other process shares."""
    return _proportional(pid), _sum(f"/proc/{pid}/smaps_rollup", _ALONE)


def most_tasks() -> int:
    """The most processes and threads of a realm; more on large machines, where libraries start one for each core."""
    return max(MOST_PROCESSES, _TASKS_OF_A_CORE * (os.cpu_count() or 1))


def is_full() -> bool:
    """Whether the realm of this process has nearly reached its limit of processes and threads.

    Always takes only a few system calls, because a fork bomb leaves little time. Threads are counted only if there are
    few processes.
    """
    found = pids()
    count = len(found)
    if count <= _FEW:
        for pid in found:
            with suppress(OSError):
                count += threads_of(pid) - 1
    return count > most_tasks() - _NEARLY


class Watch:
    """The watched processes, each with its limit in bytes and its name in reasons.

    A look at hundreds of large processes takes seconds. If `is_wanted` reports another request, perhaps to end them,
    the look is given up and starts again at once.
    """

    def __init__(self, is_wanted: Callable[[], bool] = lambda: False, *, in_realm: bool = False) -> None:
        self._is_wanted = is_wanted
        self._in_realm = in_realm
        """Whether the kernel limits their number to `most_tasks`."""
        self._limits: dict[int, tuple[int, str]] = {}
        self._idle: set[int] = set()
        """The processes whose statement has ended."""
        self._scratches: dict[int, tuple[Domain, int]] = {}
        """Each domain, and the limit of its scratch directory: its bound, or a little more than its size before."""
        self._next_look = 0.0
        self._have_stopped = False

    def begin(self, pid: int, limit: int, who: str, domain: Domain | None = None) -> None:
        """Watch the tree of `pid` from now on. A look is due at once, unless a statement is watched already."""
        if domain is not None:
            # The watch begins when a statement has run for a while. Files that it wrote in this time are its own.
            since = math.inf if who == _LEFT else time.time() - LOOK_SECONDS
            self._scratches[pid] = domain, _allowed(domain, since)
        if not self.is_busy:
            self._next_look = 0.0
        self._limits[pid] = limit, who
        self._idle.discard(pid)

    def rest(self, pid: int, limit: int, domain: Domain | None = None) -> None:
        """After a statement: watch the processes that it left behind, as long as there are any."""
        if pid not in self._limits:
            if _is_alone(pid):  # as usual; then its scratch directory needs no look
                return
            self.begin(pid, limit, _LEFT, domain)
        elif _is_alone(pid):
            # Otherwise the next statement would be blamed for files of this one.
            self._scratches.pop(pid, None)
        elif domain is not None:
            self._scratches[pid] = domain, _allowed(domain, math.inf)
        self._limits[pid] = limit, _LEFT
        self._idle.add(pid)

    def end(self, pid: int) -> None:
        """Stop watching the process."""
        self._limits.pop(pid, None)
        self._scratches.pop(pid, None)
        self._idle.discard(pid)

    @property
    def is_busy(self) -> bool:
        """Whether a statement or a program runs."""
        return len(self._limits) > len(self._idle)

    def patience(self) -> float | None:
        """Seconds until the next look; None if nothing is watched."""
        if not self._limits:
            return None
        left = max(0.0, self._next_look - time.monotonic())
        return min(left, _FULL_LOOK_SECONDS) if self._in_realm and self.is_busy else left

    def look(self) -> list[tuple[int, str]]:
        """The processes whose trees exceed a limit, with the reasons; none if no look is due yet."""
        started = time.monotonic()
        if not self._limits:
            return []
        if started < self._next_look and not (self._in_realm and self.is_busy and is_full()):
            return []
        is_crowded = self._in_realm and _count() > _MANY
        with self._room_to_look(is_crowded):
            found = [(pid, self._excess(pid, limit, who)) for pid, (limit, who) in self._limits.items()]
        for pid in [pid for pid in self._idle if _is_alone(pid)]:
            self.end(pid)
        took = time.monotonic() - started
        rest = 0.0 if is_crowded else _SHARE * took  # because a fork bomb must be found soon
        self._next_look = started + took + max(LOOK_SECONDS if self.is_busy else IDLE_LOOK_SECONDS, rest)
        return [(pid, reason) for pid, reason in found if reason]

    def _excess(self, pid: int, limit: int, who: str) -> str:
        """The reason if it exceeds a limit, else ""."""
        if self._in_realm and is_full():
            return f"{who} reached the limit of {most_tasks():,} processes and threads; they were ended"
        tree = _tree(pid)
        if not self._in_realm and len(tree) > MOST_PROCESSES:
            return f"{who} exceeded the limit of {MOST_PROCESSES:,} processes; they were ended"
        # Twice, because pages are counted too often if processes begin or cease to share them during the count.
        if self._excess_of(tree, limit) and (too_much := self._excess_of(tree, limit)):
            return _reason(who, too_much, limit)
        if pid in self._scratches:
            # A program that frees space may continue, and earlier files are not its fault.
            domain, allowed = self._scratches[pid]
            if held(domain.scratch, allowed) > allowed:
                bound = domain.scratch_bytes / 1e9
                return f"{who} filled the scratch directory beyond its limit of {bound:.2f} GB, and was ended"
        return ""

    def _excess_of(self, tree: Sequence[int], limit: int) -> int:
        # A process that forks without end holds the locks that reading its memory needs.
        if self._in_realm and len(tree) > 1 and _bound(tree) > limit:
            self._stop()
        return _excess_of(tree, limit, self._is_wanted)

    @contextmanager
    def _room_to_look(self, is_crowded: bool) -> Generator[None]:
        """Stop the processes during a look if they are many or their memory must be counted; then continue them."""
        if is_crowded:
            self._stop()
        try:
            yield
        finally:
            if self._have_stopped:  # so that processes which a statement has stopped stay stopped
                self._have_stopped = False
                _send_all(signal.SIGCONT)

    def _stop(self) -> None:
        self._have_stopped = True
        _send_all(signal.SIGSTOP)


def _allowed(domain: Domain, since: float) -> int:
    """The limit of the scratch directory from now on: its bound, or a little more than its size at that time.

    The whole directory is counted, because the new statement would be blamed for uncounted files. A file that changed
    since then may be old, moved or shortened; such files count up to twice the bound.
    """
    before = held(domain.scratch, _EVERYTHING, since)
    if before > _EVERYTHING:  # a part is too deep to count, and would have no limit
        return domain.scratch_bytes
    changed = min(held(domain.scratch, _MOST * domain.scratch_bytes), _MOST * domain.scratch_bytes)
    return max(domain.scratch_bytes, before + domain.scratch_bytes // _GROWTH, changed)


def _send_all(number: signal.Signals) -> None:
    """Send a signal to all other processes of a realm."""
    with suppress(ProcessLookupError):
        os.kill(-1, number)


def _count() -> int:
    """The number of processes in the realm."""
    return len(pids())


def _reason(who: str, held: int, limit: int) -> str:
    return (
        f"{who} and its processes used {held / 1e9:.2f} GB of memory, more than the limit of "
        f"{limit / 1e9:.2f} GB; they were ended"
    )


def _is_alone(pid: int) -> bool:
    """Whether it has neither children nor a second thread, or is gone."""
    try:
        return threads_of(pid) == 1 and not children_of(pid)
    except OSError:
        return True


def _tree(root: int) -> list[int]:
    """The processes of a tree, up to one more than the limit."""
    found = [root]
    for pid in found:
        if len(found) > most_tasks():
            break
        found += children_of(pid) or ()
    return found


def _sum(path: str, names: tuple[bytes, ...]) -> int:
    """The sum of these lines, in bytes; 0 if the file cannot be read."""
    return sum(int(line.split()[1]) * _KIB for line in read(path).splitlines() if line.startswith(names))


def _proportional(pid: int) -> int:
    # Only the bound is readable for a program that gained privileges.
    rollup = f"/proc/{pid}/smaps_rollup"
    return _sum(rollup, _EXACT) or _sum(f"/proc/{pid}/status", _BOUND)


def _memfds(pids: Iterable[int]) -> dict[int, int]:
    """The size of each memfd that the processes have open, by inode."""
    found: dict[int, int] = {}
    for pid in pids:
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                path = f"/proc/{pid}/fd/{name}"
                with suppress(OSError):
                    if os.readlink(path).startswith(_MEMFD):
                        file = os.stat(path)
                        found[file.st_ino] = file.st_blocks * _BLOCK
    return found


def _unmapped(pids: Iterable[int], memfds: dict[int, int]) -> int:
    """The bytes of memfds that are not mapped. Mapped parts are counted with the processes."""
    if not memfds:
        return 0
    mapped = dict.fromkeys(memfds, 0)
    for pid in pids:
        inode = None
        with suppress(OSError), open(f"/proc/{pid}/smaps", "rb") as mappings:
            for line in mappings:
                fields = line.split(None, _HEADER_FIELDS - 1)
                if not fields[0].endswith(b":"):
                    inode = int(fields[4])
                elif fields[0] == b"Pss:" and inode in mapped:
                    mapped[inode] += int(fields[1]) * _KIB
    return sum(max(0, size - mapped[inode]) for inode, size in memfds.items())
