"""Large texts that are read by pages: the index, pages, and lines.

A file is streamed once, in pieces of a page, and only an index of it is kept (`PageIndex`): 16 bytes for each KiB.
`PagedLines` reads a page when a line is needed. Must not know who reads, nor whether that is recorded: a page has its
position and digest in its path (`page_path`), so a look at it returns that page or a reason, from the disk or a record.

A page ends after its last newline. So a line either begins in the page in which it ends, or it begins a page and fills
it: only a line longer than a page is split. It is split between characters, never between a carriage return and a
newline, and never in a word that may be a key (`core.text`), because each page is searched for keys alone. (A word as
long as a page is an exception.) So each page can be decoded alone, is valid if the whole text is, and the characters
and newlines of pages add up to those of the text.

Each page is compared with its digest when it is read again. So a view on a file that changes meanwhile shows the
indexed content or nothing. Time stamps could not promise that, because some file systems set them late; and pages can
still be read while a program appends to the file.
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
from ..core.text import without_last_word
from .revision import Hide, Revision, digest_of, lines_of

_BETWEEN: Final = "/../"
_PLACE: Final = re.compile(r"([0-9]{1,15})\+([0-9]{1,6}):([0-9a-f]{16})")
"""A page has less than a million bytes."""


class PagePlace(NamedTuple):
    """A page: `size` bytes from `start` of the file at an absolute path, and their xxh3 hex."""

    path: str
    start: int
    size: int
    digest: str


def page_path(path: str, start: int, size: int, digest: int) -> str:
    """Return the path under which looks at a page are recorded.

    No normalized path has two dots as a part, so it cannot be a file's.
    """
    return f"{path}{_BETWEEN}{start}+{size}:{digest:016x}"


def is_page(path: str) -> bool:
    """Return whether a path stands for a page."""
    return _BETWEEN in path


def page_place(path: str) -> PagePlace:
    """Parse the path of a page. Raises ValueError for another path."""
    file, _, place = path.partition(_BETWEEN)
    found = _PLACE.fullmatch(place)
    if found is None:
        raise ValueError(f"not a position on a page: {place!r}")
    return PagePlace(file, int(found[1]), int(found[2]), found[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRevision(Revision):
    """The revision of a page. It has bytes, because a page alone is not shown."""

    page: bytes = b""


def page_revision(path: str, data: bytes) -> PageRevision | None:
    """Make the revision of a page's path.

    Returns None for another path or other bytes.
    """
    found = _PLACE.fullmatch(path.partition(_BETWEEN)[2])
    digest = digest_of(data)
    if found is None or found[3] != digest:
        return None
    return PageRevision(state="paged", digest=digest, size=len(data), page=data)


# --- the index -------------------------------------------------------------------------------------------------------


PAGE: Final = 64 << 10
"""Largest page in bytes."""
Read = Callable[[int, int], bytes]
"""Returns the bytes at an offset; fewer than asked for only at the end of the file."""
_BEGINNING: Final = 8 << 10
"""Bytes that decide about the encoding."""
_NUMBERS: Final = "Q"
_DECODERS: Final[dict[str, Callable[[bytes, str, bool], tuple[str, int]]]] = {
    "utf-8": codecs.utf_8_decode,
    "utf-16-le": codecs.utf_16_le_decode,
    "utf-16-be": codecs.utf_16_be_decode,
    "latin-1": lambda data, errors, _: codecs.latin_1_decode(data, errors),
}


@dataclass(frozen=True, slots=True, eq=False)
class PageIndex:
    """The pages of a text.

    `starts`, `lines` and `chars` have one entry more than there are pages.

    Entry i is the byte at which page i starts, and the number of newlines and characters before it.
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
        """Number of pages."""
        return len(self.digests)

    @property
    def line_count(self) -> int:
        return self.lines[-1] + (not self.final_newline)

    def pages_of(self, line: int) -> tuple[int, int]:
        """Return the first and the last page with a part of a line, counted from 0."""
        first = bisect_left(self.lines, line, 0, self.number)
        if first == self.number or self.lines[first] > line:
            return first - 1, first - 1
        return first, bisect_right(self.lines, line, first, self.number) - 1

    def page_at(self, char: int) -> int:
        """Return the page with the character at an offset.

        The last page beyond the end.
        """
        return bisect_right(self.chars, char, 0, self.number) - 1

    def common(self, other: PageIndex) -> int:
        """Count the pages that both begin with."""
        pairs = zip(self.starts, self.digests, other.starts, other.digests, strict=False)
        return next((n for n, (s, d, t, e) in enumerate(pairs) if (s, d) != (t, e)), min(self.number, other.number))

    def packed(self) -> bytes:
        """Encode the index for the log: about 12 bytes for each page."""
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
    """Decode a packed index. Raises ValueError for anything else."""
    try:
        packed = msgspec.msgpack.decode(data, type=_Packed)
        sizes, lines, chars = packed.sizes, [0, *packed.lines], [0, *packed.chars]
        if packed.codec not in _DECODERS or {len(sizes), len(lines), len(chars)} != {len(packed.digests) + 1}:
            raise ValueError("it is incomplete")
        if not all(0 <= n <= size <= PAGE for parts in (lines, chars) for n, size in zip(parts, sizes, strict=True)):
            raise ValueError("a page has impossible sizes")
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
        raise ValueError(f"not an index of pages: {error}") from None


def _steps(sums: Iterable[int]) -> list[int]:
    return [after - before for before, after in pairwise(sums)]


class Scanned(NamedTuple):
    """The result of streaming a file.

    `pages` is None for binary content; `digest` is the xxh3 of `size` bytes.
    """

    pages: PageIndex | None
    digest: str
    size: int
    beginning: bytes


def scan(read: Read, size: int, page: int = PAGE) -> Scanned:
    """Stream the first `size` bytes of a file, or as many as there are.

    Bytes that are appended meanwhile are left for the next scan. May be interrupted at any point, and then keeps
    nothing. If the encoding differs from the first guess, there is another pass.
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
    """Index a file in this encoding.

    Raises UnicodeDecodeError if it is in another.
    """
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
    """A page and its counts. `is_ended`: the last byte belongs to a newline."""

    data: bytes
    newlines: int
    pairs: int
    chars: int
    is_ended: bool


class _Cut:
    """Splits data of one encoding into a page and the remainder."""

    __slots__ = ("_codec", "_decode", "_is_wide", "_newline")

    def __init__(self, encoding: Encoding) -> None:
        self._codec = encoding.codec
        self._decode = _DECODERS[encoding.codec]
        self._newline = "\n".encode(encoding.codec)
        self._is_wide = len(self._newline) > 1

    def __call__(self, data: bytes, *, is_last: bool) -> _Part:
        """Return the first page of `data`, never empty.

        Raises UnicodeDecodeError for another encoding.
        """
        end = self._after_last_newline(data)
        if end:
            data = data[:end]
            if data.isascii() and not self._is_wide:
                pairs = data.count(b"\r\n") if b"\r" in data else 0
                return _Part(data, data.count(b"\n"), pairs, len(data), True)
            text, _ = self._decode(data, "strict", True)
            return _Part(data, text.count("\n"), text.count("\r\n"), len(text), True)
        text, size = self._decode(data, "strict", is_last)
        kept = text if is_last else without_last_word(text).removesuffix("\r") or text
        if kept != text:
            text, size = kept, len(kept.encode(self._codec))
        return _Part(data[:size], 0, 0, len(text), False)

    def _after_last_newline(self, data: bytes) -> int:
        """Return the offset after the last newline; 0 without one."""
        width = len(self._newline)
        at = data.rfind(self._newline)
        while at > 0 and at % width:
            at = data.rfind(self._newline, 0, at + width - 1)  # because the match spans two characters
        return at + width if at >= 0 else 0


# --- lines -----------------------------------------------------------------------------------------------------------


ReadPage = Callable[[str, str], bytes]
"""Reads the page of a path; the second text names it in messages. Raises PageLostError."""
_HELD: Final = 8
"""Number of decoded pages in the cache."""
_LONGEST: Final = 1 << 20
"""Characters of the longest line that is returned in one piece."""


class PageLostError(ValueError):
    """Raised if a page cannot be read (now).

    The message is a sentence in brackets, to be shown.
    """


class Point(NamedTuple):
    """A line, counted from 0, and a column in it."""

    line: int
    column: int


class PagedLines(Sequence[str]):
    """The lines of the file at `path`, absolute, for `Revision.lines`.

    Messages call it `title`.

    A line that fills pages is never joined: callers ask for its length and parts of it. Secrets are hidden page by
    page; the length and offsets of such a line are those of the file.
    """

    __slots__ = ("_held", "_hide", "_path", "_read", "_title", "pages")

    def __init__(self, index: PageIndex, path: str, title: str, read: ReadPage, hide: Hide) -> None:
        self.pages = index
        self._path = path
        self._title = title
        self._read = read
        self._hide = hide
        self._held: dict[int, list[str]] = {}

    def __len__(self) -> int:
        return self.pages.line_count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Return a line.

        Raises PageLostError, and ValueError for a line that is too long.
        """
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
        """Return the characters of a line. Raises PageLostError."""
        first, last = self.pages.pages_of(line)
        if first == last:
            return len(self[line])
        return self.pages.chars[last] - self.pages.chars[first] + len(self._lines(last)[0])

    def part(self, line: int, start: int, size: int) -> str:
        """Return up to `size` characters of a line from `start` on.

        Raises PageLostError.
        """
        first, last = self.pages.pages_of(line)
        if first == last:
            return self[line][start : start + size]
        chars = self.pages.chars
        begin = chars[first] + start
        pages = range(min(self.pages.page_at(begin), last), min(self.pages.page_at(begin + size), last) + 1)
        text = "".join(self._lines(page)[0] for page in pages)
        return text[begin - chars[pages[0]] :][:size]

    def point(self, char: int) -> Point:
        """Return the position of the character at an offset.

        The end of the text beyond it.

        A newline counts as a character of its line. Raises PageLostError.
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
        """Return the lines, and parts of lines, of a page."""
        lines = self._held.pop(page, None)
        if lines is None:
            lines = self._decoded(page)
            # Atomic steps, because threads may read a view, too.
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
        lines = lines_of(data.decode(index.codec, "replace"), self._hide)
        if not lines[-1]:
            lines.pop()
        if len(lines) != number:
            raise PageLostError(f"({title} of {self._title} cannot be shown; Refresh() reads the file again)")
        return lines


def paged_revision(digest: str, size: int, lines: PagedLines) -> Revision:
    """Make the revision of a text of `size` bytes with these lines."""
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
