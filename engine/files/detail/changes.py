"""Level 3: changes since the model last read the node, as a unified diff within an exact budget.

A first line counts the changes. The changes from the view's position on are shown first, then those above it; a line
before and one after them count those that do not fit. If all of them fit, they get as much context as fits. Lines of a
diff can be blank except for their sign, so token counts of parts do not add up: only the count of the whole text
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from ...core.diff import Opcode, heading_of, hunk_lines, hunks, opcodes
from ...core.text import DOTS, more, plural
from ..changes import changed_form
from ..filling import Ladder, Spent, single
from ..filling import ladder as filled
from ..rendered import RenderedView
from ..revision import Revision
from .scene import Scene, instead_of_lines, one_line

_CONTEXTS: Final = (1, 3)
"""Lines of context around all changes."""
_LONGEST_LINE: Final = 240
_LEAST: Final = 2
"""A hunk with fewer lines is not shown, because its ranges alone say little."""


@dataclass(frozen=True, slots=True)
class _Changes:
    """The lines of two revisions and their differences.

    The later revision is shown.
    """

    scene: Scene
    before: Sequence[str]
    after: Sequence[str]
    form: str
    codes: Sequence[Opcode]

    @property
    def first_line(self) -> int:
        """Number of the first changed line."""
        changed = next(code for code in self.codes if code.tag != "equal")
        return min(changed.j1 + 1, max(len(self.after), 1))

    def hunks(self, context: int) -> list[list[Opcode]]:
        return list(hunks(self.codes, context))

    def lines(self, hunk: Sequence[Opcode]) -> Iterator[str]:
        changed = next(code for code in hunk if code.tag != "equal")
        heading = heading_of(self.after, changed.j1, hunk[0].j1)
        return (line + "\n" for line in hunk_lines(hunk, self.before, self.after, _LONGEST_LINE, heading))

    def header(self) -> str:
        changed = [code for code in self.codes if code.tag != "equal"]
        added = sum(code.j2 - code.j1 for code in changed)
        removed = sum(code.i2 - code.i1 for code in changed)
        form = f", {self.form}" if self.form else ""
        return f"{_changes(len(changed))} {_since(self.scene)}: +{added} -{removed}{form}\n"


def render(scene: Scene) -> RenderedView:
    """Render the changes; empty if not even "..." fits."""
    found = _changes_or_sentence(scene)
    if isinstance(found, RenderedView):
        return found
    rendered = _whole(found, _CONTEXTS[-1]) or _ladder(found).within(scene.budget)
    if rendered is not None:
        return rendered
    header = found.header().rstrip("\n")
    short = header.partition(" since")[0]
    return one_line((f"{header}; none fits in the budget", header, short), scene.budget, scene.count, whole=False)


def ladder(scene: Scene) -> Ladder:
    """Return the parts of the changes of at most the scene's budget, and all of them with more and more context."""
    found = _changes_or_sentence(scene)
    return single(found) if isinstance(found, RenderedView) else _ladder(found)


def _changes_or_sentence(scene: Scene) -> _Changes | RenderedView:
    revision, before = scene.revision, scene.last_shown
    if revision.state != "text" and not revision.is_listing:
        return instead_of_lines(scene) or RenderedView(text="", tokens=0)
    if before is None:
        lines = len(revision.lines)
        return _sentence(scene, f"(not shown before, so there is no difference; lod=0 shows its {_lines(lines)})")
    if revision.same_as(before):
        return _sentence(scene, f"(unchanged {_since(scene)})", "(unchanged)")
    old, new = _without_returns(before), _without_returns(revision)
    form = changed_form(before, revision) if before.has_content else ""
    codes = opcodes(old, new)
    if all(code.tag == "equal" for code in codes):
        return _sentence(scene, f"(only the form changed {_since(scene)}: {form or 'bytes that are not shown'})")
    return _Changes(scene, old, new, form, codes)


def _sentence(scene: Scene, *candidates: str) -> RenderedView:
    return one_line(candidates, scene.budget, scene.count)


def _since(scene: Scene) -> str:
    return f"since statement {scene.shown_in}" if scene.shown_in else "since it was last shown"


def _lines(count: int) -> str:
    return f"{count} {plural(count, 'line')}"


def _changes(count: int) -> str:
    return f"{count} {plural(count, 'change')}"


def _without_returns(revision: Revision) -> Sequence[str]:
    """Return the lines to compare, without carriage returns: changed line ends are reported once."""
    return revision.lines if revision.line_ends == "LF" else [line.rstrip("\r") for line in revision.lines]


@dataclass(slots=True)
class _Taken:
    """The hunks and lines of a part: hunks `start` to `end` - 1 as a whole, and the first `lines` of another one."""

    start: int
    end: int
    other: int = 0
    lines: int = 0


def _ladder(changes: _Changes) -> Ladder:
    """Return the texts with 0, 1, 2 ... lines of the changes.

    Lines come from the place on, then those of the changes above it; and when there are all, more lines of context.
    """
    count, all_hunks = changes.scene.count, changes.hunks(0)
    nearest = _nearest(all_hunks, changes.scene.place.line)
    taken: list[_Taken | int] = []
    written: dict[int, list[str]] = {}

    def texts() -> Iterator[Spent | None]:
        used = count(changes.header())
        start = end = nearest
        marked = _Marked(all_hunks, count)
        for hunk in (*range(nearest, len(all_hunks)), *range(nearest - 1, -1, -1)):
            total = _length(all_hunks[hunk])
            lines = written.setdefault(hunk, [])
            left = marked.tokens(min(start, hunk), max(end, hunk + 1))
            for number, line in enumerate(changes.lines(all_hunks[hunk]), 1):
                lines.append(line)
                used += count(line)
                rest = count(_more(total - number)) if number < total else 0
                taken.append(_Taken(start, end, hunk, number))
                yield Spent(used + left + rest, used) if number >= min(_LEAST, total) else None
            start, end = min(start, hunk), max(end, hunk + 1)
        for context in _CONTEXTS:
            text = changes.header()
            taken.append(context)
            tokens = count(text)
            for line in (line for hunk in hunks(changes.codes, context) for line in changes.lines(hunk)):
                tokens += count(line)
                if tokens > changes.scene.budget:
                    break
            yield Spent(tokens, used)

    def show(units: int) -> RenderedView:
        part = taken[units]
        if isinstance(part, int):
            text = changes.header() + "".join(
                line for hunk in hunks(changes.codes, part) for line in changes.lines(hunk)
            )
            is_whole = True
        else:
            text, is_whole = _part(changes, all_hunks, written, part)
        first = changes.first_line
        return RenderedView(text=text, tokens=count(text), first_line=first, last_line=first, whole=is_whole)

    return filled(texts(), changes.scene.budget, show)


def _whole(changes: _Changes, context: int) -> RenderedView | None:
    """Return all changes with this much context; None if that exceeds the budget."""
    scene, first = changes.scene, changes.first_line
    parts = [changes.header()]
    used = scene.count(parts[0])
    for line in (line for hunk in hunks(changes.codes, context) for line in changes.lines(hunk)):
        used += scene.count(line)
        if used > scene.budget:
            return None
        parts.append(line)
    text = "".join(parts)
    return RenderedView(text=text, tokens=scene.count(text), first_line=first, last_line=first)


def _part(
    changes: _Changes, all_hunks: Sequence[Sequence[Opcode]], written: Mapping[int, Sequence[str]], part: _Taken
) -> tuple[str, bool]:
    """Return the text of a part of the changes, and whether it has all of them."""
    rows = {hunk: "".join(written[hunk]) for hunk in range(part.start, part.end)}
    missing = _length(all_hunks[part.other]) - part.lines
    rows[part.other] = "".join(written[part.other][: part.lines]) + (_more(missing) if missing else "")
    first, end = min(part.start, part.other), max(part.end, part.other + 1)
    above, below = _marker(all_hunks[:first], "above"), _marker(all_hunks[end:], "below")
    text = "".join((changes.header(), above, *(rows[hunk] for hunk in range(first, end)), below))
    return text, not (missing or above or below)


class _Marked:
    """The tokens of the lines that count the changes above and below a part."""

    def __init__(self, all_hunks: Sequence[Sequence[Opcode]], count: Callable[[str], int]) -> None:
        self._hunks = all_hunks
        self._count = count
        changed = (sum(code.tag != "equal" for code in hunk) for hunk in all_hunks)
        self._sums = list(accumulate(changed, initial=0))

    def tokens(self, start: int, end: int) -> int:
        """Return the tokens of both lines around hunks `start` to `end` - 1."""
        above = _mark(self._hunks[start - 1], self._sums[start], "above") if start else ""
        rest = self._sums[-1] - self._sums[end]
        below = _mark(self._hunks[end], rest, "below") if end < len(self._hunks) else ""
        return sum(self._count(line) for line in (above, below) if line)


def _length(hunk: Sequence[Opcode]) -> int:
    """Return the number of lines of a hunk, with that of its ranges."""
    return 1 + sum(code.i2 - code.i1 + (code.j2 - code.j1 if code.tag != "equal" else 0) for code in hunk)


def _more(lines: int) -> str:
    return more(lines, "line", "of this change") + "\n"


def _nearest(all_hunks: Sequence[Sequence[Opcode]], line: int) -> int:
    """Return the first hunk that ends below a line (from 0), else the last."""
    return next((index for index, hunk in enumerate(all_hunks) if hunk[-1].j2 > line), len(all_hunks) - 1)


def _marker(left_out: Sequence[Sequence[Opcode]], side: str) -> str:
    if not left_out:
        return ""
    number = sum(code.tag != "equal" for hunk in left_out for code in hunk)
    return _mark(left_out[-1] if side == "above" else left_out[0], number, side)


def _mark(nearest: Sequence[Opcode], number: int, side: str) -> str:
    changed = next(code for code in nearest if code.tag != "equal")
    return f"{DOTS} {_changes(number)} {side}, the nearest at line {changed.j1 + 1}\n"
