"""Keys between two lines on a pseudo-terminal, and the history of lines."""

from __future__ import annotations

import json
import os
import pty
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.output import DummyOutput

from engine.cli.terminal.keyboard import (
    ESCAPE,
    FILE_NAME,
    LINE_CHARS,
    PASTE,
    READ_BYTES,
    Keyboard,
    Pastes,
    TypedHistory,
)
from engine.log.redaction import Redactor

pytestmark = pytest.mark.anyio

SECONDS = 20.0


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


async def test_keys_typed_before_the_question_answer_nothing() -> None:
    async with keys() as typing:
        typing.type("y")
        assert await typing.answer_to("n") == "n"


async def test_every_key_is_given_in_order() -> None:
    async with keys() as typing:
        with typing.keyboard.asked() as answers:
            for typed, key in (("x\r\x7f", ["x", "c-m", "c-h"]), ("N", ["N"])):
                typing.type(typed)
                assert [await answers.next() for _ in key] == key


async def test_the_rest_of_a_paste_whose_beginning_was_discarded_is_no_answer() -> None:
    async with keys() as typing:
        with typing.keyboard.asked() as answers:
            typing.type("yes, y\r")
            assert await answers.next() == PASTE
            assert answers.pasted == "yes, y"
            typing.type("n")
            assert await answers.next() == "n"


async def test_escape_ctrl_c_and_ctrl_d_dismiss_a_question() -> None:
    async with keys() as typing:
        assert await typing.answer_to("\x1b") == ESCAPE
        assert typing.called == []
        assert await typing.answer_to("\x03") == ESCAPE
        assert await typing.answer_to("\x04") == ESCAPE
        assert typing.called == ["cancel", "leave"]


async def test_without_a_question_keys_wait_for_the_next_line() -> None:
    async with keys() as typing:
        typing.type("ab\x03c\x04")
        await typing.until("cancel", "leave")
        assert "".join(press.data for press in get_typeahead(typing.source)) == "abc"


SECRET = "a-secret-value-9"


def history(directory: Path) -> TypedHistory:
    return TypedHistory(directory, Redactor([SECRET]))


def test_lines_come_back_in_the_next_run_without_secrets(tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = history(state)
    for line in ("one", "two\nlines", f"key = '{SECRET}'", "\ud800"):
        first.store_string(line)
    assert stat.S_IMODE((state / FILE_NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert SECRET not in (state / FILE_NAME).read_text()
    assert list(history(state).load_history_strings()) == ["\ud800", "key = '***'", "two\nlines", "one"]


def test_damaged_or_shared_history_gives_its_readable_lines(tmp_path: Path) -> None:
    kept = tmp_path / FILE_NAME
    kept.write_bytes(b'"one"\n{"no": "text"}\n"cut\n\xff\xfe\n"two"\n')
    kept.chmod(0o644)
    assert list(history(tmp_path).load_history_strings()) == ["two", "one"]
    history(tmp_path).store_string("three")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_what_cannot_be_kept_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    history(tmp_path / "state").store_string("one")
    assert list(history(tmp_path / "state").load_history_strings()) == []
    (tmp_path / "linked").mkdir()
    (tmp_path / "elsewhere").touch()
    (tmp_path / "linked" / FILE_NAME).symlink_to(tmp_path / "elsewhere")
    history(tmp_path / "linked").store_string("one")
    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_long_text_is_not_kept_and_long_file_is_shortened(tmp_path: Path) -> None:
    kept = tmp_path / FILE_NAME
    history(tmp_path).store_string("x" * (LINE_CHARS + 1))
    assert not kept.exists()
    line = "y" * 1_000
    kept.write_text("".join(json.dumps(f"{number} {line}") + "\n" for number in range(4 * READ_BYTES // 1_000)))
    found = list(history(tmp_path).load_history_strings())
    assert found[0].startswith(f"{4 * READ_BYTES // 1_000 - 1} ")
    assert kept.stat().st_size <= READ_BYTES
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert list(history(tmp_path).load_history_strings()) == found


def test_a_long_paste_is_a_label_until_it_is_sent() -> None:
    pastes = Pastes()
    text = "\n".join(map(str, range(100)))
    assert pastes.insert("a\r\nb\rc") == "a\nb\nc"
    label = pastes.insert(text.replace("\n", "\r\n"))
    assert label == "[pasted text 1: 100 lines]"
    assert pastes.insert("x" * 5_000) == "[pasted text 2: 1 line]"
    assert pastes.expanded(f"see {label}, [pasted text 7: 3 lines] and {label}") == (
        f"see {text}, [pasted text 7: 3 lines] and {text}"
    )
