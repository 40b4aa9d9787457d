"""A real agent and an editor with unsaved text: it is shown, followed, changed through the editor, and remembered."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.agents import SECONDS, Agent
from tests.support.fake_editor import OFFERS, FakeEditor

pytestmark = pytest.mark.slow


def said(agent: Agent, session: str, text: str) -> str:
    before = len(agent.text())
    assert agent.prompt(session, text) == "end_turn"
    return agent.text()[before:]


def started(state: Path, editor: FakeEditor) -> Agent:
    agent = Agent(state)
    agent.editor = editor
    agent.initialize(**OFFERS)
    return agent


def test_unsaved_text_is_followed_changed_and_restored_after_a_kill(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    path = project / "a.py"
    path.write_text("one = 1\n")
    editor = FakeEditor()
    editor.hold(path, "one = 1\ntwo = 2\n")
    with started(tmp_path / "state", editor) as agent:
        session = agent.new_session(project)
        assert "(unsaved" in said(agent, session, "a = view('a.py').Run()")
        editor.hold(path, "one = 1\ntwo = 3\n")
        assert "1 line changed in a.py" in said(agent, session, "/tick")
        said(agent, session, "edit('a.py', 'one = 1', 'one = 0')")
        assert path.read_text() == "one = 0\ntwo = 3\n"
        editor.hold(path, "one = 0\ntwo = 4\n")
        assert "2\ttwo = 4" in said(agent, session, "show(a)")
        os.kill(agent.process.pid, signal.SIGKILL)
        agent.process.wait(SECONDS)
    editor.asked.clear()
    editor.silent = True
    with started(tmp_path / "state", editor) as agent:
        agent.call("session/resume", {"sessionId": session, "cwd": str(project), "mcpServers": []})
        assert "2\ttwo = 4" in said(agent, session, "a.Pause(); show(a)")


def test_silent_editor_costs_one_wait_for_each_prompt(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.py").write_text(f"{name} = 1\n")
    editor = FakeEditor()
    editor.silent = True
    with started(tmp_path / "state", editor) as agent:
        session = agent.new_session(tmp_path)
        text = said(agent, session, "a, b, c = (view(f'{name}.py').Run() for name in 'abc')")
        assert all(f"{name} = 1" in text for name in "abc")
        assert len(editor.asked) == 1
        assert "2" in said(agent, session, "1 + 1")
