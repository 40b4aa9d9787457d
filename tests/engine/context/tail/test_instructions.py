"""The instructions are short, and what they show works."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import msgspec
import pytest

from engine.context.models.written_replies import BlockReader
from engine.context.tail.prompt import EXAMPLES, WORKED, instructions
from engine.context.tail.results import CLOSING, OPENING
from engine.core.tokens import count
from engine.core.toolbox import INJECTED
from engine.runtime.worker.names import InjectedNames
from engine.session.tools import OPERATIONS, Change, Reading, Workspace, land
from engine.session.tools.bash import Program
from tests.support.boards import Desk
from tests.support.searching import outcome_of


@pytest.mark.parametrize("calls_tools", [True, False])
def test_the_instructions_are_under_900_tokens_and_show_every_example(calls_tools: bool) -> None:
    text = instructions("/home/someone/project", calls_tools=calls_tools)
    assert count(text) < 900
    assert all(example.source in text and example.comment in text for example in EXAMPLES)
    shown = " ".join(example.source for example in EXAMPLES)
    assert all(f"{name}(" in shown for name in INJECTED - {"All", "restore_names"})


def test_a_model_is_told_to_call_or_to_write_and_what_it_is_told_to_write_is_read() -> None:
    called, written = (instructions("/p", calls_tools=calls_tools) for calls_tools in (True, False))
    assert ("Call the tool `python`" in called, OPENING in called) == (True, False)
    assert ("tool" in written, f"a line `{OPENING}`" in written, f"a line `{CLOSING}`" in written) == (
        False,
        True,
        True,
    )
    reader = BlockReader()
    assert reader.read(f"{OPENING}\n1\n{CLOSING}\n") + reader.end() == ""
    assert reader.source == "1\n"
    # Who repeats the instructions runs nothing.
    quoting = BlockReader()
    assert quoting.read(written) + quoting.end() == written


def names_in(project: Path) -> Desk:
    """A namespace whose tools do in the project what they are told, asking nobody."""
    desk, workspace = Desk(project), Workspace(str(project))

    def ask(name: str, arguments: dict[str, object], _basis: str | None = None) -> object:
        tool = OPERATIONS[name]
        found = tool.perform(workspace, msgspec.convert(arguments, tool.arguments))
        match found:
            case Change():
                land(workspace, found)
                return found.value
            case Program():
                return found.answer(outcome_of(found.request))
            case Reading():
                return found.value
            case _:
                return found

    InjectedNames(desk.board, ask, lambda path, mode: StringIO(), desk.namespace)
    return desk


def test_every_example_runs_in_a_project_with_a_readme(tmp_path: Path) -> None:
    desk = names_in(tmp_path)
    desk.write("README.md", "line\n" * 60)
    for example in EXAMPLES:
        desk.run(example.source)
    assert desk.get("text") == "line\n" * 60


def test_the_worked_statement_renames_and_runs_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = names_in(tmp_path)
    programs = tmp_path / "programs"
    for folder in (tmp_path / "src", programs):
        folder.mkdir()
    (programs / "python").write_text('#!/bin/sh\necho "$@: 2 passed"\n')
    (programs / "python").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    desk.write("src/a.py", "def old_name():\n    return old_name\n")
    desk.write("src/b.py", "import c\n")
    desk.run(f"done = None\n{WORKED.replace('bash(', 'done = bash(')}")
    assert (tmp_path / "src/a.py").read_text() == "def new_name():\n    return new_name\n"
    assert repr(desk.get("done")) == "-m pytest -q: 2 passed"
    assert WORKED in instructions(str(tmp_path))
