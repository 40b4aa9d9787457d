"""Statements that a model writes in its text: `<script type="text/x-python">`, a cell, `</script>`.

`with_written_statement` turns the text of a reply into the signals of a call; every reply of every model that may run
something passes through it, so models need not know blocks. Two readers follow each other: `Prose` before the block and
`_Cell` inside it. The result never depends on how the text was split into pieces. A reader decides about a character as
soon as no continuation can change the decision; inside a block it keeps the last `_LOOKAHEAD` characters, because no
mark there is longer. So memory is bounded and time is linear. Pure.

A block opens with the tag as HTML has it: any case, quotes, spaces and further attributes. A tag in a code span of its
line or in a fenced block is quoted and opens nothing; nor does a tag of another type, `&lt;script`, or anything in
thinking that a server sends as the beginning of the text, in `<think>`. A block closes at the first `</script>` that is
not in a string of the cell, because cells write HTML; if the quotes do not match and the rest is a string, at the first
`</script>` of all. A block without an end is not run, because half a cell cannot be told from a whole one: it is a
refused call if the model writes its statements, else text.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from msgspec.structs import replace

from ..model import (
    CallDelayed,
    CallRefused,
    CallRetried,
    ModelError,
    ModelSignal,
    ReasoningDelta,
    ReplyEnded,
    StatementAsked,
    TextDelta,
    TokensUsed,
)
from ..tail.results import CLOSING, MEDIA_TYPE, STATEMENT_TOOL
from .statement_tool import ONE_CALL

LONGEST_TAG: Final = 128
_KEYWORD: Final = "<script"
_NAME: Final = r"[A-Za-z_:][\w:-]*"
_ATTRIBUTES: Final = rf"(?:\s+{_NAME}(?:\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'|[^\s\"'<>=`]+))?)*"
_TAG: Final = re.compile(rf"{_KEYWORD}{_ATTRIBUTES}\s*>", re.IGNORECASE)
_BEGUN: Final = re.compile(rf"{_KEYWORD}{_ATTRIBUTES}(?:\s*|\s+{_NAME}\s*=\s*(?:\"[^\"<]*|'[^'<]*)?)\Z", re.IGNORECASE)
"""A tag up to here; shorter beginnings are those of the keyword."""
_VALUED: Final = re.compile(rf"\s({_NAME})\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'<>=`]+))")
_PROSE: Final = re.compile(r"(?P<line>\n)|(?P<space>[ \t\r]+)|(?P<run>`+|~+)|(?P<tag><)|(?P<word>[^\n`~<]+)")
_THINKS, _THOUGHT = "<think>", "</think>"
_FENCE: Final = 3
_CONTAINERS: Final = re.compile(r"\s*(?:(?:>|(?:[-*+]|\d{1,9}[.)])\s)\s*)*")
"""Text before a fence in its line: marks of quotations and list items."""
_MOST_MARKS: Final = 64
"""Largest number of characters in these."""


class Prose:
    """Text before a block, in pieces: whether it is quoted depends on the earlier part of its line.

    `_run` is an unfinished run of backticks or tildes: its character, its length, the text before it in its line.
    """

    def __init__(self) -> None:
        self.tag = ""
        """The tag that opened the block."""
        self._kept = ""
        self._run: tuple[str, int, str] | None = None
        self._fence: tuple[str, int, int] | None = None
        """The fence of the current code block, and the number of quotation marks before it."""
        self._may_think = True
        self._is_thinking = False
        self._begin_line()

    def _begin_line(self) -> None:
        self._before = ""
        """The line so far, as far as it matters."""
        self._span = 0
        self._opened: tuple[str, int, int] | None = None
        """A fence, unless the rest of its line shows otherwise."""
        self._is_closing = False

    def read(self, piece: str, *, is_end: bool = False) -> tuple[str, str | None]:
        """Return the decided text, and the text after the tag, None before one."""
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
        """Return the tag that opens a block at this `<`.

        Returns "" for none; None if more text decides.
        """
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
        """Interpret a finished run of backticks or tildes."""
        if self._run is None:
            return
        (char, length, before), self._run = self._run, None
        quotations = before.count(">")
        if self._fence is not None:
            # Inside a code block a mark is code; only the quotation around it continues in each line.
            is_first = len(before) <= _MOST_MARKS and not before.strip("> \t\r") and quotations == self._fence[2]
            self._is_closing = is_first and char == self._fence[0] and length >= self._fence[1]
            return
        is_first = len(before) <= _MOST_MARKS and _CONTAINERS.fullmatch(before) is not None
        fence = (char, length, quotations) if is_first and length >= _FENCE else None
        if char == "~" or (self._opened is not None and self._opened[0] == "~"):
            self._opened = self._opened or fence  # backticks behind it do not matter
        elif self._span:
            self._span, self._opened = 0 if length == self._span else self._span, None
        else:
            self._span, self._opened = length, fence


def _tag_at(text: str, at: int, is_end: bool) -> str | None:
    """Return the tag that opens a block at this `<`.

    Returns "" for none; None if more text decides.
    """
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


# --- blocks ----------------------------------------------------------------------------------------------------------


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
"""Marks in each state: in code, in a comment, and in a string of each quote."""
_FIRST_LINE: Final = re.compile(r"\A[ \t]*\r?\n")


class BlockReader:
    """Reads a text in pieces.

    `source` is the cell of its first block, None until one is closed.

    `has_rest`: that block is followed by more than white space.
    """

    def __init__(self) -> None:
        self.source: str | None = None
        self.has_rest = False
        self._prose = Prose()
        self._cell: _Cell | None = None

    @property
    def is_open(self) -> bool:
        """Whether a block is open."""
        return self._cell is not None and self.source is None

    @property
    def inside(self) -> str:
        """The cell of the open block so far."""
        return "" if self._cell is None else _FIRST_LINE.sub("", self._cell.text, count=1)

    def read(self, piece: str) -> str:
        """Read the next piece.

        Return the text that is known to be before any block.
        """
        if self._cell is not None:
            self._read_cell(piece)
            return ""
        text, rest = self._prose.read(piece)
        if rest is not None:
            self._cell = _Cell()
            self._read_cell(rest)
        return text

    def interrupt(self) -> str:
        """End a possible tag, because other signals follow; return its text."""
        return "" if self._cell is not None else self._prose.read("", is_end=True)[0]

    def end(self) -> str:
        """End the text; return the kept text that is in no block."""
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
    """The inside of a block: Python, divided only into code, comments and strings."""

    def __init__(self) -> None:
        self._within = ""
        self._read: list[str] = []
        self._kept = ""

    @property
    def text(self) -> str:
        """The cell so far."""
        return "".join(self._read) + self._kept

    def read(self, piece: str, *, is_end: bool = False) -> str | None:
        """Return the text after the block, or None while it is open."""
        text, at = self._kept + piece, 0
        # A mark that begins before this is complete, and no later text changes it.
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


# --- replies ---------------------------------------------------------------------------------------------------------


NOT_CLOSED: Final = f"the block has no {CLOSING}, so it was not run; write the whole block again"


async def with_written_statement(
    reply: AsyncGenerator[ModelSignal, None], *, calls_tools: bool = True
) -> AsyncGenerator[ModelSignal, None]:
    """Stream a reply without the block in its text, and with the statement of that block.

    A call has priority over a block, because a model that calls knows how. If the model cannot call, the reply ends as
    soon as text follows its block: such a model often continues with an invented result. Truncation after a block loses
    nothing.

    Args:
        reply: of the model; closed at the end in any case.
        calls_tools: whether the model was told to call a tool rather than write blocks.
    """
    reader = _ReplyReader(calls_tools)
    async with aclosing(reply) as signals:
        try:
            async for signal in signals:
                for read in reader.read(signal):
                    yield read
                if reader.is_over:
                    break
        except ModelError:
            for kept in reader.kept():
                yield kept
            raise
    for last in [*reader.kept(), *reader.ending()]:
        yield last


class _ReplyReader:
    def __init__(self, calls_tools: bool) -> None:
        self._calls_tools = calls_tools
        self._blocks = BlockReader()
        self._calls: list[StatementAsked | CallRefused] = []
        self._ended = ReplyEnded()

    @property
    def is_over(self) -> bool:
        return self._blocks.has_rest and not self._calls_tools

    def read(self, signal: ModelSignal) -> Sequence[ModelSignal]:
        match signal:
            case TextDelta(text=text):
                return _said(self._blocks.read(text))
            case ReasoningDelta():
                return [*_said(self._blocks.interrupt()), signal]
            case StatementAsked() if any(isinstance(call, StatementAsked) for call in self._calls):
                again = CallRefused(STATEMENT_TOOL, {"source": signal.source}, ONE_CALL, signal.tool_call_id)
                self._calls.append(again)
            case StatementAsked() | CallRefused():
                self._calls.append(signal)
            case ReplyEnded():
                self._ended = signal
            case CallRetried(withdrawn=True):
                self._blocks, self._calls, self._ended = BlockReader(), [], ReplyEnded()
                return [signal]
            case TokensUsed() | CallRetried() | CallDelayed():
                return [signal]
        return []

    def kept(self) -> Sequence[ModelSignal]:
        """Return the kept text that is in no block, or in one without an end, unless that is a refused call."""
        text = self._blocks.end()
        return [] if self._lacks_end else _said(text)

    @property
    def _lacks_end(self) -> bool:
        return self._blocks.is_open and self._ended.cause == "end" and not self._calls_tools and not self._calls

    def ending(self) -> Sequence[ModelSignal]:
        """Return the calls or the statement, if any, and why the reply ended.

        Called after `kept`.
        """
        blocks, ended = self._blocks, self._ended
        if self._calls:
            return [*(_with_rest(call, blocks.source is not None) for call in self._calls), ended]
        if blocks.source is not None and ended.cause != "refusal":
            return [StatementAsked(blocks.source, rest_left_out=blocks.has_rest), ReplyEnded()]
        if self._lacks_end:
            return [CallRefused(STATEMENT_TOOL, {"source": blocks.inside}, NOT_CLOSED), ended]
        return [ended]


def _with_rest(call: StatementAsked | CallRefused, has_rest: bool) -> StatementAsked | CallRefused:
    return replace(call, rest_left_out=True) if has_rest and isinstance(call, StatementAsked) else call


def _said(text: str) -> Sequence[ModelSignal]:
    return [TextDelta(text)] if text else []
