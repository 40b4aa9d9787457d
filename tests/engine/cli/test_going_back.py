"""Rewinds, replays and comparisons as commands, with their progress and after interrupts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine.core.clock import SystemClock
from engine.log.store import open_store
from engine.session.commands.files import SHOW_LEFT
from engine.session.commands.timeline import NO_FILES_TO_RESTORE
from tests.support.commands import COMMAND, Home
from tests.support.sessions import session_in, value_of
from tests.support.terminal import CTRL_C, Terminal

WRITES = tuple(f"x = {x}\nw = write('x.txt', f'{{x}}\\n')\nw = write(f'only-{{x}}', '')" for x in (1, 2, 3))
WAITS = (
    "import os, time; x = 1",
    "while not os.path.exists('gate'):\n    time.sleep(0.01)\nx = 2; w = write('x.txt', '2')",
    "x = 3",
)
FILES = 200
WRITES_MANY = tuple(f"for k in range({FILES}): w = write(f'f{{k}}', '{text}')" for text in "12")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Path]]:
    """A home with one session, for commands that change nothing, and the session's project."""
    home = Home(tmp_path_factory.mktemp("written"))
    project = home.path / "project"
    project.mkdir()
    session_of(home, project, *WRITES)
    yield home, project
    assert (project / "x.txt").read_text() == "3\n"
    assert len(home.run("branches", "ses_").stdout.splitlines()) == 2


def session_of(home: Home, project: Path, *sources: str) -> str:
    """Make a session in which these statements have run."""

    async def make() -> str:
        with closing(open_store(home.state, SystemClock())) as store:
            async with session_in(project, store, state=home.state) as session:
                for source in sources:
                    await value_of(session, source)
                return session.session_id

    return anyio.run(make)


PAGE = (Path(__file__).parents[3] / "docs" / "timeline.md").read_text(encoding="utf-8")


def is_documented(command: str, printed: dict[str, Any]) -> bool:
    """Whether the page has a table of the command with these fields, and no others."""
    table = PAGE.partition("## For programs")[2]
    table = table.partition(f"\n`rewindow {command}`")[2].partition("| --- | --- |\n")[2].partition("\n\n")[0]
    fields = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    return fields == set(printed)


def test_session_goes_back_and_branches_are_listed_and_compared(empty: Home, project: Path) -> None:
    session = session_of(empty, project, *WRITES)
    dry = empty.run("rewind", session, "--to", "1", "--dry-run")
    assert (dry.returncode, dry.stderr) == (0, "")
    assert dry.stdout.splitlines() == [
        "This would go back to the end of statement 1.",
        "This would restore 3 files: `x.txt`, `only-2`, `only-3`.",
    ]
    for arguments in (("--to", "3"), ("--to", "1", "--keep-files")):
        same = empty.run("rewind", session, *arguments, "--dry-run")
        assert same.stdout.splitlines()[1:] == [NO_FILES_TO_RESTORE]
    found = json.loads(empty.run("rewind", session, "--to", "2", "--dry-run", "--json").stdout)
    paths = [str(project / name) for name in ("x.txt", "only-3")]
    assert found == {"done": False, "branch": "main", "statement": 2, "restored": paths, "merged": [], "left": {}}
    assert (project / "x.txt").read_text() == "3\n"
    (project / "only-3").write_text("by hand")
    done = empty.run("rewind", session[:12], "--to", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "The session is now at the end of statement 2, on branch b1.",
        "Restored 1 file to its contents after statement 2: x.txt.",
        "only-3 was not restored: the file has changed since the session last wrote it.",
        SHOW_LEFT.format(session[:12]),
    ]
    assert (project / "x.txt").read_text() == "2\n"
    back = empty.run("rewind", session, "--to", "0", "--json", "--keep-files")
    assert json.loads(back.stdout) == {
        "done": True,
        "branch": "b2",
        "statement": 0,
        "restored": [],
        "merged": [],
        "left": {},
    }
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
    assert lines[:3:2] == ["`main` and `b1` have statements 1 to 2 in common.", "Only on `main`:"]
    assert lines[4].startswith("- statement 3. `x = 3 …` (ok, ")
    found = json.loads(empty.run("diff", session, "main", "b1", "--json").stdout)
    assert found["shared"] == 2
    assert is_documented("diff", found)
    assert [each["statement"] for each in found["left"]["statements"]] == [3]
    assert (found["right"]["statements"], found["names"]["x"]) == ([], {"left": "3", "right": "2"})
    assert [Path(each["path"]).name for each in found["files"]] == ["x.txt"]


@pytest.mark.slow
def test_statements_run_again_and_what_differs_is_said(empty: Home, tmp_path: Path, project: Path) -> None:
    session = session_of(empty, project, *WRITES)
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
    assert "there is no statement 9" in missing.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rewind", "ses_", "--to", "4"], "There is no statement 4; the statements are numbered from 1 to 3"),
        (["rewind", "ses_x", "--to", "1"], "no session ses_x"),
        (["diff", "ses_", "b7"], "There is no branch b7. The branches are main"),
        (["diff", "ses_", "main", "main"], "main cannot be compared with itself; name another branch"),
        (["rewind", "s" * 500, "--to", "1"], f"no session {'s' * 79}…; `rewindow sessions` lists"),
        (["rewind", "", "--to", "1"], "the session's id is empty"),
        (["delete", "", "--yes"], "the session's id is empty"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_missing_statement_branch_or_session_is_named(
    written: tuple[Home, Path], arguments: list[str], said: str
) -> None:
    done = written[0].run(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert said.lower() in done.stderr.lower()


@pytest.mark.parametrize(
    "content", [b"x = '\xff'", *(pytest.param(each, marks=pytest.mark.slow) for each in (b"\0", b"x = (", b" \n"))]
)
def test_file_without_a_statement_changes_nothing(written: tuple[Home, Path], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "new.py").write_bytes(content)
    done = written[0].run("replay", "ses_", "--from", "3", "--edit", str(tmp_path / "new.py"))
    assert (done.returncode, done.stdout) == (2 if b"\xff" in content else 1, "")
    assert len(done.stderr.splitlines()) <= 4
    assert "Traceback" not in done.stderr


def test_a_rewind_without_a_statement_is_a_wrong_usage(empty: Home) -> None:
    for arguments in (("rewind", "ses_a"), ("rewind", "ses_a", "--to", "-1"), ("rewind", "ses_a", "--to", "x")):
        assert empty.run(*arguments).returncode == 2


def on_terminal(home: Home, *arguments: str) -> Terminal:
    return Terminal([*COMMAND, *arguments], {**home.variables, "TERM": "xterm"}, str(home.path))


def active(home: Home, session: str) -> list[str]:
    rows = map(json.loads, home.run("branches", session, "--jsonl").stdout.splitlines())
    return [row["branch"] for row in rows if row["active"]]


@pytest.fixture
def slow_session(empty: Home, project: Path) -> str:
    """A session whose second statement waits for a file that is missing now."""
    (project / "gate").touch()
    made = session_of(empty, project, *WAITS)
    (project / "gate").unlink()
    return made


@pytest.mark.slow
def test_terminal_shows_the_running_statement_then_the_report_alone(
    empty: Home, project: Path, slow_session: str
) -> None:
    with on_terminal(empty, "replay", slow_session, "--from", "1") as shown:
        shown.until("statement 2 (2 of 3); Ctrl-C stops and restores the session")
        (project / "gate").touch()
        assert shown.ended() == 0
        assert shown.text.startswith("3 statements ran again, with their recorded answers")
        assert "of 3" not in shown.text


@pytest.mark.slow
@pytest.mark.parametrize("edit", [False, True], ids=["replay", "edit"])
def test_interrupt_returns_to_where_it_was(empty: Home, project: Path, slow_session: str, edit: bool) -> None:
    (empty.path / "new.py").write_text("import os, time; x = 10")
    options = ("--edit", "new.py") if edit else ()
    with on_terminal(empty, "replay", slow_session, "--from", "1", *options) as shown:
        shown.until("statement 2 (2 of 3)")
        shown.type(CTRL_C)
        assert shown.ended() == 130
        assert shown.text == "Stopped. Variables, files and conversation are restored."
    assert active(empty, slow_session) == ["main"]
    (project / "gate").touch()
    assert empty.run("run", slow_session, "-p", "x").stdout == "3\n"


@pytest.mark.slow
def test_progress_is_shown_only_on_a_terminal(empty: Home, project: Path, slow_session: str) -> None:
    (project / "gate").touch()
    assert empty.run("replay", slow_session, "--from", "1").stderr == ""
    code, seen = empty.run_on_a_terminal("replay", slow_session, "--from", "1", "--json")
    assert (code, json.loads(seen)["outcome"]) == (0, "completed")
    assert os.linesep not in seen.decode().rstrip()


@contextmanager
def half_rewound(home: Home, session: str) -> Iterator[Terminal]:
    """A rewind to statement 1 that has put back some of the files."""
    some = re.compile(rf"\b[1-9]\d* of {FILES} files put back")
    with on_terminal(home, "rewind", session, "--to", "1") as shown:
        shown.until_it(lambda seen: some.search(seen) is not None, some.pattern)
        yield shown


def contents(project: Path) -> set[str]:
    return {path.read_text() for path in project.iterdir() if not path.name.startswith(".")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("run", "-p", "1 + 1"), ("replay", "--from", "1", "--json")], ids=["run", "replay"]
)
def test_next_command_finishes_a_killed_rewind_and_says_so(
    empty: Home, project: Path, command: tuple[str, ...]
) -> None:
    session = session_of(empty, project, *WRITES_MANY)
    with half_rewound(empty, session) as shown:
        shown.process.kill()
        shown.process.wait()
    assert (contents(project), active(empty, session)) == ({"1", "2"}, ["main"])
    name, *options = command
    done = empty.run_as_process(name, session, *options)
    assert done.returncode == 0, done
    assert "A crash interrupted a rewind. Rewindow has now finished the rewind." in done.stderr
    assert f"Restored {FILES} files to their contents after statement 1: f0, " in done.stderr
    assert "The session is on branch b1." in done.stderr
    assert (contents(project), active(empty, session)) == ({"1"}, ["b1"])
    assert not [path for path in project.iterdir() if path.name.startswith(".")]
    assert empty.run_as_process("replay", session, "--from", "1").stderr == ""
