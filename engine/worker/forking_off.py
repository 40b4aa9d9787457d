"""Forks a copy of this process that is no child of its, but of its own parent, the zygote.

A child would not do: a worker's tree is ended with the worker, a cancel ends what a statement has started, and a
statement that waits for its children would wait for ours. So the process forks twice. The one in the middle ends, and
its child falls to the nearest ancestor that asked for orphans. That would be the worker, which stops asking for that
moment; then it is the zygote.

But the zygote ends every child that it does not know: a dead worker's orphans come to it just so. Hence the copy says
on a socket that it is there, before the one in the middle ends, and that one waits until the zygote has said that it
knows. The kernel tells the zygote who has said it. Whoever is killed at whatever moment, no process is left: before it
is known the copy is an orphan like others, or part of the worker's tree; afterwards the zygote ends it with the socket
over which it was asked for.

No signal is handled from before the first fork: a handler of a statement's could raise in the middle of this. Must not
know what the copy is for. Used by `checkpoint`.
"""

from __future__ import annotations

import os
import random
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from .keeping import quiet_fork
from .processes import become_subreaper, die_with_parent

_SAYS: Final = b"C"
_PATIENCE_MS: Final = 1000
"""For the zygote to say that it knows: the worker waits meanwhile, and a statement for the worker."""
_EXIT_LOST: Final = 72
# Bound here, because they are a statement's to replace; what they act on stays the same.
_state_of_random, _set_random = random.getstate, random.setstate


def fork_off(known: socket.socket, separate: Callable[[], None], *, reaps: bool) -> bool:
    """Forks the copy; returns whether this is the copy. Call it with all signals blocked.

    Args:
        known: where the zygote is told; the copy's own.
        separate: called in the copy, before this process goes on.
        reaps: whether this process asked for orphans.

    Raises:
        OSError: there is no copy, nor a part of one.
    """
    zygote, state = os.getppid(), _state_of_random()
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
        _become_copy(known, separate, zygote)
        # Python draws a new state in every forked process; a copy goes on where the original does.
        _set_random(state)
        return True
    status = quiet_fork.wait(middle)
    if reaps:
        become_subreaper()
    if not is_quiet and not was_pending:
        signal.sigtimedwait((signal.SIGCHLD,), 0)
    if status:
        raise OSError("the zygote did not take the copy")
    return False


def _become_copy(known: socket.socket, separate: Callable[[], None], zygote: int) -> None:
    """Returns in the copy alone, when it is the zygote's child."""
    try:
        middle = os.pidfd_open(os.getpid())
        copy = os.fork()
        if copy:
            _leave_behind(known, copy)
        separate()
        os.setsid()
        known.send(_SAYS)
        # Until then the end of the parent is that of the one in the middle.
        _wait(middle, None)
        os.close(middle)
        known.close()
        if not die_with_parent(signal.SIGKILL, zygote):
            os._exit(_EXIT_LOST)
    except BaseException:
        os._exit(_EXIT_LOST)


def _leave_behind(known: socket.socket, copy: int) -> None:
    """The one in the middle ends when the copy is known, and with it where nobody says so."""
    if _wait(known.fileno(), _PATIENCE_MS):
        with suppress(OSError):
            if known.recv(1):
                os._exit(0)
    os.kill(copy, signal.SIGKILL)
    os._exit(_EXIT_LOST)


def _wait(descriptor: int, milliseconds: int | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(milliseconds))
