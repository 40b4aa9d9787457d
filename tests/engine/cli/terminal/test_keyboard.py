"""The keys between two lines, on a pseudo-terminal: what answers a question, what cancels, what is kept for later."""

from __future__ import annotations

import os
import pty
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import pytest
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.output import DummyOutput

from engine.cli.terminal.keyboard import ESCAPE, Keyboard

SECONDS = 20.0

pytestmark = pytest.mark.anyio


@dataclass
class Keys:
    """A keyboard with somebody who types on it."""

    keyboard: Keyboard
    source: Vt100Input
    ours: int
    called: list[str] = field(default_factory=list[str])

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    async def answer_to(self, text: str) -> str:
        """What the keyboard gives for what is typed once the question is there."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._type_later, text)
            with self.keyboard.asked() as answers:
                return await answers.next()
        raise AssertionError

    async def _type_later(self, text: str) -> None:
        self.type(text)

    async def until(self, *called: str) -> None:
        while self.called != list(called):
            await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def keys() -> AsyncIterator[Keys]:
    ours, theirs = pty.openpty()
    called: list[str] = []
    try:
        with os.fdopen(theirs, closefd=False) as stream, anyio.fail_after(SECONDS):
            source = Vt100Input(stream)
            keyboard = Keyboard(source, lambda: called.append("cancel"), lambda: called.append("leave"))
            with source.raw_mode(), keyboard.watched(DummyOutput()):
                yield Keys(keyboard, source, ours, called)
    finally:
        os.close(ours)
        os.close(theirs)


async def test_what_was_typed_before_the_question_answers_nothing_also_where_nobody_has_read_it() -> None:
    async with keys() as typing:
        typing.type("y")
        assert await typing.answer_to("n") == "n"


async def test_every_key_is_given_in_order() -> None:
    async with keys() as typing:
        with typing.keyboard.asked() as answers:
            typing.type("x\r\x7fN")
            assert [await answers.next() for _ in range(4)] == ["x", "c-m", "c-h", "N"]


async def test_escape_ctrl_c_and_ctrl_d_leave_a_question_without_an_answer() -> None:
    async with keys() as typing:
        assert await typing.answer_to("\x1b") == ESCAPE
        assert typing.called == []
        assert await typing.answer_to("\x03") == ESCAPE
        assert await typing.answer_to("\x04") == ESCAPE
        assert typing.called == ["cancel", "leave"]


async def test_without_a_question_keys_are_kept_for_the_next_line_and_ctrl_c_cancels() -> None:
    async with keys() as typing:
        typing.type("ab\x03c\x04")
        await typing.until("cancel", "leave")
        assert "".join(press.data for press in get_typeahead(typing.source)) == "abc"
