"""Why a name has no copy, as phrases; and the sinks of pickles, which are limited in bytes and time.

The pickler passes on its data every 64 KiB, and larger texts and buffers without a copy. So a value that is too large
costs no more than its limit. The phrases follow the name and a colon in a report. Used by the rest of this package.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Final

from ....core.text import cut_line, valid_text

_CHARS: Final = 200
_REFUSED: Final = re.compile(r"^cannot pickle '?([\w.]+)'?")
_WORDS: Final = {
    "_thread.lock": "a lock",
    "_thread.RLock": "a lock",
    "_thread._ThreadHandle": "a lock",  # of a thread, from Python 3.13 on
    "_io.TextIOWrapper": "an open file",
    "_io.BufferedReader": "an open file",
    "_io.BufferedWriter": "an open file",
    "_io.BufferedRandom": "an open file",
    "_io.FileIO": "an open file",
    "TextIOWrapper": "an open file",
    "BufferedReader": "an open file",
    "BufferedWriter": "an open file",
    "BufferedRandom": "an open file",
    "FileIO": "an open file",
    "socket": "a socket",
    "generator": "a generator",
    "async_generator": "a generator",
    "coroutine": "a coroutine",
    "mmap.mmap": "a memory map",
    "module": "a module that cannot be imported",
    "weakref.ReferenceType": "a weak reference",
    "sqlite3.Connection": "a database connection",
}
TOO_MANY: Final = "too much was copied at the same time"
ENDED: Final = "copying the value ended the copying process"
CHANGED: Final = "copying the value changed the namespace"
NO_PROCESS: Final = "copying the value needs a separate process, which could not be started"
INTERRUPTED: Final = "copying the value was interrupted, because it took too long"


def why_not_kept(error: BaseException) -> str:
    """The phrase on an exception of the pickler."""
    match error:
        case NotKeptError():
            return str(error)
        case TooLargeError(limit=limit):
            return f"larger than {_amount(limit)}"
        case OutOfTimeError(seconds=seconds):
            return took_longer(seconds)
        case KeyboardInterrupt():
            return INTERRUPTED
        case RecursionError() | BaseException(__cause__=RecursionError()):
            return "nested too deeply"
        case _:
            found = _REFUSED.match(_message(error))
            if found is not None:
                return f"the value holds {_WORDS.get(found[1]) or f'a {found[1]}'}, which cannot be copied"
            return _told("copying it raised", error)


def why_not_loaded(error: BaseException) -> str:
    """The phrase on an exception of the loader."""
    match error:
        case NotThereError():
            return str(error)
        case ModuleNotFoundError(name=str() as name):
            return f"the copy needs the module {name}, which does not exist"
        case KeyboardInterrupt():
            return "loading the copy was interrupted, because it took too long"
        case _:
            return _told("loading it raised", error)


class TooLargeError(Exception):
    """Raised in the pickler if a group exceeds `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit:,} bytes")
        self.limit = limit


class OutOfTimeError(Exception):
    """Raised in the pickler after `seconds`, its time for this group and the earlier ones."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"longer than {seconds:g} s")
        self.seconds = seconds


class Clock:
    """The time that is left for several groups."""

    __slots__ = ("_end", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Raise OutOfTimeError if it is over."""
        if time.monotonic() > self._end:
            raise OutOfTimeError(self._seconds)


class MemorySink:
    """Stores the data in memory."""

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
        """All data that was written."""
        return b"".join(self._parts)


class FileSink:
    """Writes into an open file from `offset` on; ignores the file's position."""

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


class NotKeptError(Exception):
    """Raised in the pickler for objects that must not be copied; the message is the reason."""


class NotThereError(Exception):
    """Raised in the loader for objects that the namespace lacks; the message is the reason."""


def took_longer(seconds: float) -> str:
    return f"copying the value took longer than {seconds:g} s"


def kept_from(phrase: str) -> str:
    """The reason if the guard prevented an act of copying: `phrase` is the guard's."""
    return f"copying it {phrase}"


def _told(what: str, error: BaseException) -> str:
    message = _message(error)
    return cut_line(f"{what} {type(error).__name__}{f': {message}' if message else ''}", _CHARS)


def _message(error: BaseException) -> str:
    # Because the `__str__` of a user's exception may do anything.
    try:
        return " ".join(valid_text(str(error)).split())
    except BaseException as failure:
        return f"<its message raised {type(failure).__name__}>"


def _amount(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
