"""The table of commands, what a start loads, and how errors are worded."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import engine.cli
from engine.cli.commands import COMMANDS, Command, chosen, complaint
from engine.core.errors import InvalidRequestError
from tests.support.stores import ROOT

LOADED = """
import sys
from engine.cli import main
main(sys.argv[1:])
print(sorted(name for name in sys.modules if name.startswith(("engine.", "rich."))))
"""


def loaded_by(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True, cwd=ROOT, timeout=60
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_row_says_what_its_function_says(command: Command) -> None:
    assert inspect.getdoc(command.load()) == command.help


def test_the_help_loads_no_command_and_nothing_of_the_engine_that_costs_time() -> None:
    modules = loaded_by("--help")
    for name in (
        "engine.log.events",
        "engine.core.settings",
        "engine.log.store",
        "engine.session",
        "rich.",
        "engine.cli.show",
    ):
        assert f"'{name}" not in modules
    assert "'engine.cli.commands'" in modules


def test_the_help_of_a_command_loads_that_command_alone() -> None:
    modules = loaded_by("gc", "--help")
    assert "'engine.cli.sessions'" in modules
    for name in ("engine.cli.show", "engine.cli.doctor", "engine.cli.transfer", "engine.runtime"):
        assert f"'{name}" not in modules


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
