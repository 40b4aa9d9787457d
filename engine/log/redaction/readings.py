"""How bytes read, and where each of the folded bytes stands in the original: `spellings.fold`, step by step.

Pure. Takes longer than folding, and is made only where something was found, or for the end of a text that goes on. Each
step keeps what it needs to go back, so a position is followed down through all of them. Called by `redactor`; `needles`
asks for places.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, compress
from typing import Final, NamedTuple, Protocol

from .spellings import (
    APART,
    GAP,
    LEVELS,
    NOISE,
    NUL,
    SEQUENCE,
    STRING_BYTES,
    UNFINISHED_SEQUENCE,
    UNFINISHED_UNIT,
    UNIT,
    has_gaps,
    has_sequences,
    undone,
)

_BLOCK: Final = 4_096
_KEPT: Final = {dropped: bytes(byte not in dropped for byte in range(256)) for dropped in (NOISE, NUL)}


class Step(Protocol):
    """What is left after a step, and where each byte of that was before the step."""

    @property
    def data(self) -> bytes: ...
    def start(self, position: int, /) -> int: ...
    def end(self, position: int, /) -> int: ...


class Reading(NamedTuple):
    """The folded bytes, with the steps to them from the original.

    `unfinished` is the position in the original from which on what follows may change how it reads; else its length.
    """

    data: bytes
    original: bytes
    steps: Sequence[Step]
    unfinished: int

    def start(self, position: int) -> int:
        """Where a byte begins in the original, with the escape that spells it."""
        for step in reversed(self.steps):
            position = step.start(position)
        return position

    def end(self, position: int) -> int:
        """Where the byte before a position ends in the original."""
        for step in reversed(self.steps):
            position = step.end(position)
        return position

    @property
    def is_edited(self) -> bool:
        """Whether more was undone than white space and the like."""
        return any(isinstance(step, Edited) for step in self.steps)

    def start_of_lead(self, position: int, lead: bytes) -> int | None:
        """Where `lead` begins in the original, if it is right before a byte and a step took it for something else."""
        for number in range(len(self.steps) - 1, -1, -1):
            position, below = self.steps[number].start(position), self._below(number)
            if below.data.endswith(lead, 0, position):
                return below.start(position - len(lead))
        return None

    def end_of_tail(self, position: int, tail: bytes) -> int | None:
        """The same of what follows the byte before a position: where it ends."""
        for number in range(len(self.steps) - 1, -1, -1):
            position, below = self.steps[number].end(position), self._below(number)
            if below.data.startswith(tail, position):
                return below.end(position + len(tail))
        return None

    def _below(self, number: int) -> Reading:
        """As it read before a step."""
        return read_in(self.original, self.steps[:number])


def reading(data: bytes, *, is_open: bool = False) -> Reading:
    """`fold(data)`, and where each byte of it comes from, which takes longer.

    Args:
        is_open: more follows, so the end that this may change is left out.
    """
    reader = _Reader(data, is_open)
    for _ in range(LEVELS):
        reader.close_gaps()
        before = reader.now
        reader.add(_edited(before, UNIT))
        if reader.now == before and not has_sequences(before):
            break
    reader.close_gaps()
    return read_in(data, reader.steps, reader.unfinished)


class _Reader:
    """The steps that were made, `now` what is left after them."""

    def __init__(self, data: bytes, is_open: bool) -> None:
        self.steps: list[Step] = []
        self.now = data
        self.unfinished = len(data)
        self._original = data
        self._is_open = is_open

    def add(self, step: Step) -> None:
        """Make a step, if it changes anything."""
        if step.data != self.now:
            self.steps.append(step)
            self.now = step.data

    def close_gaps(self) -> None:
        """Make the steps up to the escapes."""
        if NUL in self.now:
            self.add(Kept(self.now, NUL))
        self._leave_out(UNFINISHED_SEQUENCE)
        self.add(_edited(self.now, SEQUENCE))
        # Backslashes vanish if they begin a gap, and what is before them goes on behind it. The last tells that.
        if self._is_open and self.now.endswith(b"\\"):
            self._cut(len(self.now.rstrip(b"\\")), len(self.now) - 1)
        if has_gaps(self.now):
            self.add(_edited(self.now, GAP))
        self.add(Kept(self.now, NOISE))
        self._leave_out(UNFINISHED_UNIT)

    def _leave_out(self, pattern: re.Pattern[bytes]) -> None:
        if self._is_open and (end := pattern.search(self.now, max(0, len(self.now) - STRING_BYTES - 16))):
            self._cut(end.start(), end.start())

    def _cut(self, position: int, unfinished: int) -> None:
        self.unfinished = min(self.unfinished, read_in(self._original, self.steps).start(unfinished))
        self.add(Edited(self.now[:position], [0], [0]))


def read_in(data: bytes, steps: Sequence[Step], unfinished: int = -1) -> Reading:
    """The reading to which some steps lead; without any, that of bytes as they stand."""
    return Reading(steps[-1].data if steps else data, data, steps, len(data) if unfinished < 0 else unfinished)


class Kept:
    """What is left without some bytes."""

    def __init__(self, before: bytes, dropped: bytes) -> None:
        self.data = before.translate(None, dropped)
        self._before = before
        self._dropped = dropped
        self._blocks: dict[int, list[int]] = {}

    @cached_property
    def _counts(self) -> list[int]:
        """How many bytes are left of what is before each block."""
        starts = range(0, len(self._before), _BLOCK)
        sizes = (len(self._before[start : start + _BLOCK].translate(None, self._dropped)) for start in starts)
        return list(accumulate(sizes, initial=0))

    def start(self, position: int, /) -> int:
        if position >= len(self.data):
            return len(self._before)
        number = bisect_right(self._counts, position) - 1
        if number not in self._blocks:
            start = number * _BLOCK
            is_kept = self._before[start : start + _BLOCK].translate(_KEPT[self._dropped])
            self._blocks[number] = list(compress(range(start, start + _BLOCK), is_kept))
        return self._blocks[number][position - self._counts[number]]

    def end(self, position: int, /) -> int:
        return self.start(position - 1) + 1 if position else 0


class Edited(NamedTuple):
    """What is left when some of it was replaced.

    Stretches that stay alternate with what was replaced, the former first: `starts` are positions in `data`, and
    `places` where these were before.
    """

    data: bytes
    starts: list[int]
    places: list[int]

    def start(self, position: int, /) -> int:
        at = bisect_right(self.starts, position) - 1
        is_replaced = at % 2 == 1
        return self.places[at] + (0 if is_replaced else position - self.starts[at])

    def end(self, position: int, /) -> int:
        at = bisect_right(self.starts, position - 1) - 1
        is_replaced = at % 2 == 1
        return self.places[at + 1] if is_replaced else self.places[at] + position - self.starts[at]


def _edited(data: bytes, pattern: re.Pattern[bytes]) -> Edited:
    parts: list[bytes] = []
    starts, places = [0], [0]
    length = last = 0

    def add(part: bytes, place: int) -> None:
        nonlocal length
        parts.append(part)
        length += len(part)
        starts.append(length)
        places.append(place)

    if pattern is SEQUENCE:
        for found in pattern.finditer(data):
            if found[1]:
                places[-1] = found.start(1)
                add(found[1], found.end(1))
                add(APART, 0)
    for found in pattern.finditer(data):
        start = found.start()
        add(data[last:start], start)
        if pattern is UNIT and found[1]:  # backslashes before the last one stand for nothing
            start = found.end(1) - 1
            add(b"", start)
            add(b"", start)
        add(undone(found[0]) if pattern is UNIT else b"", found.end())
        last = found.end()
    return Edited(b"".join([*parts, data[last:]]), starts, places)
