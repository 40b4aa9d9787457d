"""What a program prints to one stream: its beginning and its end, in constant memory, whatever its length.

Owns the bounds. Must not know where the bytes come from. Fed by `command_run`.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Callable

from ..core.programs import CommandOutput


class KeptOutput:
    """Takes bytes as they come, in pieces of any size.

    Args:
        kept: how many bytes are kept, half of them from the beginning, half from the end.
        sink: is given what is kept as text, the beginning while it grows and the rest at the end. So it is told of the
            cut between the two, which is how a piece of a secret that stands there is found.
        stop_at: bytes after which nothing more is taken.
    """

    def __init__(self, kept: int, sink: Callable[[str], None], stop_at: int | None = None) -> None:
        self._tail_room = max(0, kept) // 2
        self._head_room = max(0, kept) - self._tail_room
        self._sink = sink
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop_at = math.inf if stop_at is None else stop_at
        self._shown = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    @property
    def full(self) -> bool:
        """Whether `stop_at` is reached."""
        return self._total >= self._stop_at

    def feed(self, data: bytes) -> None:
        """Takes a piece."""
        if self._total + len(data) > self._stop_at:
            data = data[: int(self._stop_at) - self._total]
        self._total += len(data)
        first = data[: self._head_room - len(self._head)]
        if first:
            self._head += first
            self._show(self._decoder.decode(first))
        self._tail += data[len(first) :][-self._tail_room :] if self._tail_room else b""
        del self._tail[: max(0, len(self._tail) - self._tail_room)]

    def finish(self) -> CommandOutput:
        """What was kept."""
        output = CommandOutput(head=bytes(self._head), tail=bytes(self._tail), total=self._total)
        self._show(output.text[self._shown :])
        return output

    def _show(self, text: str) -> None:
        if text:
            self._shown += len(text)
            self._sink(text)
