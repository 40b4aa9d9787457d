"""Styled text: Markdown, wrapping, and diffs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from engine.cli.terminal.rendering import (
    HIGHLIGHTED_CHARS,
    diff,
    divided_at,
    indented,
    lines_of,
    painted,
    python,
    shown_markdown,
    wrap_line,
    wrapped,
)
from engine.core.execution import TextChange
from tests.support.examples import examples


def text_of(text: str, width: int, hang: str = "") -> str:
    return painted(wrapped([("", text)], width, hang), in_colour=False)


def test_a_line_is_wrapped_between_words_below_its_margin() -> None:
    assert text_of("    some words that are long\nnext\n", 20) == "    some words that\n    are long\nnext\n"
    assert text_of("[some words that are long]\n", 16, " ") == "[some words that\n are long]\n"


def test_a_word_that_is_too_long_is_divided() -> None:
    assert text_of("a " + "x" * 30 + "\n", 20) == "a\n" + "x" * 20 + "\n" + "x" * 10 + "\n"


def test_tabs_end_where_a_terminal_ends_them() -> None:
    assert text_of("    1\tone\n\ttwo\n", 40) == "    1   one\n        two\n"


def test_without_a_width_nothing_changes() -> None:
    fragments = [("quiet", "a\tb " * 90)]
    assert wrapped(fragments, None) == fragments


@given(st.text(alphabet="ab \u4e2d\t", max_size=200), st.integers(min_value=12, max_value=60))
def test_every_part_fits_and_no_word_is_lost(text: str, width: int) -> None:
    parts = ["".join(piece for _, piece in part) for part in wrap_line([("", text), ("code", text)], width)]
    assert all(cell_len(part.rstrip()) <= width for part in parts)
    assert re.sub(r"\s", "", "".join(parts)) == re.sub(r"\s", "", text + text)


@given(st.text(alphabet="ab ,\u4e2d", min_size=1, max_size=200), st.integers(min_value=20, max_value=60))
def test_a_statement_is_divided_without_losing_anything(text: str, width: int) -> None:
    parts = list(divided_at(text, width))
    assert all(cell_len(part) <= width for part in parts)
    assert re.sub("\\s", "", "".join(part.removeprefix("↪ ") for part in parts)) == re.sub(r"\s", "", text)


def test_lines_of_keeps_empty_lines() -> None:
    assert lines_of([("a", "x\n\n"), ("b", "y")]) == [[("a", "x")], [], [("b", "y")]]


COLUMNS = """\
```text
part    tokens        what it is         what changes it
groups     814  ████  groups as they are  /run code.SetTokens(400)
```"""


def rendered(text: str, width: int | None = None) -> str:
    return painted(shown_markdown(text, width), in_colour=False)


def test_prose_is_wrapped_between_words_and_code_is_not_divided() -> None:
    assert rendered("one two three `/run x`. And `a b c d e f`, too", 16) == (
        "one two three\n`/run x`. And\n`a b c d e f`,\ntoo\n"
    )


def test_what_goes_on_of_an_item_stands_below_its_text() -> None:
    assert rendered("- alpha beta gamma\n12. alpha beta gamma\n\nend", 12) == (
        "- alpha beta\n  gamma\n12. alpha\n    beta\n    gamma\n\nend\n"
    )


def test_code_has_marks_or_a_colour_and_blocks_no_fence() -> None:
    text = "Say `/help`, ``a`b``.\n\n````python\n```\nx = 1\n````\n\n```\nraw  `x`\n```"
    assert rendered(text) == "Say `/help`, ``a`b``.\n\n```\nx = 1\n\nraw  `x`\n"
    coloured = shown_markdown(text, None, in_colour=True, highlight=python)
    assert [text for style, text in coloured if style == "code"] == ["/help", "a`b"]
    assert painted(coloured, in_colour=False) == "Say /help, a`b.\n\n```\nx = 1\n\nraw  `x`\n"
    assert ("number", "1") in coloured


def test_wide_columns_continue_below_and_commands_stay_whole() -> None:
    assert rendered(COLUMNS, 80) == rendered(COLUMNS) == COLUMNS.removeprefix("```text\n").removesuffix("```")
    assert rendered(COLUMNS, 60) == (
        "part    tokens        what it is         what changes it\n"
        "groups     814  ████  groups as they are\n"
        "    /run code.SetTokens(400)\n"
    )
    assert rendered(COLUMNS, 10).splitlines()[-1] == "    /run code.SetTokens(400)"


@pytest.mark.parametrize("text", ["", "\n", "```", "```text", "````\n```\n", "`", "``` x", "- ", "1. ", "`a``b`"])
def test_incomplete_markdown_loses_nothing(text: str) -> None:
    assert rendered(text, 5).replace("\n", "").strip() in text.replace("\n", "")


@examples(1)
@given(st.text(st.sampled_from(list("ab 設`-\n1.\t")), max_size=60), st.integers(1, 30))
def test_no_word_is_lost_and_lines_fit_where_words_do(text: str, width: int) -> None:
    shown = rendered(text, width)
    assert shown.endswith("\n")
    outside = re.sub(r"^(`{3,})(\w*)$", "", text, flags=re.MULTILINE)
    assert sorted(shown.replace("`", "").split()) == sorted(outside.replace("`", "").split())
    longest = max(map(cell_len, re.split(r"[ \t\n]", text)), default=0)
    if "`" not in text and "\t" not in text:
        assert all(cell_len(line) <= max(width, longest + 4) for line in shown.splitlines())


def diff_text(*changes: TextChange, note: str = "") -> str:
    return painted(diff("a.py", changes, note), in_colour=False)


def test_whole_file_is_reduced_to_changes_and_three_lines_around() -> None:
    old = "".join(f"line {number}\n" for number in range(1, 31))
    new = old.replace("line 10\n", "line ten\nand more\n").replace("line 25\n", "")
    assert diff_text(TextChange(line=1, old=old, new=new)) == (
        "a.py  +2 -2\n"
        " 7   line 7\n 8   line 8\n 9   line 9\n10 - line 10\n10 + line ten\n11 + and more\n"
        "12   line 11\n13   line 12\n14   line 13\n"
        "...\n"
        "23   line 22\n24   line 23\n25   line 24\n25 - line 25\n26   line 26\n27   line 27\n28   line 28\n"
    )


def test_lines_of_later_regions_are_counted_as_they_are_now() -> None:
    first = TextChange(line=3, old="a\n", new="a\nb\nc\n")
    second = TextChange(line=50, old="x\n", new="y\n")
    assert diff_text(first, second) == "a.py  +3 -1\n 3   a\n 4 + b\n 5 + c\n...\n50 - x\n52 + y\n"


def test_new_emptied_and_binary_files_are_labelled() -> None:
    assert diff_text(TextChange(line=1, old=None, new="a\nb\n")) == "a.py (new file)  +2 -0\n1 + a\n2 + b\n"
    assert diff_text(TextChange(line=1, old="a\n", new="")) == "a.py  +0 -1\n1 - a\n"
    assert diff_text(note="binary, 4 bytes -> binary, 8 bytes") == "a.py\nbinary, 4 bytes -> binary, 8 bytes\n"


def test_line_ends_are_visible_where_they_differ() -> None:
    assert diff_text(TextChange(line=1, old="a\n", new="a\r\n")) == "a.py  +1 -1\n1 - a\n1 + a\\r\n"
    assert diff_text(TextChange(line=1, old="a\n", new="a")) == "a.py  +1 -1\n1 - a\n1 + a (no newline at the end)\n"


def test_line_ends_that_are_the_files_own_are_no_change() -> None:
    assert diff_text(TextChange(line=1, old="a\r\nb\r\n", new="a\r\nc\r\n")) == "a.py  +1 -1\n1   a\n2 - b\n2 + c\n"
    assert "a\\r" in diff_text(TextChange(line=1, old="a\r\nb\r\n", new="a\r\nb\n"))


def test_lines_are_coloured_by_what_became_of_them() -> None:
    styles = [style for style, _ in diff("a.py", [TextChange(line=1, old="a\nb\n", new="a\nc\n")])]
    assert styles == ["strong", "", "removed", "added"]
    assert painted([("added", "1 + c\n")], in_colour=True) == "\x1b[32m1 + c\x1b[0m\n"


def test_colours_change_no_character_of_a_source() -> None:
    source = "@d\nclass A:\n\t'''doc'''\n\n\n    def f(self): return 0x1f if not 'a\\'' else None  # é\n\n"
    for text in (source, "not python ' at all\n\n", "", "x" * (HIGHLIGHTED_CHARS + 1)):
        assert "".join(piece for _, piece in python(text)) == text
    assert {style for style, _ in python(source)} > {"keyword", "string", "number", "comment", "defined"}


def test_an_indent_stands_before_each_line_that_holds_something() -> None:
    assert painted(indented([("", "a\n\nb"), ("quiet", "c\nd")], "  ", True), in_colour=False) == "  a\n\n  bc\n  d"
    assert painted(indented([("", "a\nb")], "  ", False), in_colour=False) == "a\n  b"
