"""Level 2: a summary of the region around the place: responsibilities, names, imports from outside, invariants.

The region is the innermost symbol around the place that contains others, or the whole text. A model's summary is shown
if there is one. Otherwise the units are, in order: the beginning of the region's documentation; the names of its public
symbols, values last; the names within them; imports; more of the documentation; that of each symbol; and lines that say
what holds, such as assertions. If nobody chose the budget, this level takes at most a twentieth of the text. A
truncated list counts the missing names, and a last line counts those of lists that are missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

from ...core.text import ELLIPSIS, cut_line, first_line, more, plural
from ..filling import Ladder, Spent, single
from ..filling import ladder as filled
from ..outline.model import TOP, Kind, Outline, Symbol
from ..rendered import RenderedView
from .outline import VALUED, Share, around, heading, kind_and_name, name_of, range_of
from .scene import Scene, instead_of_lines, one_line

_SHARE: Final = Share(105, 72, 28)
"""A twentieth of a text with 5 bytes for each token, and a sixth of a small one."""
_DOC_CHARS: Final = (50, 80, 110, 160, 240, 600)
"""The documentation of the region grows through these lengths."""
_SHORT_DOCS: Final = 2
"""The number of these lengths that come before the names."""
_PLURALS: Final[dict[Kind, str]] = {"property": "properties"}
"""Irregular plurals."""
_SLACK: Final = 16
"""Tokens that a unit may save at most."""
_RULE: Final = re.compile(
    r"\bassert\b|\b(?:must|never|always|at most|at least|only (?:if|when|after|before)|cannot|not allowed"
    r"|raises|throws|invariant|guarantee[ds]?|requires?)\b",
    re.IGNORECASE,
)
"""Words of lines that say what holds."""
_COMMENTED: Final = re.compile(r"""^\s*(?:#|//|/?\*|--|;|\"{3}|'{3})+\s?""")
_RULE_CHARS: Final = 160
_SHORTEST_RULE: Final = 12
_LONGEST_RULE: Final = 1_000
_MOST_SEARCHED: Final = 20_000
"""Largest number of lines that are searched for rules."""


# --- the lines -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _List:
    """A line of the summary: a head, a colon and names, and below it names with their documentation.

    `total` is the number of names that the line can have. `is_kind`: the head is a kind of symbols. `is_open`: it is a
    symbol that has its line, which is useful without names; `doc` documents it. `listed` are the tokens of the names,
    each with a comma, `below` those of the rows below the line, and `tokens` those of the text.
    """

    head: str
    total: int
    is_kind: bool = False
    is_open: bool = False
    names: list[str] = field(default_factory=list[str])
    documented: list[str] = field(default_factory=list[str])
    doc: str = ""
    listed: int = 0
    below: int = 0
    tokens: int = 0

    @property
    def is_shown(self) -> bool:
        return bool(self.is_open or self.names or self.documented)

    @property
    def missing(self) -> int:
        return self.total - len(self.names) - len(self.documented)

    def text(self) -> str:
        if not self.is_shown:
            return ""
        return "".join((self._begin(), *(f" {name}," for name in self.names[:-1]), self._end(), *self.documented))

    def counted(self, count: Callable[[str], int]) -> int:
        """Return the tokens of the text.

        A space before a visible character begins a token, so the tokens of names add up.
        """
        if not self.is_shown:
            return 0
        last = count(f" {self.names[-1]},") if self.names else 0
        return count(self._begin()) + self.listed - last + count(self._end()) + self.below

    def _begin(self) -> str:
        """Return the text before the names."""
        has_names = self.names or self.missing
        if self.doc:
            return f"{self.head} - {self.doc}" + ("\n " if has_names else "")
        return f"{self.head}:" if self.names or not self.is_open else self.head

    def _end(self) -> str:
        """Return the last name, the number of missing names, and the end of the line."""
        last = f" {self.names[-1]}" if self.names else ""
        return f"{last} (+{self.missing})\n" if self.missing else f"{last}\n"


class _Summary:
    """The lines of a summary while units are added to them, with their tokens."""

    def __init__(self, about: str, imports: _List, lists: Sequence[_List], count: Callable[[str], int]) -> None:
        self.about = about
        self.lists = [imports, *lists]
        self._count = count
        self._rules: list[str] = []
        self._tokens = 0
        self._unshown = {id(each): each.total for each in lists if each.is_kind}
        self._rest = sum(self._unshown.values())

    @property
    def spent(self) -> Spent:
        tokens = self._count(self.about) + self._tokens
        return Spent(tokens + (self._count(_rest(self._rest)) if self._rest else 0), tokens - _SLACK)

    @property
    def is_whole(self) -> bool:
        """Whether it names all symbols of the region."""
        return all((each.is_open or each.is_kind) and not each.missing for each in self.lists[1:])

    def text(self) -> str:
        return "".join((self.about, *(each.text() for each in self.lists), *self._rules, _rest(self._rest)))

    def name(self, each: _List, name: str) -> None:
        """Add a name to a line."""
        each.names.append(name)
        each.listed += self._count(f" {name},")
        self._count_again(each)

    def open(self, line: _List, name: str, own: _List, inner: str) -> None:
        """Give a symbol a line with the first of its names, and take it out of the line of its kind."""
        if self._taken_out(line, name):
            line.total -= 1
            self._count_again(line)
        own.is_open = True
        self.name(own, inner)

    def document(self, each: _List, name: str, doc: str) -> None:
        """Move a name of a line below it, with its documentation."""
        if self._taken_out(each, name):
            each.documented.append(f"  {name} - {doc}\n")
            each.below += self._count(each.documented[-1])
            self._count_again(each)

    def head(self, each: _List, doc: str) -> None:
        """Document the symbol of a line."""
        each.doc = doc
        self._count_again(each)

    def describe(self, about: str) -> None:
        """Set the first line."""
        self.about = about

    def rule(self, text: str) -> None:
        """Add a line of the text that says what holds."""
        self._rules.append(text)
        self._tokens += self._count(text)

    def _taken_out(self, each: _List, name: str) -> bool:
        if name not in each.names:
            return False
        each.names.remove(name)
        each.listed -= self._count(f" {name},")
        return True

    def _count_again(self, each: _List) -> None:
        self._rest -= self._unshown.pop(id(each), 0)
        tokens = each.counted(self._count)
        self._tokens += tokens - each.tokens
        each.tokens = tokens


_Unit = Callable[[_Summary], None]
"""A step of the summary."""


# --- the level -------------------------------------------------------------------------------------------------------


def render(scene: Scene) -> RenderedView:
    """Render the summary; empty if not even "..." fits."""
    instead = _instead(scene)
    if instead is not None:
        return instead
    rendered = ladder(scene).within(scene.budget)
    if rendered is not None:
        return rendered
    outline = scene.outline or Outline(tier="indentation")
    return one_line((_Topic(scene, outline).about(0),), scene.budget, scene.count, whole=not outline.symbols)


def _instead(scene: Scene) -> RenderedView | None:
    instead = instead_of_lines(scene)
    if instead is not None:
        return instead
    if scene.revision.is_listing:
        return one_line((scene.revision.notice,), scene.budget, scene.count)
    if scene.summary:
        return _written(scene, heading(scene.outline or Outline(tier="indentation"), len(scene.revision.lines)))
    return None


def ladder(scene: Scene) -> Ladder:
    """Return the summaries of at most the scene's budget."""
    instead = _instead(scene)
    if instead is not None:
        return single(instead)
    topic = _Topic(scene, scene.outline or Outline(tier="indentation"))
    share = _SHARE.of(scene.revision)

    def texts() -> Iterator[Spent | None]:
        summary, units = topic.begun()
        yield summary.spent
        for unit in units:
            unit(summary)
            spent = summary.spent
            if scene.sparing and spent.least > share:
                return
            yield None if scene.sparing and spent.tokens > share else spent

    def show(number: int) -> RenderedView:
        summary, units = topic.begun()
        for unit in islice(units, number):
            unit(summary)
        text, first = summary.text(), topic.first_line
        is_whole = summary.is_whole or (scene.sparing and share <= scene.budget)
        return RenderedView(text=text, tokens=scene.count(text), first_line=first, last_line=first, whole=is_whole)

    return filled(texts(), scene.budget, show)


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
    return f"{head}, summarized by a model:\n{text[:size].rstrip()}{end}\n"


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


class _Topic:
    """The region around the place, and the units of its summary in order."""

    def __init__(self, scene: Scene, outline: Outline) -> None:
        self._scene = scene
        self._outline = outline
        self._region = _region(outline, scene.place.line + 1)
        self._main = _main(outline, self._region)
        self._head, self._doc = self._described()

    @property
    def first_line(self) -> int:
        """Number of the first line of the region."""
        inner = self._outline.symbols[self._region].first_line - 1 if self._region != TOP else 0
        return self._scene.revision.first_line + inner

    def about(self, chars: int) -> str:
        """Return the first line, with so many characters of documentation, without a newline."""
        return f"{self._head}: {cut_line(self._doc, chars)}" if chars and self._doc else self._head

    def _described(self) -> tuple[str, str]:
        """Return a title of the region, and its documentation."""
        outline, scene, region, main = self._outline, self._scene, self._region, self._main
        head = heading(outline, len(scene.revision.lines))
        if main != region:
            head = f"{head}, all in {kind_and_name(outline.symbols[main])}"
        if region != TOP:
            symbol = outline.symbols[region]
            lines = range_of(symbol, scene.revision.first_line - 1)
            return f"{kind_and_name(symbol)}, lines {lines} of {head}", symbol.doc
        doc = outline.doc or ("" if outline.symbols else first_line("\n".join(scene.revision.lines[:20])))
        return head, doc or (outline.symbols[main].doc if main != TOP else "")

    def begun(self) -> tuple[_Summary, Iterator[_Unit]]:
        """Return a summary of one line, and its units in order."""
        outline = self._outline
        is_told = _told(outline, self._main)
        inner: dict[int, dict[str, Symbol]] = {}
        for index, symbol in enumerate(outline.symbols):
            if index in is_told:
                # Overloads count once.
                inner.setdefault(symbol.parent, {}).setdefault(name_of(symbol), symbol)
        kinds: dict[Kind, _Listed] = {}
        opened: list[_Opened] = []
        lists: list[_List] = []
        for index, symbol in enumerate(outline.symbols):
            if symbol.parent != self._main or index not in is_told:
                continue
            if symbol.kind not in kinds:
                kinds[symbol.kind] = _Listed(_List(_plural(symbol.kind), 0, is_kind=True), symbol.kind in VALUED)
                lists.append(kinds[symbol.kind].line)
            listed = kinds[symbol.kind]
            listed.members.setdefault(name_of(symbol), symbol)
            listed.line.total = len(listed.members)
            if index in inner:
                names = sorted(inner[index].values(), key=lambda each: each.kind in VALUED)
                opened.append(_Opened(listed.line, symbol, _List(kind_and_name(symbol), len(names)), names))
                lists.append(opened[-1].own)
        packages = _packages(outline) if self._region == TOP else []
        imports = _List("imports", len(packages))
        units = self._units(sorted(kinds.values(), key=lambda each: each.is_value), opened, imports, packages)
        return _Summary(self.about(0) + "\n", imports, lists, self._scene.count), units

    def _units(
        self, kinds: Sequence[_Listed], opened: Sequence[_Opened], imports: _List, packages: Sequence[str]
    ) -> Iterator[_Unit]:
        docs = _DOC_CHARS if self._doc else ()
        abouts = [partial(_Summary.describe, about=self.about(chars) + "\n") for chars in docs]
        yield from abouts[:_SHORT_DOCS]
        # One of each kind comes before the others.
        for begin, end in ((0, 1), (1, None)):
            for each in kinds:
                yield from (_name(each.line, symbol) for symbol in islice(each.members.values(), begin, end))
        for each in opened:
            first = name_of(each.names[0])
            yield partial(_Summary.open, line=each.line, name=name_of(each.symbol), own=each.own, inner=first)
        yield from (_name(each.own, symbol) for each in opened for symbol in each.names[1:])
        yield from (partial(_Summary.name, each=imports, name=package) for package in packages)
        yield from abouts[_SHORT_DOCS:]
        yield from (partial(_Summary.head, each=each.own, doc=each.symbol.doc) for each in opened if each.symbol.doc)
        for line, symbols in (
            *((each.line, each.members.values()) for each in kinds),
            *((each.own, each.names) for each in opened),
        ):
            yield from (
                partial(_Summary.document, each=line, name=name_of(symbol), doc=symbol.doc)
                for symbol in symbols
                if symbol.doc
            )
        yield from (partial(_Summary.rule, text=rule) for rule in self._rules())

    def _rules(self) -> Iterator[str]:
        """Yield the lines of the region that say what holds: assertions, and comments with words such as "must"."""
        revision, symbols = self._scene.revision, self._outline.symbols
        start, end = 0, len(revision.lines)
        if self._region != TOP:
            start, end = symbols[self._region].first_line - 1, min(symbols[self._region].last_line, end)
        for index in range(start, min(end, start + _MOST_SEARCHED)):
            line = revision.lines[index]
            if len(line) < _LONGEST_RULE and _RULE.search(line):
                text = cut_line(_COMMENTED.sub("", line).strip(), _RULE_CHARS)
                if len(text) >= _SHORTEST_RULE:
                    yield f"- line {index + revision.first_line}: {text}\n"


@dataclass(frozen=True, slots=True)
class _Listed:
    """The symbols of a kind by name, and their line."""

    line: _List
    is_value: bool
    members: dict[str, Symbol] = field(default_factory=dict[str, Symbol])


@dataclass(frozen=True, slots=True)
class _Opened:
    """A symbol that contains others: the line of its kind, its own line, and the symbols in it, values last."""

    line: _List
    symbol: Symbol
    own: _List
    names: Sequence[Symbol]


def _name(line: _List, symbol: Symbol) -> _Unit:
    return partial(_Summary.name, each=line, name=name_of(symbol))


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
