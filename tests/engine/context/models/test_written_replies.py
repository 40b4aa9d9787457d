"""Statements written as blocks become calls: which text is a block, and how replies end."""

from __future__ import annotations

import ast
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.context.model import (
    CallRefused,
    ModelError,
    ModelSignal,
    ReasoningDelta,
    ReplyEnded,
    StatementAsked,
    TextDelta,
    TokensUsed,
)
from engine.context.models.statement_tool import ONE_CALL
from engine.context.models.written_replies import LONGEST_TAG, NOT_CLOSED, BlockReader, with_written_statement
from engine.context.tail.results import CLOSING, OPENING
from tests.support.block_reference import block_in
from tests.support.examples import examples

pytestmark = pytest.mark.anyio

END, CUT = ReplyEnded(), ReplyEnded("length")
USED = TokensUsed(1, 2)


class Reply:
    """Plays signals, then perhaps fails; knows how many were taken and whether it was closed."""

    def __init__(self, *signals: ModelSignal, error: Exception | None = None) -> None:
        self._signals = signals
        self._error = error
        self.taken = 0
        self.is_closed = False

    async def stream(self) -> AsyncGenerator[ModelSignal, None]:
        try:
            for signal in self._signals:
                self.taken += 1
                yield signal
            if self._error is not None:
                raise self._error
        finally:
            self.is_closed = True


async def read(*signals: ModelSignal, calls_tools: bool = True) -> list[ModelSignal]:
    reply = Reply(*signals)
    found = [signal async for signal in with_written_statement(reply.stream(), calls_tools=calls_tools)]
    assert reply.is_closed
    return found


def said(*texts: str) -> list[ModelSignal]:
    return [TextDelta(text) for text in texts]


def joined(signals: Sequence[ModelSignal]) -> list[ModelSignal]:
    """The signals with neighbouring texts as one."""
    found: list[ModelSignal] = []
    for signal in signals:
        if isinstance(signal, TextDelta) and found and isinstance(found[-1], TextDelta):
            found[-1] = TextDelta(found[-1].text + signal.text)
        else:
            found.append(signal)
    return found


BLOCK = f"{OPENING}\n6 * 7\n{CLOSING}"
ASKED = StatementAsked("6 * 7\n")
MORE = StatementAsked("6 * 7\n", rest_left_out=True)


async def test_text_streams_and_the_block_becomes_a_call() -> None:
    signals = await read(*said("Let ", "me ", f"look.\n{OPENING}\n6", f" * 7\n{CLOSING}\n"), USED, END)
    assert signals == [*said("Let ", "me ", "look.\n"), USED, ASKED, END]


@pytest.mark.parametrize("calls_tools", [True, False])
@pytest.mark.parametrize(
    ("signals", "found"),
    [
        ([*said(f"a{BLOCK} It is 42."), END], [*said("a"), MORE, END]),
        ([*said(BLOCK, " ", BLOCK), END], [MORE, END]),
        ([*said(BLOCK), END], [ASKED, END]),
        ([*said(f"{OPENING}{CLOSING}"), END], [StatementAsked(""), END]),
        ([*said(BLOCK, "and then "), CUT], [MORE, END]),
        ([*said(BLOCK), CUT], [ASKED, END]),
        ([*said(f"a{OPENING}6 * "), CUT], [*said("a", f"{OPENING}6 * "), CUT]),
        ([*said(f"a{OPENING}6 * "), ReplyEnded("refusal")], [*said("a", f"{OPENING}6 * "), ReplyEnded("refusal")]),
        ([*said(f"a{BLOCK}"), ReplyEnded("refusal")], [*said("a"), ReplyEnded("refusal")]),
        ([*said("a <scr"), END], [*said("a ", "<scr"), END]),
        ([ReasoningDelta(BLOCK), *said("no"), END], [ReasoningDelta(BLOCK), *said("no"), END]),
        (
            [*said("<scr"), ReasoningDelta("hm"), *said("ipt>"), END],
            [*said("<scr"), ReasoningDelta("hm"), *said("ipt>"), END],
        ),
        ([*said("a"), StatementAsked("1", "c1"), END], [*said("a"), StatementAsked("1", "c1"), END]),
        (
            [*said(f"a{BLOCK}"), StatementAsked("1", "c1"), END],
            [*said("a"), StatementAsked("1", "c1", rest_left_out=True), END],
        ),
        (
            [CallRefused("x", {}, "no"), StatementAsked("1", "c1"), StatementAsked("2", "c2"), END],
            [
                CallRefused("x", {}, "no"),
                StatementAsked("1", "c1"),
                CallRefused("python", {"source": "2"}, ONE_CALL, "c2"),
                END,
            ],
        ),
        ([*said("a")], [*said("a"), END]),
    ],
)  # fmt: skip
async def test_what_counts_in_a_reply(signals: list[ModelSignal], found: list[ModelSignal], calls_tools: bool) -> None:
    assert await read(*signals, calls_tools=calls_tools) == found


async def test_unclosed_block_is_text_or_must_be_repeated() -> None:
    text = f"Now.\n{OPENING}\nrm('everything"
    assert "".join(each.text for each in await read(*said(text), END) if isinstance(each, TextDelta)) == text
    *shown, refused, ended = await read(*said(text), END, calls_tools=False)
    assert (shown, ended) == (list(said("Now.\n")), END)
    assert refused == CallRefused("python", {"source": "rm('everything"}, NOT_CLOSED)


@pytest.mark.parametrize(("calls_tools", "taken"), [(False, 3), (True, 5)])
async def test_a_model_without_tools_is_cut_after_its_block(calls_tools: bool, taken: int) -> None:
    reply = Reply(*said(BLOCK, "\n", "The result is " + "made up " * 9, "for ever"), END)
    signals = [signal async for signal in with_written_statement(reply.stream(), calls_tools=calls_tools)]
    assert signals == [MORE, END]
    assert (reply.taken, reply.is_closed) == (taken, True)


async def test_a_reply_that_fails_loses_no_text() -> None:
    for text in ("a <scr", f"a {OPENING}half"):
        reply, seen = Reply(TextDelta(text), error=ModelError("down")), list[ModelSignal]()
        with suppress(ModelError):
            async for signal in with_written_statement(reply.stream()):
                seen.append(signal)
            raise AssertionError("it did not fail")
        assert joined(seen) == said(text)
        assert reply.is_closed


@given(
    parts=st.lists(
        st.sampled_from((OPENING, CLOSING, "1 + ", "\n", "<", "```", '"', "word", ReasoningDelta("hm"), USED)),
        max_size=12,
    ),
    cuts=st.integers(1, 9),
    calls_tools=st.booleans(),
)
async def test_however_a_reply_is_cut_it_means_the_same(
    parts: list[str | ModelSignal], cuts: int, calls_tools: bool
) -> None:
    whole = joined([TextDelta(part) if isinstance(part, str) else part for part in parts])
    cut: list[ModelSignal] = []
    for signal in whole:
        if isinstance(signal, TextDelta):
            cut += said(*(signal.text[at : at + cuts] for at in range(0, len(signal.text), cuts)))
        else:
            cut.append(signal)
    found = [joined(await read(*signals, END, calls_tools=calls_tools)) for signals in (whole, cut)]
    # What is thought and counted after the block may come later than what ends the reply.
    spoken = [[signal for signal in signals if isinstance(signal, TextDelta | StatementAsked)] for signals in found]
    assert joined(spoken[0]) == joined(spoken[1])


Found = tuple[str, str | None, bool]
"""The text to show, the cell, and whether something followed it."""


def found(pieces: Iterable[str]) -> Found:
    reader = BlockReader()
    shown = "".join(map(reader.read, pieces)) + reader.end()
    return shown, reader.source, reader.has_rest


def pieces_of(text: str, cuts: Sequence[int]) -> list[str]:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def block(source: str) -> str:
    return f"{OPENING}{source}{CLOSING}"


# --- what is a block --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "opening",
    [
        OPENING,
        "<script type='text/x-python'>",
        '<script  id="a"\n type = "text/x-python"\tdefer >',
        '<script title="a > b" type=" text/x-python ">',
        "<script\r\ntype='text/x-python'>",
        "<script type='text/x-python'" + " " * (LONGEST_TAG - 29) + ">",
    ],
)
@pytest.mark.parametrize("closing", [CLOSING, "</SCRIPT>", "</script  \n>"])
def test_a_tag_may_be_spelled_as_html_allows(opening: str, closing: str) -> None:
    text = f"See: {opening}\n6 * 7\n{closing}\n"
    assert found([text]) == found(text) == ("See: ", "6 * 7\n", False)


@pytest.mark.parametrize(
    ("written", "source"),
    [
        ("\n6 * 7\n", "6 * 7\n"),
        ("6 * 7", "6 * 7"),
        ("", ""),
        ("\r\nx = 1\r\ny = 2\r\n", "x = 1\r\ny = 2\r\n"),
        ("  \n\nif x:\n    y\n", "\nif x:\n    y\n"),
        ("\nprint('&lt;/script&gt;')\n", "print('&lt;/script&gt;')\n"),
        ("\nwrite('a.html', '<script src=a.js></script>')\n", "write('a.html', '<script src=a.js></script>')\n"),
        ('\np = """\n<b>\n</script>\n"""\n', 'p = """\n<b>\n</script>\n"""\n'),
        ("\np = '''it\\'''s\n</script>\n'''\n", "p = '''it\\'''s\n</script>\n'''\n"),
        ("\np = 'a\\\n</script>'\n", "p = 'a\\\n</script>'\n"),
        ("\np = r'\\' + '</script>'\n", "p = r'\\' + '"),
        (f"\ntag = '{OPENING}'\n", f"tag = '{OPENING}'\n"),
    ],
)
def test_the_cell_is_the_text_between_the_tags(written: str, source: str) -> None:
    text = f"a{block(written)}"
    assert found([text])[:2] == found(text)[:2] == ("a", source)


@pytest.mark.parametrize(
    "written",
    [
        "\nprint('it is open\n",  # a string ends with its line, as in Python
        '\np = """never closed\n',
        "\nnot = \"python' at all\n",
        "\n# a comment: don't stop\n",
    ],
)
def test_where_quotes_do_not_match_the_first_closing_tag_counts(written: str) -> None:
    text = f"a{block(written)}b{block('2')}"
    assert found([text]) == found(text) == ("a", written.removeprefix("\n"), True)


@pytest.mark.parametrize("rest", ["", " \n\t\n", "\r\n"])
def test_space_after_a_block_is_nothing(rest: str) -> None:
    assert found(block("1") + rest) == ("", "1", False)


@pytest.mark.parametrize("rest", ["\nIt is 1.", block("2"), "\n```", "</script>", OPENING])
def test_the_first_block_counts_and_what_follows_is_noticed(rest: str) -> None:
    assert found(block("1") + rest) == found([block("1") + rest]) == ("", "1", True)


# --- what is text -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no tag at all",
        f"{OPENING}\nx = 1\n",
        f"{OPENING}\nx = 1\n</ script>",
        OPENING.replace("<", "&lt;") + "1" + CLOSING,
        "<script>1</script>",
        "<script type='text/javascript'>1</script>",
        "<script type='text/x-python' / >1</script>",
        "<script data-type='text/x-python'>1</script>",
        "<script type='a' type='text/x-python'>1</script>",
        "<script title=\" type='text/x-python' \">1</script>",
        "<scripttype='text/x-python'>1</script>",
        "<script type='text/x-python'" + " " * LONGEST_TAG + ">1</script>",
        "a < b and <scr",
        f"`{block('1')}`",
        f"Write `{OPENING}` and `{CLOSING}`.",
        f"``a ` {block('1')}``",
        f"```python\n{block('1')}\n```",
        f"~~~html\n{block('1')}\n~~~",
        f"```\n``` not the end\n{block('1')}",
        f"> ```\n> {block('1')}\n> ```\n",
        f"1. ```\n   {block('1')}\n   ```\n",
        f"```\n- ```\n> ```\n{block('1')}\n```\n",
        f"``` {block('1')}\n",
        f"<think>I could write {block('1')}</think> No.",
        f"<think>{block('1')}</thin>",
    ],
)
def test_all_else_is_shown_as_it_is(text: str) -> None:
    assert found([text]) == found(text) == (text, None, False)


@pytest.mark.parametrize(
    "before",
    [
        "It`s open\n",
        "`code` ",
        "```python\nx\n```\n",
        "~~~\nx\n~~~~\n",
        "```not a fence``` ",
        "-```\n",
        "> ```\n> x\n> ```\n",
        "<script <b> ",
        "<script type='",
        "<script type='text/javascript'></script>\n",
        f"<think>I could write {block('1')} or ```</think>\n",
        "<think>it`s ```</think>",
        "<think>\n```\nx = 1</think>\n",
        "<th",
        "a <think> ",
    ],
)
def test_quotes_and_other_tags_do_not_hide_a_block(before: str) -> None:
    text = before + block("1")
    assert found([text]) == found(text) == (before, "1", False)


# --- pieces -----------------------------------------------------------------------------------------------------------

_PARTS = (
    *(OPENING, CLOSING, "<script type='text/x-python'>", "<script a='", "<script ", "type=", "text/x-python", ">"),
    *("<", "</", "<scr", "</scr", "ipt>", "`", "``", "```", "~~~", "\n", "\r\n", " ", "> ", "- ", "1. ", "\n> ```\n"),
    *('"', "'", '"""', "'''", "\\", "#"),
    *("<think>", "</think>", "<th", "</th", "a", "word ", "print(1)\n", "é☃", "=", "/"),
)
_BEGINNINGS = (
    "",
    "",
    OPENING,
    f"x\n{OPENING}",
    f"```\n```\n{OPENING}",
    f"`a` {OPENING}",
    "<think>",
    "> ```\n",
    "1. ~~~",
)
_TEXTS = st.tuples(st.sampled_from(_BEGINNINGS), st.lists(st.sampled_from(_PARTS), max_size=30).map("".join)).map(
    "".join
)


@pytest.mark.slow
@examples(6)
@given(text=_TEXTS, cuts=st.lists(st.integers(0, 400), max_size=12))
def test_splitting_a_text_never_changes_the_result(text: str, cuts: list[int]) -> None:
    whole = block_in(text)
    assert found([text]) == found(pieces_of(text, cuts)) == found(text) == whole


@examples(2)
@given(before=_TEXTS, source=st.sampled_from(("x = 1", "p = '</script>'", 'p = """\n</script>"""', "# it's\n1", "")))
def test_block_on_its_own_line_is_found_after_text(before: str, source: str) -> None:
    before = before.replace("<", "").replace("```", "").replace("~~~", "") + "\n"
    ast.parse(source)
    assert found(before + block(f"\n{source}\n")) == (before, f"{source}\n", False)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("a <", "a "),
        ("a <st", "a <st"),
        ("a <script", "a "),
        ("a <script src='x'>", "a <script src='x'>"),
        ("a <script of a play.", "a <script of a play."),
        ("a <script " + "b " * LONGEST_TAG, "a <script " + "b " * LONGEST_TAG),
        ("`<scr", "`<scr"),
        ("<think", ""),
        ("<think>\n<scr", "<think>\n<scr"),
        ("```", "```"),
    ],
)
def test_text_is_held_back_while_it_may_be_a_tag(text: str, shown: str) -> None:
    assert "".join(map(BlockReader().read, text)) == shown


def test_no_tag_reaches_across_something_else() -> None:
    reader = BlockReader()
    assert (reader.read("a <scr"), reader.interrupt()) == ("a ", "<scr")
    assert reader.read(f"ipt type='text/x-python'>1{CLOSING}") + reader.end() == f"ipt type='text/x-python'>1{CLOSING}"
    assert reader.source is None


def test_a_block_goes_on_after_something_else() -> None:
    reader = BlockReader()
    assert reader.read(f"{OPENING}x =") + reader.interrupt() + reader.read(f" 1{CLOSING}") + reader.end() == ""
    assert reader.source == "x = 1"


HOSTILE = {
    "a string": lambda size: OPENING + "x = '" + "a" * size,
    "openings": lambda size: OPENING * (size // len(OPENING)),
    "quotes": lambda size: OPENING + '"' * size,
    "escapes": lambda size: OPENING + "\\" * size + CLOSING,
    "closings in a string": lambda size: OPENING + '"""' + CLOSING * (size // len(CLOSING)),
    "values": lambda size: "<script a='" * (size // 11),
    "names": lambda size: "<script " + "a " * (size // 2),
    "long tags": lambda size: ("<script " + "a=b " * 29) * (size // 124),
    "a run": lambda size: "`" * size,
    "spans": lambda size: "``` ` " * (size // 6),
    "beginnings": lambda size: "<" * size,
    "beginnings of closings": lambda size: OPENING + "</script " * (size // 9),
}


@pytest.mark.parametrize("text", [make(5_000) for make in HOSTILE.values()], ids=HOSTILE)
def test_a_hostile_text_is_read_like_any_other(text: str) -> None:
    assert found(text) == found([text])


@pytest.mark.slow
@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_megabyte_takes_time_in_its_length_alone(make: Callable[[int], str]) -> None:
    def seconds(size: int) -> float:
        text = make(size)
        start = time.process_time()  # of this process alone, so that a busy machine changes little
        found(text)
        return time.process_time() - start

    # Sixteen times where it is the square of the length.
    assert seconds(1_000_000) < 8 * seconds(250_000) + 1
    assert found(make(1_000_000)) == found([make(1_000_000)])
