"""Says how a document changed: one line, and a unified diff as far as a token budget goes.

Text in, text out; knows no node and no file. Called by handles when a tick brings new content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from ...core.cutting import DOTS, cut_line
from ...core.diff import Opcode, hunks, opcodes
from ...core.unified import hunk_lines

_CONTEXT: Final = 1
_LONGEST_LINE: Final = 200
"""Characters of a changed line that a delta shows."""


def describe(
    title: str, before: Sequence[str], after: Sequence[str], count: Callable[[str], int], budget: int, form: str = ""
) -> tuple[str, str]:
    """The summary line, and the summary with as much of the diff as `budget` tokens hold. Neither ends in a newline.

    The summary itself is never cut: it is short but for the title. `form` says what changed besides the lines, where
    that is known.
    """
    # Without carriage returns, so that a change of all line ends is one sentence and no line is shown twice alike.
    before, after = (tuple(line.rstrip("\r") for line in lines) for lines in (before, after))
    codes = opcodes(before, after)
    changed = [code for code in codes if code.tag != "equal"]
    if not changed:
        summary = f"no line changed in {title}: {form or 'its encoding, line ends or final newline did'}"
        return summary, summary
    removed = sum(code.i2 - code.i1 for code in changed)
    added = sum(code.j2 - code.j1 for code in changed)
    lines = sum(max(code.i2 - code.i1, code.j2 - code.j1) for code in changed)
    noun = "line" if lines == 1 else "lines"
    summary = f"{lines} {noun} changed in {title} (+{added} -{removed}), first at line {changed[0].j1 + 1}"
    summary += f"; {form}" if form else ""
    return summary, _within(summary, _unified(codes, before, after), count, budget)


def with_added(summary: str, added: Iterable[str], count: Callable[[str], int], budget: int) -> str:
    """The summary, and as many of the lines that were added as `budget` tokens hold."""
    return _within(summary, (cut_line("+" + line.rstrip("\r"), _LONGEST_LINE) for line in added), count, budget)


def _within(summary: str, diff: Iterator[str], count: Callable[[str], int], budget: int) -> str:
    """As many whole diff lines as fit; a last line says that some are left out, if it fits too."""
    kept = [summary]
    used = count(summary + "\n")
    is_cut = False
    for line in diff:
        used += count(line + "\n")
        if used > budget:
            is_cut = True
            break
        kept.append(line)
    text = "\n".join(kept)
    # Counted as a whole, because a blank context line may join its neighbours and so make the sum above too low.
    while len(kept) > 1 and count(text + (f"\n{DOTS}\n" if is_cut else "\n")) > budget:
        kept.pop()
        is_cut = True
        text = "\n".join(kept)
    return f"{text}\n{DOTS}" if is_cut and len(kept) > 1 else text


def _unified(codes: Sequence[Opcode], before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for hunk in hunks(codes, _CONTEXT):
        yield from hunk_lines(hunk, before, after, _LONGEST_LINE)
