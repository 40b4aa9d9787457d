"""A reply with its statement written as a block is the same as one that calls: what counts, and what is left of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.context.model import (
    ModelError,
    ModelSignal,
    ReasoningDelta,
    ReplyEnded,
    StatementAsked,
    TextDelta,
    TokensUsed,
)
from engine.context.models.written_replies import with_written_statement
from engine.context.tail.results import CLOSING, OPENING

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


async def test_the_text_before_streams_as_it_comes_and_the_block_becomes_the_call() -> None:
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
            [StatementAsked("1", "c1"), StatementAsked("2", "c2"), END],
            [StatementAsked("1", "c1", rest_left_out=True), END],
        ),
        ([*said("a")], [*said("a"), END]),
    ],
)  # fmt: skip
async def test_what_counts_in_a_reply(signals: list[ModelSignal], found: list[ModelSignal], calls_tools: bool) -> None:
    assert await read(*signals, calls_tools=calls_tools) == found


async def test_a_block_that_is_not_closed_is_text_and_who_cannot_call_is_told_to_write_it_again() -> None:
    text = f"{OPENING}\nrm('everything"
    assert await read(*said(text), END) == [*said(text), END]
    shown, asked, ended = await read(*said(text), END, calls_tools=False)
    assert (shown, ended) == (TextDelta(text), END)
    assert isinstance(asked, StatementAsked)
    with pytest.raises(SyntaxError, match="no </script>, so nothing of it was run"):
        exec(asked.source, {})


@pytest.mark.parametrize(("calls_tools", "taken"), [(False, 3), (True, 5)])
async def test_who_cannot_call_is_not_listened_to_any_longer_than_its_block(calls_tools: bool, taken: int) -> None:
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
