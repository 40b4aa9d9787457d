"""Counts o200k_base tokens exactly: one encoding per process, built once, and a cache of what was counted.

`load` builds the encoding at a moment that the caller chooses (the zygote's is before it forks); counting builds it
too. Text that looks like a special token counts as the ordinary text it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from . import ranks
from .pieces import cut

_SHORT: Final = 512
"""Characters of the longest text that is not cut, and of the longest piece that is remembered."""
_PIECES: Final = 16_384
"""Pieces in each of the two halves of their cache: about 6 MB together for lines of source code."""
_LONG: Final = 8_192
"""Characters of the longest text that is remembered whole, so that what a tail repeats is not cut again."""
_TEXTS: Final = 256
"""Texts in each half of theirs: 4 MB together at most, of ASCII."""


class _Counts:
    """What was counted, by text; drops the less recently used half."""

    __slots__ = ("_count", "_most", "_new", "_old")

    def __init__(self, count: Callable[[str], int], most: int) -> None:
        self._count = count
        self._most = most
        self._new: dict[str, int] = {}
        self._old: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        known = self._new.get(text)
        if known is None:
            known = self._old.get(text)
            if known is None:
                known = self._count(text)
            if len(self._new) >= self._most:
                self._old, self._new = self._new, {}
            self._new[text] = known
        return known


class Counter:
    """A callable that counts; remembers short texts, pieces of long ones, and long ones that are not very long."""

    __slots__ = ("_encode", "_pieces", "_texts")

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode
        self._pieces = _Counts(self._encoded, _PIECES)
        self._texts = _Counts(self._summed, _TEXTS)

    def __call__(self, text: str) -> int:
        size = len(text)
        if size <= _SHORT:
            return self._pieces(text)
        return self._texts(text) if size <= _LONG else self._summed(text)

    def _summed(self, text: str) -> int:
        return sum(map(self._piece, cut(text)))

    def _piece(self, piece: str) -> int:
        return self._pieces(piece) if len(piece) <= _SHORT else self._encoded(piece)

    def _encoded(self, text: str) -> int:
        return len(self._encode(text))


@cache
def _counter() -> Counter:
    return Counter(ranks.encoding().encode_ordinary)


def load() -> None:
    """Builds the encoding if this process has none yet: 150 to 300 ms."""
    _counter()


def counter() -> Callable[[str], int]:
    """The process's counter; the same object at every call, so that its cache is shared."""
    return _counter()


def count(text: str) -> int:
    """Tokens of `text`, exactly.

    Lone surrogates count as U+FFFD, which is what an API would be sent. For the one inexact case see `pieces.cut`.
    """
    return _counter()(text)
