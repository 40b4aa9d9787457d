"""A page of a text that is read page by page: what stands for it where looks are recorded by path, and its revision.

It has its place in the file and its digest in its name, so what a look at it brings is that page or a reason why not,
whoever answers: the disk, or a record. Pure. Used by `paged_lines`, which asks for pages, and by those who answer.
"""

from __future__ import annotations

import codecs
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, overload

import msgspec
import xxhash

from ..core.encodings import Encoding, LineEnds, expected, instead_of, line_ends_of
from .revision import Revision, digest_of

_BETWEEN: Final = "/../"
_PLACE: Final = re.compile(r"([0-9]{1,15})\+([0-9]{1,6}):([0-9a-f]{16})")
"""No page has a million bytes."""


class PagePlace(NamedTuple):
    """`size` bytes from `start` on of the file at an absolute path, and the xxh3 hex of them."""

    path: str
    start: int
    size: int
    digest: str


def page_path(path: str, start: int, size: int, digest: int) -> str:
    """What stands for a page of the file at `path`; no path that was normalized has two dots alone."""
    return f"{path}{_BETWEEN}{start}+{size}:{digest:016x}"


def is_page(path: str) -> bool:
    """Whether it stands for a page."""
    return _BETWEEN in path


def page_place(path: str) -> PagePlace:
    """The page that it stands for. Raises ValueError where it stands for none."""
    file, _, place = path.partition(_BETWEEN)
    found = _PLACE.fullmatch(place)
    if found is None:
        raise ValueError(f"no place of a page: {place!r}")
    return PagePlace(file, int(found[1]), int(found[2]), found[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRevision(Revision):
    """The revision of a page: its bytes, because a page by itself is no text that anybody sees."""

    page: bytes = b""


def page_revision(path: str, data: bytes) -> PageRevision | None:
    """The revision of the page that `path` stands for; None where it stands for none, or these bytes are another."""
    found = _PLACE.fullmatch(path.partition(_BETWEEN)[2])
    digest = digest_of(data)
    if found is None or found[3] != digest:
        return None
    return PageRevision(state="paged", digest=digest, size=len(data), page=data)


# page index:
# Where the lines of a large text are: its pages, of 64 KiB at most, each with its place, its lines and its digest.
#
# The file is streamed once, in pieces of a page, and no more of it is held than this index: 16 bytes for each KiB.
# Pure but for the function that reads. Made by `disk`, asked by `paged_lines`, kept on the log in packed form.
#
# A page ends behind its last newline. So a line begins in the page in which it ends, or it begins at the start of a
# page and fills that: only such a line, which is longer than a page, is cut. It is cut between characters, and never
# between a carriage return and a newline. Each page can therefore be decoded by itself, is valid if the whole text
# is, and the characters and newlines of pages add up to those of the text.
#
# The digest of a page is compared whenever it is read again, so what is shown of a file that changes meanwhile is
# what it held when it was indexed, or nothing. That is more than time stamps could promise, which some file systems
# are late to set; and it lets pages be read of a file to which somebody only appends.

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


# paged lines:
# The lines of a text that is too large to be held: each is read from its page when somebody asks for it.
#
# Owns which pages are held decoded, and how lines are found in them. Must not know where a page comes from, nor
# whether that is recorded. A line that fills pages is never put together: what is asked for of it is its length, and
# parts of it.

ReadPage = Callable[[str, str], bytes]
"""The page that a path stands for (see `page`); the second text names it. Raises PageLostError."""
_HELD: Final = 8
"""Pages that are held decoded."""
_LONGEST: Final = 1 << 20
"""Characters of a line that is given in one piece."""


class PageLostError(ValueError):
    """A page is not to be had any more, or not at present. Its text is a sentence that says so, in brackets."""


class Point(NamedTuple):
    """A line, counted from 0, and a column in it."""

    line: int
    column: int


class PagedLines(Sequence[str]):
    """The lines as `Revision.lines` has them, of the file at `path`, an absolute one, which sentences call `title`."""

    __slots__ = ("_held", "_path", "_read", "_title", "pages")

    def __init__(self, index: PageIndex, path: str, title: str, read: ReadPage) -> None:
        self.pages = index
        self._path = path
        self._title = title
        self._read = read
        self._held: dict[int, list[str]] = {}

    def __len__(self) -> int:
        return self.pages.line_count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Raises PageLostError; and ValueError for a line that is longer than anybody may want in one piece."""
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        line = range(len(self))[index]
        first, last = self.pages.pages_of(line)
        if first == last:
            return self._lines(first)[line - self.pages.lines[first]]
        if self.length(line) > _LONGEST:
            raise ValueError(f"line {line + 1} has {self.length(line):,} characters; it is shown in parts")
        return "".join(self._lines(page)[0] for page in range(first, last + 1))

    def length(self, line: int) -> int:
        """Characters of the line. Raises PageLostError."""
        first, last = self.pages.pages_of(line)
        if first == last:
            return len(self[line])
        return self.pages.chars[last] - self.pages.chars[first] + len(self._lines(last)[0])

    def part(self, line: int, start: int, size: int) -> str:
        """Up to `size` characters of the line from `start` on. Raises PageLostError."""
        first, last = self.pages.pages_of(line)
        if first == last:
            return self[line][start : start + size]
        chars = self.pages.chars
        begin = chars[first] + start
        pages = range(min(self.pages.page_at(begin), last), min(self.pages.page_at(begin + size), last) + 1)
        text = "".join(self._lines(page)[0] for page in pages)
        return text[begin - chars[pages[0]] :][:size]

    def point(self, char: int) -> Point:
        """Where the character is that has so many before it; beyond the end the last line's end. Raises PageLostError.

        The newline counts as a character of the line that it ends.
        """
        page = self.pages.page_at(char)
        line, column = self.pages.lines[page], char - self.pages.chars[page]
        for text in self._lines(page):
            if column <= len(text):
                break
            line, column = line + 1, column - len(text) - 1
        else:
            line, column = line - 1, len(self._lines(page)[-1])
        first, _ = self.pages.pages_of(line)
        if first < page and line == self.pages.lines[page]:
            column += self.pages.chars[page] - self.pages.chars[first]
        return Point(line, column)

    def _lines(self, page: int) -> list[str]:
        """The lines of a page, and parts of lines."""
        lines = self._held.pop(page, None)
        if lines is None:
            lines = self._decoded(page)
            # In one step each, because threads may look at a view, too.
            for old in list(self._held)[: 1 - _HELD]:
                self._held.pop(old, None)
        self._held[page] = lines
        return lines

    def _decoded(self, page: int) -> list[str]:
        index = self.pages
        start, end = index.starts[page], index.starts[page + 1]
        before, after = index.lines[page], index.lines[page + 1]
        number = max(after - before, 1)
        title = f"line {before + 1:,}" if number == 1 else f"lines {before + 1:,} to {after:,}"
        data = self._read(page_path(self._path, start, end - start, index.digests[page]), f"{title} of {self._title}")
        lines = data.decode(index.codec, "replace").split("\n")
        if not lines[-1]:
            lines.pop()
        if len(lines) != number:
            raise PageLostError(f"({title} of {self._title} cannot be told; Refresh() reads the file anew)")
        return lines


def paged_revision(digest: str, size: int, lines: PagedLines) -> Revision:
    """The revision of a text of `size` bytes with these lines."""
    index = lines.pages
    return Revision(
        state="paged",
        lines=lines,
        digest=digest,
        size=size,
        encoding=index.encoding,
        line_ends=index.line_ends,
        final_newline=index.final_newline,
    )
