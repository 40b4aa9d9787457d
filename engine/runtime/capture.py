"""What a statement writes to one stream: the beginning as text, everything as a count and a digest.

Owns the bounds, the decoding and the redaction of what is printed, which `worker_messages` explains. Must not know
where the bytes come from. Fed by the connections.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Final

import xxhash

from ..core.execution import Captured
from ..log.redaction import Redactor

_DECODER: Final = codecs.getincrementaldecoder("utf-8")
KEPT_BYTES: Final = 64 << 10
"""Bytes of a stream that are kept as text."""
_NOTHING: Final = Captured(digest=xxhash.xxh3_64_hexdigest(b""), kept_bytes=0)
"""What most statements write: one value for all of them, because a session's log keeps each for good."""


class Capture:
    """Takes bytes as they come, in pieces of any size, in constant memory.

    `sink` is given the kept text while it grows, without secrets; an end of it that may be the beginning of one waits
    for what comes next. Invalid UTF-8 becomes U+FFFD; the text ends at a character boundary.
    """

    def __init__(self, redactor: Redactor, sink: Callable[[str], None] | None = None) -> None:
        self._redactor = redactor
        self._sink = sink
        self._held = ""
        """What the sink has not been given yet."""
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
            # What is cut here is cut in bytes, and no word in the text says so.
            text=self._redactor.redact("".join(self._texts), is_cut=self._total > KEPT_BYTES),
            total_bytes=self._total,
            digest=self._digest.hexdigest(),
            kept_bytes=min(self._total, KEPT_BYTES),
        )

    def _keep(self, text: str) -> None:
        if text:
            self._texts.append(text)
            if self._sink is not None:
                shown, self._held = self._redactor.redact_piece(self._held + text)
                if shown:
                    self._sink(shown)
