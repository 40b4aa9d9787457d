"""The copies of workers that the zygote was asked to take in and that have not said yet that they are there.

Owns the sockets on which they will. Must not know what becomes of children that nobody expects. Used by `zygote`.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Collection

from .forked import ForkedProcess


class ExpectedCopies:
    """Each by the descriptor of its socket, which is in `poll`."""

    def __init__(self, poll: select.epoll) -> None:
        self._poll = poll
        self._copies: dict[int, tuple[socket.socket, ForkedProcess]] = {}

    def __bool__(self) -> bool:
        return bool(self._copies)

    def has(self, descriptor: int) -> bool:
        return descriptor in self._copies

    def add(self, process: ForkedProcess) -> None:
        known = process.take_known()
        self._copies[known.fileno()] = known, process
        self._poll.register(known.fileno(), select.EPOLLIN)

    def take_in(self) -> None:
        """Has those that have said so be their processes. Does not wait."""
        for descriptor in readable(self._copies):
            known, process = self._take(descriptor)
            process.adopt(known)

    def give_up(self, process: ForkedProcess) -> bool:
        """Nobody wants that one any more; whether it was expected."""
        descriptors = [descriptor for descriptor, (_, copy) in self._copies.items() if copy is process]
        for descriptor in descriptors:
            known, _ = self._take(descriptor)
            known.close()
        return bool(descriptors)

    def _take(self, descriptor: int) -> tuple[socket.socket, ForkedProcess]:
        self._poll.unregister(descriptor)
        return self._copies.pop(descriptor)


def readable(descriptors: Collection[int]) -> list[int]:
    """Those of the descriptors from which something can be read now."""
    if not descriptors:
        return []
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(0)]
