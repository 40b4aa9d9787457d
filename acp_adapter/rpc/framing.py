"""Cuts a byte stream into lines: pure, linear in time, bounded in memory.

Must not know what a line holds. A line longer than MAX_LINE is refused as soon as that is known and its rest is
skipped without being kept. Called by the peer with whatever the transport delivers.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MAX_LINE: Final = 52_428_800
"""Bytes of the longest line that is taken, not counting its newline: 50 MiB, as other agents take."""

_BOM: Final = b"\xef\xbb\xbf"


class Line(Struct, frozen=True):
    """One line without its line ending; never blank."""

    data: bytes


class Broken(Struct, frozen=True):
    """A line that cannot be delivered; `reason` is one sentence."""

    reason: str


Frame = Line | Broken


class LineDecoder:
    """Turns pieces of a stream into frames; the same frames, however the stream is cut into pieces.

    Lines end in LF or CRLF, blank lines are dropped, and so is a byte order mark at the start of the stream.
    """

    __slots__ = ("_first", "_limit", "_pieces", "_size", "_skipping")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._skipping = False
        self._first = True

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete with this piece."""
        frames: list[Frame] = []
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add(end, frames)
            self._finish(frames)
        self._add(rest, frames)
        return frames

    def eof(self) -> list[Frame]:
        """The last line, if the stream did not end in a newline."""
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
