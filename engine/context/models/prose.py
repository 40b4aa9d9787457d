"""The text of a reply before the block in it: where that begins, and what is only quoted.

What opens a block is the tag that HTML has: any case, quotes, spaces and further attributes. In a code span of its
line or in a fenced block of code it is quoted and opens nothing, and so is the tag of another type, or `&lt;script`.
Nor does anything in what a model thinks, where its server sends that as the beginning of the text, in `<think>`.

Text is given out as soon as it is decided: kept is only an end that may be the beginning of a tag, at most
`LONGEST_TAG` characters, as long as it can become one. Pure. Called by `blocks`.
"""

from __future__ import annotations

import re
from typing import Final

from ..tail.written import MEDIA_TYPE

LONGEST_TAG: Final = 128
_KEYWORD: Final = "<script"
_NAME: Final = r"[A-Za-z_:][\w:-]*"
_ATTRIBUTES: Final = rf"(?:\s+{_NAME}(?:\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'|[^\s\"'<>=`]+))?)*"
_TAG: Final = re.compile(rf"{_KEYWORD}{_ATTRIBUTES}\s*>", re.IGNORECASE)
_BEGUN: Final = re.compile(rf"{_KEYWORD}{_ATTRIBUTES}(?:\s*|\s+{_NAME}\s*=\s*(?:\"[^\"<]*|'[^'<]*)?)\Z", re.IGNORECASE)
"""What a tag begins with; shorter beginnings are those of the keyword."""
_VALUED: Final = re.compile(rf"\s({_NAME})\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'<>=`]+))")
_PROSE: Final = re.compile(r"(?P<line>\n)|(?P<space>[ \t\r]+)|(?P<run>`+|~+)|(?P<tag><)|(?P<word>[^\n`~<]+)")
_THINKS, _THOUGHT = "<think>", "</think>"
_FENCE: Final = 3
_CONTAINERS: Final = re.compile(r"\s*(?:(?:>|(?:[-*+]|\d{1,9}[.)])\s)\s*)*")
"""What may stand before a fence in its line: marks of quotations and of items of lists."""
_MOST_MARKS: Final = 64
"""Characters of that."""


class Prose:
    """Text in pieces, line by line: whether it is quoted as code depends on what its line holds before it.

    `_run` is a run of backticks or tildes that has not ended: its character, its length, what stands before it in its
    line.
    """

    def __init__(self) -> None:
        self.tag = ""
        """The tag that has opened the block."""
        self._kept = ""
        self._run: tuple[str, int, str] | None = None
        self._fence: tuple[str, int, int] | None = None
        """The fence of the block of code that this line is in, and how many marks of quotations stand before it."""
        self._may_think = True
        self._is_thinking = False
        self._begin_line()

    def _begin_line(self) -> None:
        self._before = ""
        """The line up to here, as far as something of it counts."""
        self._span = 0
        self._opened: tuple[str, int, int] | None = None
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
            self._is_closing = False
        if found.lastgroup in ("space", "word", "tag"):
            self._before = (self._before + found[0])[: _MOST_MARKS + 1]

    def _extend_run(self, run: str) -> None:
        if self._run is not None and self._run[0] == run[0]:
            self._run = (run[0], self._run[1] + len(run), self._run[2])
        else:
            self._end_run()
            self._run = (run[0], len(run), self._before)
            self._before = run

    def _end_run(self) -> None:
        """What a run of backticks or tildes means is known when it has ended."""
        if self._run is None:
            return
        (char, length, before), self._run = self._run, None
        quotations = before.count(">")
        if self._fence is not None:
            # In the code itself a mark is code; only the quotation around it goes on in each line.
            is_first = len(before) <= _MOST_MARKS and not before.strip("> \t\r") and quotations == self._fence[2]
            self._is_closing = is_first and char == self._fence[0] and length >= self._fence[1]
            return
        is_first = len(before) <= _MOST_MARKS and _CONTAINERS.fullmatch(before) is not None
        fence = (char, length, quotations) if is_first and length >= _FENCE else None
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
