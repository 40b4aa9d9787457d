"""Level 0 is within its budget, pure, shows the line at the place, and counts omitted lines."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.tokens import count
from engine.files.detail.scene import LONGEST_WHOLE, Scene
from engine.files.detail.text import render
from engine.files.document import Place, resolve
from engine.files.rendered import UNBOUNDED, RenderedView
from engine.files.revision import Revision, without_content
from tests.support.examples import examples
from tests.support.revisions import decoded, from_text

_TEXTS = st.one_of(
    st.lists(
        st.one_of(
            st.sampled_from(["", " ", "\t", "}", "/", "\r", "def f():", "    return 1", "漢字" * 9, "x" * 9_000]),
            st.text(st.characters(exclude_categories=("Cs",)), max_size=30),
        ),
        max_size=120,
    ).map("\n".join),
    st.text(max_size=200),
)
_BUDGETS = st.one_of(st.integers(1, 40), st.integers(1, 800), st.just(UNBOUNDED))


def _render(revision: Revision, pos: str | int, budget: int) -> RenderedView:
    return render(Scene(revision=revision, place=resolve(pos, revision.lines), budget=budget, count=count))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"^(\d+)\t", text, re.MULTILINE)]


@examples(2)
@given(_TEXTS, st.one_of(st.integers(0, 20_000), st.integers(0, 130).map(str)), _BUDGETS)
def test_never_over_budget_exact_and_deterministic(text: str, pos: str | int, budget: int) -> None:
    revision = from_text(text)
    first = _render(revision, pos, budget)
    assert first.tokens == count(first.text) <= budget
    assert first.text == "" or first.text.endswith("\n")
    assert _render(from_text(text), pos, budget) == first
    _render(revision, "1", 7)
    assert _render(revision, pos, budget) == first


@examples(2)
@given(_TEXTS, st.integers(1, 130), st.integers(0, 400))
def test_the_line_at_the_place_is_shown_whenever_it_fits(text: str, line: int, spare: int) -> None:
    revision = from_text(text)
    if not revision.lines:
        return
    place = resolve(str(line), revision.lines)
    whole = f"{place.line + 1}\t{revision.lines[place.line]}\n"
    if len(revision.lines[place.line]) > LONGEST_WHOLE:
        return
    rendered = render(Scene(revision=revision, place=place, budget=count(whole) + spare, count=count))
    assert whole in rendered.text
    assert rendered.first_line is not None
    assert rendered.last_line is not None
    assert rendered.first_line <= place.line + 1 <= rendered.last_line


def test_what_is_left_out_above_and_below_is_counted() -> None:
    revision = from_text("".join(f"line {number}\n" for number in range(1, 1001)))
    rendered = _render(revision, "500", 200)
    lines = rendered.text.splitlines()
    numbers = _numbers(rendered.text)
    assert lines[0] == f"... {numbers[0] - 1} lines above"
    assert lines[-1] == f"... {1000 - numbers[-1]} lines below"
    assert numbers == list(range(rendered.first_line or 0, (rendered.last_line or 0) + 1))
    assert rendered.tokens > 190


def test_a_budget_for_everything_shows_everything_without_markers() -> None:
    revision = from_text("a\nb\n\nc\n")
    assert _render(revision, "3", UNBOUNDED).text == "1\ta\n2\tb\n3\t\n4\tc\n"


def test_no_place_wastes_the_room_of_a_line() -> None:
    revision = from_text("".join(f"line {number:03d}\n" for number in range(1, 101)))
    line = count("100\tline 100\n")
    for number in range(1, 101):
        assert _render(revision, str(number), 100).tokens > 100 - line


def test_another_budget_on_the_same_revision_counts_no_line_twice() -> None:
    counted: list[str] = []

    def counting(text: str) -> int:
        counted.append(text)
        return count(text)

    revision = from_text("".join(f"line {number}\n" for number in range(2000)))
    scene = Scene(revision=revision, place=Place(1000, 0), budget=900, count=counting)
    render(scene)
    counted.clear()
    render(replace(scene, budget=700))
    assert len(counted) < 20


def test_a_line_beyond_the_budget_is_cut_and_says_so() -> None:
    revision = from_text("short\n" + "word " * 500 + "\nshort")
    rendered = _render(revision, "2:1000", 60)
    assert re.fullmatch(r"2\t\[\d+ characters left out\] .* \[\d+ characters left out\]\n", rendered.text)
    cut = sum(map(int, re.findall(r"\[(\d+) characters left out\]", rendered.text)))
    shown = re.sub(r" ?\[\d+ characters left out\] ?", "", rendered.text.partition("\t")[2]).rstrip("\n")
    assert 2500 - cut - 2 <= len(shown) <= 2500 - cut


def test_a_huge_line_is_cut_around_the_column() -> None:
    revision = from_text("".join(f"{number:07d}," for number in range(125_000)))
    rendered = _render(revision, "1:500000", UNBOUNDED)
    assert f"{500_000 // 8:07d}," in rendered.text
    assert "characters left out" in rendered.text
    assert len(rendered.text) < 2_100


def test_nothing_is_shown_of_a_huge_line_of_one_word() -> None:
    revision = from_text("".join(f"{number:08d}" for number in range(125_000)))
    assert _render(revision, "1:500000", UNBOUNDED).text == "1\t[1000000 characters left out]\n"


@pytest.mark.parametrize("size", [0, 60, 9_000])
def test_no_part_of_a_key_is_shown_wherever_the_line_is_cut(size: int) -> None:
    key = "sk-proj-Zq9vT4mW7xK/pL8nR3yB6hQ5"
    line = '{"a": "' + "b " * size + f'", "key": "{key}", "c": [1,2,3], ' + "d " * size + "}"
    at = line.index(key)
    for column in range(max(1, at - 40), at + 60, 7):
        for budget in range(10, 60, 3):
            shown = _render(from_text(f"short\n{line}\nshort"), f"2:{column}", budget).text.replace(key, "")
            assert not [key[start : start + 8] for start in range(len(key) - 7) if key[start : start + 8] in shown]


def test_below_the_minimum_a_stub_says_what_is_missing() -> None:
    revision = from_text("".join(f"some words on line {number}\n" for number in range(312)))
    assert _render(revision, "5", 5).text == "... 312 lines\n"
    assert _render(revision, "5", 1).text == "...\n"


def test_an_empty_file_and_a_missing_one_say_so() -> None:
    assert _render(from_text(""), "0:0", 100).text == "(empty file)\n"
    assert _render(from_text(""), "0:0", 2).text in {"(empty)\n", "...\n"}
    gone = without_content("missing", "(no file x.py; create it and Refresh(), or view another path)")
    assert _render(gone, "7", 100).text == gone.notice + "\n"
    assert _render(gone, "7", 4).text == "(missing)\n"


def test_carriage_returns_before_newlines_are_kept() -> None:
    assert _render(decoded(b"a\r\nb\r\n"), "1", 100).text == "1\ta\r\n2\tb\r\n"
