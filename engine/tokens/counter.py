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
_GENERATION: Final = 16_384
"""Pieces in each of the two halves of the cache: about 6 MB together for lines of source code."""


class Counter:
    """A callable that counts; remembers short texts and pieces of long ones, dropping the less recently used half."""

    __slots__ = ("_encode", "_new", "_old")

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode
        self._new: dict[str, int] = {}
        self._old: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self._piece(text) if len(text) <= _SHORT else sum(map(self._piece, cut(text)))

    def _piece(self, piece: str) -> int:
        known = self._new.get(piece)
        if known is None:
            known = self._old.get(piece)
            if known is None:
                known = len(self._encode(piece))
            if len(piece) <= _SHORT:
                self._remember(piece, known)
        return known

    def _remember(self, piece: str, tokens: int) -> None:
        if len(self._new) >= _GENERATION:
            self._old, self._new = self._new, {}
        self._new[piece] = tokens


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
