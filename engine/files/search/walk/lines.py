"""The lines of one file that match, as `files.search.output` reads them.

A file is read in blocks that end with a line, so that a large one takes no more memory than a block and its longest
line. Whether anything in a block can match is asked of the block as a whole first: a line that matches by itself also
matches where it stands, since `^`, `$` and the edge of a word mean the same beside a newline. Called by `search`.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

BLOCK: Final = 8 << 20
LONGEST: Final = 64 << 20
"""Characters of a line after which it is searched in parts, so that a line takes no more memory than that."""
_MARKS: Final = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be", b"\xef\xbb\xbf": "utf-8"}
"""What begins a text with a byte order mark, and its encoding; all others are UTF-8."""


class Searcher:
    """Finds one expression, which may be asked of many lines at once where `by_blocks`.

    `context` lines on either side of each match are printed with it, and of each line at most `longest` bytes.
    """

    def __init__(self, expression: Any, by_blocks: bool, context: int, longest: int) -> None:
        self._matches = expression.search
        self._by_blocks = by_blocks
        self._context = context
        self._longest = longest

    def search(self, file: BinaryIO) -> bytes:
        """What is to be printed; nothing of a file with a NUL, which is no text. Raises OSError."""
        found = _Printed(self._context, self._longest)
        first = 1
        for block in _blocks(file):
            if "\0" in block:
                return b""
            text = block.replace("\r\n", "\n")
            lines = text.count("\n")
            if found.expects_more or not self._by_blocks or self._matches(text):
                for number, line in enumerate(text.removesuffix("\n").split("\n"), first):
                    found.add(number, line, bool(self._matches(line)))
            elif self._context:
                last = text.removesuffix("\n").rsplit("\n", self._context)[-self._context :]
                for number, line in enumerate(last, first + lines + (not text.endswith("\n")) - len(last)):
                    found.add(number, line, matches=False)
            first += lines
        return b"".join(found.rows)


class _Printed:
    """The rows of a file: its matches and the lines beside them."""

    def __init__(self, context: int, longest: int) -> None:
        self.rows: list[bytes] = []
        self._context = context
        self._longest = longest
        self._before: deque[tuple[int, str]] = deque(maxlen=context)
        self._due = 0
        self._last = 0

    @property
    def expects_more(self) -> bool:
        """Whether the next line is printed even where it does not match."""
        return self._due > 0

    def add(self, number: int, line: str, matches: bool) -> None:
        if number == self._last:
            return  # a later part of a line
        if matches:
            for earlier, text in self._before:
                self._print(earlier, "-", text)
            self._before.clear()
            self._print(number, ":", line)
            self._due = self._context
        elif self._due:
            self._print(number, "-", line)
            self._due -= 1
        else:
            self._before.append((number, line))

    def _print(self, number: int, mark: str, line: str) -> None:
        if self._context and self._last and number > self._last + 1:
            self.rows.append(b"--\n")
        self._last = number
        # Cut in characters first, because a line may be all there is in a large file.
        text = line[: self._longest].encode("utf-8", "surrogateescape")
        self.rows.append(f"{number}{mark}".encode() + text + b"\n")


def _blocks(file: BinaryIO) -> Iterator[str]:
    """The text by pieces that end with a newline, but for the last and for parts of a line of more than `LONGEST`.

    Bytes that are no UTF-8 become surrogates. A piece with a NUL is the last one.
    """
    data = file.read(BLOCK)
    mark = next((mark for mark in _MARKS if data.startswith(mark)), b"")
    coding = _MARKS.get(mark, "utf-8")
    decoder = getincrementaldecoder(coding)("surrogateescape" if coding == "utf-8" else "replace")
    text = decoder.decode(data[len(mark) :])
    rest = ""
    while data:
        whole, newline, rest = (rest + text).rpartition("\n")
        if "\0" in text:
            yield "\0"
            return
        if newline:
            yield whole + newline
        if len(rest) > LONGEST:
            yield rest
            rest = ""
        data = file.read(BLOCK)
        text = decoder.decode(data)
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest
