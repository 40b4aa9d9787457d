"""The table of commands: what it says of each, and that a help text waits for none of them."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from engine.cli.commands import COMMANDS, Command
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
