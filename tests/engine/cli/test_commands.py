"""The table of commands, their help and pages, their JSON, and how errors are worded."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import typer
from msgspec.structs import replace

from engine.cli.commands import SUBCOMMANDS, Command, chosen, complaint
from engine.cli.help import topics
from engine.core.errors import InvalidRequestError
from tests.support.commands import Home
from tests.support.stores import ROOT, message, row

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


@pytest.mark.parametrize("command", SUBCOMMANDS, ids=lambda command: command.name)
def test_a_row_says_what_its_function_says(command: Command) -> None:
    assert inspect.getdoc(command.load()) == command.help


def test_help_loads_no_command_and_no_costly_module() -> None:
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
        ("There is no branch x. The branches are main.", "rewindow: There is no branch x. The branches are main."),
        ("No space left on device", "rewindow: no space left on device"),
        ("Rewindow cannot work here.", "rewindow: Rewindow cannot work here"),
        ("There is none. Make one.", "rewindow: There is none. Make one."),
        ("It is in use. Close it there.", "rewindow: It is in use. Close it there."),
        ("wait ...", "rewindow: wait ..."),
        ("cannot read \x1b[2J.", "rewindow: cannot read \\x1b[2J"),
        ("", "rewindow: "),
    ],
)
def test_only_several_sentences_keep_their_full_stops(said: str, line: str) -> None:
    assert complaint(InvalidRequestError(said)) == line


def test_a_wrong_choice_is_told_what_there_is() -> None:
    assert chosen("--mode", "b", ("a", "b", "c")) == "b"
    with pytest.raises(typer.BadParameter, match=r"^--mode must be a, b or c, not 'x{59}"):
        chosen("--mode", "x" * 1000, ("a", "b", "c"))


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
        for command in SUBCOMMANDS
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


@pytest.mark.parametrize(
    "name", [each if each != "doctor" else pytest.param(each, marks=pytest.mark.slow) for each in ARGUMENTS]
)
def test_json_is_one_document(used: Home, name: str) -> None:
    done = used.run(name, *ARGUMENTS[name], "--json")
    assert json.loads(done.stdout), done


@pytest.mark.parametrize("name", ["sessions", "branches", pytest.param("doctor", marks=pytest.mark.slow)])
def test_json_lines_are_the_rows_of_the_document(used: Home, name: str) -> None:
    rows = json.loads(used.run(name, *ARGUMENTS[name], "--json").stdout)
    lines = [json.loads(line) for line in used.run(name, *ARGUMENTS[name], "--jsonl").stdout.splitlines()]
    assert [each.keys() for each in rows] == [line.keys() for line in lines]
    assert len(rows) >= 1
    both = used.run(name, *ARGUMENTS[name], "--jsonl", "--json")
    assert (both.returncode, both.stdout) == (2, "")


def test_continue_skips_unused_sessions(empty: Home) -> None:
    assert empty.run("run", "-p", "/run x = 20").returncode == 0
    with closing(empty.store()) as store:
        store.add(replace(row("ses_unused"), cwd=str(empty.path), updated_at=4e9), [message(0)])
    done = empty.run("run", "-c", "-p", "/run x + 22")
    assert (done.returncode, done.stdout) == (0, "42\n")
    rows = json.loads(empty.run("sessions", "--json").stdout)
    assert [each["session_id"] == "ses_unused" for each in rows] == [True, False]


SOURCES = [
    path
    for name in ("engine", "acp_adapter", "mcp_tools", "session_page", "conformance")
    for path in (ROOT / name).rglob("*.py")
]


def strings(path: Path) -> list[str]:
    """The texts of a module without its docstrings and the comments."""
    tree = ast.parse(path.read_text("utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone)
    return [node.value for node in constants if isinstance(node.value, str)]


def test_a_page_is_printed_whole(empty: Home) -> None:
    done = empty.run("help", "scripts")
    assert (done.returncode, done.stdout) == (0, (ROOT / "docs" / "scripts.md").read_text("utf-8"))


def test_on_a_terminal_a_page_goes_through_the_pager(empty: Home) -> None:
    seen = empty.path / "seen"
    code, shown = empty.run_on_a_terminal("help", "scripts", PAGER=f"cat > {seen}", TERM="xterm")
    assert (code, shown) == (0, b"")
    assert seen.read_text("utf-8") == (ROOT / "docs" / "scripts.md").read_text("utf-8")


def test_the_pages_are_listed_with_their_titles(empty: Home) -> None:
    lines = empty.run("help").stdout.splitlines()
    tasks = [f"how-to/{path.stem}" for path in sorted((ROOT / "docs" / "how-to").glob("*.md"))]
    assert [line.split()[0] for line in lines] == [
        *(path.stem for path in sorted((ROOT / "docs").glob("*.md"))),
        *tasks,
    ]
    assert "In scripts" in next(line for line in lines if line.startswith("scripts "))


@pytest.mark.parametrize(("topic", "said"), [("script", "did you mean scripts"), ("zzz", "`rewindow help`")])
def test_unknown_page_is_wrong_usage_and_near_ones_are_named(empty: Home, topic: str, said: str) -> None:
    done = empty.run("help", topic)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


@pytest.mark.slow
def test_messages_name_pages_by_the_command_that_shows_them() -> None:
    texts = {(path.name, text) for path in SOURCES for text in strings(path)}
    named = {page for _, text in texts for page in re.findall(r"`rewindow help ([a-z-]+)`", text)}
    assert {"configuration", "scripts", "conformance-formats"} <= named <= set(topics())
    by_path = {(name, page) for name, text in texts for page in re.findall(r"docs/([\w-]+)\.md", text)}
    assert {name for name, page in by_path if page in topics()} <= {
        "documents.py"
    }  # which names files of the repository
