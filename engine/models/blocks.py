r"""Finds the statement that a model writes in its text: `<script type="text/x-python">`, a cell, `</script>`.

A text comes in pieces of any size, and what is found never depends on where they were cut. Two readers follow each
other, one before the block and one inside of it. Each decides about a character as soon as no continuation of
the text can change the decision, and keeps what is not decided: an end that may be the beginning of the tag (at most
`LONGEST_TAG` characters, and only as long as they can become one), or inside of a block the last `_LOOKAHEAD`
characters, because no mark that counts there is longer. What is kept is bounded and everything else is read once, so
the time is linear in the text.

What opens a block is the tag that HTML has: any case, quotes, spaces and further attributes. In a code span of its
line or in a fenced block of code it is quoted and opens nothing, and so is the tag of another type, or `&lt;script`.
Nor does anything in what a model thinks, where its server sends that as the beginning of the text, in `<think>`.
What closes a block is the first `</script>` that is in no string of the cell, because cells write HTML. Where the
quotes of a cell do not match and all of the rest is a string, it is the first `</script>` at all. A block without an
end is no block: it is text, because nobody can tell half of a cell from all of it.

Pure. Must not know what a statement is. Called by `written_replies`.
"""

from __future__ import annotations

import re
from typing import Final

from ..projection.written import MEDIA_TYPE

LONGEST_TAG: Final = 128
_LOOKAHEAD: Final = 32
_KEYWORD: Final = "<script"
_NAME: Final = r"[A-Za-z_:][\w:-]*"
_ATTRIBUTES: Final = rf"(?:\s+{_NAME}(?:\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'|[^\s\"'<>=`]+))?)*"
_TAG: Final = re.compile(rf"{_KEYWORD}{_ATTRIBUTES}\s*>", re.IGNORECASE)
_BEGUN: Final = re.compile(rf"{_KEYWORD}{_ATTRIBUTES}(?:\s*|\s+{_NAME}\s*=\s*(?:\"[^\"<]*|'[^'<]*)?)\Z", re.IGNORECASE)
"""What a tag begins with; shorter beginnings are those of the keyword."""
_VALUED: Final = re.compile(rf"\s({_NAME})\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'<>=`]+))")
_PROSE: Final = re.compile(r"(?P<line>\n)|(?P<space>[ \t\r]+)|(?P<run>`+|~+)|(?P<tag><)|(?P<word>[^\n`~<]+)")
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
_THINKS, _THOUGHT = "<think>", "</think>"
_FIRST_LINE: Final = re.compile(r"\A[ \t]*\r?\n")
_FENCE: Final = 3


class BlockReader:
    """Reads one text in pieces. `source` is the cell of its first block, None as long as there is none that is closed.

    `has_rest`: something besides space followed that block.
    """

    def __init__(self) -> None:
        self.source: str | None = None
        self.has_rest = False
        self._prose = _Prose()
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


class _Prose:
    """Text before a block, line by line: whether it is quoted as code depends on what its line holds before it.

    `_run` is a run of backticks or tildes that has not ended: its character, its length, whether it began its line.
    """

    def __init__(self) -> None:
        self.tag = ""
        """The tag that has opened the block."""
        self._kept = ""
        self._run: tuple[str, int, bool] | None = None
        self._fence: tuple[str, int] | None = None
        """The fence of the block of code that this line is in."""
        self._may_think = True
        self._is_thinking = False
        self._begin_line()

    def _begin_line(self) -> None:
        self._is_indent = True
        self._span = 0
        self._opened: tuple[str, int] | None = None
        """A fence, if nothing in the rest of its line says that it is none."""
        self._is_closing = False

    def read(self, piece: str, *, is_end: bool = False) -> tuple[str, str | None]:
        """The text that is decided, and what follows the tag, or None where there is none yet."""
        text, at = self._kept + piece, 0
        self._kept = ""
        while at < len(text):
            found = _PROSE.match(text, at)
            assert found is not None
            if found.lastgroup == "tag":
                tag = self._opening_at(text, at, is_end)
                if tag is None:
                    self._kept = text[at:]
                    return text[:at], None
                if tag:
                    self.tag = tag
                    return text[:at], text[at + len(tag) :]
            self._step(found)
            at = found.end()
        return text, None

    def _opening_at(self, text: str, at: int, is_end: bool) -> str | None:
        """The tag that opens a block at this `<`; "" for anything else; None as long as more text decides."""
        self._end_run()
        if self._is_thinking or self._may_think:
            mark = _THOUGHT if self._is_thinking else _THINKS
            found = text[at : at + len(mark)].lower()
            if found == mark:
                self._is_thinking = not self._is_thinking
                self._fence = None
                self._begin_line()
            elif mark.startswith(found) and not is_end:
                return None
        is_quoted = self._is_thinking or self._fence or self._span or self._opened
        return "" if is_quoted else _tag_at(text, at, is_end)

    def _step(self, found: re.Match[str]) -> None:
        if found.lastgroup == "run":
            self._may_think = False
            self._extend_run(found[0])
            return
        self._end_run()
        if found.lastgroup in ("tag", "word"):
            self._may_think = False
        if found.lastgroup == "line":
            if self._fence is None:
                self._fence = self._opened
            elif self._is_closing:
                self._fence = None
            self._begin_line()
        elif found.lastgroup != "space":
            self._is_indent = self._is_closing = False

    def _extend_run(self, run: str) -> None:
        if self._run is not None and self._run[0] == run[0]:
            self._run = (run[0], self._run[1] + len(run), self._run[2])
        else:
            self._end_run()
            self._run = (run[0], len(run), self._is_indent)
            self._is_indent = False

    def _end_run(self) -> None:
        """What a run of backticks or tildes means is known when it has ended."""
        if self._run is None:
            return
        (char, length, is_first), self._run = self._run, None
        if self._fence is not None:
            self._is_closing = is_first and char == self._fence[0] and length >= self._fence[1]
            return
        fence = (char, length) if is_first and length >= _FENCE else None
        if char == "~" or (self._opened is not None and self._opened[0] == "~"):
            self._opened = self._opened or fence  # backticks behind it are of no account
        elif self._span:
            self._span, self._opened = 0 if length == self._span else self._span, None
        else:
            self._span, self._opened = length, fence


def _tag_at(text: str, at: int, is_end: bool) -> str | None:
    """The tag that opens a block at this `<`; "" for anything else; None as long as more text decides."""
    keyword = text[at : at + len(_KEYWORD)].lower()
    if len(keyword) < len(_KEYWORD):
        return None if _KEYWORD.startswith(keyword) and not is_end else ""
    if keyword != _KEYWORD:
        return ""
    window = text[at : at + LONGEST_TAG]
    found = _TAG.match(window)
    if found is not None:
        return found[0] if _type_of(found[0]) == MEDIA_TYPE else ""
    return None if len(window) < LONGEST_TAG and not is_end and _BEGUN.match(window) else ""


def _type_of(tag: str) -> str:
    attributes = (found.groups(default="") for found in _VALUED.finditer(tag))
    return next(("".join(value).strip().lower() for name, *value in attributes if name.lower() == "type"), "")


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
