"""`rewindow rewind`, stopped among its files: Ctrl-C takes it back, and after a kill the next command finishes it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import anyio
import pytest

from engine.core.clock import SystemClock
from engine.log.store import open_store
from tests.support.commands import COMMAND, Home
from tests.support.sessions import sessions_of
from tests.support.terminal import CTRL_C, Terminal

pytestmark = pytest.mark.slow
FILES = 200
STATEMENTS = (
    f"for k in range({FILES}): w = write(f'f{{k}}', '1')",
    f"for k in range({FILES}): w = write(f'f{{k}}', '2')",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Where the session works."""
    project = tmp_path / "project"
    project.mkdir()
    return project


@pytest.fixture
def session(empty: Home, project: Path) -> str:
    """A session of two statements that write many files."""
    return anyio.run(_made, empty, str(project))


async def _made(home: Home, project: str) -> str:
    store = open_store(home.state, SystemClock())
    async with sessions_of(home.state, store) as sessions:
        session = await sessions.create(project)
        for source in STATEMENTS:
            await session.cell(source)
    store.close()
    return session.session_id


def rewinding(home: Home, session: str) -> Terminal:
    """One that goes back to statement 1."""
    arguments = [*COMMAND, "rewind", session, "--to", "1"]
    return Terminal(arguments, {**home.variables, "TERM": "xterm"}, str(home.path))


def until_some_are_back(shown: Terminal) -> None:
    some = re.compile(rf"\b[1-9]\d* of {FILES} files put back")
    shown.until_it(lambda seen: some.search(seen) is not None, some.pattern)


def contents(project: Path) -> set[str]:
    return {path.read_text() for path in project.iterdir() if not path.name.startswith(".")}


def active(home: Home, session: str) -> list[str]:
    rows = map(json.loads, home.run("branches", session, "--jsonl").stdout.splitlines())
    return [row["branch"] for row in rows if row["active"]]


def test_an_interrupt_brings_back_the_files_that_had_gone_back(empty: Home, project: Path, session: str) -> None:
    with rewinding(empty, session) as shown:
        until_some_are_back(shown)
        shown.type(CTRL_C)
        assert shown.ended() == 130
        assert shown.text.removeprefix("^C") == "The rewind was given up, and the files are as they were before it."
    assert contents(project) == {"2"}
    assert active(empty, session) == ["main"]


@pytest.mark.parametrize(
    "command", [("run", "-p", "1 + 1"), ("replay", "--from", "1", "--json")], ids=["run", "replay"]
)
def test_what_a_kill_cut_off_is_finished_by_the_next_command_which_says_so(
    empty: Home, project: Path, session: str, command: tuple[str, ...]
) -> None:
    with rewinding(empty, session) as shown:
        until_some_are_back(shown)
        shown.process.kill()
        shown.process.wait()
    assert contents(project) == {"1", "2"}
    assert active(empty, session) == ["main"]
    name, *options = command
    done = empty.run_as_process(name, session, *options)
    assert done.returncode == 0, done
    said = done.stderr
    assert "A rewind that was cut off, because its process ended, is finished now." in said
    assert f"Restored {FILES} files to what was there after statement 1: f0, " in said
    assert "The session is on branch b1." in said
    assert contents(project) == {"1"}
    assert not [path for path in project.iterdir() if path.name.startswith(".")]
    assert active(empty, session) == ["b1"]
    assert empty.run_as_process("replay", session, "--from", "1").stderr == ""
