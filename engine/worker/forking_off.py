"""Forks a copy of this process that is no child of its, but of its own parent, the zygote.

A child would not do: a worker's tree is ended with the worker, a cancel ends what a statement has started, and a
statement that waits for its children would wait for ours. With one thread the kernel is asked for a sibling
(`quiet_fork.fork_beside`). Otherwise the process forks twice. The one in the middle ends, and its child falls to the
nearest ancestor that asked for orphans. That would be the worker, which stops asking for that moment; then it is the
zygote.

But the zygote ends every child that it does not know: a dead worker's orphans come to it just so. Hence the copy says
on a socket that it is there, and the kernel tells the zygote who has said it. Until then the zygote leaves alone what
is in the session of a process of its own, as the copy is; and it looks whether the copy has said so before it takes a
child for an orphan. This process goes on when the copy has said it, and has all that is to be its own. Whoever is
killed at whatever moment, no process is left: a copy that nobody expects any more finds the socket closed, or is an
orphan like others; one that is known is ended by the zygote with the socket over which it was asked for.

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

from msgspec import Struct

from .keeping import quiet_fork
from .processes import become_subreaper, die_with_parent

_SAYS: Final = b"C"
_PATIENCE_MS: Final = 1000
"""For the copy to become one: the worker waits meanwhile, and a statement for the worker."""
_EXIT_LOST: Final = 72
# Bound here, because they are a statement's to replace; what they act on stays the same.
_state_of_random, _set_random = random.getstate, random.setstate


class _Copy(Struct, frozen=True):
    """What a copy needs to become one. `ready`: an eventfd on which it says so; `zygote`: its parent to be."""

    known: socket.socket
    separate: Callable[[], None]
    ready: int
    zygote: int


def fork_off(known: socket.socket, separate: Callable[[], None], *, reaps: bool) -> bool:
    """Forks the copy; returns whether this is the copy. Call it with all signals blocked.

    Args:
        known: where the zygote is told; the copy's own.
        separate: called in the copy, before this process goes on.
        reaps: whether this process asked for orphans.

    Raises:
        OSError: there is no copy, nor a part of one.
    """
    state = _state_of_random()
    copy = _Copy(known, separate, os.eventfd(0), os.getppid())
    try:
        is_copy = _fork_beside(copy) if quiet_fork.can_be_beside() else _fork_twice(copy, reaps)
    finally:
        os.close(copy.ready)
    if is_copy:
        # Python draws a new state in every forked process; a copy goes on where the original does.
        _set_random(state)
    return is_copy


def _fork_beside(copy: _Copy) -> bool:
    process = quiet_fork.fork_beside()
    if process is None:
        _become(copy, None)
        return True
    try:
        if not _has_come(copy, process):
            raise OSError("the copy did not become one")
    finally:
        os.close(process)
    return False


def _fork_twice(copy: _Copy, reaps: bool) -> bool:
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
        return True
    status = quiet_fork.wait(middle)
    if reaps:
        become_subreaper()
    if not is_quiet and not was_pending:
        signal.sigtimedwait((signal.SIGCHLD,), 0)
    if status:
        raise OSError("the copy did not become one")
    return False


def _become_middle(copy: _Copy) -> None:
    """Returns in the copy alone."""
    try:
        middle = os.pidfd_open(os.getpid())
        pid = os.fork()
        if pid:
            os._exit(0 if _has_come(copy, os.pidfd_open(pid)) else _EXIT_LOST)
    except BaseException:
        os._exit(_EXIT_LOST)
    _become(copy, middle)


def _become(copy: _Copy, middle: int | None) -> None:
    """Returns when the copy is the zygote's child; `middle` pins the parent it has until then."""
    try:
        copy.separate()
        copy.known.send(_SAYS)
        copy.known.close()
        # Only now, because in this session the zygote lets it be, and ahead of what may end all of it.
        os.setsid()
        os.eventfd_write(copy.ready, 1)
        if middle is not None:
            _wait(middle)
            os.close(middle)
        # Only now, because until then the end of the parent is that of the one in the middle.
        if not die_with_parent(signal.SIGKILL, copy.zygote):
            os._exit(_EXIT_LOST)
    except BaseException:
        os._exit(_EXIT_LOST)


def _has_come(copy: _Copy, process: int) -> bool:
    """Whether the copy, which `process` pins, says that it is one. It is ended if it does not in time."""
    if copy.ready in _wait(copy.ready, process, milliseconds=_PATIENCE_MS):
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
