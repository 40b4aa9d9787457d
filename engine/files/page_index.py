"""Where the lines of a large text are: its pages, of 64 KiB at most, each with its place, its lines and its digest.

The file is streamed once, in pieces of a page, and no more of it is held than this index: 16 bytes for each KiB. Pure
but for the function that reads. Made by `disk`, asked by `paged_lines`, kept on the log in packed form.

A page ends behind its last newline. So a line begins in the page in which it ends, or it begins at the start of a page
and fills that: only such a line, which is longer than a page, is cut. It is cut between characters, and never between a
carriage return and a newline. Each page can therefore be decoded by itself, is valid if the whole text is, and the
characters and newlines of pages add up to those of the text.

The digest of a page is compared whenever it is read again, so what is shown of a file that changes meanwhile is what it
held when it was indexed, or nothing. That is more than time stamps could promise, which some file systems are late to
set; and it lets pages be read of a file to which somebody only appends.
"""

from __future__ import annotations

import codecs
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import msgspec
import xxhash

from ..core.encodings import Encoding, LineEnds, expected, instead_of, line_ends_of

PAGE: Final = 64 << 10
"""Bytes of a page, at most."""
Read = Callable[[int, int], bytes]
"""The bytes at an offset, fewer than asked for only at the end of the file."""
_BEGINNING: Final = 8 << 10
"""Bytes that are looked at for the encoding."""
_NUMBERS: Final = "Q"
_DECODERS: Final[dict[str, Callable[[bytes, str, bool], tuple[str, int]]]] = {
    "utf-8": codecs.utf_8_decode,
    "utf-16-le": codecs.utf_16_le_decode,
    "utf-16-be": codecs.utf_16_be_decode,
    "latin-1": lambda data, errors, _: codecs.latin_1_decode(data, errors),
}


@dataclass(frozen=True, slots=True, eq=False)
class PageIndex:
    """The pages of one text. `starts`, `lines` and `chars` have one entry more than there are pages.

    Of page i they say at which byte it starts, and how many newlines and characters are before it.
    """

    codec: str
    encoding: str
    line_ends: LineEnds
    final_newline: bool
    starts: array[int]
    lines: array[int]
    chars: array[int]
    digests: array[int]

    @property
    def number(self) -> int:
        """How many pages there are."""
        return len(self.digests)

    @property
    def line_count(self) -> int:
        return self.lines[-1] + (not self.final_newline)

    def pages_of(self, line: int) -> tuple[int, int]:
        """The first and the last page with a part of a line that there is, counted from 0."""
        first = bisect_left(self.lines, line, 0, self.number)
        if first == self.number or self.lines[first] > line:
            return first - 1, first - 1
        return first, bisect_right(self.lines, line, first, self.number) - 1

    def page_at(self, char: int) -> int:
        """The page with the character that has so many before it; the last one for what is beyond."""
        return bisect_right(self.chars, char, 0, self.number) - 1

    def common(self, other: PageIndex) -> int:
        """How many pages both begin with."""
        pairs = zip(self.starts, self.digests, other.starts, other.digests, strict=False)
        return next((n for n, (s, d, t, e) in enumerate(pairs) if (s, d) != (t, e)), min(self.number, other.number))

    def packed(self) -> bytes:
        """All of it as the log keeps it: about 12 bytes for each page."""
        return msgspec.msgpack.encode(
            _Packed(
                self.codec,
                self.encoding,
                self.line_ends,
                self.final_newline,
                [self.starts[0], *_steps(self.starts)],
                _steps(self.lines),
                _steps(self.chars),
                list(self.digests),
            )
        )


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    codec: str
    encoding: str
    line_ends: LineEnds
    final_newline: bool
    sizes: list[int]
    lines: list[int]
    chars: list[int]
    digests: list[int]


def unpacked(data: bytes) -> PageIndex:
    """What was packed. Raises ValueError for anything else."""
    try:
        packed = msgspec.msgpack.decode(data, type=_Packed)
        sizes, lines, chars = packed.sizes, [0, *packed.lines], [0, *packed.chars]
        if packed.codec not in _DECODERS or {len(sizes), len(lines), len(chars)} != {len(packed.digests) + 1}:
            raise ValueError("it is incomplete")
        if not all(0 <= n <= size <= PAGE for parts in (lines, chars) for n, size in zip(parts, sizes, strict=True)):
            raise ValueError("a page cannot be so")
        return PageIndex(
            codec=packed.codec,
            encoding=packed.encoding,
            line_ends=packed.line_ends,
            final_newline=packed.final_newline,
            starts=array(_NUMBERS, accumulate(sizes)),
            lines=array(_NUMBERS, accumulate(lines)),
            chars=array(_NUMBERS, accumulate(chars)),
            digests=array(_NUMBERS, packed.digests),
        )
    except (msgspec.DecodeError, OverflowError, ValueError) as error:
        raise ValueError(f"no index of pages: {error}") from None


def _steps(sums: Iterable[int]) -> list[int]:
    return [after - before for before, after in pairwise(sums)]


class Scanned(NamedTuple):
    """What streaming a file came to. `pages` are None where it is binary; `digest` is the xxh3 of its `size` bytes."""

    pages: PageIndex | None
    digest: str
    size: int
    beginning: bytes


def scan(read: Read, size: int, page: int = PAGE) -> Scanned:
    """Streams the first `size` bytes of a file, or as many as there are.

    What is appended meanwhile is left for the next time. May be interrupted at any point, and holds nothing then. An
    encoding that turns out to be another one than it seemed costs another pass.
    """
    beginning = read(0, min(_BEGINNING, size))
    encoding = expected(beginning)
    while encoding is not None:
        try:
            return _paged(read, size, page, encoding, beginning)
        except UnicodeDecodeError:
            encoding = instead_of(encoding, beginning)
    return _hashed(read, size, page, beginning)


def _hashed(read: Read, size: int, page: int, beginning: bytes) -> Scanned:
    digest = xxhash.xxh3_64()
    offset = 0
    while offset < size and (data := read(offset, min(page, size - offset))):
        digest.update(data)
        offset += len(data)
    return Scanned(None, digest.hexdigest(), offset, beginning)


def _paged(read: Read, size: int, page: int, encoding: Encoding, beginning: bytes) -> Scanned:
    """Raises UnicodeDecodeError where the file is in another encoding."""
    digest = xxhash.xxh3_64(encoding.mark)
    offset = len(encoding.mark)
    pairs, is_ended = 0, True
    starts, lines, chars, digests = (array(_NUMBERS, numbers) for numbers in ([offset], [0], [0], []))
    cut = _Cut(encoding)
    while offset < size and (data := read(offset, min(page, size - offset))):
        part = cut(data, is_last=len(data) < page or offset + len(data) >= size)
        digest.update(part.data)
        digests.append(xxhash.xxh3_64_intdigest(part.data))
        offset += len(part.data)
        pairs, is_ended = pairs + part.pairs, part.is_ended
        starts.append(offset)
        lines.append(lines[-1] + part.newlines)
        chars.append(chars[-1] + part.chars)
    ends = line_ends_of(lines[-1], pairs)
    index = PageIndex(encoding.codec, encoding.name, ends, is_ended, starts, lines, chars, digests)
    return Scanned(index, digest.hexdigest(), offset, beginning)


class _Part(NamedTuple):
    """A page: its bytes, and what is in them. `is_ended`: the last byte belongs to a newline."""

    data: bytes
    newlines: int
    pairs: int
    chars: int
    is_ended: bool


class _Cut:
    """Cuts what was read in one encoding into a page and what is left for the next."""

    __slots__ = ("_decode", "_is_wide", "_newline")

    def __init__(self, encoding: Encoding) -> None:
        self._decode = _DECODERS[encoding.codec]
        self._newline = "\n".encode(encoding.codec)
        self._is_wide = len(self._newline) > 1

    def __call__(self, data: bytes, *, is_last: bool) -> _Part:
        """The page that `data` begins with; never empty. Raises UnicodeDecodeError where it is in another encoding."""
        end = self._after_last_newline(data)
        if end:
            data = data[:end]
            if data.isascii() and not self._is_wide:
                pairs = data.count(b"\r\n") if b"\r" in data else 0
                return _Part(data, data.count(b"\n"), pairs, len(data), True)
            text, _ = self._decode(data, "strict", True)
            return _Part(data, text.count("\n"), text.count("\r\n"), len(text), True)
        text, size = self._decode(data, "strict", is_last)
        if not is_last and len(text) > 1 and text.endswith("\r"):
            text, size = text[:-1], size - len(self._newline)
        return _Part(data[:size], 0, 0, len(text), False)

    def _after_last_newline(self, data: bytes) -> int:
        """Where the last newline ends; 0 where there is none."""
        width = len(self._newline)
        at = data.rfind(self._newline)
        while at > 0 and at % width:
            at = data.rfind(self._newline, 0, at + width - 1)  # because it was made of halves of two characters
        return at + width if at >= 0 else 0
