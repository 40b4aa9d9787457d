"""Text as valid Unicode, on one line, and as a title."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text import TITLE_CHARS, first_line, printable, title, valid_text

ANY = st.text(st.characters(codec=None, categories=None))
SURROGATES = st.text(st.sampled_from("a\ud83d\ude00\ue000"))
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _decoded(pair: re.Match[str]) -> str:
    high, low = map(ord, pair[0])
    return chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)


@given(ANY | SURROGATES)
def test_pairs_of_surrogates_are_decoded_and_others_replaced_one_for_one(text: str) -> None:
    assert valid_text(text) == _SURROGATE.sub("\ufffd", _PAIR.sub(_decoded, text))


@pytest.mark.parametrize("text", ["", "plain", "h\xe9llo \N{GRINNING FACE}", "\ufeffmarked"])
def test_valid_text_is_returned_as_it_is(text: str) -> None:
    assert valid_text(text) is text


@given(ANY)
def test_printable_text_is_one_line_that_utf_8_can_hold(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    shown.encode()
    assert (shown == text) is text.isprintable()


def test_what_cannot_be_printed_is_an_escape() -> None:
    assert printable("a\n\x1b\udc80\u202e") == r"a\n\x1b\udc80\u202e"


def test_the_first_line_is_the_first_that_says_something() -> None:
    assert first_line("\n  \t\n  one \ntwo") == "one"
    assert first_line(" \n") == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n\n  Fix the build\nplease", "Fix the build"),
        (" \n", "(nothing)"),
        ("\0", "(nothing)"),
        ("a\0b \ud800", "a b \ufffd"),
        ("x" * TITLE_CHARS, "x" * TITLE_CHARS),
        ("x" * (TITLE_CHARS + 1), "x" * (TITLE_CHARS - 1) + "…"),
    ],
)
def test_a_title_is_short_valid_and_never_empty(text: str, expected: str) -> None:
    assert title(text, "(nothing)") == expected
