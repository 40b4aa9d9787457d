"""Budgets are used: no name or line disappears with a larger one, and what is left is smaller than the next unit."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.tokens import count
from engine.files.detail import LEVELS, ladder_at, rendered_at
from engine.files.detail.outline import name_of
from engine.files.detail.scene import Scene
from engine.files.document import Place
from engine.files.filling import Ladder, Spent, interleaved, ladder
from engine.files.group_summary import Part, Salience, summarize
from engine.files.outline.fallbacks import outline_by_indentation
from engine.files.outline.model import Outline
from engine.files.rendered import RenderedView
from engine.files.revision import Revision
from tests.support.boards import Desk
from tests.support.examples import examples
from tests.support.outlines import outlined, samples
from tests.support.revisions import decoded

ROOT = Path(__file__).parents[3]
BUDGETS = (20, 24, 30, 40, 48, 60, 80, 100, 130, 170, 200, 240, 300, 400, 600, 900, 1_400, 2_000, 4_000, 9_000, 20_000)
_UNUSED = 0.15
_MARKER = re.compile(r"^\.\.\. .*\n| \(\+[0-9]+\)$|^# .*, [0-9,]+ files?$", re.MULTILINE)


@cache
def _read(path: Path) -> tuple[Revision, Outline]:
    data = path.read_bytes()
    try:
        return decoded(data), outlined(data, path.name)
    except AssertionError:
        return decoded(data), outline_by_indentation(data)


def _edited(revision: Revision) -> Revision:
    lines = list(revision.lines)
    lines[::7] = [f"{line} edited" for line in lines[::7]]
    del lines[3::29]
    return decoded("\n".join(lines).encode("utf-8", "replace"))


def _scene(path: Path, level: int, line: int = 0) -> tuple[Scene, Outline]:
    revision, outline = _read(path)
    shown = _edited(revision) if level == 3 and revision.lines else revision
    line = min(line, max(len(shown.lines) - 1, 0))
    return Scene(
        revision=shown, place=Place(line, 0), budget=1, count=count, title=path.name, last_shown=revision, shown_in=1
    ), outline


def _units(text: str, level: int, names: frozenset[str]) -> set[str]:
    """What must not disappear: whole lines of the document or of its changes, or the names of symbols."""
    text = _MARKER.sub("", text)
    if level in (0, 3):
        numbered = r"^[0-9]+\t.*" if level == 0 else r"^[-+].*"
        return {line for line in re.findall(numbered, text, re.MULTILINE) if "characters left out]" not in line}
    return {name for name in names if name in text}


def _check(render: Callable[[int], RenderedView], levels: int, names: frozenset[str], budgets: Iterable[int]) -> None:
    before: set[str] = set()
    for budget in budgets:
        rendered = render(budget)
        assert rendered.tokens == count(rendered.text) <= budget
        units = _units(rendered.text, levels, names)
        assert before <= units, (budget, sorted(before - units)[:5])
        before = units


def _check_steps(made: Ladder) -> None:
    """Check that more than 15 % of a budget stay unused only for one line, name or hunk.

    With it, counts in the rows around it and in the last line change; a hunk has two lines and its ranges.
    """
    for index, (tokens, following) in enumerate(zip(made.tokens, made.tokens[1:], strict=False)):
        if following - 1 - tokens <= _UNUSED * following:
            continue
        before, after = made.show(index), made.show(index + 1)
        if before.whole:
            continue
        added = set(after.text.splitlines()) - set(before.text.splitlines())
        assert len(added) <= 5, (tokens, following, added)


def _check_file(path: Path, budgets: Sequence[int], lines: Sequence[float]) -> None:
    for level in LEVELS:
        scene, outline = _scene(path, level)
        names = frozenset(name_of(symbol).rstrip("…").rpartition(".")[2] for symbol in outline.symbols)
        for line in sorted({int(part * len(scene.revision.lines)) for part in lines}):
            at, _ = _scene(path, level, line)

            def known(_: Revision, outline: Outline = outline) -> Outline:
                return outline

            def render(
                budget: int, level: int = level, at: Scene = at, known: Callable[[Revision], Outline] = known
            ) -> RenderedView:
                return rendered_at(replace(at, budget=budget), level, known)

            _check(render, level, names, budgets)
            if level and scene.revision.lines:
                _check_steps(ladder_at(replace(at, budget=budgets[-1]), level, known))


@pytest.mark.parametrize("path", [samples()[0], ROOT / "engine/files/ticks.py", ROOT / "docs/views.md"], ids=str)
def test_files_lose_nothing_with_a_larger_budget(path: Path) -> None:
    _check_file(path, BUDGETS[::4], (0, 0.5))


def _tree(folder: Path, *endings: str, most: int = 40) -> list[Path]:
    found = [path for path in sorted(folder.rglob("*")) if path.suffix in endings and path.is_file()]
    return random.Random(5).sample(found, min(most, len(found)))


_TREES: dict[str, Callable[[], Iterable[Path]]] = {
    "samples": samples,
    "engine": lambda: _tree(ROOT / "engine", ".py"),
    "pages": lambda: _tree(ROOT / "docs", ".md", most=10),
    "standard library": lambda: _tree(Path(re.__file__).parents[1], ".py"),
    "node": lambda: _tree(ROOT / "tests/node/node_modules", ".js", ".ts", ".json", ".md"),
}


@pytest.mark.slow
@pytest.mark.parametrize("tree", _TREES)
def test_real_files_lose_nothing_with_a_larger_budget(tree: str) -> None:
    for path in _TREES[tree]():
        _check_file(path, BUDGETS, (0, 0.1, 0.5, 1))


_ODD = {
    "long.txt": b"x" * 2_000_000,
    "plain.txt": b"no names here\n" * 300,
    "empty.py": b"",
    "binary.bin": bytes(range(256)) * 40,
    "deep/a.py": b"def one(value):\n    return value\n\n\nclass Two:\n    def three(self):\n        pass\n" * 9,
    "deep/notes.md": b"# Title\n\ntext\n\n## Part\n\ntext\n" * 5,
}


def _desk(tmp_path: Path, files: dict[str, bytes]) -> Desk:
    desk = Desk(tmp_path)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        desk.write(name, content)
    return desk


def _check_group(desk: Desk, files: dict[str, bytes], members: str, budgets: Sequence[int]) -> None:
    """Check names of files and symbols, and lines, at each level."""
    outlines = (outline_by_indentation(content) for name, content in files.items() if name.endswith((".py", ".md")))
    symbols = {name_of(symbol) for outline in outlines for symbol in outline.symbols}
    names = frozenset({*symbols, *(name.rpartition("/")[2] for name in files)})
    for level in (0, 1, 2):
        for number, budget in enumerate(budgets):
            desk.run(f"g{number} = group({members}, tokens={budget}, lod={level})")

        def render(budget: int) -> RenderedView:
            return desk.get(f"g{budgets.index(budget)}").rendered

        _check(render, 1, names, budgets)


def test_groups_lose_nothing_with_a_larger_budget(tmp_path: Path) -> None:
    _check_group(_desk(tmp_path, _ODD), _ODD, "'**/*'", BUDGETS[::3])


@pytest.mark.slow
@pytest.mark.parametrize("most", [60, 200])
@pytest.mark.parametrize("folder", ["engine/files", "engine/core", "docs", "tests/node/node_modules/ajv/lib"])
def test_groups_of_real_trees_lose_nothing_with_a_larger_budget(tmp_path: Path, folder: str, most: int) -> None:
    found = [path for path in sorted((ROOT / folder).rglob("*")) if path.is_file() and path.suffix != ".pyc"][:most]
    files = {str(path.relative_to(ROOT / folder)): path.read_bytes() for path in found if path.stat().st_size < 200_000}
    _check_group(_desk(tmp_path, files), files, "'**/*'", BUDGETS)


@pytest.mark.slow
def test_a_group_of_forty_languages_loses_nothing_with_a_larger_budget(tmp_path: Path) -> None:
    files = {path.name: path.read_bytes() for path in samples()} | _ODD
    files |= {f"file.lang{number}": b"section:\n  item\n" * number for number in range(20)}
    _check_group(_desk(tmp_path, files), files, "'**/*'", BUDGETS)


def test_a_group_names_what_fits_of_its_files(tmp_path: Path) -> None:
    files = {
        f"src/{name}.py": "".join(f"def {name}_{number}(value):\n    return {number}\n\n\n" for number in range(5))
        for name in "abcde"
    }
    desk = _desk(tmp_path, {path: text.encode() for path, text in files.items()})
    shown: list[int] = []
    for budget in (30, 60, 90, 120, 150, 200, 400):
        desk.run(f"g = group('src/*.py', tokens={budget}, lod=1)")
        rendered = desk.get("g").rendered
        assert all(f"{name}.py" in rendered.text for name in "abcde")
        shown.append(len(set(re.findall(r"def [a-e]_[0-4]", rendered.text))))
        assert rendered.whole or rendered.tokens > budget * (1 - _UNUSED) or budget - rendered.tokens < 24
    assert 0 < shown[2] < shown[4] < shown[6] == 25


def _many(number: int, made: list[str]) -> list[Part]:
    def part(name: str) -> Part:
        def texts(_level: int, limit: int, _sparing: bool) -> Ladder:
            made.append(name)
            view = RenderedView(text="word\n", tokens=2)
            return Ladder((2,) if limit >= 2 else (), lambda _: view)

        return Part(key=name, name=name, title=f"{name}.py", lod=0, need=100, ladder=texts)

    return [part(f"n{index}") for index in range(number)]


def test_two_thousand_handles_share_a_budget_for_ten() -> None:
    made: list[str] = []
    parts = _many(2_000, made)
    parts[1_500] = replace(parts[1_500], salience=Salience(pinned=True))
    shown = summarize(parts, 100, 0, count)
    assert shown.tokens <= 100
    assert shown.text.count("# n") >= 8
    assert "# n1500" in shown.text
    assert re.search(r"^\.\.\. 1,9[89][0-9] members more$", shown.text, re.MULTILINE)
    assert not made


@examples(1)
@given(st.lists(st.integers(0, 30), max_size=40), st.lists(st.integers(0, 12), max_size=40))
def test_a_ladder_never_shows_fewer_units(sizes: list[int], markers: list[int]) -> None:
    def texts() -> Iterable[Spent]:
        used = 0
        for size, marker in zip(sizes, markers, strict=False):
            used += size
            yield Spent(used + marker, used)

    def show(units: int) -> RenderedView:
        return RenderedView(text="x", tokens=0, first_line=units)

    shown = -1
    spent = list(texts())
    for limit in range(400):
        made = ladder(texts(), limit, show)
        last = made.show(len(made.tokens) - 1).first_line if made.tokens else -1
        assert last is not None
        assert last >= shown
        assert last == max((number for number, each in enumerate(spent) if each.tokens <= limit), default=-1)
        assert list(made.tokens) == sorted(set(made.tokens))
        shown = last


def test_streams_get_tokens_by_weight() -> None:
    merged = list(interleaved(((1, ((3, "a") for _ in range(40))), (2, ((5, "b") for _ in range(9))))))
    first = merged[:16]
    used = {name: sum(tokens for tokens, unit in first if unit == name) for name in "ab"}
    assert abs(used["b"] - 2 * used["a"]) <= 10
    assert [unit for _, unit in merged[-10:]] == ["a"] * 10


def _uneven() -> Revision:
    return decoded("".join(f"line {number} {'word ' * (number * 7 % 23)}\n" for number in range(60)).encode())


@pytest.mark.parametrize("level", [0, 3])
def test_lines_stay_with_each_larger_budget(level: int) -> None:
    revision = _uneven()
    scene = Scene(revision=_edited(revision), place=Place(30, 0), budget=1, count=count, last_shown=revision)

    def render(budget: int) -> RenderedView:
        return LEVELS[level](replace(scene, budget=budget))

    _check(render, level, frozenset(), range(60, 420, 9))
