"""Diffs reproduce the new text from the old, are minimal at the ends, and stay quick on hostile input."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import overload

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.diff import hunks, opcodes
from tests.support.examples import examples

_STEPS = 25
"""Lines read and pairs compared for each line of text: whatever is quadratic takes thousands for 10,000 lines."""
_LINES = st.lists(st.one_of(st.sampled_from(["", "}", "a", "b", "x = 1"]), st.integers(0, 40).map(str)), max_size=80)


class _Meter:
    """Adds up the steps of one diff, and ends it as soon as there are more than `limit`."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._rows: int | None = None

    def read(self, lines: int) -> None:
        self._left -= lines
        assert self._left >= 0

    def took_part(self, lines: int) -> None:
        """Parts are taken in twos, one of each text, and each line of one is compared with each of the other."""
        rows, self._rows = self._rows, lines if self._rows is None else None
        self.read(lines if rows is None else rows * lines)


class _Metered(Sequence[str]):
    """Lines that tell a meter how many of them are read."""

    def __init__(self, lines: list[str], meter: _Meter) -> None:
        self._lines = lines
        self._meter = meter

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        found = self._lines[index]
        if isinstance(found, list):
            self._meter.took_part(len(found))
        else:
            self._meter.read(1)
        return found


@st.composite
def _edited(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """A text and an edited copy, which is what diffs are made of in practice."""
    before = draw(_LINES)
    after = list(before)
    for _ in range(draw(st.integers(0, 8))):
        at = draw(st.integers(0, len(after)))
        after[at : at + draw(st.integers(0, 4))] = draw(st.lists(st.sampled_from(["a", "new", "}", ""]), max_size=4))
    return before, after


@examples(5)
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


@examples(3)
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


def test_equal_texts_have_one_equal_stretch_or_none() -> None:
    assert opcodes([], []) == []
    assert [code.tag for code in opcodes(["a", "b"], ["a", "b"])] == ["equal"]


def test_a_moved_unique_line_anchors_what_stands_around_it() -> None:
    a = ["}", "def f():", "}", "def g():", "}"]
    b = ["}", "def f():", "}", "}", "def g():", "}"]
    assert [tuple(code) for code in opcodes(a, b) if code.tag != "equal"] == [("insert", 3, 3, 3, 4)]


@examples(2)
@given(st.permutations("abcdefgh"))
def test_of_lines_that_occur_once_as_many_stay_matched_as_can(b: list[str]) -> None:
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
def test_hostile_pairs_are_diffed_with_a_few_steps_for_each_line(a: list[str], b: list[str]) -> None:
    meter = _Meter(_STEPS * (len(a) + len(b)))
    codes = opcodes(_Metered(a, meter), _Metered(b, meter))
    assert (codes[-1].i2, codes[-1].j2) == (len(a), len(b))
