"""How a person answers a question, and the first screen."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import cast

import anyio
import pytest

from engine.cli.terminal.interaction import AskingPermissions, greeting, model_name
from engine.cli.terminal.keyboard import ESCAPE, Answers, Keyboard
from engine.cli.terminal.questions import DISMISSED
from engine.cli.terminal.rendering import Fragment, painted, plain
from engine.cli.terminal.screen import Below, Pump, Screen
from engine.cli.terminal.transcript import Transcript
from engine.core.ids import Seq, ToolCallId
from engine.log.permissions import CommandSubject, PermissionAnswer, PermissionQuestion

pytestmark = pytest.mark.anyio
QUESTION = PermissionQuestion(
    tool_call_id=ToolCallId("c"),
    subject=CommandSubject(command="make", cwd="/w"),
    seq=Seq(1),
    always="commands that begin with make",
)


class Shown:
    """A screen, a keyboard on which `keys` are pressed, and a pump that has shown everything."""

    columns = 80

    def __init__(self, keys: Sequence[str]) -> None:
        self.text = ""
        self.typed: list[str] = []
        self._lines: Below = tuple
        self._keys = keys

    def write(self, fragments: Sequence[Fragment]) -> None:
        self.text += painted(fragments, in_colour=False)

    def refresh(self) -> None:
        self.typed += [painted(line, in_colour=False) for line in self._lines()]

    @contextmanager
    def below(self, lines: Below):
        before, self._lines = self._lines, lines
        yield
        self._lines = before

    @contextmanager
    def asked(self):
        answers = Answers()
        for key in self._keys:
            answers.put(key)
        yield answers

    async def shown(self, seq: Seq) -> None:
        assert seq == QUESTION.seq


async def answer(*keys: str) -> tuple[PermissionAnswer, Shown]:
    shown = Shown(keys)
    asking = AskingPermissions(
        cast("Keyboard", shown), cast("Screen", shown), Transcript("/w", plain), cast("Pump", shown)
    )
    with anyio.fail_after(5):
        return await asking.ask(QUESTION), shown


async def test_a_no_takes_a_reason_that_can_be_corrected() -> None:
    given, shown = await answer("n", *"kept", "c-h", "p ", " ", "x", "c-m")
    assert given == PermissionAnswer(outcome="rejected", reason="kep x")
    assert shown.typed[-1] == "  Why not? (Enter: no reason) kep x"
    assert shown.text.endswith("  n: no, kep x\n")


async def test_a_no_needs_no_reason() -> None:
    assert (await answer("n", "c-m"))[0] == PermissionAnswer(outcome="rejected")


async def test_escape_gives_the_turn_up_at_the_question_and_at_the_reason() -> None:
    for keys in ([ESCAPE], ["n", "x", ESCAPE]):
        assert (await answer(*keys))[0] == DISMISSED


async def test_an_unknown_key_is_said_once_in_a_row_and_answers_nothing() -> None:
    given, shown = await answer("x", "x", "c-m", "y")
    assert given.outcome == "allowed"
    assert shown.text.count("x is no answer. The keys are y, a, n, N and Esc; ? explains them.") == 1
    assert "Enter is no answer." in shown.text


async def test_a_question_mark_explains_each_key() -> None:
    given, shown = await answer("?", "a")
    assert given == PermissionAnswer(outcome="allowed", remember=True)
    for key in ("y", "a", "n", "N", "Esc"):
        assert f"\n  {key:<4} " in shown.text.partition("give the turn up")[2]


@pytest.mark.parametrize("model", ["direct", "provider:openai:gpt-5", "scripted:/tmp/replies.jsonl"])
def test_the_first_screen_names_the_model_in_two_lines_of_80_columns(model: str) -> None:
    text = painted(greeting(model), in_colour=False)
    first, second = text.splitlines()
    assert max(len(first), len(second)) <= 80
    assert model_name(model) in first or "No model is set" in first


def test_a_model_is_called_what_the_user_called_it_without_its_kind() -> None:
    assert model_name("provider:openai:gpt-5") == "openai:gpt-5"
    assert model_name("scripted:/tmp/replies.jsonl") == "replies.jsonl"
    assert model_name("direct") == "no model"
