"""`rewindow replay` on a terminal: which statement of how many runs, and Ctrl-C, which goes back to where it was."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest

from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.store import open_store
from tests.support.commands import COMMAND, Home
from tests.support.sessions import sessions_of
from tests.support.terminal import CTRL_C, Terminal

pytestmark = pytest.mark.slow
STATEMENTS = (
    "import os, time; x = 1",
    "while not os.path.exists('gate'):\n    time.sleep(0.01)\nx = 2; w = write('x.txt', '2')",
    "x = 3",
)


@pytest.fixture
def session(empty: Home, tmp_path: Path) -> str:
    """A session of which the second statement waits for a gate, which is shut by now."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "gate").touch()
    made = anyio.run(_made, empty, str(project))
    (project / "gate").unlink()
    return made


async def _made(home: Home, project: str) -> str:
    store = open_store(home.state, SystemClock())
    async with sessions_of(home.state, store) as sessions:
        session = await sessions.create(project)
        for source in STATEMENTS:
            await session.cell(source)
    store.close()
    return session.session_id


def terminal(home: Home, *arguments: str) -> Terminal:
    return Terminal([*COMMAND, *arguments], {**home.variables, "TERM": "xterm"}, str(home.path))


def test_a_terminal_shows_which_statement_runs_and_then_the_report_alone(
    empty: Home, tmp_path: Path, session: str
) -> None:
    with terminal(empty, "replay", session, "--from", "1") as shown:
        shown.until("statement 2 (2 of 3); Ctrl-C goes back to where it was")
        (tmp_path / "project" / "gate").touch()
        assert shown.ended() == 0
        assert shown.text.startswith("3 statements ran again, with the recorded answers to what they ask for")
        assert "of 3" not in shown.text


@pytest.mark.parametrize("edit", [False, True], ids=["replay", "edit"])
def test_an_interrupt_goes_back_to_where_it_was(empty: Home, tmp_path: Path, session: str, edit: bool) -> None:
    (empty.path / "new.py").write_text("import os, time; x = 10")
    options = ("--edit", "new.py") if edit else ()
    with terminal(empty, "replay", session, "--from", "1", *options) as shown:
        shown.until("statement 2 (2 of 3)")
        shown.type(CTRL_C)
        assert shown.ended() == 130
        assert shown.text == "Stopped; names, files and the conversation are as they were."
    (tmp_path / "project" / "gate").touch()
    rows = map(json.loads, empty.run("branches", session, "--jsonl").stdout.splitlines())
    assert [row["branch"] for row in rows if row["active"]] == ["main"]
    assert anyio.run(_value_of_x, empty, session) == "3"


async def _value_of_x(home: Home, session: str) -> str | None:
    store = open_store(home.state, SystemClock())
    try:
        async with sessions_of(home.state, store) as sessions:
            return (await (await sessions.load(SessionId(session))).cell("x")).value
    finally:
        store.close()


def test_nothing_is_said_of_progress_but_to_a_terminal(empty: Home, tmp_path: Path, session: str) -> None:
    (tmp_path / "project" / "gate").touch()
    assert empty.run("replay", session, "--from", "1").stderr == ""
    code, seen = empty.run_on_a_terminal("replay", session, "--from", "1", "--json")
    assert (code, json.loads(seen)["outcome"]) == (0, "completed")
    assert os.linesep not in seen.decode().rstrip()
