"""Sessions over their whole life: loaded, resumed, listed, configured, asked about, steered, named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.scripts import (
    Gate,
    last_value,
    load,
    reason,
    responses,
    runs,
    transcript,
)

RETURNING = ("session/load", "session/resume")
EITHER = pytest.mark.parametrize("method", ["session/load", pytest.param("session/resume", marks=pytest.mark.slow)])


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(tmp_path / "state") as running:
        yield running


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.release()


# --- load and resume --------------------------------------------------------------------------------------------------


def test_load_after_a_kill_shows_everything_and_restores_variables(tmp_path: Path) -> None:
    first = Agent(tmp_path / "state")
    session = first.open(tmp_path)
    first.prompt(session, "x = 40\nprint('set')\n'value'")
    first.prompt(session, "x / 0")
    first.kill()
    shown = transcript(first.updates())
    del shown["last"]["available_commands_update"]
    with Agent(tmp_path / "state") as second:
        second.initialize()
        load(second, session, tmp_path)
        assert transcript(second.updates()) == shown
        assert second.prompt(session, "x + 2") == "end_turn"
        assert last_value(second) == "42"


@pytest.mark.slow
def test_variables_are_there_again_after_the_agent_was_killed(tmp_path: Path) -> None:
    first = Agent(tmp_path / "state")
    session = first.open(tmp_path)
    first.prompt(session, "x = 40")
    first.prompt(session, "def f(n):\n    return n + x")
    first.kill()
    with Agent(tmp_path / "state") as second:
        second.initialize()
        load(second, session, tmp_path, "session/resume")
        assert second.updates() == []
        assert second.prompt(session, "x + 2, f(1)") == "end_turn"
        assert last_value(second) == "(42, 41)"


@pytest.mark.slow
@EITHER
def test_a_session_that_another_agent_has_open_names_its_process(agent: Agent, tmp_path: Path, method: str) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "x = 1")
    params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
    with Agent(tmp_path / "state") as other:
        other.initialize()
        error = other.error(method, params)
        assert error["code"] == -32600
        assert str(agent.process.pid) in error["message"]
        assert agent.prompt(session, "x + 1") == "end_turn"
        agent.call("session/close", {"sessionId": session})
        other.call(method, params)
        assert other.prompt(session, "x + 41") == "end_turn"
        assert last_value(other) == "42"


# --- list -------------------------------------------------------------------------------------------------------------


# --- delete -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_deleted_session_is_gone_and_deleting_is_idempotent(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    kept = agent.new_session(tmp_path)
    agent.prompt(kept, "let it be listed")
    prompt = agent.begin_prompt(session, "while True: pass")
    agent.until(runs)
    with Agent(tmp_path / "state") as other:
        other.initialize()
        error = other.error("session/delete", {"sessionId": session})
        assert (error["code"], str(agent.process.pid) in error["message"]) == (-32600, True)
        agent.write(b"".join(agent.line("session/delete", {"sessionId": session}, name) for name in "abcd"))
        answers = responses(agent, [prompt, *"abcd"])
        assert reason(answers[prompt]) == "cancelled"
        assert next(iter(answers)) == prompt
        assert [answers[name]["result"] for name in "abcd"] == [{}] * 4
        for unknown in (session, "ses_unknown", "", "../etc"):
            assert agent.call("session/delete", {"sessionId": unknown}) == {}
        for one in (agent, other):
            assert [row["sessionId"] for row in one.call("session/list", {})["sessions"]] == [kept]
            for method in RETURNING:
                params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
                assert one.error(method, params)["code"] == -32002
    assert agent.prompt(kept, "6 * 7") == "end_turn"


# --- modes and options ------------------------------------------------------------------------------------------------


# --- permissions ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_plan_mode_refuses_what_changes_files_and_runs_the_rest(agent: Agent, tmp_path: Path) -> None:
    kept, new = tmp_path / "kept", tmp_path / "new"
    kept.write_text("as it was")
    session = agent.open(tmp_path)
    agent.call("session/set_mode", {"sessionId": session, "modeId": "plan"})
    for source in (
        f"open({str(new)!r}, 'w').write('x')",
        f"open({str(kept)!r}, 'w').write('x')",
        f"import os; os.remove({str(kept)!r})",
        f"import os; os.rename({str(kept)!r}, {str(new)!r})",
        f"import subprocess; subprocess.run(['touch', {str(new)!r}])",
        f"import os; os.system('touch {new}')",
        f"import pathlib; pathlib.Path({str(new)!r}).mkdir()",
    ):
        agent.prompt(session, source)
        last = agent.updates("tool_call_update")[-1]
        exception = last["_meta"]["rewindow"]["execution"]["exception"]
        assert (last["status"], exception["type"]) == ("failed", "PermissionError"), source
    assert (kept.read_text(), new.exists()) == ("as it was", False)
    agent.prompt(session, f"sum(range(10)), open({str(kept)!r}).read()")
    assert last_value(agent) == "(45, 'as it was')"
    agent.call("session/set_mode", {"sessionId": session, "modeId": "ask"})
    agent.prompt(session, f"open({str(new)!r}, 'w').write('x')")
    assert new.read_text() == "x"


# --- steering and follow-ups ------------------------------------------------------------------------------------------


# --- titles and commands ----------------------------------------------------------------------------------------------
