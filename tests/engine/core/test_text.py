"""Text: cuts, valid and printable text, and sources that hide nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.text import (
    TITLE_CHARS,
    as_printed,
    between,
    broken_word,
    code_span,
    cut_end,
    cut_line,
    cut_line_from,
    cut_middle,
    fenced,
    first_line,
    left_out,
    more,
    printable,
    title,
    valid_text,
)

ANY = st.text(st.characters(codec=None, categories=None))
SURROGATES = st.text(st.sampled_from("a\ud83d\ude00\ue000"))
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _decoded(pair: re.Match[str]) -> str:
    high, low = map(ord, pair[0])
    return chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)


@given(ANY | SURROGATES)
def test_surrogate_pairs_are_decoded_and_others_replaced(text: str) -> None:
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
        ("x " * TITLE_CHARS, "x " * (TITLE_CHARS // 2 - 1) + "x…"),
    ],
)
def test_a_title_is_short_valid_and_never_empty(text: str, expected: str) -> None:
    assert title(text, "(nothing)") == expected


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain\n\ttext \N{GRINNING FACE}", "plain\n\ttext \N{GRINNING FACE}"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;https://example.org\x1b\\a link\x1b]8;;\x1b\\", "a link"),
        ("\x1b(B\x1b7text\x1b8", "text"),
        ("cut off \x1b[3", "cut off "),
        ("cut off \x1b", "cut off "),
        ("not closed \x1b]0;stays\nhere", "not closed 0;stays\nhere"),
        ("10%\r20%\r100%\r\n", "100%\n"),
        ("long line\rover", "over line"),
        ("abc\b\bX", "aXc"),
        ("\b\bx", "x"),
        ("nul \0 bell \x07 \x9b \u202e", r"nul \x00 bell \x07 \x9b \u202e"),
    ],
)
def test_what_a_screen_shows_of_what_was_printed(text: str, seen: str) -> None:
    assert as_printed(text) == seen


@given(st.text(st.sampled_from("ab\x1b[]0;mPX\\\x07\r\b\n\x9b\u2066")))
def test_nothing_that_was_printed_controls_a_screen(text: str) -> None:
    assert all(char.isprintable() or char == "\n" for char in as_printed(text))
    assert as_printed(text).count("\n") == text.count("\n")


@given(st.text(st.sampled_from("`a \n~")))
def test_no_text_ends_its_fence(text: str) -> None:
    fence, _, rest = fenced(text).partition("\n")
    inside, _, end = rest.rpartition("\n")
    assert fence == end
    assert inside == text.removesuffix("\n")
    assert fence not in inside


@given(st.text(st.sampled_from("`a "), min_size=1))
def test_no_line_ends_its_code_span(line: str) -> None:
    mark = re.match("`+", code_span(line))
    assert all(len(run) < len(mark[0]) for run in re.findall("`+", code_span(line)[len(mark[0]) : -len(mark[0])]))


@pytest.mark.parametrize("cutter", [cut_line, cut_end, cut_middle])
@given(text=st.text(), spare=st.integers(0, 5))
def test_what_fits_is_left_as_it_is(cutter: Callable[[str, int], str], text: str, spare: int) -> None:
    assert cutter(text, len(text) + spare or 1) == text


@given(st.text(min_size=2), st.data())
def test_a_line_is_cut_to_its_limit(text: str, data: st.DataObject) -> None:
    limit = data.draw(st.integers(1, len(text) - 1))
    cut = cut_line(text, limit)
    assert text.startswith(cut.removesuffix("…"))
    assert len(cut) == limit or not any(map(str.isspace, text[len(cut) - 1 : limit]))


KEY = "sk-proj-Zq9vT4mW7xK2pL8nR3yB6hQ5"


@pytest.mark.parametrize("limit", range(8, 36))
@pytest.mark.parametrize("key", [KEY, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEX", "4x$k9!m2@q7#z5^w8&b1*c3(v6)n0-j+"])
def test_a_cut_leaves_no_part_of_a_word_that_may_be_a_key(limit: int, key: str) -> None:
    assert cut_line(f"ab: {key} and more", limit) == "ab: …"
    assert cut_line_from(f"ab: {key} and more", limit, 80) == "… and more"
    assert cut_line(f'{{"a":"{key}"}}', limit) == '{"a":"…'
    assert broken_word(f"{key * 100} and more", 1_000 + limit) == (1_000 + limit, len(key) * 100 - 1_000 - limit)
    assert cut_line(f"ab: https://a.b/?{'q=1&' * 125}k={key}&r=1", 500 + limit) == "ab: …"


def test_scripts_without_blanks_are_not_removed_with_a_cut() -> None:
    text = "\u65e5\u672c\u8a9e\u306e\u9577\u3044\u6587\u7ae0\u3067\u3059" * 20
    assert cut_line(text, 50) == text[:49] + "…"


def test_a_cut_of_a_short_word_leaves_its_beginning() -> None:
    assert cut_line("some words", 7) == "some w…"


@given(st.text("a b", min_size=3), st.data())
def test_line_from_a_position_is_cut_at_both_ends(text: str, data: st.DataObject) -> None:
    start, limit = data.draw(st.integers(-2, len(text) - 1)), data.draw(st.integers(2, len(text) + 2))
    cut = cut_line_from(text, start, limit)
    assert len(cut) <= limit
    assert cut.startswith("…") >= (start > 0)
    shown = cut.strip("…")
    assert shown in text[max(start, 0) :]
    assert not shown or text.endswith(shown) or cut.endswith("…")


def test_the_end_is_counted_in_a_line_of_its_own() -> None:
    assert cut_end("abcdef", 2) == "ab\n... 4 more characters"
    assert cut_end("abc", 2) == "ab\n... 1 more character"
    assert cut_end("abcdef", 2, "in the log") == "ab\n... 4 more characters in the log"


@given(st.text("a b", min_size=2), st.data())
def test_both_ends_are_kept_and_all_between_is_counted(text: str, data: st.DataObject) -> None:
    limit = data.draw(st.integers(1, len(text) - 1))
    head, _, rest = cut_middle(text, limit).partition("\n... ")
    count, _, tail = rest.partition(" left out ...\n")
    assert max(len(head), len(tail)) <= limit // 2
    assert text == head + text[len(head) : len(text) - len(tail)] + tail
    assert int(count.split()[0]) == len(text) - len(head) - len(tail)


def test_the_words_for_what_is_missing() -> None:
    assert (left_out(1), left_out(2), left_out(3, "line")) == (
        "1 character left out",
        "2 characters left out",
        "3 lines left out",
    )
    assert (more(1, "handle"), more(2, "handle"), more(2)) == ("... 1 more handle", "... 2 more handles", "... 2 more")
    assert between(9, "because it is long") == "\n... 9 characters left out, because it is long ...\n"
