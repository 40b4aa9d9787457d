"""Level 3: changes since the model last read the node, as a unified diff within an exact budget.

A first line counts the changes. They have as many lines of context as lets all of them fit. If they do not fit even
without context, changes from the place on are shown, then those above it, and lines on either side count the others.
Lines of a diff can be blank except for their sign, so the counts of parts do not add up, and only the count of the
whole text decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ...core.diff import Opcode, heading_of, hunk_lines, hunks, opcodes
from ...core.text import DOTS, more, plural
from ..changes import changed_form
from ..rendered import RenderedView
from ..revision import Revision
from .scene import Scene, instead_of_lines, one_line

_CONTEXTS: Final = (3, 1, 0)
_ROOM_FOR_CONTEXT: Final = 300
"""Tokens from which a part of the changes has a line of context."""
_LONGEST_LINE: Final = 240
_LEAST: Final = 2
"""A hunk with fewer lines is not shown, because its ranges alone say little."""
_TRIES: Final = 8


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
        return _sentence(scene, f"(no line changed {_since(scene)}: {form or 'bytes that are not shown'})")
    return _fitted(_Changes(scene, old, new, form, codes))


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


def _fitted(changes: _Changes) -> RenderedView:
    """Render all changes with the most context that fits; else a part of them."""
    scene = changes.scene
    for context in _CONTEXTS:
        text = _whole(changes, context)
        if text is not None:
            line = changes.first_line
            return RenderedView(text=text, tokens=scene.count(text), first_line=line, last_line=line)
    room = scene.budget
    for _ in range(_TRIES):
        part = _part(changes, room)
        tokens = scene.count(part)
        if part and tokens <= scene.budget:
            line = changes.first_line
            return RenderedView(text=part, tokens=tokens, first_line=line, last_line=line, whole=False)
        room -= tokens - scene.budget
    header = changes.header().rstrip("\n")
    short = header.partition(" since")[0]
    return one_line((f"{header}, of which none fits", header, short), scene.budget, scene.count, whole=False)


def _whole(changes: _Changes, context: int) -> str | None:
    """Return the text with this much context; None if it exceeds the budget."""
    scene = changes.scene
    parts = [changes.header()]
    used = scene.count(parts[0])
    for hunk in hunks(changes.codes, context):
        for line in changes.lines(hunk):
            # An upper bound: blank lines may cost less together, so slightly more context might have fitted.
            used += scene.count(line)
            if used > scene.budget:
                return None
            parts.append(line)
    text = "".join(parts)
    return text if scene.count(text) <= scene.budget else None


def _part(changes: _Changes, room: int) -> str:
    """Return about `room` tokens of changes around the place; "" if none fits."""
    count = changes.scene.count
    all_hunks = changes.hunks(1 if room >= _ROOM_FOR_CONTEXT else 0)
    header = changes.header()
    room -= count(header) + sum(count(_marker(all_hunks, side)) for side in ("above", "below"))
    start = _nearest(all_hunks, changes.scene.place.line)
    end, kept = start, list[str]()
    while end < len(all_hunks):
        lines, missing = _fitting(changes, all_hunks[end], room)
        if missing and (kept or len(lines) < _LEAST):
            break
        room -= sum(map(count, lines))
        kept += [*lines, _more(missing)] if missing else lines
        end += 1
        if missing:
            break
    while start > 0 and end == len(all_hunks):
        lines, missing = _fitting(changes, all_hunks[start - 1], room)
        if missing:
            break
        room -= sum(map(count, lines))
        kept, start = lines + kept, start - 1
    if not kept:
        return ""
    return "".join((header, _marker(all_hunks[:start], "above"), *kept, _marker(all_hunks[end:], "below")))


def _fitting(changes: _Changes, hunk: Sequence[Opcode], room: int) -> tuple[list[str], int]:
    """Return the lines of a hunk that fit, and the number of the others, whose count fits too."""
    count = changes.scene.count
    total = 1 + sum(code.i2 - code.i1 + (code.j2 - code.j1 if code.tag != "equal" else 0) for code in hunk)
    kept: list[str] = []
    marked = 0
    reserved = count(_more(total))
    for line in changes.lines(hunk):
        room -= count(line)
        if room < 0:
            return kept[:marked], total - marked
        kept.append(line)
        if room >= reserved:
            marked = len(kept)
    return kept, 0


def _more(lines: int) -> str:
    return more(lines, "line", "of this change") + "\n"


def _nearest(all_hunks: Sequence[Sequence[Opcode]], line: int) -> int:
    """Return the first hunk that ends below a line (from 0), else the last."""
    return next((index for index, hunk in enumerate(all_hunks) if hunk[-1].j2 > line), len(all_hunks) - 1)


def _marker(left_out: Sequence[Sequence[Opcode]], side: str) -> str:
    if not left_out:
        return ""
    nearest = left_out[-1] if side == "above" else left_out[0]
    changed = next(code for code in nearest if code.tag != "equal")
    count = sum(code.tag != "equal" for hunk in left_out for code in hunk)
    return f"{DOTS} {_changes(count)} {side}, the next at line {changed.j1 + 1}\n"
