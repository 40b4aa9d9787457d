"""Level 2: what the region around the place is about, in a few lines: what documents it, names, imports from outside.

The region is the innermost symbol around the place that holds others, or all of the text. Where a model has written a
summary, that is shown. Otherwise this level costs at most a twentieth of the text, whatever the budget: first come the
names of what is public in the region, then the names within each of those, then imports. A list that is cut says how
many names are missing, and a last line counts what has no line at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...cutting import ELLIPSIS, cut_line, more
from ...text import first_line
from ..outline.model import TOP, Kind, Outline
from ..rendered import RenderedView
from .rows import SHORTEST, around, heading, name_of, range_of, text_of
from .scene import Scene, instead_of_lines, one_line

_BYTES_PER_TOKEN: Final = 105
"""Bytes of the text for a token of this level: a twentieth of a text that has 5 bytes for each of its tokens."""
_FLOOR: Final = 16
"""Tokens that the summary of even the smallest text may take."""
_DOC_CHARS: Final = 240
_PLURALS: Final[dict[Kind, str]] = {
    "module": "modules",
    "class": "classes",
    "interface": "interfaces",
    "struct": "structs",
    "enum": "enums",
    "trait": "traits",
    "type": "types",
    "function": "functions",
    "method": "methods",
    "macro": "macros",
    "constant": "constants",
    "variable": "variables",
    "property": "properties",
    "heading": "headings",
    "key": "keys",
    "rule": "rules",
    "element": "elements",
    "block": "blocks",
}


@dataclass(slots=True)
class _Line:
    """A line of the summary while it is decided how much it shows: a head, then names. `text` is empty until it fits.

    `is_symbol`: the head stands for a symbol, so it says something without names too. `docs` are what documents it, or
    its names; they are shown where there is room for all of them.
    """

    head: str
    names: list[str]
    is_symbol: bool
    docs: list[str]
    shown: int = 0
    text: str = ""
    tokens: int = 0

    @property
    def missing(self) -> int:
        return len(self.names) - self.shown if self.text else max(len(self.names), 1)

    def fit(self, room: int, most: int, count: Callable[[str], int]) -> int:
        """Shows as many names as fit, at most `most`, and says what that costs more than before; 0 for no change."""
        low, high = self.shown, min(most, len(self.names))
        while low < high:
            middle = (low + high + 1) // 2
            if count(self._with(middle)) - self.tokens <= room:
                low = middle
            else:
                high = middle - 1
        cost = count(self._with(low)) - self.tokens
        if cost > room or not (low or self.is_symbol):
            return 0
        self.shown, self.text, self.tokens = low, self._with(low), self.tokens + cost
        return cost

    def document(self, room: int, count: Callable[[str], int]) -> int:
        """Shows all that documents it, if that fits, and says what it costs more than before."""
        if self.missing or not any(self.docs):
            return 0
        if self.is_symbol:
            text = f"{self.text.rstrip()} - {self.docs[0]}\n"
        else:
            text = f"{self.head}:\n" + "".join(map(_documented, self.names, self.docs))
        cost = count(text) - self.tokens
        if cost > room:
            return 0
        self.text, self.tokens = text, self.tokens + cost
        return cost

    def _with(self, names: int) -> str:
        listed = f": {', '.join(self.names[:names])}" if names else ""
        left = len(self.names) - names
        return f"{self.head}{listed}{f' (+{left})' if left else ''}\n"


def _documented(name: str, doc: str) -> str:
    return f"  {name} - {doc}\n" if doc else f"  {name}\n"


def render(scene: Scene) -> RenderedView:
    """The summary. Never over the budget; empty where not even "..." fits."""
    instead = instead_of_lines(scene)
    if instead is not None:
        return instead
    if scene.revision.is_listing:
        return one_line((scene.revision.notice,), scene.budget, scene.count)
    outline = scene.outline or Outline(tier="indentation")
    head = heading(outline, len(scene.revision.lines))
    if scene.summary:
        return _written(scene, head)
    share = max(scene.revision.size // _BYTES_PER_TOKEN, _FLOOR)
    limit = min(scene.budget, share)
    region = _region(outline, scene.place.line + 1)
    about = _about(scene, outline, region, head)
    text, is_whole = _composed(scene, outline, region, about, limit)
    tokens = scene.count(text)
    if tokens > scene.budget:
        return one_line((about[-1],), scene.budget, scene.count, whole=not outline.symbols)
    first = scene.revision.first_line + (outline.symbols[region].first_line - 1 if region != TOP else 0)
    return RenderedView(
        text=text, tokens=tokens, first_line=first, last_line=first, whole=is_whole or share <= scene.budget
    )


def _region(outline: Outline, line: int) -> int:
    """The index of the innermost symbol around the line that holds others; TOP at the top of the text."""
    if line <= 1:
        return TOP
    parents = {symbol.parent for symbol in outline.symbols}
    return next((index for index in reversed(around(outline, line)) if index in parents), TOP)


def _written(scene: Scene, head: str) -> RenderedView:
    """The summary that a model wrote, whole or as much of it as fits."""
    count, budget = scene.count, scene.budget
    text = scene.summary.strip()
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if count(_cut(head, text, middle)) <= budget:
            low = middle
        else:
            high = middle - 1
    if not low:
        return one_line((head,), budget, count, whole=False)
    shown = _cut(head, text, low)
    return RenderedView(text=shown, tokens=count(shown), first_line=1, last_line=1, whole=low == len(text))


def _cut(head: str, text: str, size: int) -> str:
    end = "" if size == len(text) else ELLIPSIS
    return f"{head}, as a model wrote of them:\n{text[:size].rstrip()}{end}\n"


def _about(scene: Scene, outline: Outline, region: int, head: str) -> tuple[str, ...]:
    """What the region is, on one line, the longest first."""
    if region == TOP:
        doc = outline.doc or ("" if outline.symbols else first_line("\n".join(scene.revision.lines[:20])))
    else:
        symbol = outline.symbols[region]
        head = f"{text_of(symbol, SHORTEST)}, lines {range_of(symbol, scene.revision.first_line - 1)} of {head}"
        doc = symbol.doc
    return (f"{head}: {cut_line(doc, _DOC_CHARS)}", head) if doc else (head,)


def _composed(scene: Scene, outline: Outline, region: int, about: Sequence[str], limit: int) -> tuple[str, bool]:
    """The text within `limit` tokens, and whether nothing is left out."""
    count = scene.count
    top = next((line + "\n" for line in about if count(line + "\n") <= limit // 2), about[-1] + "\n")
    lines = _lines(outline, region)
    reserved = count(_rest(sum(max(len(line.names), 1) for line in lines)))
    room = limit - count(top) - reserved
    # What is public in the region is named before anything within it is.
    for line in sorted(lines, key=lambda line: not line.is_symbol):
        room -= line.fit(room, 0 if line.is_symbol else len(line.names), count)
    for line in lines:
        room -= line.fit(room, len(line.names) if line.text else 0, count)
    imports = _Line("imports", _packages(outline) if region == TOP else [], False, [])
    if all(line.text for line in lines):
        room += reserved
        for line in (*lines, imports):
            room -= line.fit(room, len(line.names), count)
        for line in lines:
            room -= line.document(room, count)
    missing = sum(line.missing for line in lines if not line.text)
    text = "".join(line.text for line in (imports, *lines))
    return top + text + _rest(missing), not any(line.missing for line in lines)


def _rest(names: int) -> str:
    return more(names, "name") + "\n" if names else ""


def _packages(outline: Outline) -> list[str]:
    """What the text imports from outside, of Python's modules the packages that they are in."""
    names = (name.partition(".")[0] if outline.language == "python" else name for name in outline.from_outside)
    return list(dict.fromkeys(names))


def _lines(outline: Outline, region: int) -> list[_Line]:
    """A line for each symbol of the region that holds others, and one for all others of a kind, in their order."""
    inner: dict[int, list[str]] = {}
    for symbol in outline.symbols:
        if symbol.public:
            inner.setdefault(symbol.parent, []).append(name_of(symbol))
    lines: dict[object, _Line] = {}
    for index, symbol in enumerate(outline.symbols):
        if symbol.parent != region or not symbol.public:
            continue
        if index in inner:
            lines[index] = _Line(text_of(symbol, SHORTEST), inner[index], True, [cut_line(symbol.doc, _DOC_CHARS)])
        else:
            group = lines.setdefault(symbol.kind, _Line(_PLURALS[symbol.kind], [], False, []))
            group.names.append(name_of(symbol))
            group.docs.append(cut_line(symbol.doc, _DOC_CHARS))
    return list(lines.values())
