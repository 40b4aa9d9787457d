"""The lines that wait to be written: one queue, first in first out, bounded in bytes by making producers wait.

Owns the order of everything that leaves. Must not know what a line says. Producers put, the peer's writer takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import anyio
from msgspec import Struct

HIGH_WATER: Final = 262_144
"""Bytes above which producers of notifications wait: a few pipes full, so that a slow reader costs little memory."""

BATCH: Final = 65_536
"""Bytes that are handed to the transport at once, unless one line alone is longer."""

OnSent = Callable[[bool], None]
"""Told whether its line was handed to the transport (True) or dropped because the client is gone (False)."""


class Batch(Struct, frozen=True):
    data: bytes
    on_sent: tuple[OnSent, ...]


class Outbox:
    """Lines between producers and the one writer."""

    def __init__(self) -> None:
        self._lines: deque[tuple[bytes, OnSent | None]] = deque()
        self._size = 0
        self._closed = False
        self._waiting: anyio.Event | None = None

    @property
    def size(self) -> int:
        """Bytes that were put and not yet handed to the transport."""
        return self._size

    def put(self, line: bytes, on_sent: OnSent | None = None) -> None:
        """Appends a line at once; after `close` it is dropped."""
        if self._closed:
            if on_sent is not None:
                on_sent(False)
            return
        self._lines.append((line, on_sent))
        self._size += len(line)
        self._wake()

    async def room(self, limit: int = HIGH_WATER) -> None:
        """Waits until at most `limit` bytes are queued. Putting first and waiting afterwards keeps the order."""
        while self._size > limit:
            await self._change()

    async def take(self) -> Batch:
        """The next lines to write, as soon as there are some; `sent` must follow."""
        while not self._lines:
            await self._change()
        data: list[bytes] = []
        on_sent: list[OnSent] = []
        size = 0
        while self._lines and (not data or size + len(self._lines[0][0]) <= BATCH):
            line, callback = self._lines.popleft()
            data.append(line)
            size += len(line)
            if callback is not None:
                on_sent.append(callback)
        return Batch(b"".join(data), tuple(on_sent))

    def sent(self, batch: Batch) -> None:
        """Takes note that a batch is with the transport."""
        self._size -= len(batch.data)
        for callback in batch.on_sent:
            callback(True)
        self._wake()

    def close(self) -> None:
        """Drops what is queued and all that comes later, and lets every producer go on."""
        self._closed = True
        self._size = 0
        while self._lines:
            _, callback = self._lines.popleft()
            if callback is not None:
                callback(False)
        self._wake()

    async def _change(self) -> None:
        # because most lines are put while nobody waits, an event is made by who waits, not by who puts
        if self._waiting is None:
            self._waiting = anyio.Event()
        await self._waiting.wait()

    def _wake(self) -> None:
        if self._waiting is not None:
            self._waiting.set()
            self._waiting = None
