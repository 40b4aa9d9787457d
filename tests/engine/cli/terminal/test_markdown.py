"""How an answer of ours, which is Markdown, looks in a terminal: as wide as that is, and nothing of it is lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from engine.cli.terminal.rendering import painted, python, shown_markdown
from tests.support.examples import examples

COLUMNS = """\
```text
part    tokens        what it is         what changes it
groups     814  ████  groups as they are  /run code.SetTokens(400)
```"""


def plain(text: str, width: int | None = None) -> str:
    return painted(shown_markdown(text, width), in_colour=False)


def test_prose_is_wrapped_between_words_and_code_is_not_divided() -> None:
    assert plain("one two three `/run x`. And `a b c d e f`, too", 16) == (
        "one two three\n`/run x`. And\n`a b c d e f`,\ntoo\n"
    )


def test_what_goes_on_of_an_item_stands_below_its_text() -> None:
    assert plain("- alpha beta gamma\n12. alpha beta gamma\n\nend", 12) == (
        "- alpha beta\n  gamma\n12. alpha\n    beta\n    gamma\n\nend\n"
    )


def test_code_has_its_marks_or_a_colour_and_a_block_no_fence() -> None:
    text = "Say `/help`, ``a`b``.\n\n````python\n```\nx = 1\n````\n\n```\nraw  `x`\n```"
    assert plain(text) == "Say `/help`, ``a`b``.\n\n```\nx = 1\n\nraw  `x`\n"
    coloured = shown_markdown(text, None, in_colour=True, highlight=python)
    assert [text for style, text in coloured if style == "code"] == ["/help", "a`b"]
    assert painted(coloured, in_colour=False) == "Say /help, a`b.\n\n```\nx = 1\n\nraw  `x`\n"
    assert ("number", "1") in coloured


def test_columns_that_are_too_wide_go_on_below_and_a_command_stays_whole() -> None:
    assert plain(COLUMNS, 80) == plain(COLUMNS) == COLUMNS.removeprefix("```text\n").removesuffix("```")
    assert plain(COLUMNS, 60) == (
        "part    tokens        what it is         what changes it\n"
        "groups     814  ████  groups as they are\n"
        "    /run code.SetTokens(400)\n"
    )
    assert plain(COLUMNS, 10).splitlines()[-1] == "    /run code.SetTokens(400)"


@pytest.mark.parametrize("text", ["", "\n", "```", "```text", "````\n```\n", "`", "``` x", "- ", "1. ", "`a``b`"])
def test_what_is_no_whole_markdown_loses_nothing_and_does_not_fail(text: str) -> None:
    assert plain(text, 5).replace("\n", "").strip() in text.replace("\n", "")


@examples(1)
@given(st.text(st.sampled_from(list("ab 設`-\n1.\t")), max_size=60), st.integers(1, 30))
def test_no_word_is_lost_and_lines_fit_where_words_do(text: str, width: int) -> None:
    shown = plain(text, width)
    assert shown.endswith("\n")
    outside = re.sub(r"^(`{3,})(\w*)$", "", text, flags=re.MULTILINE)
    assert sorted(shown.replace("`", "").split()) == sorted(outside.replace("`", "").split())
    longest = max(map(cell_len, re.split(r"[ \t\n]", text)), default=0)
    if "`" not in text and "\t" not in text:
        assert all(cell_len(line) <= max(width, longest + 4) for line in shown.splitlines())
