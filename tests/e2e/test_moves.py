"""A session that goes on in another directory, through real processes: its worker, its variables, what is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.scripts import last_value


@pytest.mark.slow
def test_session_of_a_missing_folder_continues_where_loaded(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    (new / "here.txt").write_text("found")
    with Agent(tmp_path / "state") as first:
        session = first.open(old)
        first.prompt(session, "x = 40")
    old.rmdir()
    with Agent(tmp_path / "state") as second:
        second.initialize()
        params = {"sessionId": session, "cwd": str(old), "mcpServers": []}
        error = second.error("session/load", params)
        assert (error["code"], error["message"]) == (
            -32602,
            f"cwd '{old}' does not exist; load the session with another cwd",
        )
        missing = tmp_path / "missing"
        second.call("session/load", {**params, "cwd": f"{new}/", "additionalDirectories": [str(missing)]})
        second.prompt(session, "import os; x + 2, os.getcwd(), read('here.txt')")
        assert last_value(second) == f"(42, '{new}', 'found')"
        assert f"This session was in {old} and goes on in {new}." in second.text()
        assert f"The additional directory {missing} is not there." in second.text()
        assert second.call("session/list", {"cwd": f"{new}/"})["sessions"][0]["cwd"] == str(new)
        assert b"Traceback" not in second.stderr


@pytest.mark.slow
def test_folder_removed_during_a_session_is_named_without_loss(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with Agent(tmp_path / "state") as agent:
        session = agent.open(folder)
        folder.rmdir()
        error = agent.response(agent.begin_prompt(session, "x = 41"))["error"]
        said = f"the session's directory {folder} is gone; make it again, or load the session with another cwd"
        assert (error["code"], error["message"]) == (-32603, said)
        folder.mkdir()
        agent.prompt(session, "40 + 2")
        assert last_value(agent) == "42"
        assert agent.stderr.decode() == f"rewindow-acp: session/prompt failed: {said}\n"
