"""Bytes to lines to JSON values, and back: framing, encoding, and the queue of outgoing lines.

Knows nothing about the meaning of a message. The peer feeds the decoder with bytes from the transport, puts encoded
messages into the outbox, and writes the batches that it takes out. Framing is pure, linear in time and bounded in
memory. Nothing that `encode` returns makes a strict JSON reader fail.

`decode` uses the standard library, because that accepts integers of any size and passes lone surrogates on as text,
which can then be repaired (2 microseconds per message). `encode` uses msgspec (0.3 microseconds), and falls back to the
standard library for values that msgspec refuses.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from math import isfinite
from typing import Any, Final, cast

import anyio
import msgspec
from msgspec import Struct

MAX_LINE: Final = 52_428_800
"""Limit of a line in bytes, without its newline: 50 MiB, like other agents."""

HIGH_WATER: Final = 262_144
"""Queued bytes above which producers of notifications wait: a few pipes full, so slow readers cost little memory."""

BATCH: Final = 65_536
"""Bytes that the transport gets at once, unless one line is longer."""
_BOM: Final = b"\xef\xbb\xbf"


# --- framing ----------------------------------------------------------------------------------------------------------


class Line(Struct, frozen=True):
    """One line without its line ending; never blank."""

    data: bytes


class Broken(Struct, frozen=True):
    """A line that was refused; `reason` is one sentence."""

    reason: str


Frame = Line | Broken


class LineDecoder:
    """Turns a stream into frames, independent of how the stream is cut into pieces.

    Lines end in LF or CRLF. Blank lines are dropped, and so is a byte order mark at the start of the stream. A line
    longer than the limit is refused at once, and its rest is skipped without being stored.
    """

    __slots__ = ("_first", "_limit", "_pieces", "_size", "_skipping")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._skipping = False
        self._first = True

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that this piece completes."""
        frames: list[Frame] = []
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add(end, frames)
            self._finish(frames)
        self._add(rest, frames)
        return frames

    def eof(self) -> list[Frame]:
        """Return the last line, if the stream did not end in a newline."""
        frames: list[Frame] = []
        self._finish(frames)
        return frames

    def _add(self, piece: bytes, frames: list[Frame]) -> None:
        if self._skipping or not piece:
            return
        self._size += len(piece)
        if self._size > self._limit:
            frames.append(Broken(f"The line is longer than {self._limit} bytes"))
            self._pieces.clear()
            self._skipping = True
        else:
            self._pieces.append(piece)

    def _finish(self, frames: list[Frame]) -> None:
        if not self._skipping:
            line = b"".join(self._pieces)
            if self._first:
                line = line.removeprefix(_BOM)
            if line and not line.isspace():
                frames.append(Line(line.removesuffix(b"\r")))
        self._pieces.clear()
        self._size = 0
        self._skipping = self._first = False


# --- JSON -------------------------------------------------------------------------------------------------------------


class ParseError(ValueError):
    """Raised by `decode`. Its text is one sentence without text of the line."""


def _refuse_constant(_: str) -> Any:
    raise ParseError("NaN and Infinity are not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def decode(line: bytes) -> Any:
    """Return the value of one line of UTF-8 JSON; lone surrogates become U+FFFD. Raises ParseError."""
    try:
        value = _DECODER.decode(line.decode("utf-8"))
        # Only an escape can hold a surrogate, and repairing walks over the whole value. A single byte is found fastest.
        has_surrogate = b"\\" in line and (b"\\ud" in line or b"\\uD" in line)
        return repaired(value) if has_surrogate else value
    except ParseError:
        raise
    except UnicodeDecodeError:
        raise ParseError("The line is not valid UTF-8") from None
    except RecursionError:
        raise ParseError("The line is nested too deeply") from None
    except ValueError:
        raise ParseError("The line is not valid JSON") from None


def encode(message: Any) -> bytes:
    """Return one line of UTF-8 JSON with its newline. Raises TypeError for a value that is not JSON.

    Lone surrogates become U+FFFD, non-finite floats become null.
    """
    try:
        return msgspec.json.encode(message) + b"\n"
    except (UnicodeEncodeError, OverflowError):
        return _ENCODER.encode(repaired(message)).encode("utf-8") + b"\n"
    except RecursionError:
        raise TypeError("the message is nested too deeply for JSON") from None


def repaired(value: Any) -> Any:
    """Return a copy of a JSON value whose strings can be encoded as UTF-8 and whose floats are finite."""
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case float():
            return value if isfinite(value) else None
        case dict():
            return {repaired(key): repaired(item) for key, item in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [repaired(item) for item in cast("list[Any]", value)]
        case _:
            return value


# --- the outgoing queue -----------------------------------------------------------------------------------------------


OnSent = Callable[[bool], None]
"""Called with True when the transport has the line, with False when it was dropped because the client is gone."""


class Batch(Struct, frozen=True):
    data: bytes
    on_sent: tuple[OnSent, ...]


class Outbox:
    """The queue of outgoing lines: first in, first out, bounded in bytes because producers wait.

    Defines the order of everything that leaves. Producers put, the peer's writer takes.
    """

    def __init__(self) -> None:
        self._lines: deque[tuple[bytes, OnSent | None]] = deque()
        self._size = 0
        self._closed = False
        self._waiting: anyio.Event | None = None

    @property
    def size(self) -> int:
        """Bytes that were put and that the transport does not have yet."""
        return self._size

    def put(self, line: bytes, on_sent: OnSent | None = None) -> None:
        """Append a line without waiting; after `close` it is dropped."""
        if self._closed:
            if on_sent is not None:
                on_sent(False)
            return
        self._lines.append((line, on_sent))
        self._size += len(line)
        self._wake()

    async def room(self, limit: int = HIGH_WATER) -> None:
        """Wait until at most `limit` bytes are queued. Putting first and waiting afterwards keeps the order."""
        while self._size > limit:
            await self._change()

    async def take(self) -> Batch:
        """Wait for the next lines to write and return them; call `sent` afterwards."""
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
        """Mark a batch as handed to the transport."""
        self._size -= len(batch.data)
        for callback in batch.on_sent:
            callback(True)
        self._wake()

    def close(self) -> None:
        """Drop all queued and all later lines, and wake every producer."""
        self._closed = True
        self._size = 0
        while self._lines:
            _, callback = self._lines.popleft()
            if callback is not None:
                callback(False)
        self._wake()

    async def _change(self) -> None:
        # The waiter makes the event, because most lines are put while nothing waits.
        if self._waiting is None:
            self._waiting = anyio.Event()
        await self._waiting.wait()

    def _wake(self) -> None:
        if self._waiting is not None:
            self._waiting.set()
            self._waiting = None
