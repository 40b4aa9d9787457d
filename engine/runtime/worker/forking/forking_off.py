"""Forks a copy of this process that is no child of its, but of its own parent, the zygote.

A child would not do: a worker's tree is ended with the worker, a cancel ends what a statement has started, and a
statement that waits for its children would wait for ours. With one thread the kernel is asked for a sibling
(`quiet_fork.fork_beside`). Otherwise the process forks twice. The one in the middle ends, and its child falls to the
nearest ancestor that asked for orphans. That would be the worker, which stops asking for that moment; then it is the
zygote.

But the zygote ends every child that it does not know: a dead worker's orphans come to it just so. Hence the copy says
on a socket that it is there, and the kernel tells the zygote who has said it. Until then the zygote leaves alone what
is in the session of a process of its own, as the copy is; and it looks whether the copy has said so before it takes a
child for an orphan. This process goes on at once, but runs nothing of a statement's until the copy has said it and is
out of reach (`Coming`): a statement may end all of its session. Where both share descriptors of a statement's, that is
when the copy has its own. Whoever is killed at whatever moment, no process is left: a copy that nobody expects any more
finds the socket closed, or is an orphan like others; one that is known is ended by the zygote with the socket over
which it was asked for.

No signal is handled from before the first fork: a handler of a statement's could raise in the middle of this. Must not
know what the copy is for. Used by `checkpoint`.
"""

from __future__ import annotations

import os
import random
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import Struct

from ..keeping import quiet_fork
from ..processes.system import become_subreaper, die_with_parent

_SAYS: Final = b"C"
_PATIENCE_MS: Final = 1000
"""For the copy to become one: a statement waits meanwhile."""
_EXIT_LOST: Final = 72
# Bound here, because they are a statement's to replace; what they act on stays the same.
_state_of_random, _set_random = random.getstate, random.setstate


class _Copy(Struct, frozen=True):
    """What a copy needs to become one. `ready`: an eventfd on which it says so; `zygote`: its parent to be.

    `separate` gives it what is to be its own, `shares` says whether that has to be before the original goes on. Then it
    calls `live`.
    """

    known: int
    separate: Callable[[], None]
    live: Callable[[bool], None]
    shares: bool
    ready: int
    zygote: int


class Coming(Struct):
    """A copy that this process has made. It may be on its way still: `process` pins it, on `ready` it says it is one.

    Without these it is there.
    """

    ready: int = -1
    process: int = -1

    def wait(self) -> None:
        """Returns when it is one, or is none and was ended. Call it once."""
        if self.ready < 0:
            return
        try:
            _has_come(self.ready, self.process)
        finally:
            os.close(self.ready)
            os.close(self.process)


def _go_on(_: bool) -> None: ...


def fork_off(
    known: int,
    separate: Callable[[], None],
    live: Callable[[bool], None] = _go_on,
    *,
    reaps: bool,
    shares: bool,
    amid: bool = False,
) -> Coming | None:
    """Forks the copy. What is to be waited for; None in the copy. Call it with all signals blocked.

    Args:
        known: the socket on which the zygote is told; closed in the copy.
        separate: called in the copy, and must not raise.
        live: what the copy does next, and returns from where it is to go on as this process does. It is told whether it
            is called amid the fork, and may fork off others then, which return in its place (`quiet_fork.fork_beside`).
        reaps: whether this process asked for orphans.
        shares: whether what is waited for is the end of `separate`, and not that the copy is out of reach.
        amid: whether this process is one that was told so.

    Raises:
        OSError: there is no copy, nor a part of one.
    """
    state = _state_of_random()
    copy = _Copy(known, separate, live, shares, os.eventfd(0), os.getppid())
    try:
        coming = _fork_beside(copy, amid) if amid or quiet_fork.can_be_beside() else _fork_twice(copy, reaps)
    except BaseException:
        os.close(copy.ready)
        raise
    if coming is None:
        # Python draws a new state in every forked process; a copy goes on where the original does.
        _set_random(state)
    return coming


def _fork_beside(copy: _Copy, amid: bool) -> Coming | None:
    process = quiet_fork.fork_beside(partial(_begin, copy), amid=amid)
    return None if process is None else Coming(copy.ready, process)


def _begin(copy: _Copy) -> None:
    _become(copy, None)
    copy.live(True)


def _fork_twice(copy: _Copy, reaps: bool) -> Coming | None:
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
        signal.sigtimedwait((signal.SIGCHLD,), 0)
    if status:
        raise OSError("the copy did not become one")
    os.close(copy.ready)
    return Coming()


def _become_middle(copy: _Copy) -> None:
    """Returns in the copy alone."""
    try:
        middle = os.pidfd_open(os.getpid())
        pid = os.fork()
        if pid:
            os._exit(0 if _has_come(copy.ready, os.pidfd_open(pid)) else _EXIT_LOST)
    except BaseException:
        os._exit(_EXIT_LOST)
    _become(copy, middle)
    copy.live(False)


def _become(copy: _Copy, middle: int | None) -> None:
    """Returns when the copy is the zygote's child; `middle` pins the parent it has until then."""
    try:
        os.write(copy.known, _SAYS)
        # Only now, because in this session the zygote lets it be.
        os.setsid()
        if not copy.shares:
            os.eventfd_write(copy.ready, 1)
        os.close(copy.known)
        copy.separate()
        if copy.shares:
            os.eventfd_write(copy.ready, 1)
        os.close(copy.ready)
        if middle is not None:
            _wait(middle)
            os.close(middle)
        # Only now, because until then the end of the parent is that of the one in the middle.
        if not die_with_parent(signal.SIGKILL, copy.zygote):
            os._exit(_EXIT_LOST)
    except BaseException:
        os._exit(_EXIT_LOST)


def _has_come(ready: int, process: int) -> bool:
    """Whether the copy, which `process` pins, says that it is one. It is ended if it does not in time."""
    if ready in _wait(ready, process, milliseconds=_PATIENCE_MS):
        return True
    with suppress(OSError):
        signal.pidfd_send_signal(process, signal.SIGKILL)
    return False


def _wait(*descriptors: int, milliseconds: int | None = None) -> list[int]:
    """Those that can be read."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(milliseconds)]
