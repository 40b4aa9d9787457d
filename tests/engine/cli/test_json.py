"""`--json` of every command is one JSON document, and `--jsonl` one object on each line."""

from __future__ import annotations

import inspect
import json
from contextlib import closing

import pytest
from msgspec.structs import replace

from engine.cli.commands import COMMANDS
from tests.support.commands import Home
from tests.support.stores import message, row

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "sessions": (),
    "show": ("ses_", "--cycles"),
    "rewind": ("ses_", "--to", "1"),
    "replay": ("ses_", "--from", "1"),
    "branches": ("ses_",),
    "diff": ("ses_", "main", "b1"),
    "doctor": (),
}
"""By command, what it needs beside the option, in a session with two branches."""


def has(option: str) -> list[str]:
    return [
        command.name
        for command in COMMANDS
        for each in inspect.signature(command.load()).parameters.values()
        if option in (getattr(each.default, "param_decls", ()) or ())
    ]


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("used"))
    assert home.run("run", "-p", "x = 1").returncode == 0
    assert home.run("run", "-c", "-p", "x = 2").returncode == 0
    assert home.run("rewind", "ses_", "--to", "1").returncode == 0
    return home


def test_every_command_with_json_is_tested() -> None:
    assert set(has("--json")) == set(ARGUMENTS)
    assert set(has("--jsonl")) == {"sessions", "branches", "doctor"}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_json_is_one_document(used: Home, name: str) -> None:
    done = used.run(name, *ARGUMENTS[name], "--json")
    assert json.loads(done.stdout), done


@pytest.mark.parametrize("name", ["sessions", "branches", "doctor"])
def test_json_lines_are_the_rows_of_the_document(used: Home, name: str) -> None:
    rows = json.loads(used.run(name, *ARGUMENTS[name], "--json").stdout)
    lines = [json.loads(line) for line in used.run(name, *ARGUMENTS[name], "--jsonl").stdout.splitlines()]
    assert [each.keys() for each in rows] == [line.keys() for line in lines]
    assert len(rows) >= 1
    both = used.run(name, *ARGUMENTS[name], "--jsonl", "--json")
    assert (both.returncode, both.stdout) == (2, "")


def test_a_session_of_statements_alone_goes_on_and_an_unused_one_does_not(empty: Home) -> None:
    assert empty.run("run", "-p", "/run x = 20").returncode == 0
    with closing(empty.store()) as store:
        store.add(replace(row("ses_unused"), cwd=str(empty.path), updated_at=4e9), [message(0)])
    done = empty.run("run", "-c", "-p", "/run x + 22")
    assert (done.returncode, done.stdout) == (0, "42\n")
    rows = json.loads(empty.run("sessions", "--json").stdout)
    assert [each["session_id"] == "ses_unused" for each in rows] == [True, False]
