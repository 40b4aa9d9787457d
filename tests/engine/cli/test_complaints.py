"""Errors on the command line read alike, whatever they are of."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import typer

import engine.cli
from engine.cli.complaints import chosen, complaint
from engine.core.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("no session x; list them", "rewindow: no session x; list them"),
        ("There is no branch x; the session has main.", "rewindow: There is no branch x; the session has main"),
        ("It is in use. Close it there.", "rewindow: It is in use. Close it there."),
        ("wait ...", "rewindow: wait ..."),
        ("cannot read \x1b[2J.", "rewindow: cannot read \\x1b[2J"),
        ("", "rewindow: "),
    ],
)
def test_a_single_sentence_has_no_full_stop_and_several_have_theirs(said: str, line: str) -> None:
    assert complaint(InvalidRequestError(said)) == line


def test_a_wrong_choice_is_told_what_there_is() -> None:
    assert chosen("--mode", "b", ("a", "b", "c")) == "b"
    with pytest.raises(typer.BadParameter, match=r"^--mode must be a, b or c, not 'x{59}"):
        chosen("--mode", "x" * 1000, ("a", "b", "c"))


CLI = Path(engine.cli.__file__).parent
SOURCES = sorted([*CLI.glob("*.py"), *(CLI / "checks").glob("*.py")])
"""The commands; what a terminal shows in a session is not an error of theirs."""


def _strings(node: ast.AST) -> str:
    """The literal text in an expression, as far as there is one."""
    constants = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return "".join(value for value in constants if isinstance(value, str))


def test_no_command_says_that_it_is_used_wrongly_in_another_style() -> None:
    calls = [node for path in SOURCES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    found = [
        _strings(call.args[0])
        for call in calls
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "BadParameter"
    ]
    assert len(found) > 10
    assert [text for text in found if text.endswith(".") or text[:1].isupper()] == []


def test_nobody_else_begins_a_line_with_the_programs_name() -> None:
    lines = [path.name for path in SOURCES if '"rewindow: ' in path.read_text(encoding="utf-8")]
    assert lines == ["complaints.py"]
