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
from .brands import children_of, read

_BLOCK: Final = 512
_LEAST: Final = 4096
"""What a file or a directory counts at least, so that the number of them is bounded too, and a count ends."""
_FULL_LOOK_SECONDS: Final = 0.05
"""Between two looks at whether a realm is full: others wait for a processor until a fork bomb is ended."""
LOOK_SECONDS: Final = 0.25
"""Between two looks. What a tree allocates in this time is how far it may exceed its limit."""
IDLE_LOOK_SECONDS: Final = 1.0
"""The same where all that is watched was left by statements."""
MOST_PROCESSES: Final = 1000
"""In one tree: more than builds and test runs on many cores start, and a fork bomb of a second."""
_TASKS_OF_A_CORE: Final = 64
_FEW: Final = 100
"""Processes of a realm up to which their threads are counted, too."""
_MANY: Final = 300
"""Processes of a realm that would leave whoever looks at them no processor."""
_NEARLY: Final = 20
"""Tasks below the most of a realm at which it counts as full: the zygote has some, and so have copies and commands."""
_SHARE: Final = 9
"""How many times as long as a look took the next one is away at least."""
_GROWTH: Final = 64
"""The part of its bound by which a scratch directory grows without somebody being ended for that: caches, and files
that are still on their way to the disk."""
_EVERYTHING: Final = 1 << 62
_MOST: Final = 2
"""Times its bound a scratch directory is counted where it may be a statement that has filled it."""
_KIB: Final = 1024
_BOUND: Final = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
_EXACT: Final = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")
_MEMFD: Final = "/memfd:"
_LEFT: Final = "what statements left running"
_HEADER_FIELDS: Final = 6
"""Of the first line about a mapping in smaps, where it has a name: addresses, rights, offset, device, inode, name."""


def set_limits(data_bytes: int, open_files: int) -> None:
    """Limits this process and all that it starts, for good. A limit that is lower already stays."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_DATA, data_bytes)
    _lower(resource.RLIMIT_NOFILE, open_files)


def _lower(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


# --- the size of a scratch directory ----------------------------------------------------------------------------------


def held(directory: str, enough: int, since: float = math.inf) -> int:
    """Bytes on the disk of all that is in it, links not followed; the count ends where it is above `enough`.

    What has changed `since` that time, in seconds since the epoch, is left out.

    It is above that, too, where a path in it is longer than the kernel takes.
    """
    total, waiting = 0, [directory]
    while waiting and total <= enough:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    if found.st_ctime < since:  # which nobody can set
                        total += max(found.st_blocks * _BLOCK, _LEAST)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    if total > enough:
                        break
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return enough + 1  # or whatever is deeper than a path can be long would not count
            continue  # it goes while we look
    return total


# --- the memory of a tree of processes --------------------------------------------------------------------------------


def _excess_of(pids: Sequence[int], limit: int, is_wanted: Callable[[], bool]) -> int:
    """Bytes that the processes hold together if they are more than `limit`, else 0; also where somebody `is_wanted`."""
    if _bound(pids) <= limit:
        return 0
    memfds = _memfds(pids)
    held = 0
    for pid in pids:
        if is_wanted():
            return 0
        held += _proportional(pid)
        if held > limit:  # and how much more is not worth the time
            return held
    held += _unmapped(pids, memfds)
    return held if held > limit else 0


def _bound(pids: Sequence[int]) -> int:
    """Bytes that the processes hold at most together."""
    return sum(map(bound_of, pids)) + sum(_memfds(pids).values())


def bound_of(pid: int) -> int:
    """Bytes that a process holds at most: all of what it shares with others is counted."""
    return _sum(f"/proc/{pid}/status", _BOUND)


def held_by(pids: Sequence[int]) -> Sequence[int]:
    """Bytes that each of the processes holds."""
    return [_proportional(pid) for pid in pids]


def most_tasks() -> int:
    """Processes and threads that a realm may have: more on large machines, where libraries start one for each core."""
    return max(MOST_PROCESSES, _TASKS_OF_A_CORE * (os.cpu_count() or 1))


def is_full() -> bool:
    """Whether the realm of this process has about as many processes and threads as it may have.

    Takes a few system calls however many there are, because a fork bomb leaves little time. Threads are counted where
    processes are few.
    """
    found = [name for name in os.listdir("/proc") if name.isdigit()]
    count = len(found)
    if count <= _FEW:
        for name in found:
            with suppress(OSError):
                count += len(os.listdir(f"/proc/{name}/task")) - 1
    return count > most_tasks() - _NEARLY


class Watch:
    """The processes that are watched, each with its limit in bytes and what a reason calls it.

    A look at hundreds of processes that hold much takes seconds; it is given up, and begun anew at once, where
    `is_wanted` says that somebody asks for something else, perhaps for their end.
    """

    def __init__(self, is_wanted: Callable[[], bool] = lambda: False, *, in_realm: bool = False) -> None:
        self._is_wanted = is_wanted
        self._in_realm = in_realm
        """The kernel keeps them from becoming more than `most_tasks`."""
        self._limits: dict[int, tuple[int, str]] = {}
        self._idle: set[int] = set()
        """Those of which the statement is over."""
        self._scratches: dict[int, tuple[Domain, int]] = {}
        """With what each may hold: its bound, or a little more than it held already."""
        self._next_look = 0.0
        self._have_stopped = False

    def begin(self, pid: int, limit: int, who: str, domain: Domain | None = None) -> None:
        """From now on the tree of `pid` is looked at, for the first time at once."""
        if domain is not None:
            # Whoever begins is watched only after a while, and what it has written by then is its own.
            since = math.inf if who == _LEFT else time.time() - LOOK_SECONDS
            self._scratches[pid] = domain, _allowed(domain, since)
        if not self.is_busy:
            self._next_look = 0.0
        self._limits[pid] = limit, who
        self._idle.discard(pid)

    def rest(self, pid: int, limit: int, domain: Domain | None = None) -> None:
        """A statement is over; what it has left is looked at for as long as there is something."""
        if pid not in self._limits:
            if _is_alone(pid):  # most of the time, and then a look at its scratch directory would be for nothing
                return
            self.begin(pid, limit, _LEFT, domain)
        elif _is_alone(pid):
            # Or the files of the statement that is over would be the fault of the next one.
            self._scratches.pop(pid, None)
        elif domain is not None:
            self._scratches[pid] = domain, _allowed(domain, math.inf)
        self._limits[pid] = limit, _LEFT
        self._idle.add(pid)

    def end(self, pid: int) -> None:
        """The process is over."""
        self._limits.pop(pid, None)
        self._scratches.pop(pid, None)
        self._idle.discard(pid)

    @property
    def is_busy(self) -> bool:
        """Whether a statement or a program runs."""
        return len(self._limits) > len(self._idle)

    def patience(self) -> float | None:
        """Seconds until the next look; None where nothing is watched."""
        if not self._limits:
            return None
        left = max(0.0, self._next_look - time.monotonic())
        return min(left, _FULL_LOOK_SECONDS) if self._in_realm and self.is_busy else left

    def look(self) -> list[tuple[int, str]]:
        """Those whose trees hold too much, each with the reason in words; none before the next look is due."""
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
        rest = 0.0 if is_crowded else _SHARE * took  # because a fork bomb is not to have more time, but less
        self._next_look = started + took + max(LOOK_SECONDS if self.is_busy else IDLE_LOOK_SECONDS, rest)
        return [(pid, reason) for pid, reason in found if reason]

    def _excess(self, pid: int, limit: int, who: str) -> str:
        """What it holds too much, in words; empty where it does not."""
        if self._in_realm and is_full():
            return f"{who} reached the {most_tasks():,} processes and threads it may have at a time; they were ended"
        tree = _tree(pid)
        if not self._in_realm and len(tree) > MOST_PROCESSES:
            return f"{who} had more than the {MOST_PROCESSES:,} processes that it may have at a time; they were ended"
        # Twice, because what processes come to share, or no longer share, between their turns is counted too often.
        if self._excess_of(tree, limit) and (too_much := self._excess_of(tree, limit)):
            return _reason(who, too_much, limit)
        if pid in self._scratches:
            # What frees space may go on; and what was there before is not its fault.
            domain, allowed = self._scratches[pid]
            if held(domain.scratch, allowed) > allowed:
                bound = domain.scratch_bytes / 1e9
                return f"{who} filled the scratch directory beyond the {bound:.2f} GB that it may hold, and was ended"
        return ""

    def _excess_of(self, tree: Sequence[int], limit: int) -> int:
        # Whoever forks without end holds the locks that reading its memory takes.
        if self._in_realm and len(tree) > 1 and _bound(tree) > limit:
            self._stop()
        return _excess_of(tree, limit, self._is_wanted)

    @contextmanager
    def _room_to_look(self, is_crowded: bool) -> Generator[None]:
        """Many processes stand still for a look, and those of which memory has to be counted; all go on afterwards."""
        if is_crowded:
            self._stop()
        try:
            yield
        finally:
            if self._have_stopped:  # or processes that a statement has stopped itself would go on
                self._have_stopped = False
                _send_all(signal.SIGCONT)

    def _stop(self) -> None:
        self._have_stopped = True
        _send_all(signal.SIGSTOP)


def _allowed(domain: Domain, since: float) -> int:
    """Bytes that its scratch directory may hold from now on: its bound, and little more than was there at that time.

    All of it is counted, or what lies beyond the end of a count would be the fault of whoever begins now. What has
    changed since may be old all the same, moved or made shorter; of that it counts as much as leads to twice the bound.
    """
    before = held(domain.scratch, _EVERYTHING, since)
    if before > _EVERYTHING:  # a part of it is too deep to be counted, and would have no bound
        return domain.scratch_bytes
    changed = min(held(domain.scratch, _MOST * domain.scratch_bytes), _MOST * domain.scratch_bytes)
    return max(domain.scratch_bytes, before + domain.scratch_bytes // _GROWTH, changed)


def _send_all(number: signal.Signals) -> None:
    """To all other processes of a realm."""
    with suppress(ProcessLookupError):
        os.kill(-1, number)


def _count() -> int:
    """How many processes there are in the realm."""
    return sum(name.isdigit() for name in os.listdir("/proc"))


def _reason(who: str, held: int, limit: int) -> str:
    return (
        f"{who} and its processes held {held / 1e9:.2f} GB of memory, more than the {limit / 1e9:.2f} GB that "
        "they may; they were ended"
    )


def _is_alone(pid: int) -> bool:
    """Whether it has neither children nor a second thread; also where it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) == 1 and not children_of(pid)
    except OSError:
        return True


def _tree(root: int) -> list[int]:
    """As far as one more than may be."""
    found = [root]
    for pid in found:
        if len(found) > most_tasks():
            break
        found += children_of(pid) or ()
    return found


def _sum(path: str, names: tuple[bytes, ...]) -> int:
    """The sum of these lines, in bytes; 0 where the file cannot be read."""
    return sum(int(line.split()[1]) * _KIB for line in read(path).splitlines() if line.startswith(names))


def _proportional(pid: int) -> int:
    # Of a program that gained privileges only the bound can be read.
    rollup = f"/proc/{pid}/smaps_rollup"
    return _sum(rollup, _EXACT) or _sum(f"/proc/{pid}/status", _BOUND)


def _memfds(pids: Iterable[int]) -> dict[int, int]:
    """The memory files that the processes have open: bytes by inode."""
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
    """Bytes that memory files hold beyond what is mapped of them, which counts as memory of the processes."""
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
