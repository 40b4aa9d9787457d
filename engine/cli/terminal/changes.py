"""A changed file as a coloured diff: its name, how much changed, and each region with the numbers of its lines.

Pure; text of files may hold anything, so every line is made legible. Called by `transcript` and by questions.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Final

from ...core.diff import Opcode, hunks, opcodes
from ...core.execution import LeftOut, TextChange
from ...core.text import legible_line
from .fragments import Fragment

_Line = tuple[str, int, str]

CONTEXT: Final = 3
"""Equal lines that are shown around those that differ; what comes may have more."""
_MARKS: Final = {"removed": "-", "added": "+", "": " "}


def diff(name: str, changes: Sequence[TextChange], note: str = "") -> list[Fragment]:
    """The change of the file `name`: every line that differs, as far as `changes` have them.

    Args:
        note: what has to be said of it besides, such as that its content is no text.
    """
    hunks_shown = list(_hunks(changes))
    styles = [style for hunk in hunks_shown for style, _, _ in hunk]
    is_new = any(change.old is None for change in changes)
    more = next((change.left_out for change in changes if change.left_out), LeftOut(0, 0))
    added, removed = styles.count("added") + more.added, styles.count("removed") + more.removed
    counts = f"  +{added} -{removed}" if changes else ""
    result: list[Fragment] = [("strong", f"{legible_line(name)}{' (new file)' if is_new else ''}{counts}\n")]
    result += [("notice", legible_line(line) + "\n") for line in filter(None, note.split("\n"))]
    width = max((len(str(at)) for hunk in hunks_shown for _, at, _ in hunk), default=1)
    for number, hunk in enumerate(hunks_shown):
        if number:
            result.append(("place", "...\n"))
        result += [(style, f"{at:>{width}} {_MARKS[style]} {text}\n") for style, at, text in hunk]
    return result


def _hunks(changes: Sequence[TextChange]) -> Iterator[list[_Line]]:
    grown = 0
    own_ends = _have_own_ends(changes)
    for change in changes:
        old, new = (_split(text, own_ends) for text in (change.old, change.new))
        for hunk in hunks(opcodes(old, new), CONTEXT):
            yield [line for code in hunk for line in _lines(code, change.line, grown, old, new)]
        grown += len(new) - len(old)


def _lines(code: Opcode, first: int, grown: int, old: Sequence[str], new: Sequence[str]) -> Iterator[_Line]:
    """Style, number and text of each line: a removed one has the number that it had, any other the one it has now."""
    if code.tag == "equal":
        for at in range(code.j1, code.j2):
            yield "", first + grown + at, _legible(new[at])
        return
    for at in range(code.i1, code.i2):
        yield "removed", first + at, _legible(old[at])
    for at in range(code.j1, code.j2):
        yield "added", first + grown + at, _legible(new[at])


def _have_own_ends(changes: Sequence[TextChange]) -> bool:
    """Whether all lines end in CRLF: then that is how this file ends its lines, and no change hides in it."""
    texts = [text for change in changes for text in (change.old, change.new) if text]
    return all(text.count("\n") == text.count("\r\n") > 0 for text in texts)


def _split(text: str | None, own_ends: bool) -> list[str]:
    lines = io.StringIO(text or "", newline="\n")
    return [line.replace("\r\n", "\n") if own_ends else line for line in lines]


def _legible(line: str) -> str:
    r"""Without the end of the line where that is a newline; `\r` is seen, because a change may be just that."""
    text = line.removesuffix("\n")
    return legible_line(text) + ("" if text != line else " (no newline at the end)")
