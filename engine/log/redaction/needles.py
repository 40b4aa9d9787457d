"""The needles of a redactor: the forms of a secret value, and where they are in bytes.

Pure. Quoting, escapes and line breaks are undone by `spellings`, so no form knows of them. Called by `redactor`.

**Forms** are the bytes that stand for a value if no program has quoted, escaped or broken them. base64 works on groups
of three bytes, so a value looks different at each of the three places where it may begin in a group. The characters at
its ends that also depend on the neighbours belong to no form. And what is encoded was often text around the value:
UTF-16 (PowerShell), or JSON, which escapes some characters.

**Swallowed ends.** If the bytes before a value look like the beginning of an escape, the value's first bytes read as
the end of it (`100%` before `abc`); the same happens at its end. So each form is also searched without the bytes that
may be missing, and counts if these stand there literally.

**Cost.** A text without a secret costs one search for each form. Everything else happens only after a match.
"""

from __future__ import annotations

import json
import re
import unicodedata
from binascii import b2a_base64
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from html import escape
from string import ascii_letters, digits
from typing import Final, NamedTuple

from .spellings import ANY_MARKS, SEQUENCE, SWALLOWED, UNFINISHED_UNIT, Reading, Span

SHORTEST: Final = 8
"""The fewest bytes of a form. Shorter ones are too common in ordinary text."""
_CORE: Final = 4
"""The fewest bytes that are left of a form whose ends are swallowed."""
_LINE_BREAK: Final = re.compile(rb"[ \t\0]*(?:\\*[\r\n]|\\+[rn])[ \t\r\n\0>]*")
_BLANK: Final = re.compile(rb"[ \t]")
_BACKSLASHES: Final = re.compile(rb"\\+")
_QUOTES: Final = b" \t'\"`"
_FOLDED: Final = _QUOTES + b"\\"
_BLANKS: Final = b" \t\0\\"
LINE: Final = 16
"""The fewest characters of a line that is secret by itself."""
_ARMOUR: Final = "-----"
_TOKEN: Final = re.compile(rf"(?=\S*[A-Za-z])(?=\S*\d|\S*[a-z]\S*[A-Z]|\S*[A-Z]\S*[a-z])\S{{{LINE},}}")
_SPACE: Final = re.compile(r"\s")
_KINDS: Final = re.compile("[a-z]"), re.compile("[A-Z]"), re.compile(r"\d")
_END_SIGNS: Final = re.compile(r"\A[\W_]+|[\W_]+\Z")
_MOST_END_SIGNS: Final = 4
_ENCODINGS: Final = ("latin-1", "cp1252", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_LATIN_1: Final = 0xFF
_PLAIN_IN_URLS: Final = (ascii_letters + digits + "_.-~").encode()
_NESTED: Final = 3
_GROUP: Final = 3
_BITS: Final = 6


# --- forms ------------------------------------------------------------------------------------------------------------


def plain_forms(value: str) -> set[bytes]:
    """Return the value, and each of its lines that is secret by itself, in all encodings, also without its end signs.

    Also its quoted and escaped spellings, if folding leaves too few bytes to search for.
    """
    value = value.strip()
    texts = {value, *secret_lines(value)}
    forms = {data for text in texts | set(map(_without_end_signs, texts)) for data in _encoded(text)}
    return forms.union(_escaped(value)) if len(bytes_of(value).translate(None, _FOLDED)) < SHORTEST else forms


def _without_end_signs(value: str) -> str:
    """Return the value without signs at its ends, as titles are made of text: `==` ends many keys in base64."""
    bare = _END_SIGNS.sub("", value)
    return bare if len(value) - len(bare) <= _MOST_END_SIGNS else value


def secret_lines(value: str) -> Iterator[str]:
    """Yield the lines that are secret by themselves, because listings put numbers and indentation between lines.

    Such a line has LINE characters without a blank, of two kinds (letters and digits, or both cases). Words, JSON keys
    and the armour of PEM have not, and occur in other texts.
    """
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if _TOKEN.search(line) and not line.startswith(_ARMOUR))


def is_token(text: str) -> bool:
    """Return whether a text has LINE characters or more, no blank, and two kinds: letters and digits, or both cases."""
    if len(text) < LINE or _SPACE.search(text):
        return False
    lower, upper, digit = (pattern.search(text) is not None for pattern in _KINDS)
    return (lower and upper) or (digit and (lower or upper))


def encoded_forms(value: str) -> set[bytes]:
    """Return the whole value in base64, in hexadecimal digits, with `+` for blanks, and as an identifier.

    Blanks are so in web forms. The names of an MCP server's tools become identifiers (`core.toolbox.attribute`).
    """
    value = value.strip()
    data = bytes_of(value)
    inner = {
        data,
        *(json.dumps(value, ensure_ascii=bool(is_ascii))[1:-1].encode("utf-8", "replace") for is_ascii in (0, 1)),
    }
    # Without its last zero, text in UTF-16 is the same in both orders of bytes.
    inner |= {wide[:-1] if value.isascii() else wide for wide in _wide(value)}
    forms = {form for each in inner for form in _in_base64(each)}
    identifier = re.sub(r"\W+", "_", value).encode("utf-8", "replace")
    return forms | {data.hex().encode(), data.hex().upper().encode(), data.replace(b" ", b"+"), identifier}


def _escaped(value: str) -> Iterator[bytes]:
    """The value in URLs, in up to _NESTED levels of JSON, and as Python and HTML show it."""
    texts = [repr(value)[1:-1], ascii(value)[1:-1], escape(value), escape(value, quote=False)]
    for is_ascii in (True, False):
        inner = value
        for _ in range(_NESTED):
            inner = json.dumps(inner, ensure_ascii=is_ascii)[1:-1]
            texts.append(inner)
    yield from (text.encode("utf-8", "replace") for text in texts)
    for plain in (_PLAIN_IN_URLS, _PLAIN_IN_URLS + b"/"):
        for form in ("%%%02X", "%%%02x"):
            yield b"".join(bytes((each,)) if each in plain else (form % each).encode() for each in bytes_of(value))


def bytes_of(value: str) -> bytes:
    """Return a value as bytes, as in a file or the environment."""
    # A variable of the environment may contain bytes that are not UTF-8.
    with suppress(UnicodeEncodeError):
        return value.encode("utf-8", "surrogateescape")
    return value.encode("utf-8", "replace")


def _encoded(text: str) -> Iterator[bytes]:
    yield bytes_of(text)
    if text.isascii():
        return
    yield text.encode("utf-8", "surrogatepass")
    yield bytes_of(text).decode("utf-8", "replace").encode()
    yield _NOT_ASCII.sub("\N{REPLACEMENT CHARACTER}", text).encode()  # as Latin-1 reads if it is taken for UTF-8
    yield from (unicodedata.normalize(form, text).encode("utf-8", "surrogatepass") for form in ("NFC", "NFD"))
    # `ascii` and JavaScript escape characters of Latin-1 by their byte.
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


# --- searching --------------------------------------------------------------------------------------------------------


class Needle(NamedTuple):
    """A folded form without a `lead` and a `tail`, which must be there literally.

    `is_blank`: the text may contain blanks, because the form does, or because it is no words: letters and digits.
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
        """Yield the positions in the original of needle beginnings at the end of the reading."""
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
    """Forms, and the search for them in readings."""

    def __init__(self, forms: Iterable[bytes], read: Callable[[bytes], bytes] | None = None) -> None:
        """Search `forms` as `read` folds them, or literally, if they then have SHORTEST bytes."""
        read_forms = {(read(form) if read else form): form for form in sorted(forms)}
        whole = sorted((data for data in read_forms if len(data) >= SHORTEST), key=lambda data: (len(data), data))
        self._needles: list[Needle] = []
        cores: list[bytes] = []
        for data in whole:
            needles = [*_needles(read_forms[data], data, read)]
            self._needles += needles
            cores += _without_longer(sorted((needle.data for needle in needles), key=len))
        self._cores = _without_longer(sorted(cores, key=len))
        self._sizes = list(map(len, self._cores))
        self.longest = max(map(len, whole), default=0)

    def may_be_in(self, data: bytes) -> bool:
        """Return whether a form may be in folded bytes; cheap, so ask this first."""
        return any(map(data.__contains__, self._cores[: bisect_right(self._sizes, len(data))]))

    def found(self, reading: Reading) -> Iterator[Sequence[Span]]:
        """Yield where forms are in the original: the parts of each, in order."""
        is_edited = reading.is_edited
        for needle in self._needles:
            if is_edited or not needle.is_partial:
                start = reading.data.find(needle.data)
                while start >= 0:
                    yield from _matches(needle, reading, start, start + len(needle.data))
                    start = reading.data.find(needle.data, start + 1)

    def open_at(self, reading: Reading) -> int | None:
        """Return the first position in the original from which on the rest is an incomplete form."""
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


def _needles(form: bytes, data: bytes, read: Callable[[bytes], bytes] | None) -> Iterator[Needle]:
    is_blank = _BLANK.search(form) is not None or _TOKEN.fullmatch(data.decode("latin-1")) is not None
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


def _matches(needle: Needle, reading: Reading, start: int, end: int) -> Iterator[Sequence[Span]]:
    last = reading.end_of_tail(end, needle.tail) if needle.tail else reading.end(end)
    if last is not None:
        if needle.tail == b"\\" and (more := _BACKSLASHES.match(reading.original, last)):  # it is quoted
            last = more.end()
        for first in _starts(needle, reading, start, last):
            (_, left), *others = reading.parts(start, end)
            yield [(first, left), *others[:-1], (others[-1][0], last)] if others else [(first, last)]


def _starts(needle: Needle, reading: Reading, start: int, last: int | None = None) -> Iterator[int]:
    """Yield where in the original a needle begins that matches at a place of a reading; nothing if it is no match."""
    first = reading.start_of_lead(start, needle.lead) if needle.lead else reading.start(start)
    if first is None:
        return
    text = reading.original[first:last]
    # Text with blanks in between is something else: `state mentioned` is not `statement`.
    if (
        needle.is_blank
        or len(text) == len(needle.data)
        or not _BLANK.search(_LINE_BREAK.sub(b"", SEQUENCE.sub(b"", ANY_MARKS.removed_from(text)).rstrip(_BLANKS)))
    ):
        yield first


def _without_longer(cores: Sequence[bytes]) -> list[bytes]:
    """Return those that contain no other one, the shortest first. A text without these has none of them."""
    shortest: list[bytes] = []
    for core in cores:
        if not any(map(core.__contains__, shortest)):
            shortest.append(core)
    return shortest
