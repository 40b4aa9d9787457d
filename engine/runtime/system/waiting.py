"""Waiting for many descriptors: `epoll` on Linux, `kqueue` elsewhere.

A `Poller` has the methods of `select.epoll` that the program uses, and is `select.epoll` on Linux. It is
level-triggered, and its own descriptor is readable while one of its descriptors is ready, so an event loop can watch
all of them at once. A descriptor that is closed leaves it. Must not know what the descriptors are.
"""

from __future__ import annotations

import select
import sys
from contextlib import suppress
from typing import Final

if sys.platform == "linux":
    READABLE: Final = select.EPOLLIN
    WRITABLE: Final = select.EPOLLOUT
    """An event that is not WRITABLE alone tells that reading returns something: data, the end, or an error."""
    Poller = select.epoll
else:
    READABLE: Final = select.POLLIN
    WRITABLE: Final = select.POLLOUT
    _MOST: Final = 256
    """Events of one call, if the caller sets no limit."""

    class Poller:
        """Watches descriptors with a kernel queue. A forked process has none: it needs a new one."""

        def __init__(self) -> None:
            self._queue = select.kqueue()

        def fileno(self) -> int:
            return self._queue.fileno()

        def close(self) -> None:
            self._queue.close()

        def register(self, descriptor: int, events: int, /) -> None:
            """Watch the descriptor for these events. Raises OSError if it is closed."""
            for event, kind in _filters():
                if events & event:
                    self._queue.control([select.kevent(descriptor, kind, select.KQ_EV_ADD)], 0)

        def modify(self, descriptor: int, events: int, /) -> None:
            """Watch it for these events instead. Raises OSError if it is closed."""
            for event, kind in _filters():
                if not events & event:
                    with suppress(FileNotFoundError):
                        self._queue.control([select.kevent(descriptor, kind, select.KQ_EV_DELETE)], 0)
            self.register(descriptor, events)

        def unregister(self, descriptor: int, /) -> None:
            """Stop watching it. Raises OSError if it is closed or not watched."""
            found = 0
            for _, kind in _filters():
                with suppress(FileNotFoundError):
                    self._queue.control([select.kevent(descriptor, kind, select.KQ_EV_DELETE)], 0)
                    found += 1
            if not found:
                raise FileNotFoundError(f"descriptor {descriptor} is not watched")

        def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
            """Wait until a descriptor is ready, or for so many seconds; return the descriptors with their events."""
            found: dict[int, int] = {}
            events = {kind: event for event, kind in _filters()}
            limit = maxevents if maxevents > 0 else _MOST
            for each in self._queue.control(None, limit, timeout):
                found[each.ident] = found.get(each.ident, 0) | events[each.filter]
            return list(found.items())

    def _filters() -> tuple[tuple[int, int], ...]:
        return (READABLE, select.KQ_FILTER_READ), (WRITABLE, select.KQ_FILTER_WRITE)
