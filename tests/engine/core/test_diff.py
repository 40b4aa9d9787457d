"""Line diffs: opcodes, unified hunks, and what a change does line by line."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.core.diff import (
    SHOWN_LINES,
    SHOWN_PLACES,
    change_size,
    first_changed_line,
    heading_of,
    hunk_lines,
    hunks,
    is_cut,
    opcodes,
    unseen_changes,
    within,
)
from engine.core.execution import LeftOut, TextChange
from tests.support.examples import examples

_LINES = st.lists(st.one_of(st.sampled_from(["", "}", "a", "b", "x = 1"]), st.integers(0, 40).map(str)), max_size=80)


@st.composite
def _edited(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """A text and an edited copy, which is what diffs are made of in practice."""
    before = draw(_LINES)
    after = list(before)
    for _ in range(draw(st.integers(0, 8))):
        at = draw(st.integers(0, len(after)))
        after[at : at + draw(st.integers(0, 4))] = draw(st.lists(st.sampled_from(["a", "new", "}", ""]), max_size=4))
    return before, after


@examples(2)
@given(st.one_of(_edited(), st.tuples(_LINES, _LINES)))
def test_opcodes_turn_the_old_lines_into_the_new_ones(pair: tuple[list[str], list[str]]) -> None:
    a, b = pair
    i = j = 0
    rebuilt: list[str] = []
    previous = ""
    for code in opcodes(a, b):
        assert (code.i1, code.j1) == (i, j)
        assert code.tag != previous or code.tag != "equal"
        match code.tag:
            case "equal":
                assert a[code.i1 : code.i2] == b[code.j1 : code.j2] != []
            case "replace":
                assert code.i1 < code.i2
                assert code.j1 < code.j2
            case "delete":
                assert code.i1 < code.i2
                assert code.j1 == code.j2
            case "insert":
                assert code.i1 == code.i2
                assert code.j1 < code.j2
        rebuilt += a[code.i1 : code.i2] if code.tag == "equal" else b[code.j1 : code.j2]
        i, j, previous = code.i2, code.j2, code.tag
    assert (i, j) == (len(a), len(b))
    assert rebuilt == b


@examples(2)
@given(_edited(), st.integers(0, 3))
def test_hunks_hold_every_change_once_with_bounded_context(pair: tuple[list[str], list[str]], context: int) -> None:
    codes = opcodes(*pair)
    grouped = list(hunks(codes, context))
    assert [code for hunk in grouped for code in hunk if code.tag != "equal"] == [
        code for code in codes if code.tag != "equal"
    ]
    for hunk in grouped:
        for code in hunk:
            assert code.tag != "equal" or code.i2 - code.i1 <= 2 * context
        for edge in (hunk[0], hunk[-1]):
            assert edge.tag != "equal" or edge.i2 - edge.i1 <= context
        for left, right in pairwise(hunk):
            assert (left.i2, left.j2) == (right.i1, right.j1)


def test_a_moved_unique_line_anchors_what_stands_around_it() -> None:
    a = ["}", "def f():", "}", "def g():", "}"]
    b = ["}", "def f():", "}", "}", "def g():", "}"]
    assert [tuple(code) for code in opcodes(a, b) if code.tag != "equal"] == [("insert", 3, 3, 3, 4)]


@examples(2)
@given(st.permutations("abcdefgh"))
def test_unique_lines_match_as_often_as_possible(b: list[str]) -> None:
    longest = max(len(chosen) for chosen in _ascending(b))
    assert sum(code.i2 - code.i1 for code in opcodes("abcdefgh", b) if code.tag == "equal") == longest


def _ascending(lines: list[str]) -> list[str]:
    """All subsequences in which the lines ascend."""
    found = [""]
    for line in lines:
        found += [chosen + line for chosen in found if chosen[-1:] < line]
    return found


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (
            ["x" if i % 2 else str(i % 50) for i in range(10_000)],
            ["y" if i % 3 else str(i % 40) for i in range(10_000)],
        ),
        (random.Random(1).choices("abc", k=10_000), random.Random(2).choices("abc", k=10_000)),
        (list(map(str, range(10_000))), list(map(str, reversed(range(10_000))))),
        (["same"] * 10_000, ["same"] * 5_000 + ["other"] * 5_000),
        (list(map(str, range(10_000))), random.Random(3).sample(list(map(str, range(10_000))), 10_000)),
    ],
    ids=["few lines in common", "three lines", "reversed", "one line", "shuffled"],
)
def test_hostile_pairs_take_time_by_their_length(a: list[str], b: list[str]) -> None:
    began = time.process_time()
    codes = opcodes(a, b)
    assert time.process_time() - began < 1  # whatever is quadratic takes far longer for 10,000 lines
    assert (codes[-1].i2, codes[-1].j2) == (len(a), len(b))


def _lines(before: list[str], after: list[str], longest: int = 60) -> list[str]:
    (hunk,) = hunks(opcodes(before, after), 1)
    return list(hunk_lines(hunk, before, after, longest))


def test_ranges_and_signs_are_those_of_a_unified_diff() -> None:
    assert _lines(["a", "b", "c"], ["a", "B", "BB", "c"]) == ["@@ -1,3 +1,4 @@", " a", "-b", "+B", "+BB", " c"]
    assert _lines(["a"], ["a", "b"]) == ["@@ -1 +1,2 @@", " a", "+b"]


def test_long_line_pair_is_cut_to_its_difference() -> None:
    before, after = "x " * 250, " y" * 250
    _, old, new = _lines([f"{before}old{after}"], [f"{before}new{after}"])
    assert (len(old), len(new)) == (61, 61)
    assert "x old" in old
    assert "x new" in new


def test_a_long_line_without_a_partner_shows_its_beginning() -> None:
    assert _lines([], ["x " * 250])[1] == "+" + "x " * 29 + "x…"


def test_heading_is_the_enclosing_line_before_the_hunk() -> None:
    lines = ["class A:", "    x = 1", "    # a comment", "    def f(self):", "", "        return 1", "", "top = 1"]
    assert heading_of(lines, 5, 5) == "def f(self):"
    assert heading_of(lines, 5, 4) == "def f(self):"
    assert heading_of(lines, 5, 3) == "class A:"
    assert heading_of(lines, 5, 0) == ""
    assert heading_of(lines, 1, 1) == "class A:"
    assert heading_of(lines, 7, 6) == ""
    assert heading_of(lines, 8, 8) == ""


def test_brackets_and_comments_are_no_headings() -> None:
    assert heading_of(["#sidebar h2 {", "    }", "  // say", "    margin: 0;"], 3, 3) == "#sidebar h2 {"
    assert heading_of(["# say", "  x"], 1, 1) == ""


def one(old: str | None, new: str, line: int = 1) -> tuple[TextChange, ...]:
    return (TextChange(line=line, old=old, new=new),)


@pytest.mark.parametrize(
    ("old", "new", "size", "first"),
    [
        (None, "a\nb\n", (2, 0), 1),
        ("a\nb\nc\n", "a\nB\nc\n", (1, 1), 2),
        ("a\nb\nc\n", "a\nc\n", (0, 1), 2),
        ("a\n", "a\nb\nc\n", (2, 0), 2),
        ("a\nb\n", "", (0, 2), 1),
        ("a\n", "a", (0, 0), None),
        ("", "", (0, 0), None),
    ],
)
def test_a_change_has_a_size_and_a_first_line(
    old: str | None, new: str, size: tuple[int, int], first: int | None
) -> None:
    assert change_size(one(old, new)) == size
    assert first_changed_line(one(old, new)) == first


def test_lines_are_numbered_by_file() -> None:
    changes = (
        TextChange(line=10, old="a\nb\n", new="a\nb\nc\u200b\nd\n"),
        TextChange(line=50, old="e\nf\u200b\n", new="e\ng\u200b\n"),
    )
    assert first_changed_line(changes) == 12
    assert first_changed_line(changes[1:]) == 51
    assert change_size(changes) == (3, 1)
    assert unseen_changes(changes) == "+ 12: c\\u200b\n- 51: f\\u200b\n+ 53: g\\u200b"


@pytest.mark.parametrize(
    ("old", "new"), [("x\u200b = 1\ny\n", "x\u200b = 1\nz\n"), ("a\r\nb\r\n", "a\r\nc\r\n"), (None, "a\r\nb\r\n")]
)
def test_what_a_change_leaves_as_it_was_is_not_said(old: str | None, new: str) -> None:
    assert unseen_changes(one(old, new)) == ""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("a\r\n", "b\n", "- 1: a\\r"),
        ("a\n", "b\r\n", "+ 1: b\\r"),
        ("a\r\nb\r\n", "a\r\nb\nc\r\n", "- 2: b\\r\n+ 3: c\\r"),
        ("a", "a\n", "the last line gets a newline"),
        ("a\n", "b", "the last line loses its newline"),
    ],
)
def test_line_ends_that_change_are_said(old: str, new: str, said: str) -> None:
    assert unseen_changes(one(old, new)) == said


def test_every_invisible_place_of_a_long_line_is_noted() -> None:
    line = "a" * 1_000 + "\u200b" + "b" * 30 + "\u202e" + "c" * 1_000 + " " * 100 + "d" * 1_000 + "\x1b"
    said = unseen_changes(one(None, line + "\n"))
    assert said == (
        f"+ 1: {'a' * 40}\\u200b{'b' * 30}\\u202e{'c' * 9} … {'c' * 40} … 100 blank columns … {'d' * 40} … "
        f"{'d' * 40}\\x1b"
    )


def test_long_line_of_invisible_characters_is_noted_in_part() -> None:
    said = unseen_changes(one(None, ("\u200b" + "x" * 400) * 60 + "\n"))
    assert said.count("\\u200b") == SHOWN_PLACES
    assert said.endswith(" … and more")
    assert len(unseen_changes(one(None, "\u200b" * 100_000 + "\n"))) < 40_000
    assert unseen_changes(one(None, "a" + "\t" * 50 + "b" + "\u00e4" * 500 + "\n")).startswith(
        "+ 1: a … 50 blank columns … b"
    )


def test_of_many_unseen_lines_the_first_are_said() -> None:
    lines = unseen_changes(one(None, "\u200b\n" * (SHOWN_LINES + 3))).splitlines()
    assert len(lines) == SHOWN_LINES + 1
    assert lines[-1] == "… and more lines"
    assert unseen_changes(one(None, "\u200b\n" * SHOWN_LINES)).count("\n") == SHOWN_LINES - 1


def test_overlong_change_is_cut_and_the_rest_counted() -> None:
    changes = (TextChange(line=1, old="a" * 40, new="b" * 40), TextChange(line=9, old="c\nd\n", new="e\n" * 30))
    assert within(changes, "", 1_000) == (changes, "")
    assert within(changes, "", 100) == (
        (changes[0], replace(changes[1], old="c\nd\n", new="e\n" * 8, left_out=LeftOut(22, 0))),
        "this diff is cut to 100 of 144 characters, and omits 22 added and 0 removed lines",
    )
    shown, note = within(changes, "utf-8 -> utf-16", 10)
    assert shown == (replace(changes[0], old="a" * 10, new="", left_out=LeftOut(31, 2)),)
    assert note.startswith("utf-8 -> utf-16\nthis diff is cut to 10 of 144 characters, and omits 31 added")
    assert change_size(shown) == change_size(changes) == (31, 3)


def test_cut_change_shows_only_real_changes() -> None:
    old = [f"{number}\n" for number in range(100)]
    new = ["first\n", *old[:50], "middle\n", *old[51:]]
    change = TextChange(line=1, old="".join(old), new="".join(new))
    for limit in range(10, 560, 7):
        ((shown,), note) = within([change], "", limit)
        assert len(shown.old or "") + len(shown.new) <= limit
        assert note
        assert shown.new.startswith("first\n")
        added = [line for line in shown.new.split("\n") if line not in ("".join(old)).split("\n")]
        assert change_size([shown]) == (2, 1)
        assert change_size([replace(shown, left_out=None)]).added == len(added)
        assert "newline" not in unseen_changes([shown])


@pytest.mark.parametrize("old", [None, "", "y" * 50])
def test_very_long_line_is_shown_in_part(old: str | None) -> None:
    ((shown,), note) = within([TextChange(line=1, old=old, new="x" * 3_000)], "", 100)
    assert shown.new
    assert set(shown.new) == {"x"}
    assert (shown.old is None) == (old is None)
    assert is_cut([shown])
    assert "characters" in note
