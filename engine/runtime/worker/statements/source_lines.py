"""The sources of statements, where tracebacks and `inspect` look for them, for as long as these may ask.

A session runs statements for days, and few of them leave anything that a traceback could go through: a function, a
class's methods, an exception that is kept. So a source stays while it is among the newest, or while some code of its
statement is alive. Must not know what statements do. Used by `executor`.
"""

from __future__ import annotations

import linecache
from collections import deque
from collections.abc import Iterator
from types import CodeType
from typing import Final, NamedTuple
from weakref import ref

NEWEST: Final = 256
"""So many sources stay whatever becomes of their code, which may go on as a copy of it."""
_LOOKS: Final = 2
"""Older sources that are looked at for each new one: with one, nothing would ever be gained on those that come; with
two there are, in the long run, at most as many that nothing needs as there are that something does."""
_Entry = tuple[int, None, list[str], str]


class _Kept(NamedTuple):
    """What the cache has of a statement, and the code that may be in a traceback: its own and its functions'."""

    entry: _Entry
    codes: list[ref[CodeType]]


class SourceLines:
    """Those of one namespace's statements. Others, and whoever else uses Python's cache of lines, are let alone."""

    def __init__(self) -> None:
        self._cache = linecache.cache
        self._newest: deque[_Kept] = deque()
        self._older: deque[_Kept] = deque()

    def show(self, source: str, label: str) -> None:
        """A statement begins, which tracebacks will call `label`."""
        entry = (len(source), None, source.splitlines(keepends=True), label)
        self._cache[label] = entry
        self._newest.append(_Kept(entry, []))
        if len(self._newest) > NEWEST:
            self._older.append(self._newest.popleft())
        for _ in range(min(_LOOKS, len(self._older))):
            self._look()

    def compiled(self, *codes: CodeType) -> None:
        """The statement that began last was compiled to these."""
        self._newest[-1].codes.extend(ref(each) for code in codes for each in _with_defined(code))

    def _look(self) -> None:
        kept = self._older.popleft()
        label = kept.entry[-1]
        if any(code() is not None for code in kept.codes):
            self._older.append(kept)
        elif self._cache.get(label) is kept.entry:  # else another statement has the label by now
            del self._cache[label]


def _with_defined(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_defined(constant)
