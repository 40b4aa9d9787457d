"""The lines of a text that is too large to be held: each is read from its page when somebody asks for it.

Owns which pages are held decoded, and how lines are found in them. Must not know where a page comes from, nor whether
that is recorded. A line that fills pages is never put together: what is asked for of it is its length, and parts of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, overload

from .page import page_path
from .page_index import PageIndex
from .revision import Revision

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
