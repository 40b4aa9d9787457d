"""Level 2: a few lines about the region around the place: documentation, names, imports from outside.

The region is the innermost symbol around the place that contains others, or the whole text. A model's summary is shown
if there is one. Otherwise this level costs at most a twentieth of the text, whatever the budget: documentation first,
then the names of public symbols in the region, then names within those, then imports; values come last. A truncated
list counts the missing names, and a last line counts symbols without a line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from ...core.text import ELLIPSIS, cut_line, first_line, more, plural
from ..outline.model import TOP, Kind, Outline
from ..rendered import RenderedView
from .scene import Scene, instead_of_lines, one_line
from .symbols import VALUED, Share, around, heading, kind_and_name, name_of, range_of

_SHARE: Final = Share(105, 72, 28)
"""A twentieth of a text with 5 bytes for each token, and a sixth of a small one."""
_DOC_CHARS: Final = (240, 160, 110, 80, 50)
"""The documentation takes the first of these lengths that fits."""
_DOC_TOKENS: Final = 32
"""Documentation may take half of the level's tokens; for a small text this many, and at most two thirds."""
_PLURALS: Final[dict[Kind, str]] = {"property": "properties"}
"""Irregular plurals."""


@dataclass(slots=True)
class _Line:
    """A line of the summary while its length is decided: a head, then names.

    `text` is empty until it fits.

    `is_symbol`: the head is a symbol, which is useful without names too. `is_value`: the names are of values. `docs`
    document the head, or its names; they are shown if all of them fit.
    """

    head: str
    names: list[str]
    is_symbol: bool
    is_value: bool
    docs: list[str]
    shown: int = 0
    text: str = ""
    tokens: int = 0

    @property
    def missing(self) -> int:
        return len(self.names) - self.shown if self.text else max(len(self.names), 1)

    @property
    def named(self) -> int:
        """Number of the region's symbols that it names."""
        return (1 if self.is_symbol else self.shown) if self.text else 0

    def fit(self, room: int, most: int, count: Callable[[str], int]) -> int:
        """Show as many names as fit, at most `most`.

        Return the extra cost, 0 for no change.
        """
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
        """Show all documentation if it fits; return the extra cost."""
        if self.missing or not any(self.docs):
            return 0
        if self.is_symbol:
            names = f"  {', '.join(self.names)}\n" if self.names else ""
            text = f"{self.head} - {self.docs[0]}\n{names}"
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
    """Render the summary; empty if not even "..." fits."""
    instead = instead_of_lines(scene)
    if instead is not None:
        return instead
    if scene.revision.is_listing:
        return one_line((scene.revision.notice,), scene.budget, scene.count)
    outline = scene.outline or Outline(tier="indentation")
    head = heading(outline, len(scene.revision.lines))
    if scene.summary:
        return _written(scene, head)
    share = _SHARE.of(scene.revision)
    limit = min(scene.budget, share)
    region = _region(outline, scene.place.line + 1)
    main = _main(outline, region)
    if main != region:
        head = f"{head}, all in {kind_and_name(outline.symbols[main])}"
    about = _about(scene, outline, region, main, head)
    text, is_whole = _composed(scene, outline, main, about, limit, is_all=region == TOP)
    tokens = scene.count(text)
    if tokens > scene.budget:
        return one_line((about[-1],), scene.budget, scene.count, whole=not outline.symbols)
    first = scene.revision.first_line + (outline.symbols[region].first_line - 1 if region != TOP else 0)
    return RenderedView(
        text=text, tokens=tokens, first_line=first, last_line=first, whole=is_whole or share <= scene.budget
    )


def _region(outline: Outline, line: int) -> int:
    """Return the index of the innermost symbol around a line that contains others; TOP for the whole text."""
    if line <= 1:
        return TOP
    parents = {symbol.parent for symbol in outline.symbols}
    return next((index for index in reversed(around(outline, line)) if index in parents), TOP)


def _written(scene: Scene, head: str) -> RenderedView:
    """Render a model's summary, as much as fits."""
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


def _main(outline: Outline, region: int) -> int:
    """Return the region, or its only symbol: a namespace, the class of a file, the title of a text."""
    children: dict[int, list[int]] = {}
    for index, symbol in enumerate(outline.symbols):
        children.setdefault(symbol.parent, []).append(index)
    while len(inner := children.get(region, ())) == 1 and any(
        child in children for child in children.get(inner[0], ())
    ):
        region = inner[0]
    return region


def _about(scene: Scene, outline: Outline, region: int, main: int, head: str) -> tuple[str, ...]:
    """Describe the region in one line, longest version first."""
    if region == TOP:
        doc = outline.doc or ("" if outline.symbols else first_line("\n".join(scene.revision.lines[:20])))
        doc = doc or (outline.symbols[main].doc if main != TOP else "")
    else:
        symbol = outline.symbols[region]
        head = f"{kind_and_name(symbol)}, lines {range_of(symbol, scene.revision.first_line - 1)} of {head}"
        doc = symbol.doc
    return (*(f"{head}: {cut_line(doc, chars)}" for chars in _DOC_CHARS if doc), head)


def _composed(
    scene: Scene, outline: Outline, region: int, about: Sequence[str], limit: int, *, is_all: bool
) -> tuple[str, bool]:
    """Return the text within `limit` tokens, and whether it is complete.

    Args:
        is_all: whether the region is the whole text, which has imports.
    """
    count = scene.count
    most = max(limit // 2, min(limit * 2 // 3, _DOC_TOKENS))
    top = next((line + "\n" for line in about if count(line + "\n") <= most), about[-1] + "\n")
    room = limit - count(top)
    imports = _Line("imports", _packages(outline) if is_all else [], False, True, [])
    lines = _lines(outline, region)
    _fill(lines, imports, room, count)
    is_whole = not any(line.missing for line in lines)
    if not all(line.text for line in lines):
        # Without their contents, names share a line and take less, so more of them fit.
        plain = _lines(outline, region, inside=False)
        _fill(plain, imports, room, count)
        lines = max(lines, plain, key=lambda lines: sum(line.named for line in lines))
    missing = sum(line.missing for line in lines if not line.text)
    return "".join((top, imports.text, *(line.text for line in lines), _rest(missing))), is_whole


def _fill(lines: Sequence[_Line], imports: _Line, room: int, count: Callable[[str], int]) -> None:
    """Show as much of the lines as fits, and imports if all lines do."""
    reserved = count(_rest(sum(max(len(line.names), 1) for line in lines)))
    room -= reserved
    by_worth = sorted(lines, key=lambda line: line.is_value)
    # Public symbols of the region come before inner ones, and one of each kind before the others.
    for line in sorted(by_worth, key=lambda line: not line.is_symbol):
        room -= line.fit(room, 0 if line.is_symbol else 1, count)
    for line in sorted(by_worth, key=lambda line: line.is_symbol):
        room -= line.fit(room, len(line.names) if line.text else 0, count)
    if all(line.text for line in lines):
        room += reserved
        for line in (*by_worth, imports):
            room -= line.fit(room, len(line.names), count)
        for line in by_worth:
            room -= line.document(room, count)


def _rest(names: int) -> str:
    return more(names, "name") + "\n" if names else ""


def _plural(kind: Kind) -> str:
    return _PLURALS.get(kind) or plural(2, kind)


def _told(outline: Outline, region: int) -> Collection[int]:
    """Return the public symbols, or all if none is public."""
    public = {index for index, symbol in enumerate(outline.symbols) if symbol.public}
    return public if any(outline.symbols[index].parent == region for index in public) else range(len(outline.symbols))


def _packages(outline: Outline) -> list[str]:
    """Return imports from outside; Python's modules by their packages."""
    names = (name.partition(".")[0] if outline.language == "python" else name for name in outline.from_outside)
    return list(dict.fromkeys(names))


def _lines(outline: Outline, region: int, *, inside: bool = True) -> list[_Line]:
    """Make a line for each symbol that contains others, and one for the others of each kind, in order.

    Unless `inside`, the contents of symbols do not count.
    """
    is_told = _told(outline, region)
    inner: dict[int, dict[str, bool]] = {}
    for index, symbol in enumerate(outline.symbols):
        if index in is_told:
            # Overloads count once.
            inner.setdefault(symbol.parent, {}).setdefault(name_of(symbol), symbol.kind in VALUED)
    lines: dict[object, _Line] = {}
    for index, symbol in enumerate(outline.symbols):
        if symbol.parent != region or index not in is_told:
            continue
        if inside and index in inner:
            names = sorted(inner[index], key=lambda name: inner[index][name])
            lines[index] = _Line(kind_and_name(symbol), names, True, False, [symbol.doc])
        else:
            empty = _Line(_plural(symbol.kind), [], False, symbol.kind in VALUED, [])
            group = lines.setdefault(symbol.kind, empty)
            if name_of(symbol) not in group.names:
                group.names.append(name_of(symbol))
                group.docs.append(symbol.doc)
    return list(lines.values())
