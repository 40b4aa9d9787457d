"""What the changes of a file do, line by line, and what nobody would see in a diff of them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from engine.core.diff import SHOWN_LINES, SHOWN_PLACES, change_size, first_changed_line, is_cut, unseen_changes, within
from engine.core.execution import LeftOut, TextChange


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


def test_lines_are_counted_in_the_file_and_not_in_the_region() -> None:
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


def test_of_a_long_line_every_place_is_said_where_something_is_not_seen() -> None:
    line = "a" * 1_000 + "\u200b" + "b" * 30 + "\u202e" + "c" * 1_000 + " " * 100 + "d" * 1_000 + "\x1b"
    said = unseen_changes(one(None, line + "\n"))
    assert said == (
        f"+ 1: {'a' * 40}\\u200b{'b' * 30}\\u202e{'c' * 9} … {'c' * 40} … 100 blank columns … {'d' * 40} … "
        f"{'d' * 40}\\x1b"
    )


def test_a_long_line_full_of_what_is_not_seen_is_said_in_part() -> None:
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


def test_of_what_is_too_much_to_be_kept_there_is_the_beginning_and_the_rest_is_counted() -> None:
    changes = (TextChange(line=1, old="a" * 40, new="b" * 40), TextChange(line=9, old="c\nd\n", new="e\n" * 30))
    assert within(changes, "", 1_000) == (changes, "")
    assert within(changes, "", 100) == (
        (changes[0], replace(changes[1], old="c\nd\n", new="e\n" * 8, left_out=LeftOut(22, 0))),
        "only the beginning is shown: 100 of 144 characters, without 22 of the lines added and 0 of those removed",
    )
    shown, note = within(changes, "utf-8 -> utf-16", 10)
    assert shown == (replace(changes[0], old="a" * 10, new="", left_out=LeftOut(31, 2)),)
    assert note.startswith("utf-8 -> utf-16\nonly the beginning is shown: 10 of 144 characters, without 31 of ")
    assert change_size(shown) == change_size(changes) == (31, 3)


def test_what_is_left_of_a_change_shows_no_line_as_changed_that_is_not() -> None:
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
def test_a_line_that_is_longer_than_what_is_shown_is_shown_in_part(old: str | None) -> None:
    ((shown,), note) = within([TextChange(line=1, old=old, new="x" * 3_000)], "", 100)
    assert shown.new
    assert set(shown.new) == {"x"}
    assert (shown.old is None) == (old is None)
    assert is_cut([shown])
    assert "characters" in note
