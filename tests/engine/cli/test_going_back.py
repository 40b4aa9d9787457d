"""Rewinds, replays and comparisons as commands, with their progress and after interrupts."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.store import open_store
from tests.support.commands import COMMAND, Home
from tests.support.sessions import sessions_of
from tests.support.terminal import CTRL_C, Terminal


def session_of(home: Home, project: Path) -> str:
    """A session of three statements, each of which binds `x` and writes it."""
    project.mkdir()
    return anyio.run(_make_session, home, str(project))


async def _make_session(home: Home, project: str) -> str:
    store = open_store(home.state, SystemClock())
    async with sessions_of(home.state, store) as sessions:
        session = await sessions.create(project)
        for x in (1, 2, 3):
            finished = await session.cell(f"x = {x}\nw = write('x.txt', f'{{x}}\\n')\nw = write(f'only-{{x}}', '')")
            assert finished.exception is None, finished.exception
    store.close()
    return session.session_id


PAGE = (Path(__file__).parents[3] / "docs" / "timeline.md").read_text(encoding="utf-8")


def is_documented(command: str, printed: dict[str, Any]) -> bool:
    """Whether the page has a table of the command with these fields, and no others."""
    table = PAGE.partition("## For programs")[2]
    table = table.partition(f"\n`rewindow {command}`")[2].partition("| --- | --- |\n")[2].partition("\n\n")[0]
    fields = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    return fields == set(printed)


def test_a_session_goes_back_and_its_branches_are_listed_and_compared(empty: Home, tmp_path: Path) -> None:
    project = tmp_path / "project"
    session = session_of(empty, project)
    (project / "only-3").write_text("by hand")
    done = empty.run("rewind", session[:12], "--to", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "The session is now at the end of statement 2, on branch b1.",
        "Restored 1 file to what was there after statement 2: x.txt.",
        "only-3 is left as it is: it has changed since the session last wrote it.",
    ]
    assert (project / "x.txt").read_text() == "2\n"
    back = empty.run("rewind", session, "--to", "0", "--json", "--keep-files")
    assert json.loads(back.stdout) == {"branch": "b2", "statement": 0, "restored": [], "left": {}}
    assert is_documented("rewind", json.loads(back.stdout))
    assert empty.run("branches", session).stdout.splitlines() == [
        "branch  from          statements",
        "main                  3",
        "b1      main after 2  2",
        "b2      main          0           active",
    ]
    rows = [json.loads(line) for line in empty.run("branches", session, "--jsonl").stdout.splitlines()]
    assert rows[1] == {"branch": "b1", "parent": "main", "shared": 2, "statements": 2, "active": False}
    assert is_documented("branches", rows[1])
    lines = empty.run("diff", session, "main", "b1").stdout.splitlines()
    assert lines[:3:2] == ["`main` and `b1` have statements 1 to 2 in common.", "On `main` alone:"]
    assert lines[4].startswith("- statement 3. `x = 3 …` (ok, ")
    found = json.loads(empty.run("diff", session, "main", "b1", "--json").stdout)
    assert found["shared"] == 2
    assert is_documented("diff", found)
    assert [each["statement"] for each in found["left"]["statements"]] == [3]
    assert (found["right"]["statements"], found["names"]["x"]) == ([], {"left": "3", "right": "2"})
    assert [Path(each["path"]).name for each in found["files"]] == ["x.txt"]


@pytest.mark.slow
def test_statements_run_again_and_what_differs_is_said(empty: Home, tmp_path: Path) -> None:
    session = session_of(empty, tmp_path / "project")
    done = empty.run("replay", session, "--from", "1", "--to", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "1 statement ran again, with their recorded answers: none differs. The namespace is unchanged.\n"
    )
    found = json.loads(empty.run("replay", session, "--from", "1", "--to", "1", "--json").stdout)
    assert (found["outcome"], found["divergences"], len(found["executions"])) == ("completed", [], 1)
    assert is_documented("replay", found)
    assert empty.run("replay", session, "--from", "1", "--mode", "never").returncode == 2
    (tmp_path / "new.py").write_text("y = 5\n")
    edited = ("replay", session, "--from", "3", "--edit", str(tmp_path / "new.py"), "--json")
    assert json.loads(empty.run(*edited).stdout)["branch"] == "b1"
    assert empty.run(*edited, "--mode", "dry").returncode == 2
    missing = empty.run("replay", session, "--from", "9")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "There is no statement 9" in missing.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rewind", "ses_", "--to", "4"], "There is no statement 4; they are numbered from 1 to 3"),
        (["rewind", "ses_x", "--to", "1"], "no session ses_x"),
        (["diff", "ses_", "b7"], "There is no branch b7; the session has main"),
        (["diff", "ses_", "main", "main"], "main cannot be compared with itself; name another branch"),
        (["rewind", "s" * 500, "--to", "1"], f"no session {'s' * 79}…; list"),
        (["rewind", "", "--to", "1"], "the session's id is empty"),
        (["delete", "", "--yes"], "the session's id is empty"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_not_there_is_said_in_one_sentence_and_changes_nothing(
    empty: Home, tmp_path: Path, arguments: list[str], said: str
) -> None:
    session_of(empty, tmp_path / "project")
    done = empty.run(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert said.lower() in done.stderr.lower()
    assert (tmp_path / "project" / "x.txt").read_text() == "3\n"
    assert len(empty.run("branches", "ses_").stdout.splitlines()) == 2


@pytest.mark.slow
def test_a_session_that_is_in_use_is_not_rewound(empty: Home, tmp_path: Path) -> None:
    session = SessionId(session_of(empty, tmp_path / "project"))
    store = open_store(empty.state, SystemClock())
    store.acquire(session, lambda seq, error: None)
    done = empty.run("rewind", session, "--to", "1")
    store.close()
    assert done.returncode == 1
    assert "in use" in done.stderr


@pytest.mark.parametrize(
    "content", [b"x = '\xff'", *(pytest.param(each, marks=pytest.mark.slow) for each in (b"\0", b"x = (", b" \n"))]
)
def test_a_file_that_is_no_statement_changes_nothing(empty: Home, tmp_path: Path, content: bytes) -> None:
    session = session_of(empty, tmp_path / "project")
    (tmp_path / "new.py").write_bytes(content)
    done = empty.run("replay", session, "--from", "3", "--edit", str(tmp_path / "new.py"))
    assert (done.returncode, done.stdout) == (2 if b"\xff" in content else 1, "")
    assert len(done.stderr.splitlines()) <= 4
    assert "Traceback" not in done.stderr
    assert len(empty.run("branches", session).stdout.splitlines()) == 2


def test_a_rewind_without_a_statement_is_a_wrong_usage(empty: Home) -> None:
    for arguments in (("rewind", "ses_a"), ("rewind", "ses_a", "--to", "-1"), ("rewind", "ses_a", "--to", "x")):
        assert empty.run(*arguments).returncode == 2


STATEMENTS = (
    "import os, time; x = 1",
    "while not os.path.exists('gate'):\n    time.sleep(0.01)\nx = 2; w = write('x.txt', '2')",
    "x = 3",
)


@pytest.fixture
def slow_session(empty: Home, tmp_path: Path) -> str:
    """Make a session whose second statement waits for a file that is missing now."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "gate").touch()
    made = anyio.run(_make_slow_session, empty, str(project))
    (project / "gate").unlink()
    return made


async def _make_slow_session(home: Home, project: str) -> str:
    store = open_store(home.state, SystemClock())
    async with sessions_of(home.state, store) as sessions:
        slow_session = await sessions.create(project)
        for source in STATEMENTS:
            await slow_session.cell(source)
    store.close()
    return slow_session.session_id


def replaying(home: Home, *arguments: str) -> Terminal:
    return Terminal([*COMMAND, *arguments], {**home.variables, "TERM": "xterm"}, str(home.path))


@pytest.mark.slow
def test_a_terminal_shows_which_statement_runs_and_then_the_report_alone(
    empty: Home, tmp_path: Path, slow_session: str
) -> None:
    with replaying(empty, "replay", slow_session, "--from", "1") as shown:
        shown.until("statement 2 (2 of 3); Ctrl-C goes back to where it was")
        (tmp_path / "project" / "gate").touch()
        assert shown.ended() == 0
        assert shown.text.startswith("3 statements ran again, with their recorded answers")
        assert "of 3" not in shown.text


@pytest.mark.slow
@pytest.mark.parametrize("edit", [False, True], ids=["replay", "edit"])
def test_an_interrupt_goes_back_to_where_it_was(empty: Home, tmp_path: Path, slow_session: str, edit: bool) -> None:
    (empty.path / "new.py").write_text("import os, time; x = 10")
    options = ("--edit", "new.py") if edit else ()
    with replaying(empty, "replay", slow_session, "--from", "1", *options) as shown:
        shown.until("statement 2 (2 of 3)")
        shown.type(CTRL_C)
        assert shown.ended() == 130
        assert shown.text == "Stopped. Variables, files and conversation are restored."
    (tmp_path / "project" / "gate").touch()
    rows = map(json.loads, empty.run("branches", slow_session, "--jsonl").stdout.splitlines())
    assert [row["branch"] for row in rows if row["active"]] == ["main"]
    assert anyio.run(_value_of_x, empty, slow_session) == "3"


async def _value_of_x(home: Home, slow_session: str) -> str | None:
    store = open_store(home.state, SystemClock())
    try:
        async with sessions_of(home.state, store) as sessions:
            return (await (await sessions.load(SessionId(slow_session))).cell("x")).value
    finally:
        store.close()


@pytest.mark.slow
def test_nothing_is_said_of_progress_but_to_a_terminal(empty: Home, tmp_path: Path, slow_session: str) -> None:
    (tmp_path / "project" / "gate").touch()
    assert empty.run("replay", slow_session, "--from", "1").stderr == ""
    code, seen = empty.run_on_a_terminal("replay", slow_session, "--from", "1", "--json")
    assert (code, json.loads(seen)["outcome"]) == (0, "completed")
    assert os.linesep not in seen.decode().rstrip()


FILES = 200
FILE_STATEMENTS = (
    f"for k in range({FILES}): w = write(f'f{{k}}', '1')",
    f"for k in range({FILES}): w = write(f'f{{k}}', '2')",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make the directory of `files_session`."""
    project = tmp_path / "project"
    project.mkdir()
    return project


@pytest.fixture
def files_session(empty: Home, project: Path) -> str:
    """Make a session of two statements that write many files."""
    return anyio.run(_make_files, empty, str(project))


async def _make_files(home: Home, project: str) -> str:
    store = open_store(home.state, SystemClock())
    async with sessions_of(home.state, store) as sessions:
        files_session = await sessions.create(project)
        for source in FILE_STATEMENTS:
            await files_session.cell(source)
    store.close()
    return files_session.session_id


def rewinding(home: Home, files_session: str) -> Terminal:
    """Start a command that goes back to statement 1."""
    arguments = [*COMMAND, "rewind", files_session, "--to", "1"]
    return Terminal(arguments, {**home.variables, "TERM": "xterm"}, str(home.path))


def until_some_are_back(shown: Terminal) -> None:
    some = re.compile(rf"\b[1-9]\d* of {FILES} files put back")
    shown.until_it(lambda seen: some.search(seen) is not None, some.pattern)


def contents(project: Path) -> set[str]:
    return {path.read_text() for path in project.iterdir() if not path.name.startswith(".")}


def active(home: Home, files_session: str) -> list[str]:
    rows = map(json.loads, home.run("branches", files_session, "--jsonl").stdout.splitlines())
    return [row["branch"] for row in rows if row["active"]]


@pytest.mark.slow
def test_an_interrupt_brings_back_the_files_that_had_gone_back(empty: Home, project: Path, files_session: str) -> None:
    with rewinding(empty, files_session) as shown:
        until_some_are_back(shown)
        shown.type(CTRL_C)
        assert shown.ended() == 130
        assert shown.text.removeprefix("^C") == "The rewind was given up, and the files are as they were before it."
    assert contents(project) == {"2"}
    assert active(empty, files_session) == ["main"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("run", "-p", "1 + 1"), ("replay", "--from", "1", "--json")], ids=["run", "replay"]
)
def test_what_a_kill_cut_off_is_finished_by_the_next_command_which_says_so(
    empty: Home, project: Path, files_session: str, command: tuple[str, ...]
) -> None:
    with rewinding(empty, files_session) as shown:
        until_some_are_back(shown)
        shown.process.kill()
        shown.process.wait()
    assert contents(project) == {"1", "2"}
    assert active(empty, files_session) == ["main"]
    name, *options = command
    done = empty.run_as_process(name, files_session, *options)
    assert done.returncode == 0, done
    said = done.stderr
    assert "A rewind that was cut off, because its process ended, is finished now." in said
    assert f"Restored {FILES} files to what was there after statement 1: f0, " in said
    assert "The session is on branch b1." in said
    assert contents(project) == {"1"}
    assert not [path for path in project.iterdir() if path.name.startswith(".")]
    assert active(empty, files_session) == ["b1"]
    assert empty.run_as_process("replay", files_session, "--from", "1").stderr == ""
