"""Hunks as text: ranges, signs, cut lines that show what differs, and what a hunk stands under."""

from __future__ import annotations

from engine.core.diff import heading_of, hunk_lines, hunks, opcodes


def _lines(before: list[str], after: list[str], longest: int = 60) -> list[str]:
    (hunk,) = hunks(opcodes(before, after), 1)
    return list(hunk_lines(hunk, before, after, longest))


def test_ranges_and_signs_are_those_of_a_unified_diff() -> None:
    assert _lines(["a", "b", "c"], ["a", "B", "BB", "c"]) == ["@@ -1,3 +1,4 @@", " a", "-b", "+B", "+BB", " c"]
    assert _lines(["a"], ["a", "b"]) == ["@@ -1 +1,2 @@", " a", "+b"]


def test_a_pair_of_long_lines_is_cut_to_where_they_begin_to_differ() -> None:
    shared = "x" * 500
    _, old, new = _lines([shared + "old" + "y" * 500], [shared + "new" + "y" * 500])
    assert (len(old), len(new)) == (61, 61)
    assert "xold" in old
    assert "xnew" in new


def test_a_long_line_without_a_partner_shows_its_beginning() -> None:
    assert _lines([], ["x" * 500])[1] == "+" + "x" * 59 + "…"


def test_the_heading_is_what_the_first_change_stands_under_ahead_of_the_hunk() -> None:
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
