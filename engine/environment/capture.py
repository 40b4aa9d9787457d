"""What a statement writes to one stream: the beginning as text, everything as a count and a digest.

Owns the bounds and the decoding. Must not know where the bytes come from. Fed by the connections.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Final

import xxhash

from ..execution import Captured

_DECODER: Final = codecs.getincrementaldecoder("utf-8")
KEPT_BYTES: Final = 64 << 10
"""Bytes of a stream that are kept as text."""
_NOTHING: Final = Captured(digest=xxhash.xxh3_64_hexdigest(b""), kept_bytes=0)
"""What most statements write: one value for all of them, because a session's log keeps each for good."""


class Capture:
    """Takes bytes as they come, in pieces of any size, in constant memory.

    `sink` is given the kept text while it grows. Invalid UTF-8 becomes U+FFFD; the text ends at a character boundary.
    """

    def __init__(self, sink: Callable[[str], None] | None = None) -> None:
        self._sink = sink
        self._decoder: codecs.IncrementalDecoder | None = None
        self._digest = xxhash.xxh3_64()
        self._texts: list[str] = []
        self._total = 0

    def feed(self, data: bytes) -> None:
        room = KEPT_BYTES - self._total
        self._total += len(data)
        self._digest.update(data)
        if room > 0:
            self._decoder = self._decoder or _DECODER("replace")
            self._keep(self._decoder.decode(data[:room]))

    def finish(self) -> Captured:
        """What was captured. A character that is incomplete at the very end becomes U+FFFD; one cut off is left out."""
        if not self._total:
            return _NOTHING
        if self._decoder is not None and self._total <= KEPT_BYTES:
            self._keep(self._decoder.decode(b"", final=True))
        return Captured(
            text="".join(self._texts),
            total_bytes=self._total,
            digest=self._digest.hexdigest(),
            kept_bytes=min(self._total, KEPT_BYTES),
        )

    def _keep(self, text: str) -> None:
        if text:
            self._texts.append(text)
            if self._sink is not None:
                self._sink(text)
