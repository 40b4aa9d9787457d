"""Where pickles are written: bounded in bytes and in time, and given up while they are written, not afterwards.

Python's pickler hands over what it has every 64 KiB, and larger texts and buffers without copying them, so what is
too large costs no more than its bound. Must not know what is written. Used by `pickler`.
"""

from __future__ import annotations

import os
import time
from typing import Any


class TooLargeError(Exception):
    """Raised out of the pickler where a group passes `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit:,} bytes")
        self.limit = limit


class OutOfTimeError(Exception):
    """Raised out of the pickler when `seconds`, which it had for this and what came before, are over."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"longer than {seconds:g} s")
        self.seconds = seconds


class Clock:
    """The time that is left from now on, for one group after the other."""

    __slots__ = ("_end", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Raises OutOfTimeError where it is over."""
        if time.monotonic() > self._end:
            raise OutOfTimeError(self._seconds)


class MemorySink:
    """Keeps what is written in memory."""

    __slots__ = ("_clock", "_limit", "_parts", "_size")

    def __init__(self, limit: int, clock: Clock) -> None:
        self._limit = limit
        self._clock = clock
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: Any) -> int:
        """Called by the pickler. Raises TooLargeError and OutOfTimeError."""
        with memoryview(data) as view:
            self._size += view.nbytes
            if self._size > self._limit:
                raise TooLargeError(self._limit)
            self._clock.check()
            self._parts.append(bytes(view))
            return view.nbytes

    def taken(self) -> bytes:
        """All that was written."""
        return b"".join(self._parts)


class FileSink:
    """Writes into an open file from `offset` on, whatever its position is."""

    __slots__ = ("_clock", "_descriptor", "_limit", "_offset", "size")

    def __init__(self, descriptor: int, offset: int, limit: int, clock: Clock) -> None:
        self._descriptor = descriptor
        self._offset = offset
        self._limit = limit
        self._clock = clock
        self.size = 0

    def write(self, data: Any) -> int:
        """As `MemorySink.write`."""
        with memoryview(data) as view, view.cast("B") as left:
            if self.size + left.nbytes > self._limit:
                raise TooLargeError(self._limit)
            self._clock.check()
            done = 0
            while done < left.nbytes:
                done += os.pwrite(self._descriptor, left[done:], self._offset + self.size + done)
            self.size += done
            return done
