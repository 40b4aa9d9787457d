"""`/branch` and `/rewind`: going over to another path through the session's log, and going back on a new one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from ...core.errors import InvalidRequestError
from ...core.text import code_span, cut_line, more, plural, printable
from ...log.timeline import Cell
from ..branch_rows import SHOWN_BRANCHES, BranchRow
from ..past.numbered import no_statement, number_in
from ..past.rewinder import Gone
from .command import CommandContext

KEEP_FILES: Final = "--keep-files"
KEEP_CONVERSATION: Final = "--keep-conversation"
_SHOWN_CHARS: Final = 20
_REBUILT: Final = "the namespace is rebuilt when it is needed next"


async def branch(context: CommandContext, argument: str) -> str:
    if not argument:
        return "\n".join(_lines(context.branches()))
    name, *options = argument.split()
    wrong = _wrong(options, (KEEP_FILES,))
    if wrong:
        raise InvalidRequestError(f"`/branch NAME` takes {code_span(KEEP_FILES)} alone, and not {wrong}.")
    gone = await context.switch(name, KEEP_FILES not in options)
    return f"{_where(context)}. {_files(gone)}"


async def rewind(context: CommandContext, argument: str) -> str:
    words = argument.split()
    options = [word for word in words if word.startswith("--")]
    numbers = [word for word in words if not word.startswith("--")]
    wrong = _wrong(options, (KEEP_FILES, KEEP_CONVERSATION)) or _wrong(numbers[1:])
    if wrong:
        keeping = f"{code_span(KEEP_FILES)} and {code_span(KEEP_CONVERSATION)}"
        raise InvalidRequestError(f"`/rewind K` takes {keeping} alone, and not {wrong}.")
    statement = number_in(numbers[0]) if numbers else None
    cells = context.timeline.cells
    if statement is None:
        raise InvalidRequestError(no_statement(cells, numbers[0] if numbers else argument))
    gone = await context.rewind(statement, KEEP_FILES not in options, KEEP_CONVERSATION not in options)
    if KEEP_CONVERSATION not in options:
        return f"{_where(context)}. {_undone(cells, context.timeline.cells)}{_files(gone)}"
    return f"{_left_out(statement, len(cells))}; the conversation stays as it is. {_files(gone)}"


def _wrong(words: Collection[str], known: Collection[str] = ()) -> str:
    """The first of the words that is not known, as an answer names it; empty where all are."""
    return next((code_span(printable(cut_line(word, _SHOWN_CHARS))) for word in words if word not in known), "")


def _where(context: CommandContext) -> str:
    row = next(row for row in context.branches() if row.is_active)
    return f"This is now branch {code_span(printable(row.name))}, {_extent(row)}; {_REBUILT}"


def _undone(before: Sequence[Cell], after: Sequence[Cell]) -> str:
    """That statements ran again later, in a live replay, which is no part of the path that is active now."""
    ran = [new.statement.index for old, new in zip(before, after, strict=False) if old.current != new.current]
    if not ran:
        return ""
    which = f"Statement {ran[0]}" if len(ran) == 1 else f"Statements {ran[0]} to {ran[-1]}"
    return f"{which} ran again after that, which is undone, too. "


def _left_out(statement: int, last: int) -> str:
    if statement >= last:
        return f"No statement comes after {statement}"
    which = f"Statement {last} is" if last == statement + 1 else f"Statements {statement + 1} to {last} are"
    again = code_span(f"/omit {statement + 1}")
    return f"{which} left out, and {_REBUILT} ({again} puts one back)"


def _files(gone: Gone) -> str:
    """What became of files, in numbers: their names are shown with what was done."""
    if gone.rewound is not None:
        back, left = len(gone.rewound.restored), len(gone.rewound.left)
        sentence = f"{back} {plural(back, 'file')} went back"
        return f"{sentence}, and {left} could not." if left else f"{sentence}."
    written = len(gone.written.files) + len(gone.written.left)
    if not written:
        return "No file that statements wrote has changed."
    if written == 1:
        return "1 file has been written since, and stays as it is."
    return f"{written} files have been written since, and stay as they are."


def _lines(rows: Sequence[BranchRow]) -> Sequence[str]:
    """The first branch, the active one and the newest ones, in their order, with how many there are besides."""
    newest = len(rows) - SHOWN_BRANCHES
    shown = [row for place, row in enumerate(rows) if place >= newest or row.parent is None or row.is_active]
    lines, rest = list(map(_line, shown)), len(rows) - len(shown)
    return [*lines, more(rest, "branch", f"in {code_span('rewindow branches')}")] if rest else lines


def _line(row: BranchRow) -> str:
    active = ", active" if row.is_active else ""
    own = row.last - row.shared
    count = f"{row.last} {plural(row.last, 'statement')}" if row.last else "no statements"
    return f"- {branch_words(row)}: {count}{f', {own} of its own' if row.shared and own else ''}{active}"


def branch_words(row: BranchRow) -> str:
    """The name of a branch, and where it leaves its parent."""
    start = "" if row.parent is None else f", from {code_span(printable(row.parent))} {_place(row.shared)}"
    return f"{code_span(printable(row.name))}{start}"


def _extent(row: BranchRow) -> str:
    return f"with {row.last} {plural(row.last, 'statement')}" if row.last else "without statements"


def _place(statement: int) -> str:
    return f"after statement {statement}" if statement else "at the beginning"
