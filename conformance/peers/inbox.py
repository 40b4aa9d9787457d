"""What was read of a program and is not asked for yet, in order and within bounds.

A program may write while a scenario writes, and then nobody asks. Of a log the newest bytes are kept, because it has to
be read all the same: a program may not stop on a full pipe. Messages are all kept until there are more than a scenario
may hold, and then that is a flood. Knows no process. Used by `process`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from conformance.peers.peer import Received, Side, Stream

_MOST_BYTES: Final = 16 << 20
"""Of messages."""
_MOST_PIECES: Final = 100_000
_LEFT_PIECES: Final = 1024
"""Of a program that is being ended."""
_LOG_BYTES: Final = 256 << 10
"""Of logs in their place among the messages, and as many behind all of these."""
_LOG_PIECES: Final = 1000


class Inbox:
    """The chunks of one program, whose messages are those of `side`."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._chunks: deque[Received] = deque()
        self._size = 0
        self._log_size = 0
        self._late: deque[Received] = deque()
        """Of logs, what came when there was no room for more in `_chunks`."""
        self._late_size = 0
        self._omitted: dict[Stream, int] = {}
        self._taken = 0

    def __bool__(self) -> bool:
        return bool(self._chunks or self._late)

    @property
    def taken(self) -> int:
        """How many chunks were ever added."""
        return self._taken

    @property
    def has_messages(self) -> bool:
        """Whether anything of the messages waits, be it that they have ended."""
        return any(chunk.stream == self._side for chunk in self._chunks)

    @property
    def is_flooded(self) -> bool:
        return self._size > _MOST_BYTES or len(self._chunks) > _MOST_PIECES

    def add(self, chunk: Received) -> None:
        self._taken += 1
        size = len(chunk.data)
        if chunk.stream == self._side or not size:
            self._chunks.append(chunk)
            self._size += size
        elif not self._late and self._log_size + size <= _LOG_BYTES and len(self._chunks) < _LOG_PIECES:
            self._chunks.append(chunk)
            self._log_size += size
        else:
            self._add_late(chunk)

    def _add_late(self, chunk: Received) -> None:
        self._late.append(chunk)
        self._late_size += len(chunk.data)
        while self._late_size > _LOG_BYTES or len(self._late) > _LOG_PIECES:
            oldest = self._late.popleft()
            self._late_size -= len(oldest.data)
            self._omitted[oldest.stream] = self._omitted.get(oldest.stream, 0) + len(oldest.data)

    def take(self) -> Received | None:
        """The next chunk; None where there is none."""
        if self._chunks:
            return self._counted(self._chunks.popleft())
        if not self._late:
            return None
        chunk = self._late.popleft()
        self._late_size -= len(chunk.data)
        return Received(chunk.stream, chunk.data, self._omitted.pop(chunk.stream, 0))

    def shorten(self) -> None:
        """Lets go what came last of a flood, whose transcript is full."""
        while len(self._chunks) > _LEFT_PIECES or self._size > _MOST_BYTES:
            self._counted(self._chunks.pop())

    def _counted(self, chunk: Received) -> Received:
        if chunk.stream == self._side:
            self._size -= len(chunk.data)
        else:
            self._log_size -= len(chunk.data)
        return chunk
