"""Level 2: what the region around the place is about, in a few lines: what documents it, names, imports from outside.

The region is the innermost symbol around the place that holds others, or all of the text. Where a model has written a
summary, that is shown. Otherwise this level costs at most a twentieth of the text, whatever the budget: first comes
what documents it, then the names of what is public in the region, then the names within each of those, then imports;
values come after what does something. A list that is cut says how many names are missing, and a last line counts what
has no line at all.
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
"""A twentieth of a text that has 5 bytes for each of its tokens, and of a small one a sixth."""
_DOC_CHARS: Final = (240, 160, 110, 80, 50)
"""What documents the region has as many as there is room for."""
_DOC_TOKENS: Final = 32
"""It may take half of what the level may take; of a small text so much, and two thirds at most."""
_PLURALS: Final[dict[Kind, str]] = {"property": "properties"}
"""What no rule gives."""


@dataclass(slots=True)
class _Line:
    """A line of the summary while it is decided how much it shows: a head, then names. `text` is empty until it fits.

    `is_symbol`: the head stands for a symbol, so it says something without names too. `is_value`: the names are of
    values. `docs` are what documents it, or its names; they are shown where there is room for all of them.
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
        """How many symbols of the region it names."""
        return (1 if self.is_symbol else self.shown) if self.text else 0

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


def _main(outline: Outline, region: int) -> int:
    """The region, or what of it holds all the rest: a namespace, the class of a file, the title of a text."""
    children: dict[int, list[int]] = {}
    for index, symbol in enumerate(outline.symbols):
        children.setdefault(symbol.parent, []).append(index)
    while len(inner := children.get(region, ())) == 1 and any(
        child in children for child in children.get(inner[0], ())
    ):
        region = inner[0]
    return region


def _about(scene: Scene, outline: Outline, region: int, main: int, head: str) -> tuple[str, ...]:
    """What the region is, on one line, the longest first."""
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
    """The text within `limit` tokens, and whether nothing is left out.

    Args:
        is_all: whether it is about all of the text, of which imports are a part.
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
        # Names on one line take less, so more of them fit than with what is in each.
        plain = _lines(outline, region, inside=False)
        _fill(plain, imports, room, count)
        lines = max(lines, plain, key=lambda lines: sum(line.named for line in lines))
    missing = sum(line.missing for line in lines if not line.text)
    return "".join((top, imports.text, *(line.text for line in lines), _rest(missing))), is_whole


def _fill(lines: Sequence[_Line], imports: _Line, room: int, count: Callable[[str], int]) -> None:
    """Shows of the lines what fits in so many tokens, and of the imports, where all lines do."""
    reserved = count(_rest(sum(max(len(line.names), 1) for line in lines)))
    room -= reserved
    by_worth = sorted(lines, key=lambda line: line.is_value)
    # What is public in the region is named before anything within it is, and of each kind one before others.
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
    """The symbols that are public, or where the region has none that is, all."""
    public = {index for index, symbol in enumerate(outline.symbols) if symbol.public}
    return public if any(outline.symbols[index].parent == region for index in public) else range(len(outline.symbols))


def _packages(outline: Outline) -> list[str]:
    """What the text imports from outside, of Python's modules the packages that they are in."""
    names = (name.partition(".")[0] if outline.language == "python" else name for name in outline.from_outside)
    return list(dict.fromkeys(names))


def _lines(outline: Outline, region: int, *, inside: bool = True) -> list[_Line]:
    """A line for each symbol of the region that holds others, and one for all others of a kind, in their order.

    Where not `inside`, what symbols hold does not count.
    """
    is_told = _told(outline, region)
    inner: dict[int, dict[str, bool]] = {}
    for index, symbol in enumerate(outline.symbols):
        if index in is_told:
            # An overloaded name is one name.
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
