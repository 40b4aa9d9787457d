"""Ends processes that may be starting others: a whole tree, or all processes with a brand.

Processes to be ended (*members*) are first stopped, because a stopped process cannot fork. They are killed when no
process is left that could add a member. Proving that is the difficulty. /proc is not a snapshot: a process may fork and
exit between the listing and the look at it. So a pass over /proc without a new member proves nothing. But the kernel
tells the last process id that it gave. Suppose that all members had stopped before a pass (a fork in progress still
completes), and that this id is the same before and after the pass. Then no process started during the pass, so the pass
has seen all of them. Some systems do not tell that id, and if other processes start all the time, it never stays the
same. Then several passes without a
new member must suffice.

Processes that fork faster than /proc can be read are stopped by process group, in one step: the kernel also delivers a
group's signal to a child that is being forked, so none escapes. A session leader, such as a worker, has everything that
it starts in its session, except processes that leave it on purpose. A group may contain a process that is not a member,
such as a copy of a worker that has not left yet. So every stopped process is continued at the end. The group of a
living leader that is not a member is left alone, and so is this process's own session.

After the kill everything is repeated until there is no new member, because a member whose parent ended before it was
seen has another parent now.

A dead process is a zombie until its parent reaps it. It cannot fork and is not a member. But a fork bomb leaves
thousands of zombies to the nearest subreaper, and each makes every later pass slower. So the subreaper reaps zombies
as they are found (`reap`). Otherwise passes would soon take longer than processes live.

Most processes have no descendants, and several passes over /proc take longer than everything else. So a tree is first
treated as a single process. That needs no pass: the process is stopped, has one thread, and the kernel knows no child
of it. Then it will never have one, neither by forking nor by inheriting.

The first process of a realm needs none of this: its signal to all processes reaches every one (`end_all`).

Process ids are reused. So a signal goes through a handle that pins the process, after a comparison of start times.

Used by the zygote and the workers (trees), by the host and at the start of each command (brands).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from ...system.brands import Brand, brand_of, host_is_dead
from ...system.process_table import Stat, is_childless, latest_pid, pids, session_of, stat_of, threads_of
from ...system.processes import ProcessHandle

_PASSES: Final = 50
"""Passes without a new member that suffice if process ids change all the time."""
_AT_REST: Final = b"TtZXxD"
"""States in which a process that got SIGSTOP cannot fork: stopped, dead, or in an uninterruptible system call."""
_ENDED: Final = b"ZXx"
_STOPPED: Final = b"T"
_SECONDS: Final = 5.0
"""The time limit of one ending: more than any fork bomb in tests needed, and short for the caller."""
_STOP_SECONDS: Final = 0.02
"""The wait for a single process to stop: some time slices of other processes, but less than several passes over /proc,
which would compete with it for the processors."""
_STOP_LOOK_SECONDS: Final = 0.00005
"""Between two checks whether it has stopped."""

Belongs = Callable[[int, int, Collection[int]], bool | None]
"""Whether a process (its id, its parent, the members so far) is a member; None if that is unknown yet."""


Reap = Callable[[int], None]
"""Receives the id of each zombie that was found, whoever its parent is."""


def _leave(_: int) -> None: ...


def end_tree(root: int, reap: Reap = _leave) -> None:
    """End `root` and everything below it."""
    if not end_alone(root):
        _end(lambda pid, parent, found: pid == root or parent in found, reap, root)


def end_all() -> None:
    """End all other processes of the process namespace; this is its first process.

    The kernel also delivers a signal to all to a child that is being forked, so none escapes and no search is needed. A
    fork bomb takes no longer than anything else.
    """
    _send_all(signal.SIGKILL)


def end_all_but(spared: Callable[[], Collection[int]]) -> None:
    """The same, except for some processes and their descendants. All are stopped first, because during a fork bomb
    there would be no time to find these."""
    _send_all(signal.SIGSTOP)
    try:
        parents = {pid: found.parent for pid in pids() if (found := stat_of(pid)) is not None}
        kept = {os.getpid(), *spared()}
        while more := {pid for pid, parent in parents.items() if parent in kept and parent != os.getpid()} - kept:
            kept |= more
        for pid in parents.keys() - kept:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    finally:
        _send_all(signal.SIGCONT)


def _send_all(number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # there is no other process
        os.kill(-1, number)


def _each(_: int) -> bool:
    return True


def end_below(ancestor: int, is_meant: Callable[[int], bool] = _each, reap: Reap = _leave) -> None:
    """End the children of `ancestor` for which `is_meant` is true, with everything below them."""
    # Orphans become children of the nearest subreaper, which is the caller.
    _end(lambda pid, parent, found: (parent == ancestor and is_meant(pid)) or parent in found, reap)


def end_left_in(session: int) -> None:
    """End the processes that are left in a session whose leader has ended, with everything below them.

    For systems without subreapers, where orphans are found by their session alone. One that has begun a session of its
    own, and whose parent has ended, is not found.
    """
    _end(lambda pid, parent, found: (session_of(pid) == session and pid != os.getpid()) or parent in found)


def end_branded(brand: Brand) -> None:
    """End every process with that brand, whoever its parent is now."""
    _end(lambda pid, _parent, _found: pid != os.getpid() and brand_of(pid) == brand)


def left_behind() -> list[int]:
    """The processes with the brand of a dead host, except zombies and this process's own ancestors."""
    above = _ancestors()
    return [pid for pid in pids() if pid not in above and _is_left_behind(pid)]


def end_left_behind() -> None:
    """End the processes with the brand of a dead host, which remain if host and zygote were killed together."""
    above = _ancestors()
    _end(lambda pid, _parent, _found: pid not in above and _is_left_behind(pid))


def _is_left_behind(pid: int) -> bool:
    found = stat_of(pid)
    if found is None or _has_ended(pid, found):
        return False
    brand = brand_of(pid)
    return brand is not None and host_is_dead(brand)


def _ancestors() -> set[int]:
    found = {os.getpid()}
    pid = os.getppid()
    while pid and pid not in found:
        found.add(pid)
        above = stat_of(pid)
        pid = above.parent if above else 0
    return found


def end_alone(root: int) -> bool:
    """End a process that has no descendants; return False if it has some, or if that is unknown."""
    with suppress(OSError), ProcessHandle(root) as process:
        # Also before the wait, because children could start others during it.
        if is_childless(root) and _is_stopped(process, root) and is_childless(root):
            process.send(signal.SIGKILL)
            return True
    return False


def _is_stopped(process: ProcessHandle, root: int) -> bool:
    """Send SIGSTOP to the process; return whether it has stopped, and has a single thread. Raises OSError."""
    found = stat_of(root)
    if found is None or found.state in _ENDED:
        return False
    process.send(signal.SIGSTOP)
    deadline = time.monotonic() + _STOP_SECONDS
    while (found := stat_of(root)) is not None and found.state != _STOPPED:
        if found.state in _ENDED or time.monotonic() > deadline:
            return False
        # Not `sched_yield`, which never yields to the others, because their priority is lower than the zygote's.
        time.sleep(_STOP_LOOK_SECONDS)
    return threads_of(root) == 1


def _end(belongs: Belongs, reap: Reap = _leave, root: int | None = None) -> None:
    round_up = _RoundUp(belongs, reap)
    try:
        if root is not None and (found := stat_of(root)) is not None:
            round_up.stop_group(root, found)  # before the first pass, which is slow if many processes are running
        while round_up.stop():
            round_up.kill()
    finally:
        round_up.spare()


class _RoundUp:
    """The members found so far, by start time, and the time left to find more."""

    def __init__(self, belongs: Belongs, reap: Reap) -> None:
        self._belongs = belongs
        self._reap = reap
        self._deadline = time.monotonic() + _SECONDS
        self._members: dict[int, int] = {}
        self._others: set[int] = set()
        self._ended: set[int] = set()
        self._stopped: list[int] = []
        self._groups: set[int] = set()
        """The process groups that got SIGSTOP."""
        self._session = os.getsid(0)

    def stop(self) -> bool:
        """Stop members until no new one can appear; return whether there was any."""
        self._stopped = []
        quiet = 0
        while quiet < _PASSES and time.monotonic() < self._deadline:
            latest, resting = latest_pid(), all(map(_at_rest, self._stopped))
            fresh, settled = self._look()
            self._stopped += [pid for pid in fresh if self._send(pid, signal.SIGSTOP)]
            if not fresh and settled and resting and latest and latest == latest_pid():
                break
            quiet = 0 if fresh or not resting else quiet + 1
        return bool(self._stopped)

    def kill(self) -> None:
        """Kill the members that were stopped last."""
        for pid in self._stopped:
            self._send(pid, signal.SIGKILL)

    def spare(self) -> None:
        """Continue the processes that were stopped with a group but are not members."""
        for group in self._groups:
            with suppress(OSError):
                os.killpg(group, signal.SIGCONT)

    def stop_group(self, pid: int, stat: Stat) -> None:
        """Stop the group of that member, unless its leader lives and is not a member, or it is in our own session."""
        group = stat.group
        if group in self._groups or stat.session == self._session:
            return
        if group == pid or group in self._members or (leader := stat_of(group)) is None or leader.state in _ENDED:
            self._groups.add(group)
            with suppress(OSError):
                os.killpg(group, signal.SIGSTOP)

    def _look(self) -> tuple[list[int], bool]:
        """Find new members, parents before children; also return whether every process could be classified."""
        present = set(pids())
        self._others &= present
        self._ended &= present
        self._members = {pid: start for pid, start in self._members.items() if pid in present}
        found = {pid: stat for pid in present - self._known() if (stat := stat_of(pid))}
        unknown = {pid: stat for pid, stat in found.items() if not _has_ended(pid, stat)}
        for pid in found.keys() - unknown.keys():
            self._ended.add(pid)
            self._reap(pid)
        fresh: list[int] = []
        while more := [pid for pid in unknown if self._belongs(pid, unknown[pid].parent, self._members)]:
            for pid in more:
                self.stop_group(pid, unknown[pid])
                self._members[pid] = unknown.pop(pid).start
            fresh += more
        # A parent that ended before it was seen may have been a member, so its children are checked again.
        unsure = {pid for pid, stat in unknown.items() if stat.parent not in self._others | unknown.keys() | {0}}
        while below := {pid for pid, stat in unknown.items() if stat.parent in unsure} - unsure:
            unsure |= below
        self._others |= unknown.keys() - unsure
        return fresh, not unsure

    def _known(self) -> set[int]:
        return self._others | self._ended | self._members.keys()

    def _send(self, pid: int, number: signal.Signals) -> bool:
        """Send the signal; return False if the process is gone or belongs to another user."""
        with suppress(OSError), ProcessHandle(pid) as process:
            found = stat_of(pid)
            if found is not None and found.start == self._members.get(pid):
                process.send(number)
                return True
        return False


def _has_ended(pid: int, stat: Stat) -> bool:
    """Whether all its threads have ended: a process whose first thread has ended is shown as a zombie too."""
    if stat.state not in _ENDED:
        return False
    try:
        return threads_of(pid) <= 1
    except OSError:
        return True


def _at_rest(pid: int) -> bool:
    found = stat_of(pid)
    return found is None or found.state in _AT_REST
