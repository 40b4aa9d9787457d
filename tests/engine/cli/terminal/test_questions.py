"""What a question shows is what would happen, and how a person answers it; the first screen."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import cast

import anyio
import pytest
from msgspec.structs import replace

from engine.cli.terminal.interaction import AskingPermissions, greeting, model_name
from engine.cli.terminal.keyboard import ESCAPE, PASTE, Answers, Keyboard
from engine.cli.terminal.questions import DISMISSED, answered, asked, chosen, options, subject_shown
from engine.cli.terminal.rendering import Fragment, painted, plain
from engine.cli.terminal.screen import Below, Pump, Screen
from engine.cli.terminal.transcript import Transcript
from engine.core.execution import LeftOut, TextChange
from engine.core.ids import Seq, ToolCallId
from engine.log.permissions import (
    CommandSubject,
    FileSubject,
    PermissionAnswer,
    PermissionQuestion,
    PermissionSubject,
    ServerCallSubject,
    StatementSubject,
    TreeSubject,
)

pytestmark = pytest.mark.anyio
EVIL = "a\x1b[2K\x1b[1Gharmless\x08\u202e\u2028b"
"""Erases its line, goes to its beginning, and turns around what follows."""
IN_ONE_LINE = f"{EVIL}\n  y    yes, this once\r"
CHANGE = TextChange(line=1, old="", new=f"{EVIL}\r\n\x85x")
SUBJECTS: dict[str, PermissionSubject] = {
    "statement": StatementSubject(EVIL),
    "file": FileSubject(path=f"/w/{IN_ONE_LINE}", changes=(CHANGE,), note=EVIL),
    "tree": TreeSubject(act=f"Rename {IN_ONE_LINE} to b", paths=(f"/w/{IN_ONE_LINE}",)),
    "tree with content": TreeSubject(act=f"Remove {IN_ONE_LINE}", paths=(f"/w/{IN_ONE_LINE}",), changes=(CHANGE,)),
    "command": CommandSubject(command=EVIL, cwd=f"/w/{IN_ONE_LINE}"),
    "server": ServerCallSubject(server=IN_ONE_LINE, tool=IN_ONE_LINE, arguments=EVIL),
}


def test_truncated_change_has_its_whole_size() -> None:
    change = TextChange(line=1, old=None, new="a\nb\n", left_out=LeftOut(40, 3))
    subject = FileSubject(path="/w/a", changes=(change,))
    question = PermissionQuestion(tool_call_id=ToolCallId("c"), subject=subject, seq=Seq(1))
    shown = subject_shown(subject, lambda source: [("", source)])
    text = painted([*shown, *asked(question)], in_colour=False)
    assert text.startswith("/w/a (new file)  +42 -3\n")
    assert "\nWrite this file? The beginning of the change is shown above.\n" in text


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
def test_names_and_contents_have_no_power_over_the_screen(subject: PermissionSubject) -> None:
    question = PermissionQuestion(tool_call_id=ToolCallId("c"), subject=subject, seq=Seq(1), always=IN_ONE_LINE)
    shown = subject_shown(subject, lambda source: [("", source)])
    text = painted([*shown, *asked(question)], in_colour=False)
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "\\x1b[2K" in text
    assert [line for line in text.split("\n") if line.startswith("  y ")] == ["  y    yes, this once"]


def test_statement_is_shown_with_a_note_on_its_rights() -> None:
    shown = subject_shown(StatementSubject("x = 1", "It had fewer rights."), lambda source: [("", source)])
    assert painted(shown, in_colour=False) == "x = 1\nIt had fewer rights.\n"


def test_only_what_can_be_remembered_is_offered_for_always() -> None:
    once = PermissionQuestion(tool_call_id=ToolCallId("c"), subject=StatementSubject("1"), seq=Seq(0))
    subject = CommandSubject(command="git status", cwd="/p")
    ever = PermissionQuestion(tool_call_id=ToolCallId("c"), subject=subject, seq=Seq(0), always="`git status`")
    assert [option.key for option in options(once)] == ["y", "n"]
    assert [(option.key, option.answer.outcome, option.answer.remember) for option in options(ever)] == [
        ("y", "allowed", False),
        ("a", "allowed", True),
        ("n", "rejected", False),
        ("N", "rejected", True),
    ]
    assert chosen(once, "a") is None
    assert [option.key for option in options(replace(once, rest=True))] == ["y", "s", "n"]
    (rest,) = (option.answer for option in options(replace(ever, rest=True)) if option.key == "s")
    assert (rest.outcome, rest.rest, rest.remember) == ("allowed", True, False)
    assert "  a    always allow `git status`\n" in painted(asked(ever), in_colour=False)
    assert painted(answered(chosen(ever, "N")), in_colour=False) == "  N: never allow `git status`\n"


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
            answers.put(*key.split("=", 1)) if key.startswith(PASTE) else answers.put(key)
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


async def test_escape_gives_up_the_turn_at_question_and_reason() -> None:
    for keys in ([ESCAPE], ["n", "x", ESCAPE]):
        assert (await answer(*keys))[0] == DISMISSED


async def test_unknown_key_is_reported_once_and_answers_nothing() -> None:
    given, shown = await answer("x", "x", "c-m", "y")
    assert given.outcome == "allowed"
    assert shown.text.count("x is not an answer. The keys are y, a, n, N and Esc; ? explains them.") == 1
    assert "Enter is not an answer." in shown.text


async def test_a_question_mark_explains_each_key() -> None:
    given, shown = await answer("?", "a")
    assert given == PermissionAnswer(outcome="allowed", remember=True)
    for key in ("y", "a", "n", "N", "Esc"):
        assert f"\n  {key:<4} " in shown.text.partition("cancel the turn")[2]


@pytest.mark.parametrize("model", ["direct", "provider:openai:gpt-5", "scripted:/tmp/replies.jsonl"])
def test_first_screen_names_the_model_in_80_columns(model: str) -> None:
    text = painted(greeting(model), in_colour=False)
    first, second = text.splitlines()
    assert max(len(first), len(second)) <= 80
    assert model_name(model) in first or "No model is set" in first


def test_model_has_the_users_name_without_its_kind() -> None:
    assert model_name("provider:openai:gpt-5") == "openai:gpt-5"
    assert model_name("scripted:/tmp/replies.jsonl") == "replies.jsonl"
    assert model_name("direct") == "no model"
