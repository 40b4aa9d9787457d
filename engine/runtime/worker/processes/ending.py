"""Ends processes that may start others meanwhile: all of a tree, or all with a brand.

Whoever is to be ended is stopped first, because a stopped process forks no more, and is killed when nobody is left who
could add one. The difficulty is to know that. /proc is no snapshot: between the listing and the look at a process it
may have forked and gone, so a pass over /proc that finds nobody new proves nothing by itself. But the kernel says which
process id it gave last. If that is the same after a pass as before it, and all members had come to rest before the
pass (a fork that was under way when its process was told to stop still ends), then no process has begun in between: the
pass has seen all there are, and the set is closed. On a machine where others start processes all the time the number
never rests; there, several passes without a new member have to do.

What forks faster than /proc can be read, because it has the processors, is stopped by whole process groups, each in
one step: the kernel gives a signal that is sent to a group to a child that is being forked at that moment, too, so that
nobody of the group slips through. Whoever leads a session, as a worker does, has all of what it starts in it that did
not go out of its way to leave. A group may hold one that is not meant, such as a copy of a worker that has not left
yet; so all are told to go on at the end. The group of a leader who lives and is not meant is left alone, and so is this
process's own session.

After the kill the same is done again, until there was nobody new: a member whose parent ended before it was seen became
a child of somebody else's in the meantime.

What has ended is a zombie until its parent reaps it. It forks no more and is no member; but what forks on leaves
thousands of them to the nearest ancestor that asked for orphans, and each makes every later pass longer. So that one
reaps them as they are met (`reap`), or the passes would soon take longer than the processes live.

Most have nobody below them, and to look through all of /proc several times takes longer than all else: so a tree is
first taken for one process alone. That is proven without a pass: it was told to stop, has one thread, which rests, and
the kernel knows of no child of it; whoever has none then has none later, neither by forking nor by inheriting.

The first process of a realm needs none of this: a signal of its to all reaches all that there are (`end_all`).

Ids are reused. So a signal is sent through a descriptor that pins the process, after its start was compared.

Used by the zygote and by the workers (trees), by the host and at the start of each command (brands). A little over 300
lines, because the proof is about all of it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from .brands import Brand, Stat, brand_of, host_is_dead, latest_pid, pids, stat_of

_PASSES: Final = 50
"""Passes without a new member that are enough where process ids are given all the time."""
_AT_REST: Final = b"TtZXxD"
"""States in which a process that was told to stop forks no more: stopped, ended, or in the middle of a system call
that no signal interrupts."""
_ENDED: Final = b"ZXx"
_STOPPED: Final = b"T"
_SECONDS: Final = 5.0
"""How long one ending may go on: longer than any fork bomb resisted, short for whoever waits."""
_STOP_SECONDS: Final = 0.02
"""How long one process that may be alone may take to stop: some moments of others' work, and less than several looks at
all of /proc take, which would keep it from the processors, too."""
_STOP_LOOK_SECONDS: Final = 0.00005
"""Between two looks whether it has."""

Belongs = Callable[[int, int, Collection[int]], bool | None]
"""Whether a process (its id, its parent, those found so far) is to be ended; None where that cannot be told yet."""


Reap = Callable[[int], None]
"""Is given the id of each process that was found to have ended, whoever its parent is."""


def _leave(_: int) -> None: ...


def end_tree(root: int, reap: Reap = _leave) -> None:
    """Ends `root` and everything below it."""
    if not end_alone(root):
        _end(lambda pid, parent, found: pid == root or parent in found, reap, root)


def end_all() -> None:
    """Ends all other processes of the namespace of which this is the first.

    A signal to all is given to a child that is being forked at that moment, too, so nobody slips through, and nobody
    has to be looked for: a fork bomb takes no longer than anything else.
    """
    _send_all(signal.SIGKILL)


def end_all_but(spared: Callable[[], Collection[int]]) -> None:
    """The same, but for some and what is below them. All are stopped first, because a fork bomb leaves nobody the time
    to find out who that is."""
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
    with suppress(ProcessLookupError):  # there is nobody else
        os.kill(-1, number)


def _each(_: int) -> bool:
    return True


def end_below(ancestor: int, is_meant: Callable[[int], bool] = _each, reap: Reap = _leave) -> None:
    """Ends those children of `ancestor` that are meant, with everything below them."""
    # Orphans become children of the nearest ancestor that asked for them, which is the one that calls this.
    _end(lambda pid, parent, found: (parent == ancestor and is_meant(pid)) or parent in found, reap)


def end_branded(brand: Brand) -> None:
    """Ends every process with that brand, whoever its parent is by now."""
    _end(lambda pid, _parent, _found: pid != os.getpid() and brand_of(pid) == brand)


def left_behind() -> list[int]:
    """The processes that carry the brand of a dead host, zombies and this process's own ancestors left out."""
    above = _ancestors()
    return [pid for pid in pids() if pid not in above and _is_left_behind(pid)]


def end_left_behind() -> None:
    """Ends what carries the brand of a dead host: what hosts and zygotes left that were killed together."""
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
    """Ends one that has nobody below it, and says so; False where that is not so, or cannot be told."""
    with suppress(OSError):
        descriptor = os.pidfd_open(root)
        try:
            # Before the wait, too, because whoever has children is not waited for: these may start others meanwhile.
            if _is_childless(root) and _is_stopped(descriptor, root) and _is_childless(root):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return True
        finally:
            os.close(descriptor)
    return False


def _is_stopped(descriptor: int, root: int) -> bool:
    """Whether all of the process, which is told to, has stopped: its one thread. Raises OSError."""
    found = stat_of(root)
    if found is None or found.state in _ENDED:
        return False
    signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
    deadline = time.monotonic() + _STOP_SECONDS
    while (found := stat_of(root)) is not None and found.state != _STOPPED:
        if found.state in _ENDED or time.monotonic() > deadline:
            return False
        # Not `sched_yield`, which lets nobody run that has less precedence than the zygote, as all others have.
        time.sleep(_STOP_LOOK_SECONDS)
    return os.listdir(f"/proc/{root}/task") == [str(root)]


def _is_childless(root: int) -> bool:
    """Raises OSError where the kernel does not say."""
    with open(f"/proc/{root}/task/{root}/children", "rb") as listed:
        return not listed.read()


def _end(belongs: Belongs, reap: Reap = _leave, root: int | None = None) -> None:
    round_up = _RoundUp(belongs, reap)
    try:
        if root is not None and (found := stat_of(root)) is not None:
            round_up.stop_group(root, found)  # before the first pass, which takes long where many want the processors
        while round_up.stop():
            round_up.kill()
    finally:
        round_up.spare()


class _RoundUp:
    """The members found so far, by when they began, and how much time is left to find more."""

    def __init__(self, belongs: Belongs, reap: Reap) -> None:
        self._belongs = belongs
        self._reap = reap
        self._deadline = time.monotonic() + _SECONDS
        self._members: dict[int, int] = {}
        self._others: set[int] = set()
        self._ended: set[int] = set()
        self._stopped: list[int] = []
        self._groups: set[int] = set()
        """Those that were told to stop."""
        self._session = os.getsid(0)

    def stop(self) -> bool:
        """Stops members until no new one can appear; whether there was any."""
        self._stopped = []
        quiet = 0
        while quiet < _PASSES and time.monotonic() < self._deadline:
            latest, resting = latest_pid(), all(map(_at_rest, self._stopped))
            fresh, settled = self._look()
            self._stopped += [pid for pid in fresh if self._send(pid, signal.SIGSTOP)]
            if not fresh and settled and resting and latest == latest_pid():
                break
            quiet = 0 if fresh or not resting else quiet + 1
        return bool(self._stopped)

    def kill(self) -> None:
        """Kills the members that were stopped last."""
        for pid in self._stopped:
            self._send(pid, signal.SIGKILL)

    def spare(self) -> None:
        """Has those go on that were stopped with others."""
        for group in self._groups:
            with suppress(OSError):
                os.killpg(group, signal.SIGCONT)

    def stop_group(self, pid: int, stat: Stat) -> None:
        """Stops the group of that member, unless one leads it who is not meant, or it is of the own session."""
        group = stat.group
        if group in self._groups or stat.session == self._session:
            return
        if group == pid or group in self._members or (leader := stat_of(group)) is None or leader.state in _ENDED:
            self._groups.add(group)
            with suppress(OSError):
                os.killpg(group, signal.SIGSTOP)

    def _look(self) -> tuple[list[int], bool]:
        """New members, parents before children, and whether every process could be told to be one or not."""
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
        # A parent that had ended before it was looked at may have been a member: what was below it is looked at again.
        unsure = {pid for pid, stat in unknown.items() if stat.parent not in self._others | unknown.keys() | {0}}
        while below := {pid for pid, stat in unknown.items() if stat.parent in unsure} - unsure:
            unsure |= below
        self._others |= unknown.keys() - unsure
        return fresh, not unsure

    def _known(self) -> set[int]:
        return self._others | self._ended | self._members.keys()

    def _send(self, pid: int, number: signal.Signals) -> bool:
        """Whether the process was sent the signal: it may be gone, or another user's by now."""
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            try:
                found = stat_of(pid)
                if found is not None and found.start == self._members.get(pid):
                    signal.pidfd_send_signal(descriptor, number)
                    return True
            finally:
                os.close(descriptor)
        return False


def _has_ended(pid: int, stat: Stat) -> bool:
    """Whether all of it has: a process whose first thread alone has ended is called a zombie, too."""
    if stat.state not in _ENDED:
        return False
    try:
        return len(os.listdir(f"/proc/{pid}/task")) <= 1
    except OSError:
        return True


def _at_rest(pid: int) -> bool:
    found = stat_of(pid)
    return found is None or found.state in _AT_REST
