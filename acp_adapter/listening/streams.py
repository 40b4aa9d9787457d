"""Streams of messages to an HTTP client: numbered, kept for a while, and read again from a position.

A stream is read by one response at a time, and a network or a proxy may cut that at any moment. What was written to it
may be lost then. So messages are kept after they were written, up to RETAINED_BYTES, and a reader names the last
position that it has (`Last-Event-ID`). What no reader has taken is never dropped: `room` waits instead.

Knows no message and no HTTP. For one event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

import anyio

RETAINED_BYTES: Final = 4 << 20
RETAINED_MESSAGES: Final = 4_096
UNREAD_BYTES: Final = 1 << 20
"""Bytes that wait for a reader before `room` waits."""
UNOPENED_BYTES: Final = 64 << 20
"""The same for a stream that was never read: some clients open that of a session after its history was sent."""


class PositionLostError(Exception):
    """Raised for a position that is not kept any more, or never was."""


class Budget:
    """How many bytes several streams keep together, and how many they may."""

    def __init__(self, most: int) -> None:
        self.used = 0
        self._most = most

    @property
    def is_over(self) -> bool:
        return self.used > self._most


class MessageStream:
    """The messages of one stream, numbered from 1."""

    def __init__(self, budget: Budget) -> None:
        self._budget: Budget | None = budget
        self._kept: deque[bytes] = deque()
        self._first = 1
        """The position of the first message that is kept."""
        self._written = 0
        """The position of the last message that a reader has taken."""
        self._position = 0
        """The position of the message that was read last."""
        self._kept_bytes = 0
        self._unread_bytes = 0
        self._reader: object = None
        self._had_reader = False
        self._changed = anyio.Event()
        self._is_closed = False

    @property
    def last(self) -> int:
        """The position of the newest message; 0 before the first."""
        return self._first + len(self._kept) - 1

    @property
    def is_read(self) -> bool:
        """Whether a reader is there."""
        return self._reader is not None

    def put(self, message: bytes) -> None:
        """Append a message."""
        self._kept.append(message)
        self._keep(len(message))
        self._unread_bytes += len(message)
        self._change()

    def _keep(self, size: int) -> None:
        self._kept_bytes += size
        if self._budget is not None:
            self._budget.used += size

    async def room(self) -> None:
        """Wait while too much waits for a reader. Before the first one, that is a whole history."""
        while self._unread_bytes > (UNREAD_BYTES if self._had_reader else UNOPENED_BYTES) and not self._is_closed:
            await self._changed.wait()

    def close(self) -> None:
        """End the reader after the messages so far, and every wait. They count no more, as the stream will be gone."""
        self._is_closed = True
        if self._budget is not None:
            self._budget.used -= self._kept_bytes
            self._budget = None
        self._change()

    def read(self, after: int | None) -> AsyncGenerator[tuple[int, bytes]]:
        """Return the messages after a position, or after the last one that was taken. An earlier reader ends.

        Raises:
            PositionLostError: some messages after the position are not kept.
        """
        start = self._written if after is None else after
        if not self._first - 1 <= start <= self.last:
            raise PositionLostError
        self._position = start
        self._reader = reader = object()
        self._had_reader = True
        self._change()
        return self._read(start, reader)

    async def _read(self, position: int, reader: object) -> AsyncGenerator[tuple[int, bytes]]:
        try:
            while self._reader is reader:
                if position == self.last:
                    if self._is_closed:
                        return
                    await self._changed.wait()
                    continue
                position += 1
                message = self._kept[position - self._first]
                self._take(position)
                yield position, message
        finally:
            if self._reader is reader:
                self._reader = None
                self._change()

    def _take(self, position: int) -> None:
        """Note that a reader has a message, and forget the oldest ones that are not needed any more."""
        if position > self._written:
            self._written = position
            self._unread_bytes -= len(self._kept[position - self._first])
        self._position = position
        while self._kept_bytes > RETAINED_BYTES or len(self._kept) > RETAINED_MESSAGES:
            if not self._forget_first():
                break
        self._change()

    def forget_read(self) -> None:
        """Forget the messages that a reader has taken, because memory is short. Their positions are lost."""
        while self._forget_first():
            pass

    def _forget_first(self) -> bool:
        """Forget the oldest message, unless it was not read yet, or is being written and may be needed once more."""
        if self._first > self._written or self._first >= self._position:
            return False
        self._keep(-len(self._kept.popleft()))
        self._first += 1
        return True

    def _change(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
