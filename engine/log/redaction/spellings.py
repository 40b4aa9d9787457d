r"""Bytes as they read when what programs put into them is undone: colours, line breaks, quoting, escapes.

Pure. A value may be spelled in more ways than can be listed: which characters of a URL are escaped is each program's
choice, a terminal's colours may begin anywhere, and base64 is broken into lines. So nothing here knows a value. `fold`
undoes all of that in any bytes, and **what is looked for is folded as well**: a slice of a text spells a value if both
fold to the same. A value that looks spelled, such as `a%41b`, is found like any other.

A pass of folding undoes, in this order:

- NUL vanishes, so UTF-16 reads as ASCII;
- sequences for terminals vanish; the text in one (a title, the address of a link) is set apart before the rest;
- white space and quotation marks vanish, with a backslash before, so broken lines are whole;
- `%41`, `\u0041`, `\x41`, `\101`, `&#65;` and `&amp;` become UTF-8; `\n` and other backslashes vanish.

There are LEVELS passes, because JSON may stand in HTML, and that in a URL. Each rule looks at a bounded number of
bytes, so that a text in pieces reads as the whole does. A rule may take the first bytes of a value for the end of an
escape (`100%` before `abc`): SWALLOWED says how many.
"""

from __future__ import annotations

import json
import re
from binascii import b2a_base64
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from html import unescape
from itertools import accumulate, compress
from typing import Final, NamedTuple, Protocol

LEVELS: Final = 4
"""Passes; each of a text's spellings takes one, and the last looks whether anything is left."""
STRING_BYTES: Final = 2_000
"""The longest text in a sequence for terminals."""
_HEX: Final = b"[0-9A-Fa-f]"


def _pattern(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern.replace(b"H", _HEX))


_LAST_CHARACTER: Final = 0x10FFFF
_CODE: Final = rb"[0-?]{0,64}[ -/]{0,8}[@-~]"
_STRING: Final = rb"[\]P^_X](?:[0-9]{0,4};)?([^\x07\x1b\n]{0,%d})(?:\x07|\x1b\\)" % STRING_BYTES
SEQUENCE: Final = _pattern(rb"\x1b(?:\[" + _CODE + rb"|" + _STRING + rb"|[ -/]{0,8}[0-~])|\xc2\x9b" + _CODE)
APART: Final = b"\xff"
"""Not a byte of UTF-8."""
_INDENT: Final = rb"[ \t\r\n]*+(?:>[> \t]*+)?"
GAP: Final = re.compile(
    rb"\n" + _INDENT + rb"|\r" + _INDENT + rb"|\\(?<!\\\\)\\*+(?:[\r\nrn]" + _INDENT + rb"|[ \t'\"`])"
)
"""Between lines, also of a quotation, and what is quoted by a backslash and vanishes without it."""
NOISE: Final = b" \t\r\n\v\f'\"`"
NUL: Final = b"\0"
_ESCAPE: Final = rb"UHHHHHHHH|u[dD][89abAB]HH\\+u[dD][c-fC-F]HH|uHHHH|xHH|[0-3][0-7]{2}|[tvfab]|e(?=\[)"
_ENTITY: Final = rb"&(?:#[0-9]{1,7}|#[xX]H{1,6}|[A-Za-z][A-Za-z0-9]{1,7});"
_STRING_END: Final = rb"(?:u001[bB]|x1[bB]|033)\1\1\\\\(?!\\)"
"""The end of a sequence's text, spelled: its backslash takes twice as many as the escape before it."""
_OTHER_UNITS: Final = rb"|\\(\\*)(?:" + _STRING_END + rb"|" + _ESCAPE + rb")?|" + _ENTITY
UNIT: Final = _pattern(rb"%HH" + _OTHER_UNITS)
_UNITS: Final = _pattern(rb"%HH(?:%HH)*" + _OTHER_UNITS)
"""Like that of sequences, these begin with single bytes, which `re` looks for at once."""
_CONTROLS: Final = {b"a": b"\x07", b"b": b"\x08", b"e": b"\x1b"}
"""What single letters after a backslash stand for, but for white space."""
UNFINISHED_SEQUENCE: Final = re.compile(
    rb"(?:(?:\x1b\[|\xc2\x9b)[0-?]{0,64}[ -/]{0,8}|\xc2|\x1b(?:[\]P^_X][^\x07\x1b\n]{0,%d}\x1b?|[ -/]{0,8}))\Z"
    % (STRING_BYTES + 5)
)
UNFINISHED_UNIT: Final = _pattern(
    rb"(?:%H?|\\(?:UH{0,7}|u[dD][89abAB]HH(?:\\+(?:u(?:[dD](?:[c-fC-F]H?)?)?)?)?|uH{0,3}|xH?|[0-3][0-7]?|e)?"
    rb"|&(?:#(?:[0-9]{0,7}|[xX]H{0,6})|[A-Za-z][A-Za-z0-9]{0,7})?)\Z"
)
"""What may become one of these when more comes."""
SWALLOWED: Final = tuple(
    map(_pattern, (b"H", b"HH", b"HHH", b"HHHH", _CODE, rb"[ -/]{0,8}[0-~]", rb"\[" + _CODE, rb"[A-Za-z0-9#]{0,8};",
                   rb"uHHHH|xHH|[nrtvfab]", rb">[> \t]*"))
)  # fmt: skip
"""What an escape, a sequence or the mark of a quoted line may take of the bytes after it."""


def fold(data: bytes) -> bytes:
    """The bytes as they read; slices of a text that fold to the same spell the same."""
    for _ in range(LEVELS):
        data = before = _without_gaps(data)
        if has_units(data):
            data = _UNITS.sub(lambda unit: undone(unit[0]), data)
        elif not has_sequences(data):
            break
        if data == before:
            break
    return _without_gaps(data)


def has_sequences(data: bytes) -> bool:
    """Whether there may be a sequence for terminals."""
    return b"\x1b" in data or b"\xc2\x9b" in data


def has_gaps(data: bytes) -> bool:
    """Whether there may be a gap that is more than white space and quotation marks."""
    return b"\\" in data or b">" in data


def has_units(data: bytes) -> bool:
    """Whether there may be an escape."""
    return b"%" in data or b"\\" in data or b"&" in data


def _without_gaps(data: bytes) -> bytes:
    if NUL in data:
        data = data.translate(None, NUL)
    if has_sequences(data):
        data = b"".join([*map(_apart, SEQUENCE.findall(data)), SEQUENCE.sub(b"", data)])
    if has_gaps(data):
        data = GAP.sub(b"", data)
    return data.translate(None, NOISE)


def _apart(text: bytes) -> bytes:
    return text and text + APART


@lru_cache(maxsize=4_096)
def undone(spelled: bytes) -> bytes:
    """The bytes that an escape, or a run of backslashes, stands for."""
    if spelled.endswith(b"\\") and spelled.strip(b"\\"):
        return b"\x1b\\"
    match spelled[:1], (escape := spelled.lstrip(b"\\"))[:1]:
        case b"%", _:
            return bytes.fromhex(spelled.replace(b"%", b"").decode())
        case b"&", _ if spelled[1:2] == b"#":
            digits = spelled[2:-1].decode()
            return _character(int(digits[1:], 16) if digits[0] in "xX" else int(digits))
        case b"&", _:
            return unescape(spelled.decode()).encode("utf-8", "surrogatepass")
        case _, b"U":
            return _character(int(escape[1:], 16))
        case _, b"u":
            units = re.split(rb"\\+u", escape[1:])
            wide = b"".join(int(unit, 16).to_bytes(2, "big") for unit in units)
            return wide.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
        case _, b"x":
            return bytes.fromhex(escape[1:].decode())
        case _, digit if digit.isdigit():
            return bytes([int(escape, 8)])
        case _:
            return _CONTROLS.get(escape, b"")


def _character(code: int) -> bytes:
    return (chr(code) if code <= _LAST_CHARACTER else "").encode("utf-8", "surrogatepass")


# forms:
# The forms of a secret value: which bytes stand for it where no program has quoted, escaped or broken them.
#
# Pure. Quoting, escapes and line breaks are undone by `spellings`, so no form knows of them. Called by `redactor`,
# once for each value.
#
# Two things are not obvious. base64 works on groups of three bytes, so the value looks different at each of the three
# places where it may begin in a group; the characters at its ends that also depend on the neighbours belong to no
# form. And what is encoded was often text around the value: UTF-16 (PowerShell), or JSON, which escapes some
# characters.

LINE: Final = 16
"""Characters that a line of a longer secret has at least, to be secret by itself."""
_ARMOUR: Final = "-----"
_TOKEN: Final = re.compile(rf"(?=\S*[A-Za-z])(?=\S*\d|\S*[a-z]\S*[A-Z]|\S*[A-Z]\S*[a-z])\S{{{LINE},}}")
_ENCODINGS: Final = ("latin-1", "cp1252", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
_LATIN_1: Final = 0xFF
_GROUP: Final = 3
_BITS: Final = 6


def plain_forms(value: str) -> set[bytes]:
    """The value, and each line of it that is secret by itself, in all encodings."""
    return {data for text in {value.strip(), *secret_lines(value)} for data in _encoded(text)}


def secret_lines(value: str) -> Iterator[str]:
    """The lines that are secret by themselves, because listings put numbers and indentation between lines.

    Such a line holds LINE characters without a blank, of two kinds (letters and digits, or both cases). Words, keys of
    JSON and the armour of PEM do not, and occur in other texts.
    """
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if _TOKEN.search(line) and not line.startswith(_ARMOUR))


def encoded_forms(value: str) -> set[bytes]:
    """The whole value in base64 and in hexadecimal digits, and with `+` for blanks, as forms on the web have it."""
    value = value.strip()
    data = bytes_of(value)
    inner = {
        data,
        *(json.dumps(value, ensure_ascii=bool(is_ascii))[1:-1].encode("utf-8", "replace") for is_ascii in (0, 1)),
    }
    # Without its last zero, text in UTF-16 is the same in both orders of bytes.
    inner |= {wide[:-1] if value.isascii() else wide for wide in _wide(value)}
    forms = {form for each in inner for form in _in_base64(each)}
    return forms | {data.hex().encode(), data.hex().upper().encode(), data.replace(b" ", b"+")}


def bytes_of(value: str) -> bytes:
    """A value as it stands in a file or in the environment."""
    # A variable of the environment may hold bytes that are not UTF-8.
    with suppress(UnicodeEncodeError):
        return value.encode("utf-8", "surrogateescape")
    return value.encode("utf-8", "replace")


def _encoded(text: str) -> Iterator[bytes]:
    yield bytes_of(text)
    if text.isascii():
        return
    yield text.encode("utf-8", "surrogatepass")
    yield bytes_of(text).decode("utf-8", "replace").encode()
    # `ascii` and JavaScript escape what is in Latin-1 by its byte.
    yield b"".join(char.encode("utf-8" if ord(char) > _LATIN_1 else "latin-1", "surrogatepass") for char in text)
    for encoding in _ENCODINGS:
        with suppress(UnicodeEncodeError):
            yield text.encode(encoding)


def _wide(value: str) -> Iterator[bytes]:
    for encoding in ("utf-16-le",) if value.isascii() else ("utf-16-le", "utf-16-be"):
        with suppress(UnicodeEncodeError):
            yield value.encode(encoding)


def _in_base64(data: bytes) -> Iterator[bytes]:
    for before in range(_GROUP):
        encoded = b2a_base64(bytes(before) + data, newline=False)
        form = encoded[-(-8 * before // _BITS) : 8 * (before + len(data)) // _BITS]
        yield from (form, form.replace(b"+", b"-").replace(b"/", b"_"))


# readings:
# How bytes read, and where each of the folded bytes stands in the original: `spellings.fold`, step by step.
#
# Pure. Takes longer than folding, and is made only where something was found, or for the end of a text that goes on.
# Each step keeps what it needs to go back, so a position is followed down through all of them. Called by `redactor`;
# `needles` asks for places.

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


# needles:
# What is looked for in bytes as they stand or read: whole forms, their beginnings at an end, pieces beside cuts.
#
# Pure. Knows no text, and not where forms come from (`forms`). Called by `redactor`.
#
# **Swallowed ends.** Where something before a value looks like the beginning of an escape, the value's first bytes
# read
# as the end of that (`100%` before `abc`), and the same at its end. So each form is also looked for without the bytes
# that may be missing, and counts if these stand there literally.
#
# **Cost.** A text without a secret costs one search for each form. All else happens only where something was found.
# Pieces are recognised by SHORTEST bytes at a time, so that no text takes longer than its length.

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
