"""What is looked for in bytes as they stand or read: whole forms, their beginnings at an end, pieces beside cuts.

Pure. Knows no text, and not where forms come from (`forms`). Called by `redactor`.

**Swallowed ends.** Where something before a value looks like the beginning of an escape, the value's first bytes read
as the end of that (`100%` before `abc`), and the same at its end. So each form is also looked for without the bytes
that may be missing, and counts if these stand there literally.

**Cost.** A text without a secret costs one search for each form. All else happens only where something was found.
Pieces are recognised by SHORTEST bytes at a time, so that no text takes longer than its length.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from .readings import Reading
from .spellings import SWALLOWED, UNFINISHED_UNIT

SHORTEST: Final = 8
"""Bytes of a form, and of a piece of one; shorter ones occur in ordinary text too often."""
_CORE: Final = 4
"""Bytes that are left, at least, of a form whose ends are swallowed."""
_LINE_BREAK: Final = re.compile(rb"[ \t\0]*(?:[\r\n]|\\+[rn])[ \t\r\n\0>]*")
_BLANK: Final = re.compile(rb"[ \t]")
_BACKSLASHES: Final = re.compile(rb"\\+")
_QUOTES: Final = b" \t'\"`"
_BLANKS: Final = b" \t\0\\"

Span = tuple[int, int]


class Needle(NamedTuple):
    """A form as it reads, without a `lead` and a `tail` that stand there as they are.

    `is_blank` says that there are blanks in the form, so there may be some in the text.
    """

    data: bytes
    lead: bytes
    tail: bytes
    is_blank: bool

    @property
    def is_partial(self) -> bool:
        return bool(self.lead or self.tail)


class _Beginnings:
    """The beginnings of some needles, by their first bytes."""

    def __init__(self, needles: Iterable[Needle], longest: int) -> None:
        self._longest = longest
        self._long: dict[bytes, list[Needle]] = {}
        self._short: dict[bytes, list[Needle]] = {}
        for needle in needles:
            self._long.setdefault(needle.data[:SHORTEST], []).append(needle)
            for length in range(0 if needle.lead else 1, min(SHORTEST, len(needle.data))):
                self._short.setdefault(needle.data[:length], []).append(needle)

    def at_end(self, reading: Reading) -> Iterator[int]:
        """Where in the original beginnings begin with which the reading ends."""
        data, size = reading.data, len(reading.data)
        for start, needles in self._long.items():
            at = data.find(start, max(0, size - self._longest))
            while at >= 0:
                rest = data[at:]
                for needle in needles:
                    if len(needle.data) + bool(needle.tail) > len(rest) and needle.data.startswith(rest):
                        yield from _starts(needle, reading, at)
                at = data.find(start, at + 1)
        for length in range(min(SHORTEST, size + 1)):
            for needle in self._short.get(data[size - length :], ()):
                yield from _starts(needle, reading, size - length)


class Needles:
    """Some forms, and where they are in readings."""

    def __init__(self, forms: Iterable[bytes], read: Callable[[bytes], bytes] | None = None) -> None:
        """`forms` are looked for as `read` reads them, else as they stand, if they have SHORTEST bytes then."""
        read_forms = {(read(form) if read else form): form for form in sorted(forms)}
        self._read = read
        self._forms = list(read_forms.values())
        self._whole = sorted((data for data in read_forms if len(data) >= SHORTEST), key=lambda data: (len(data), data))
        self._needles: list[Needle] = []
        cores: list[bytes] = []
        for data in self._whole:
            needles = [*_needles(read_forms[data], data, read)]
            self._needles += needles
            cores += _without_longer(sorted((needle.data for needle in needles), key=len))
        self._cores = _without_longer(sorted(cores, key=len))
        self._sizes = list(map(len, self._cores))
        self.longest = max(map(len, self._whole), default=0)

    def may_be_in(self, data: bytes) -> bool:
        """Whether a form may be in bytes that were read; a cheap question, asked first."""
        return any(map(data.__contains__, self._cores[: bisect_right(self._sizes, len(data))]))

    def found(self, reading: Reading) -> Iterator[Span]:
        """Where forms are in the original."""
        is_edited = reading.is_edited
        for needle in self._needles:
            if is_edited or not needle.is_partial:
                start = reading.data.find(needle.data)
                while start >= 0:
                    yield from _spans(needle, reading, start, start + len(needle.data))
                    start = reading.data.find(needle.data, start + 1)

    def open_at(self, reading: Reading) -> int | None:
        """The first position in the original from which all is the beginning of a form, and not yet the form."""
        found = [*self._whole_beginnings.at_end(reading)]
        if reading.is_edited:
            found += self._partial_beginnings.at_end(reading)
        return min(found, default=None)

    @cached_property
    def _whole_beginnings(self) -> _Beginnings:
        return _Beginnings([needle for needle in self._needles if not needle.is_partial], self.longest)

    @cached_property
    def _partial_beginnings(self) -> _Beginnings:
        return _Beginnings([needle for needle in self._needles if needle.is_partial], self.longest)

    def piece_before(self, data: bytes, end: int) -> int:
        """Where what is before `end` begins, if it may be a piece of a form; else `end`."""
        start = end - SHORTEST
        if start < 0 or data[start:end] not in self._grams:
            return next((end - n for n in self._short_lengths if end >= n and data[end - n : end] in self._short), end)
        while start and data[start - 1 : start - 1 + SHORTEST] in self._grams:
            start -= 1
        return start

    def piece_after(self, data: bytes, start: int) -> int:
        """Where what is from `start` on ends, if it may be a piece of a form; else `start`."""
        if data[start : start + SHORTEST] not in self._grams:
            return next((start + n for n in self._short_lengths if data[start : start + n] in self._short), start)
        at = start + 1
        while data[at : at + SHORTEST] in self._grams:
            at += 1
        return at + SHORTEST - 1

    @cached_property
    def _grams(self) -> frozenset[bytes]:
        # Made when the first text comes that was cut.
        return frozenset(_slices(self._whole))

    @cached_property
    def _short(self) -> frozenset[bytes]:
        """What SHORTEST bytes of a form read as where there are blanks or quotation marks in them."""
        if self._read is None:
            return frozenset()
        read = set(map(self._read, _slices(form for form in self._forms if self._read(form) != form)))
        return frozenset(gram for gram in read if _CORE <= len(gram) < SHORTEST)

    @cached_property
    def _short_lengths(self) -> list[int]:
        return sorted({len(gram) for gram in self._short}, reverse=True)


def _slices(forms: Iterable[bytes]) -> Iterator[bytes]:
    return (form[at : at + SHORTEST] for form in forms for at in range(len(form) - SHORTEST + 1))


def _needles(form: bytes, data: bytes, read: Callable[[bytes], bytes] | None) -> Iterator[Needle]:
    is_blank = b" " in form
    yield Needle(data, b"", b"", is_blank)
    if read is None:
        return
    for beginning in {form.lstrip(_QUOTES), data}:
        leads = {found.end() for pattern in SWALLOWED if (found := pattern.match(beginning))}
        for length in sorted(leads - {0}):
            if len(rest := read(beginning[length:])) >= _CORE:
                yield Needle(rest, beginning[:length], b"", is_blank)
    tail = UNFINISHED_UNIT.search(form)
    if tail is not None and len(rest := read(form[: tail.start()])) >= _CORE:
        yield Needle(rest, b"", tail[0], is_blank)


def _spans(needle: Needle, reading: Reading, start: int, end: int) -> Iterator[Span]:
    last = reading.end_of_tail(end, needle.tail) if needle.tail else reading.end(end)
    if last is not None:
        if needle.tail == b"\\" and (more := _BACKSLASHES.match(reading.original, last)):  # because it is quoted
            last = more.end()
        for first in _starts(needle, reading, start, last):
            yield first, last


def _starts(needle: Needle, reading: Reading, start: int, last: int | None = None) -> Iterator[int]:
    """Where in the original a needle begins that is at a place of a reading; nothing, where it is none."""
    first = reading.start_of_lead(start, needle.lead) if needle.lead else reading.start(start)
    if first is None:
        return
    text = reading.original[first:last]
    # What is broken by blanks is something else: `state mentioned` is no `statement`.
    if (
        needle.is_blank
        or len(text) == len(needle.data)
        or not _BLANK.search(_LINE_BREAK.sub(b"", text.rstrip(_BLANKS)))
    ):
        yield first


def _without_longer(cores: Sequence[bytes]) -> list[bytes]:
    """Those, from the shortest on, that hold no other one: where none of these is in a text, none is."""
    shortest: list[bytes] = []
    for core in cores:
        if not any(map(core.__contains__, shortest)):
            shortest.append(core)
    return shortest
