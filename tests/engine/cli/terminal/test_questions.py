"""What a question shows is what would happen: nothing in it hides, moves or imitates anything else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from engine.cli.terminal.questions import answered, asked, chosen, options, subject_shown
from engine.cli.terminal.rendering import painted
from engine.core.execution import LeftOut, TextChange
from engine.core.ids import Seq, ToolCallId
from engine.log.permissions import (
    CommandSubject,
    FileSubject,
    PermissionQuestion,
    PermissionSubject,
    ServerCallSubject,
    StatementSubject,
    TreeSubject,
)

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


def test_of_a_change_that_is_too_long_the_whole_size_is_said_and_that_its_beginning_is_shown() -> None:
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


def test_a_statement_is_shown_with_what_is_said_of_its_rights() -> None:
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
