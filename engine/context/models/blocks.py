"""Finds the statement that a model writes in its text: `<script type="text/x-python">`, a cell, `</script>`.

A text comes in pieces of any size, and what is found never depends on where they were cut. Two readers follow each
other, `prose.Prose` before the block and one of the cell inside of it. Each decides about a character as soon as no
continuation of the text can change the decision, and keeps what is not decided: inside of a block the last
`_LOOKAHEAD` characters, because no mark that counts there is longer. What is kept is bounded and everything else is
read once, so the time is linear in the text.

What closes a block is the first `</script>` that is in no string of the cell, because cells write HTML. Where the
quotes of a cell do not match and all of the rest is a string, it is the first `</script>` at all. A block without an
end is no block: it is text, because nobody can tell half of a cell from all of it.

Pure. Must not know what a statement is. Called by `written_replies`.
"""

from __future__ import annotations

import re
from typing import Final

from .prose import Prose

_LOOKAHEAD: Final = 32
_CLOSING: Final = r"</script\s{0,16}>"
_CLOSE: Final = re.compile(_CLOSING, re.IGNORECASE)
_ESCAPE: Final = r"\\(?:\r\n|.)"
_MARKS: Final = {
    "": re.compile(rf"{_CLOSING}|#|\"\"\"|'''|\"|'", re.IGNORECASE),
    "#": re.compile(rf"{_CLOSING}|\n", re.IGNORECASE),
    **{quote: re.compile(rf"{_ESCAPE}|{quote}|\n", re.DOTALL) for quote in "\"'"},
    **{quote: re.compile(rf"{_ESCAPE}|{quote}", re.DOTALL) for quote in ('"""', "'''")},
}
"""What counts where: in code, in a comment, and in a string of each quote."""
_FIRST_LINE: Final = re.compile(r"\A[ \t]*\r?\n")


class BlockReader:
    """Reads one text in pieces. `source` is the cell of its first block, None as long as there is none that is closed.

    `has_rest`: something besides space followed that block.
    """

    def __init__(self) -> None:
        self.source: str | None = None
        self.has_rest = False
        self._prose = Prose()
        self._cell: _Cell | None = None

    @property
    def is_open(self) -> bool:
        """Whether a block has begun that is not closed."""
        return self._cell is not None and self.source is None

    def read(self, piece: str) -> str:
        """Takes the next piece; returns the text that is known to stand before any block."""
        if self._cell is not None:
            self._read_cell(piece)
            return ""
        text, rest = self._prose.read(piece)
        if rest is not None:
            self._cell = _Cell()
            self._read_cell(rest)
        return text

    def interrupt(self) -> str:
        """Something else comes between two pieces: no tag reaches across it; returns what may have begun one."""
        return "" if self._cell is not None else self._prose.read("", is_end=True)[0]

    def end(self) -> str:
        """There are no more pieces; returns the text that was kept back and belongs to no block."""
        if self._cell is None:
            return self.interrupt()
        if self.source is None:
            self._read_cell("", is_end=True)
        return self._prose.tag + self._cell.text if self.source is None else ""

    def _read_cell(self, piece: str, *, is_end: bool = False) -> None:
        assert self._cell is not None
        if self.source is None:
            after = self._cell.read(piece, is_end=is_end)
            if after is None:
                return
            self.source, piece = _FIRST_LINE.sub("", self._cell.text, count=1), after
        self.has_rest = self.has_rest or not (piece == "" or piece.isspace())


class _Cell:
    """The inside of a block: Python, of which only comments and strings are told from the rest."""

    def __init__(self) -> None:
        self._within = ""
        self._read: list[str] = []
        self._kept = ""

    @property
    def text(self) -> str:
        """What was read of it so far."""
        return "".join(self._read) + self._kept

    def read(self, piece: str, *, is_end: bool = False) -> str | None:
        """What follows the block in this piece, or None where it is not closed."""
        text, at = self._kept + piece, 0
        # A mark that begins before this is there as a whole, and nothing after it says that it is another one.
        decided = len(text) if is_end else max(len(text) - _LOOKAHEAD, 0)
        while (mark := _MARKS[self._within].search(text, at)) is not None and mark.start() < decided:
            at = mark.end()
            if mark[0].startswith("<"):
                return self._close(text[: mark.start()], text[at:])
            self._within = self._after(mark[0])
        at = max(at, decided)
        self._read.append(text[:at])
        self._kept = text[at:]
        return self._first_close() if is_end else None

    def _after(self, mark: str) -> str:
        if self._within:
            return "" if mark in (self._within, "\n") else self._within
        return mark

    def _close(self, last: str, after: str) -> str:
        self._read.append(last)
        self._kept = ""
        return after

    def _first_close(self) -> str | None:
        text = self.text
        found = _CLOSE.search(text)
        if found is None:
            return None
        self._read.clear()
        return self._close(text[: found.start()], text[found.end() :])
