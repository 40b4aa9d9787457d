"""A reply that streams in reads as the whole reply does, whatever pieces it comes in."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from docs.terminal.scenes import REPLY
from engine.cli.terminal.rendering import Fragment, joined, painted
from engine.cli.terminal.replies import Plain, Reply, rendered

MARKDOWN = (
    "# Title\n\nSome *words* and `code`.\n\n- one\n- two\n\n```python\ndef f():\n    return 1\n```\n\n"
    "| a | b |\n| - | - |\n| 1 | 2 |\n"
)


def text_of(fragments: list[Fragment], in_colour: bool = False) -> str:
    return painted(fragments, in_colour)


def streamed(text: str, size: int, width: int = 60) -> tuple[str, list[str]]:
    """All that was written, and what stood on the screen after each piece."""
    reply = Reply(lambda: width, in_colour=False)
    written, seen = "", list[str]()
    for at in range(0, len(text), size):
        written += text_of(reply.add(text[at : at + size]))
        seen.append(written + text_of(joined(reply.tail())))
    return written + text_of(reply.end()), seen


def test_markdown_is_rendered() -> None:
    shown = text_of(joined(rendered(MARKDOWN, 60, in_colour=True)), in_colour=True)
    plain = text_of(joined(rendered(MARKDOWN, 60, in_colour=False)))
    assert "#" not in plain
    assert "`" not in plain
    assert "Some words and code." in plain
    assert "def f():\n    return 1\n" in plain
    assert "\x1b[35mdef\x1b[0m" in shown
    assert "\x1b[36mcode\x1b[0m" in shown
    assert "─" in plain


@pytest.mark.parametrize("size", [2, 40, 10_000])
@pytest.mark.parametrize("text", [MARKDOWN, REPLY, "one line", "a\n\nb"], ids=["all", "reply", "line", "two"])
def test_pieces_of_any_size_give_the_same(text: str, size: int) -> None:
    whole, seen = streamed(text, size)
    assert whole == streamed(text, len(text))[0]
    assert seen[-1] == whole
    assert whole.count("\n\n\n") == 0


def test_what_has_begun_stands_below_and_is_not_written_yet() -> None:
    reply = Reply(lambda: 40, in_colour=False)
    assert reply.add("One *pa") == []
    assert text_of(joined(reply.tail())) == "One *pa\n"
    assert text_of(reply.add("rt*\n\nTwo")) == "One part\n"
    assert text_of(joined(reply.tail())) == "\nTwo\n"


@pytest.mark.parametrize("width", [20, 33, 80])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for line in streamed(REPLY + "\n" + "x" * 200, 50, width)[0].split("\n"):
        assert cell_len(line) <= width


def test_nothing_that_markdown_spells_controls_the_terminal() -> None:
    evil = "a &#27;[2J &#x9b;1m `\x9b` [l](http://x/\x1b) &#8238;\n\n```\n\x1b[2J\n```\n\n<b>\x07</b>"
    text = text_of(joined(rendered(evil, 60, in_colour=False)))
    assert all(char == "\n" or char.isprintable() for char in text), ascii(text)


def test_what_a_model_thinks_is_wrapped_line_by_line() -> None:
    plain = Plain("thinking", lambda: 20)
    assert plain.add("some words that") == []
    assert text_of(plain.add(" are long\nmore")) == "some words that are\nlong\n"
    assert plain.tail() == [[("thinking", "more")]]
    assert plain.end() == [("thinking", "more"), ("", "\n")]
