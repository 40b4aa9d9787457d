"""Sessions over their whole life: loaded, resumed, listed, configured, asked about, steered, named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.context.tail.rights import entered_line, entered_sentence
from engine.log.events.codec import decode
from engine.log.events.session import DomainEntered
from tests.support.agents import Agent
from tests.support.scripts import (
    last_value,
    load,
    logged,
    scripted,
    transcript,
)

EITHER = pytest.mark.parametrize("method", ["session/load", pytest.param("session/resume", marks=pytest.mark.slow)])


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(tmp_path / "state") as running:
        yield running


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


# --- permissions ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_flood_of_output_is_bounded_and_counted(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "import sys\nfor _ in range(50): sys.stdout.write('x' * 1_000_000)")
    last = agent.updates("tool_call_update")[-1]
    assert last["_meta"]["rewindow"]["execution"]["stdoutBytes"] == 50_000_000
    assert len(last["content"][0]["content"]["text"]) < 80_000


@pytest.mark.slow
def test_no_process_is_left_however_the_agent_ends(tmp_path: Path) -> None:
    for end in ("close", "kill"):
        agent = Agent(tmp_path / end)
        session = agent.open(tmp_path)
        agent.prompt(session, "import subprocess; child = subprocess.Popen(['sleep', '600'])")
        family = psutil.Process(agent.process.pid).children(recursive=True)
        assert len(family) >= 3  # zygote, worker, sleep
        getattr(agent, end)()
        _, alive = psutil.wait_procs(family, timeout=10)
        assert alive == []


@pytest.mark.slow
def test_another_process_can_read_a_session_that_is_open(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "x = 1")
    kinds = [event["kind"] for event in logged(tmp_path / "state", session)]
    assert kinds[0] == "session_opened"
    assert kinds[-1] == "run_stop"


# --- the sandbox ------------------------------------------------------------------------------------------------------


def test_the_sandbox_is_one_line_and_a_command_tells_the_rest(tmp_path: Path, project: Path) -> None:
    model = scripted(tmp_path, {"statement": "1"}, {"text": "Done."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(project)
        assert agent.prompt(session, "go") == "end_turn"
        logs = [decode(json.dumps(event).encode()) for event in logged(tmp_path / "state", session)]
        (entered,) = (event for event in logs if isinstance(event, DomainEntered))
        (thought,) = agent.updates("agent_thought_chunk")
        line = thought["content"]["text"]
        assert line.lower() == entered_line(entered).lower()
        assert line[0].isupper()
        assert ("\n" in line, len(line) < 100) == (False, True)
        assert agent.prompt(session, "/sandbox") == "end_turn"
        assert agent.text().endswith(entered_sentence(entered))
