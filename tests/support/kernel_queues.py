"""A stand-in for `select.kqueue` on Linux, over `epoll`, for the filters and flags that the engine uses.

It follows kqueue(2) of macOS as its manual describes it; no test compares the two. Each filter of a descriptor has its
own event. The end of a process (EVFILT_PROC with NOTE_EXIT) is reported once. Installed by `other_system`.
"""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Iterable
from typing import Final, NamedTuple

READ: Final = -1
WRITE: Final = -2
PROC: Final = -5
ADD: Final = 0x1
DELETE: Final = 0x2
NOTE_EXIT: Final = 0x80000000
_MASKS: Final = {READ: select.EPOLLIN | select.EPOLLRDHUP, WRITE: select.EPOLLOUT}
_ENDED: Final = select.EPOLLHUP | select.EPOLLRDHUP | select.EPOLLERR
# Bound here, because the tests of another system take these names away.
_epoll, _IN, _pidfd_open = select.epoll, select.EPOLLIN, os.pidfd_open


class Kevent(NamedTuple):
    """`select.kevent`."""

    ident: int
    filter: int = READ
    flags: int = ADD
    fflags: int = 0
    data: int = 0
    udata: int = 0


class Kqueue:
    """`select.kqueue`."""

    def __init__(self) -> None:
        self._poll = _epoll()
        self._filters: dict[int, set[int]] = {}
        self._processes: dict[int, int] = {}
        """The ids of the watched processes, by descriptor."""

    def fileno(self) -> int:
        return self._poll.fileno()

    @property
    def closed(self) -> bool:
        return self._poll.closed

    def close(self) -> None:
        for descriptor in self._processes:
            os.close(descriptor)
        self._processes.clear()
        self._poll.close()

    def control(
        self, changelist: Iterable[Kevent] | None, maxevents: int, timeout: float | None = None
    ) -> list[Kevent]:
        for change in changelist or ():
            self._change(change)
        if not maxevents:
            return []
        found: list[Kevent] = []
        for descriptor, events in self._poll.poll(timeout, maxevents):
            if descriptor in self._processes:
                found.append(Kevent(self._processes[descriptor], PROC, fflags=NOTE_EXIT))
                self._forget(descriptor)
                continue
            ready = [kind for kind in self._filters[descriptor] if events & (_MASKS[kind] | _ENDED)]
            found += [Kevent(descriptor, kind) for kind in ready]
        return found[:maxevents]

    def _change(self, change: Kevent) -> None:
        if change.filter == PROC:
            self._watch(change)
            return
        kinds = self._filters.get(change.ident, set())
        if kinds:
            try:
                self._poll.modify(change.ident, _mask(kinds))
            except FileNotFoundError:  # it was closed and has left the queue, and its number is another file's now
                kinds = set()
        if change.flags & DELETE:
            if change.filter not in kinds:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            kinds = kinds - {change.filter}
        else:
            kinds = kinds | {change.filter}
        self._set(change.ident, kinds)

    def _set(self, descriptor: int, kinds: set[int]) -> None:
        if not kinds:
            self._filters.pop(descriptor, None)
            self._poll.unregister(descriptor)
            return
        try:
            self._poll.modify(descriptor, _mask(kinds))
        except FileNotFoundError:
            self._poll.register(descriptor, _mask(kinds))
        self._filters[descriptor] = kinds

    def _watch(self, change: Kevent) -> None:
        descriptor = _pidfd_open(change.ident)
        self._processes[descriptor] = change.ident
        self._poll.register(descriptor, _IN)

    def _forget(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        del self._processes[descriptor]
        os.close(descriptor)


def _mask(kinds: set[int]) -> int:
    return sum(_MASKS[kind] for kind in kinds)


NAMES: Final = {
    "kqueue": Kqueue,
    "kevent": Kevent,
    "KQ_FILTER_READ": READ,
    "KQ_FILTER_WRITE": WRITE,
    "KQ_FILTER_PROC": PROC,
    "KQ_EV_ADD": ADD,
    "KQ_EV_DELETE": DELETE,
    "KQ_NOTE_EXIT": NOTE_EXIT,
}
"""The names that the module `select` has on the other system."""
