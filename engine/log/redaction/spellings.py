r"""Folding: undoing what programs add to bytes, which is colours, line breaks, quoting and escapes.

Pure; knows no value. A value has more spellings than can be listed: each program chooses which characters of a URL it
escapes, a terminal's colours may begin anywhere, and base64 is broken into lines. `fold` undoes all of that in any
bytes, and **the values are folded as well**: a slice of a text spells a value if both fold to the same bytes. So a
value that looks spelled, such as `a%41b`, is found like any other.

A pass of folding, in this order:

- removes NUL, so UTF-16 reads as ASCII;
- removes terminal sequences; the text in one (a title, the address of a link) is put before the rest;
- removes white space and quotation marks, with a backslash before them, so broken lines are joined;
- decodes `%41`, `\u0041`, `\x41`, `\101`, `&#65;` and `&amp;` to UTF-8; removes `\n` and other backslashes.

**Marks of lines.** Views and changes put a number or a sign before each line, searches a place, and long lines are
continued behind a mark. In a command or a file these may belong to the text. So `unmarked` removes them first, after
the colours, and a text with such marks is read several times, with them and without them.

There are LEVELS passes, because JSON may be in HTML, and that in a URL. Each rule looks at a bounded number of bytes,
so a text in pieces reads like the whole. A rule may take the first bytes of a value for the end of an escape (`100%`
before `abc`); SWALLOWED says which.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from html import unescape
from itertools import accumulate, compress
from typing import Final, NamedTuple, Protocol

Span = tuple[int, int]
LEVELS: Final = 4
"""The number of passes. Each nested spelling takes one, and the last pass finds nothing left."""
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
    rb"\n"
    + _INDENT
    + rb"|\r"
    + _INDENT
    + rb"|(?:\xe2\x80[\xa8\xa9]|\xc2\x85)"
    + _INDENT
    + rb"|\\(?<!\\\\)\\*+(?:[\r\nrn]"
    + _INDENT
    + rb"|[ \t'\"`])"
)
"""Gaps between lines, even of a quotation, and characters that are removed together with the backslash before them."""
NOISE: Final = b" \t\r\n\v\f'\"`"
NUL: Final = b"\0"
_ESCAPE: Final = rb"UHHHHHHHH|u[dD][89abAB]HH\\+u[dD][c-fC-F]HH|uHHHH|xHH|[0-3][0-7]{2}|[tvfab]|e(?=\[)"
_ENTITY: Final = rb"&(?:#[0-9]{1,7}|#[xX]H{1,6}|[A-Za-z][A-Za-z0-9]{1,7});"
_STRING_END: Final = rb"(?:u001[bB]|x1[bB]|033)\1\1\\\\(?!\\)"
"""The escaped end of a sequence's text: its backslash takes twice as many backslashes as the escape before it."""
_OTHER_UNITS: Final = rb"|\\(\\*)(?:" + _STRING_END + rb"|" + _ESCAPE + rb")?|" + _ENTITY
UNIT: Final = _pattern(rb"%HH" + _OTHER_UNITS)
_UNITS: Final = _pattern(rb"%HH(?:%HH)*" + _OTHER_UNITS)
"""These patterns begin with single bytes, which `re` finds quickly."""
_COLOUR: Final = re.compile(rb"(?:\x1b\[|\xc2\x9b)[0-9;]{0,64}[mK]")
_CONTROLS: Final = {b"a": b"\x07", b"b": b"\x08", b"e": b"\x1b"}
"""The meaning of single letters after a backslash, except white space."""
UNFINISHED_SEQUENCE: Final = re.compile(
    rb"(?:(?:\x1b\[|\xc2\x9b)[0-?]{0,64}[ -/]{0,8}|\xc2|\x1b(?:[\]P^_X][^\x07\x1b\n]{0,%d}\x1b?|[ -/]{0,8}))\Z"
    % (STRING_BYTES + 5)
)
UNFINISHED_UNIT: Final = _pattern(
    rb"(?:%H?|\\(?:UH{0,7}|u[dD][89abAB]HH(?:\\+(?:u(?:[dD](?:[c-fC-F]H?)?)?)?)?|uH{0,3}|xH?|[0-3][0-7]?|e)?"
    rb"|&(?:#(?:[0-9]{0,7}|[xX]H{0,6})|[A-Za-z][A-Za-z0-9]{0,7})?)\Z"
)
"""The beginning of a sequence or escape at the end of a text that goes on."""
SWALLOWED: Final = tuple(
    map(_pattern, (b"H", b"HH", b"HHH", b"HHHH", _CODE, rb"[ -/]{0,8}[0-~]", rb"\[" + _CODE, rb"[A-Za-z0-9#]{0,8};",
                   rb"uHHHH|xHH|[nrtvfab]", rb">[> \t]*"))
)  # fmt: skip
"""The bytes that an escape, a sequence or the mark of a quoted line may take from a value after it."""


_LINE_STARTS: Final = (b"\n", b"\\n")
_NUMBER: Final = rb"[0-9]{1,8}+(?:-[0-9]{1,8}+)?+(?:\t|\\++t)"
_CONTINUED: Final = rb"(?:\xe2\x86\xaa|\\++u21aa) "
_QUOTED: Final = rb"[ >]{0,16}+"
_SIGN: Final = _QUOTED + rb"[+-]"
_NUMBERED: Final = _QUOTED + rb"(?:" + _NUMBER + rb"|" + _CONTINUED + rb")"
_PATH: Final = rb"(?=[^\s\\]{3,320}+(?<=[:-]) )[^\s\\]{1,300}(?::[0-9]{1,8}:|-[0-9]{1,8}-) "
"""A path ends at a backslash, so a text full of escaped line breaks is not read again and again."""
_PLACE: Final = _QUOTED + rb"(?:" + _NUMBER + rb"|" + _PATH + rb"|" + _CONTINUED + rb")"
_FOUND: Final = rb"(?:[^\s\\:]{1,300}+:)?[0-9]{1,8}+: ?|[^\n\r\\]{1,300}?(?::[0-9]{1,8}:|-[0-9]{1,8}-) "
"""Before a line that a search has found: also as `grep -n` prints it, and with a path that contains blanks."""
_ANY_PLACE: Final = _QUOTED + rb"(?:" + _NUMBER + rb"|" + _FOUND + rb"|" + _CONTINUED + rb")"
_SEARCHED: Final = re.compile(rb"[:-][0-9]{1,8}[:-] |(?:\n|\\n)[ >+-]{0,16}+(?:[^\s\\:]{1,300}+:)?[0-9]{1,8}+:")
"""There are no marks of a search in a text without this."""
_MARKED: Final = tuple(re.compile(start + rb"(?:" + _SIGN + rb"|" + _NUMBERED + rb")") for start in (rb"\n", rb"\\n"))
_MARK_BYTES: Final = 400


class Marks:
    """The marks of lines that one reading removes.

    Args:
        marks: the pattern of all marks of a line. It is compiled when it is needed first.
    """

    def __init__(self, marks: bytes) -> None:
        self._marks = marks

    @cached_property
    def patterns(self) -> Sequence[tuple[bytes, re.Pattern[bytes]]]:
        """Line breaks with the pattern of each, whose group 1 is the marks.

        They begin with literal bytes, which `re` finds many times faster than a place by what is before it.
        """
        return [(start, re.compile(re.escape(start) + rb"(" + self._marks + rb")")) for start in _LINE_STARTS]

    def removed_from(self, data: bytes) -> bytes:
        """Return the bytes without the marks."""
        for start, pattern in self.patterns:
            if start in data:
                data = pattern.sub(start.replace(b"\\", b"\\\\"), data)
        return data


def _any_signs(place: bytes) -> bytes:
    return rb"(?:" + place + rb"|" + _SIGN + rb"){1,4}+"


def _signs(place: bytes, most: int) -> bytes:
    """Return the pattern of marks with up to so many signs."""
    places = rb"(?:" + place + rb"){1,3}+"
    signs = rb"(?:" + _SIGN + rb"(?:" + place + rb"){0,2}+){%d,%d}+"
    return rb"(?:" + signs % (1, most) + rb"|" + places + signs % (0, most) + rb")" if most else places


ANY_MARKS: Final = Marks(_any_signs(_ANY_PLACE))
_MARKS: Final = (ANY_MARKS, Marks(_signs(_ANY_PLACE, 0)), *(Marks(_signs(_PLACE, most)) for most in (0, 1, 2)))
"""What is before a line of a view, a search, changes or a continued line; several if a view shows changes.

First with any signs of changes, then with none, one or two, because a line of a secret may begin with such a sign, or
with a number and a colon.
"""
_SIMPLE_MARKS: Final = (Marks(_any_signs(_NUMBERED)), *(Marks(_signs(_NUMBERED, most)) for most in (0, 1, 2)))
"""The same for a text without the marks of a search, which take the most time."""
UNFINISHED_MARK: Final = re.compile(
    rb"(?:(?<=\n)|(?<=\\n))(?:" + _ANY_PLACE + rb"|" + _SIGN + rb"){0,4}+" + _QUOTED + rb"\S{0,320}\Z"
)
"""The beginning of a mark, or of a line, at the end of a text that goes on."""


def fold(data: bytes) -> bytes:
    """Fold the bytes. Two slices of a text that fold to the same bytes spell the same value."""
    for _ in range(LEVELS):
        data = before = _without_gaps(data)
        if has_units(data):
            data = _UNITS.sub(lambda unit: undone(unit[0]), data)
        elif not has_sequences(data):
            break
        if data == before:
            break
    return _without_gaps(data)


def has_marks(data: bytes) -> bool:
    """Return whether a line may begin with a mark; `data` has no colours."""
    return any(pattern.search(data) for pattern in _MARKED) or _SEARCHED.search(data) is not None


def marks_in(data: bytes) -> Sequence[Marks]:
    """Return the marks that the lines of a text may have, for one reading each; `data` has no colours."""
    return _MARKS if _SEARCHED.search(data) else _SIMPLE_MARKS


def unmarked(data: bytes) -> Iterator[tuple[Marks, bytes]]:
    """Yield the marks of lines that there may be, and the bytes without them; `data` has no colours."""
    last = data
    for marks in marks_in(data):
        found = marks.removed_from(data)
        if found not in (data, last):
            yield marks, found
        last = found


def without_colours(data: bytes) -> bytes:
    """Return the bytes without colours, which may be before a mark or between a mark and the line."""
    return _COLOUR.sub(b"", data) if has_sequences(data) else data


def has_sequences(data: bytes) -> bool:
    """Return whether there may be a terminal sequence."""
    return b"\x1b" in data or b"\xc2\x9b" in data


def has_gaps(data: bytes) -> bool:
    """Return whether there may be a gap of more than white space and quotation marks."""
    return b"\\" in data or b">" in data or b"\xe2\x80" in data or b"\xc2\x85" in data


def has_units(data: bytes) -> bool:
    """Return whether there may be an escape."""
    return b"%" in data or b"\\" in data or b"&" in data


def _without_gaps(data: bytes) -> bytes:
    if NUL in data:
        data = data.translate(None, NUL)
    if has_sequences(data):
        data = b"".join([*map(_apart, SEQUENCE.findall(data)), SEQUENCE.sub(b"", data)])
    if has_gaps(data):
        data = GAP.sub(b"", data)
    return data.translate(None, NOISE)


def _has_meaning(between: bytes) -> bool:
    """Return whether bytes that folding removes are more than quoting, line breaks and colours.

    A sequence for terminals may contain a text, which a shell runs.
    """
    for _ in range(LEVELS):
        before = between
        between = GAP.sub(b"", _COLOUR.sub(b"", between.translate(None, NUL))).translate(None, NOISE)
        between = _UNITS.sub(lambda unit: undone(unit[0]), between)
        if between == before:
            break
    return bool(between)


def _apart(text: bytes) -> bytes:
    return text and text + APART


@lru_cache(maxsize=4_096)
def undone(spelled: bytes) -> bytes:
    """Decode an escape or a run of backslashes."""
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


# --- where each byte comes from ---------------------------------------------------------------------------------------
#
# Slower than `fold`, and made only after a match, or for the end of a text that goes on. Each step keeps what it needs
# to go back, so a position is followed down through all steps.

_BLOCK: Final = 4_096
_KEPT: Final = {dropped: bytes(byte not in dropped for byte in range(256)) for dropped in (NOISE, NUL)}


class Step(Protocol):
    """The bytes after a step, and where each of them was before the step."""

    @property
    def data(self) -> bytes: ...
    def start(self, position: int, /) -> int: ...
    def end(self, position: int, /) -> int: ...


class Reading(NamedTuple):
    """Folded bytes with the steps that lead to them from the original.

    From position `unfinished` of the original on, a next piece may change the reading; it is the length if none may.
    """

    data: bytes
    original: bytes
    steps: Sequence[Step]
    unfinished: int

    def start(self, position: int) -> int:
        """Return where a byte, or the escape that spells it, begins in the original."""
        for step in reversed(self.steps):
            position = step.start(position)
        return position

    def end(self, position: int) -> int:
        """Return where the byte before a position ends in the original."""
        for step in reversed(self.steps):
            position = step.end(position)
        return position

    def parts(self, start: int, end: int) -> Iterator[Span]:
        """Yield where some of the bytes are in the original, without what stands between them and has a meaning."""
        first, last = self.start(start), self.end(end)
        if last - first > end - start:
            for position in range(start + 1, end):
                left, right = self.end(position), self.start(position)
                if right > left and _has_meaning(self.original[left:right]):
                    yield first, left
                    first = right
        yield first, last

    @property
    def is_edited(self) -> bool:
        """Whether more than white space was undone."""
        return any(isinstance(step, Edited) for step in self.steps)

    def start_of_lead(self, position: int, lead: bytes) -> int | None:
        """Return where `lead` begins in the original, if it is right before a byte and a step swallowed it."""
        for number in range(len(self.steps) - 1, -1, -1):
            position, below = self.steps[number].start(position), self._below(number)
            if below.data.endswith(lead, 0, position):
                return below.start(position - len(lead))
        return None

    def end_of_tail(self, position: int, tail: bytes) -> int | None:
        """Return where `tail` ends in the original, if it is right after a byte and a step swallowed it."""
        for number in range(len(self.steps) - 1, -1, -1):
            position, below = self.steps[number].end(position), self._below(number)
            if below.data.startswith(tail, position):
                return below.end(position + len(tail))
        return None

    def _below(self, number: int) -> Reading:
        """Return the reading before a step."""
        return read_in(self.original, self.steps[:number])


def reading(data: bytes, *, is_open: bool = False, marks: Marks | None = None) -> Reading:
    """Return `fold(data)` with the origin of each byte, which takes longer.

    Args:
        is_open: more follows, so an end that may still change is left out.
        marks: those that are removed from the lines first, after the colours; None for nothing.
    """
    reader = _Reader(data, is_open)
    if marks is not None:
        reader.remove_marks(marks)
    for _ in range(LEVELS):
        reader.close_gaps()
        before = reader.now
        reader.add(_edited(before, UNIT))
        if reader.now == before and not has_sequences(before):
            break
    reader.close_gaps()
    return read_in(data, reader.steps, reader.unfinished)


class _Reader:
    """Makes the steps; `now` are the bytes after them."""

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

    def remove_marks(self, marks: Marks) -> None:
        """Make the steps that remove colours and the marks of lines."""
        self._leave_out(UNFINISHED_SEQUENCE)
        if has_sequences(self.now):
            self.add(_edited(self.now, _COLOUR))
        if self._is_open and (end := UNFINISHED_MARK.search(self.now, max(0, len(self.now) - _MARK_BYTES))):
            self.add(Edited(self.now[: end.start()], [0], [0]))
        for start, pattern in marks.patterns:
            if start in self.now:
                self.add(_edited(self.now, pattern, group=1))

    def close_gaps(self) -> None:
        """Make the steps up to the escapes."""
        if NUL in self.now:
            self.add(Kept(self.now, NUL))
        self._leave_out(UNFINISHED_SEQUENCE)
        self.add(_edited(self.now, SEQUENCE))
        # Backslashes that begin a gap are removed, and the text continues behind it. The last one shows which they are.
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
    """Return the reading after some steps; without any, the bytes themselves."""
    return Reading(steps[-1].data if steps else data, data, steps, len(data) if unfinished < 0 else unfinished)


class Kept:
    """The step that removes some bytes."""

    def __init__(self, before: bytes, dropped: bytes) -> None:
        self.data = before.translate(None, dropped)
        self._before = before
        self._dropped = dropped
        self._blocks: dict[int, list[int]] = {}

    @cached_property
    def _counts(self) -> list[int]:
        """How many bytes are left before each block."""
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
    """The step that replaces some ranges.

    Unchanged and replaced ranges alternate, an unchanged one first. `starts` are their positions in `data`, `places`
    those before the step.
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


def _edited(data: bytes, pattern: re.Pattern[bytes], group: int = 0) -> Edited:
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
        start = found.start(group)
        add(data[last:start], start)
        if pattern is UNIT and found[1]:  # backslashes before the last one stand for nothing
            start = found.end(1) - 1
            add(b"", start)
            add(b"", start)
        add(undone(found[0]) if pattern is UNIT else b"", found.end())
        last = found.end()
    return Edited(b"".join([*parts, data[last:]]), starts, places)
