"""What is shown of a change is complete, and no longer than it has to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.execution import TextChange
from engine.session.tools.change import SHORT_CHARS, SHORT_LINES, changes_of

FILLER = [f"line {number}\n" for number in range(SHORT_LINES + 100)]


def done(before: str, changes: tuple[TextChange, ...]) -> str:
    """The text after, from what is shown alone."""
    text = before
    for change in reversed(changes):
        assert change.old is not None
        lines = text.split("\n")
        start = len("\n".join(lines[: change.line - 1])) + (change.line > 1)
        assert text[start : start + len(change.old)] == change.old
        text = text[:start] + change.new + text[start + len(change.old) :]
    return text


LINES = st.lists(st.sampled_from(["a\n", "b\n", "\r\n", "\n", "é\u2028\n", "c\x0c\n"]), max_size=12)


@given(st.lists(st.tuples(st.integers(0, len(FILLER)), st.integers(0, 9), LINES), max_size=4), st.booleans())
def test_the_new_text_follows_from_the_old_one_and_what_is_shown(
    edits: list[tuple[int, int, list[str]]], newline: bool
) -> None:
    old = list(FILLER)
    new = list(FILLER)
    for at, removed, put in sorted(edits, reverse=True):
        new[at : at + removed] = put
    before, after = "".join(old), "".join(new).removesuffix("" if newline else "\n")
    changes, note = changes_of(before.encode(), after.encode())
    assert note == ""
    assert done(before, changes) == after


@given(st.text("ab\n", max_size=30), st.text("ab\n", max_size=30))
def test_every_pair_of_ends_is_trimmed_rightly(old: str, new: str) -> None:
    around = "x\n" * (SHORT_LINES + 1)
    changes, _ = changes_of((around + old + around).encode(), (around + new + around).encode())
    assert done(around + old + around, changes) == around + new + around


def test_a_region_has_three_lines_around_it_and_says_where_it_begins() -> None:
    before = "".join(FILLER)
    after = before.replace("line 100\n", "100\n").replace("line 250\n", "")
    first, second = changes_of(before.encode(), after.encode())[0]
    assert first.line == 98
    assert first.old == "".join(FILLER[97:104])
    assert first.new == first.old.replace("line 100\n", "100\n")
    assert (second.line, second.old) == (248, "".join(FILLER[247:254]))


def test_a_short_file_is_shown_whole_and_a_new_one_has_no_old_text() -> None:
    assert changes_of(b"a\nb\n", b"a\nc\n") == ((TextChange(line=1, old="a\nb\n", new="a\nc\n"),), "")
    assert changes_of(None, b"a\n") == ((TextChange(line=1, old=None, new="a\n"),), "")
    assert changes_of(None, b"") == ((TextChange(line=1, old=None, new=""),), "")
    large = "a\n" * SHORT_CHARS
    assert changes_of(None, large.encode())[0][0].new == large


def test_what_is_the_same_shows_nothing() -> None:
    assert changes_of(b"a\n", b"a\n") == ((), "")


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        (b"\0" * 12_288, b"\0" * 12_300, "binary, 12,288 bytes -> binary, 12,300 bytes"),
        (None, b"\0", "binary, 1 byte"),
        (b"text", b"\0", "text, 4 bytes -> binary, 1 byte"),
    ],
)
def test_of_binary_content_the_sizes_are_said(before: bytes | None, after: bytes, note: str) -> None:
    assert changes_of(before, after) == ((), note)


def test_a_text_in_place_of_binary_content_is_shown_whole() -> None:
    changes, note = changes_of(b"\0", b"text\n")
    assert changes == (TextChange(line=1, old="", new="text\n"),)
    assert note == "binary, 1 byte -> text, 5 bytes"


def test_another_encoding_of_the_same_text_is_said() -> None:
    assert changes_of(b"a\n", b"\xef\xbb\xbfa\n") == ((), "UTF-8 -> UTF-8 with byte order mark")
