"""All levels: budgets, exact counts, equal texts for equal scenes, and reviewed renders of real files.

`python -m tests.support.levels` writes the reviewed renders.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.levels import LEVELS_LINE, LEVELS_OF_DETAIL
from engine.core.tokens import count
from engine.core.toolbox import VIEWS
from engine.files.detail import LEVELS, checked_lod
from engine.files.detail.outline import kind_and_name
from engine.files.detail.scene import Scene
from engine.files.document import resolve
from engine.files.outline.fallbacks import outline_by_indentation
from engine.files.outline.model import TOP, Kind, Outline, Symbol
from engine.files.rendered import UNBOUNDED, RenderedView
from engine.files.revision import Revision, without_content
from tests.support.examples import examples
from tests.support.levels import FOLDER, kept, levels_of
from tests.support.outlines import samples
from tests.support.revisions import decoded, from_text

_CHARS = st.one_of(st.characters(), st.sampled_from("漢字かな👩‍👩‍👧‍👦\0\t\r\x0b\x0c\u2028\ud800\udfff �"))
_LINES = st.lists(
    st.one_of(
        st.sampled_from(
            ["", " ", "}", "/", "\r", "class Foo:", "    def bar(self, x: int = 3) -> str:", "        return 1", "# H"]
        ),
        st.text(_CHARS, max_size=40),
        st.just("漢字" * 5_000),
    ),
    max_size=80,
)
_BUDGETS = st.one_of(st.integers(1, 60), st.integers(1, 100_000))


@st.composite
def _outlines(draw: st.DrawFn) -> Outline:
    """Any outline, of whatever text: levels do not trust that it fits theirs."""
    symbols: list[Symbol] = []
    for index in range(draw(st.integers(0, 25))):
        parent = draw(st.integers(-1, index - 1))
        first = draw(st.integers(1, 90))
        name = draw(st.text(_CHARS.filter(lambda char: char != "\n"), max_size=12))
        symbols.append(
            Symbol(
                kind=draw(st.sampled_from(["class", "function", "constant", "heading", "key", "block"])),
                name=name,
                qualified=name,
                first_line=first,
                last_line=first + draw(st.integers(0, 30)),
                signature=draw(st.text(_CHARS.filter(lambda char: char != "\n"), max_size=60)),
                parent=parent,
                depth=0 if parent < 0 else symbols[parent].depth + 1,
                doc=draw(st.sampled_from(["", "Does a thing.", "漢字" * 99])),
                public=draw(st.booleans()),
            )
        )
    symbols.sort(key=lambda symbol: symbol.parent)
    return Outline(
        tier="tree-sitter",
        language="python",
        doc=draw(st.sampled_from(["", "A module.", "word " * 200])),
        symbols=tuple(symbols),
        from_outside=tuple(draw(st.lists(st.sampled_from(["os", "a.b", "漢"]), max_size=9))),
        complete=draw(st.booleans()),
        has_errors=draw(st.booleans()),
    )


def _scene(revision: Revision, outline: Outline | None, line: int, budget: int, before: Revision | None) -> Scene:
    return Scene(
        revision=revision,
        place=resolve(str(line), revision.lines, revision.first_line),
        budget=budget,
        count=count,
        outline=outline,
        last_shown=before,
        shown_in=3,
    )


def _holds(rendered: RenderedView, budget: int) -> None:
    assert rendered.tokens == count(rendered.text) <= budget
    assert rendered.text == "" or rendered.text.endswith("\n")


@pytest.mark.parametrize("level", LEVELS)
@examples(0.4)
@given(_LINES, st.booleans(), st.none() | _outlines(), st.integers(0, 90), _BUDGETS, st.none() | _LINES)
def test_every_render_is_exact_pure_and_within_its_budget(
    level: int, lines: list[str], ended: bool, outline: Outline | None, line: int, budget: int, before: list[str] | None
) -> None:
    text = "\n".join(lines) + "\n" * ended
    revision = from_text(text)
    used = outline or outline_by_indentation(text.encode("utf-8", "replace"))
    scene = _scene(revision, used, line, budget, None if before is None else from_text("\n".join(before)))
    first = LEVELS[level](scene)
    _holds(first, budget)
    assert LEVELS[level](scene) == first


@pytest.mark.parametrize("budget", [1, 3, 9, 11, 16, 40, 200, 5_000])
def test_a_models_summary_is_shown_as_far_as_it_fits(budget: int) -> None:
    summary = "It counts words. 漢字 " * 20
    scene = replace(_scene(from_text("class A:\n    pass\n"), None, 1, budget, None), summary=summary)
    rendered = LEVELS[2](scene)
    _holds(rendered, budget)
    assert rendered.whole == (summary.strip() in rendered.text) == (budget >= 200)
    if budget >= 40:
        assert rendered.text.startswith("2 lines, summarized by a model:\nIt counts words.")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "revision",
    [
        decoded(bytes(range(256)) * 40),
        from_text(""),
        without_content("missing", "(no file a.py; create it and Refresh(), or view another path)"),
        without_content("unreadable", "(a.py cannot be read: Permission denied; Refresh() tries again)"),
        without_content("directory", "(a is a directory; view a file in it)"),
        without_content("too large", "(a.bin has 9,999,999,999 bytes)"),
    ],
    ids=lambda revision: revision.state,
)
def test_what_has_no_text_is_one_line_at_every_level(level: int, revision: Revision) -> None:
    for before in (None, revision):
        rendered = LEVELS[level](_scene(revision, None, 1, 2000, before))
        assert rendered.text.count("\n") == 1
        assert rendered.text.startswith("(")
    for budget in range(1, 40):
        _holds(LEVELS[level](_scene(revision, None, 1, budget, None)), budget)


def test_unknown_level_is_refused_with_the_known_ones() -> None:
    unknown = len(LEVELS_OF_DETAIL)
    with pytest.raises(ValueError, match=f"lod={unknown}: .*{LEVELS_LINE}"):
        checked_lod(unknown)
    assert LEVELS_LINE.startswith("0 text, 1 outline, 2 summary, 3 changes")


def test_models_learn_of_every_level() -> None:
    (comment,) = [each.comment for each in VIEWS["view"] if each.source == "readme.SetLod(1)"]
    assert comment.startswith("symbols with their lines; 2: summary, 3: what changed since you read it")
    assert all(level.comment in comment for level in LEVELS_OF_DETAIL)


@pytest.mark.parametrize("line", [3, 9])
def test_symbols_shown_in_full_do_not_count_as_missing(line: int) -> None:
    text = "import os\n\n\ndef f():\n    return 1\n\n\nclass A:\n    def x(self):\n        pass\n"
    revision = from_text(text)
    outline = outline_by_indentation(text.encode())
    assert len(outline.symbols) == 3
    shown = LEVELS[1](_scene(revision, outline, line, 2_000, None))
    assert shown.whole
    assert "more" not in shown.text


def test_all_names_are_shown_and_details_within_a_share() -> None:
    text = "".join(f"def name_{number}(value: int) -> int:\n    return {number}\n\n\n" for number in range(60))
    revision, outline = from_text(text), outline_by_indentation(text.encode())
    all_of_it = LEVELS[1](replace(_scene(revision, outline, 0, 100_000, None), sparing=True))
    assert all_of_it.whole
    assert all(f"def name_{number}\n" in all_of_it.text for number in range(60))
    assert "value" not in all_of_it.text
    chosen = LEVELS[1](_scene(revision, outline, 0, 100_000, None))
    assert chosen.text.count("(value: int)") == 60
    less = LEVELS[1](_scene(revision, outline, 0, all_of_it.tokens // 2, None))
    assert not less.whole
    assert "more symbols" in less.text


def test_inner_keys_have_a_share_unless_a_budget_is_given() -> None:
    def key(name: str, first: int, last: int, parent: int) -> Symbol:
        return Symbol("key", name, name, first, last, name, parent, parent + 1)

    symbols = key("top", 1, 91, -1), *(key(f"key{line}", line, line, 0) for line in range(2, 92))
    revision = from_text("top:\n" + "".join(f"  key{line}: 1\n" for line in range(2, 92)))
    scene = _scene(revision, Outline(tier="tree-sitter", symbols=symbols), 0, 100_000, None)
    assert LEVELS[1](scene).text.count("key") == 90
    shown = LEVELS[1](replace(scene, sparing=True))
    assert shown.whole
    assert 0 < shown.text.count("key") < 45
    assert "(+" in shown.text


def _summary(outline: Outline, lines: int = 2_000) -> str:
    """Level 2 of so many lines of one token and a newline each."""
    return LEVELS[2](replace(_scene(from_text("x\n" * lines), outline, 0, UNBOUNDED, None), sparing=True)).text


def _symbol(kind: Kind, name: str, signature: str = "", parent: int = TOP, doc: str = "") -> Symbol:
    return Symbol(kind, name, name, 1, 1_000, signature or name, parent, int(parent != TOP), doc)


def test_a_symbol_is_called_by_its_kind_and_its_name() -> None:
    assert kind_and_name(_symbol("class", "Parser", "class Parser")) == "class Parser"
    assert kind_and_name(_symbol("class", "", "class ")) == "class class"


def test_a_summary_has_documentation_before_names() -> None:
    outline = Outline(
        tier="tree-sitter",
        symbols=(
            _symbol("class", "A", doc="Does it."),
            _symbol("property", "x", parent=0),
            _symbol("method", "f", "f()", parent=0),
            _symbol("method", "f", "f(a)", parent=0),
            _symbol("class", "A", "implicit object A", doc="Makes it."),
            _symbol("method", "apply", parent=4),
            _symbol("extension", "A", "impl<'a> A"),
            _symbol("method", "g", parent=6),
        ),
    )
    assert _summary(outline, 5_000).splitlines()[1:] == [
        "class A - Does it.",
        "  f, x",
        "object A - Makes it.",
        "  apply",
        "impl<'a> A: g",
    ]


def test_a_summary_leaves_out_values_before_functions() -> None:
    names = [f"name_of_it_{number}" for number in range(40)]
    values = tuple(_symbol("variable", name.upper()) for name in names)
    outline = Outline(tier="tree-sitter", symbols=(*values, *(_symbol("function", name) for name in names[:3])))
    text = _summary(outline, 4_000)
    assert "functions: name_of_it_0, name_of_it_1, name_of_it_2\n" in text
    assert re.search(r"variables: NAME_OF_IT_0.* \(\+[0-9]+\)\nfunctions", text)


def test_a_summary_names_outer_symbols_before_inner_ones() -> None:
    keys = [_symbol("key", f"key_{number}") for number in range(12)]
    inner = tuple(_symbol("key", "x", parent=number) for number in range(12))
    outline = Outline(tier="tree-sitter", symbols=(*keys, *inner))
    shown = [LEVELS[2](_scene(from_text("x\n" * 99), outline, 0, budget, None)).text for budget in range(8, 200)]
    assert any("key_0, key_1 (+10)" in text for text in shown)
    assert all("key_11" in text for text in shown if ": x" in text)
    assert "key_11: x" in shown[-1]
    kinds: tuple[Kind, ...] = ("class", "function", "type")
    long = (_symbol(kind, f"{kind}_name_{number}") for kind in kinds for number in range(60))
    told = _summary(Outline(tier="tree-sitter", symbols=tuple(long)), 3_000)
    assert [line.partition(":")[0] for line in told.splitlines()[1:]] == ["classes", "functions", "types"]


def test_a_summary_begins_with_fitting_documentation() -> None:
    outline = Outline(tier="tree-sitter", doc="Reads it. " * 100, symbols=(_symbol("function", "read"),))
    heads = [_summary(outline, lines).splitlines()[0] for lines in (500, 4_000, 9_000)]
    assert all(re.fullmatch(r"[0-9]+ lines: Reads it\. .*…", head) for head in heads)
    assert len(heads[0]) < len(heads[1]) < len(heads[2]) < 270
    only = (_symbol("class", "A", doc="Does it."), _symbol("class", "B", parent=0), _symbol("method", "f", parent=1))
    outline = Outline(tier="tree-sitter", symbols=only)
    assert _summary(outline).splitlines()[0] == "2000 lines, all in class A: Does it."


@pytest.mark.parametrize("sample", samples(), ids=lambda path: path.name)
def test_the_levels_of_real_files_are_as_reviewed(sample: Path) -> None:
    assert levels_of(sample) == kept(sample).read_text(encoding="utf-8")


def test_every_golden_text_has_its_file() -> None:
    assert sorted(FOLDER.iterdir()) == sorted(map(kept, samples()))
