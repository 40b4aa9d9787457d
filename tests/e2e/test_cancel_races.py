"""A cancel against all it can meet: the turn ends as cancelled, nothing follows, and the next prompt is fine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.agents import Agent
from tests.support.scripts import (
    Gate,
    assert_cancelled,
    assert_gone,
    family,
    last_value,
    reason,
    runs,
    workers,
)

pytestmark = pytest.mark.slow

RUNAWAY = "while True:\n    pass"
UNINTERRUPTIBLE = "sum(range(10**13))"
"""Inside of C, where a signal is only remembered."""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(tmp_path / "state") as running:
        yield running


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.release()


def cancel(session: str) -> dict[str, Any]:
    return {"sessionId": session}


def assert_works(agent: Agent, session: str, source: str = "6 * 7", value: str = "42") -> None:
    assert agent.prompt(session, source) == "end_turn"
    assert last_value(agent) == value


# --- while a statement runs -------------------------------------------------------------------------------------------


def test_cancel_while_a_statement_waits_in_a_system_call(agent: Agent, tmp_path: Path, gate: Gate) -> None:
    session = agent.open(tmp_path)
    prompt = agent.begin_prompt(session, f"before = 5\n{gate.source}\nafter = 6")
    gate.reached()
    agent.notify("session/cancel", cancel(session))
    assert_cancelled(agent, prompt)
    assert agent.updates("tool_call_update")[-1]["status"] == "failed"
    assert_works(agent, session, "before, 'after' in globals()", "(5, False)")


def test_cancelled_c_loop_kills_the_worker_and_names_are_rebuilt(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "kept = [1, 2]; also = kept")
    prompt = agent.begin_prompt(session, f"half = 1\n{UNINTERRUPTIBLE}")
    agent.until(runs)
    agent.notify("session/cancel", cancel(session))
    assert_cancelled(agent, prompt)
    assert_works(agent, session, "kept is also, kept, 'half' in globals()", "(True, [1, 2], False)")


# --- while the namespace is rebuilt -----------------------------------------------------------------------------------


def with_slow_history(agent: Agent, tmp_path: Path, gate: Gate) -> str:
    """A session whose second statement waits at the gate again whenever it is rebuilt."""
    session = agent.open(tmp_path)
    agent.prompt(session, "kept = 41")
    prompt = agent.begin_prompt(session, gate.source)
    gate.pass_one()
    assert reason(agent.response(prompt)) == "end_turn"
    return session


def assert_rebuilt(agent: Agent, session: str, gate: Gate) -> None:
    prompt = agent.begin_prompt(session, "kept + 1")
    gate.pass_one()
    assert reason(agent.response(prompt)) == "end_turn"
    assert last_value(agent) == "42"


def lose_worker(agent: Agent) -> None:
    """Kills the idle worker: whatever needs it next has it rebuilt."""
    (worker,) = workers(agent)
    worker.kill()
    assert_gone([worker])


@pytest.mark.parametrize(
    "text", ["kept + 1", "/context", *(pytest.param(each, marks=pytest.mark.slow) for each in ("/views", "/tick"))]
)
def test_cancel_while_the_namespace_is_rebuilt_for_it(agent: Agent, tmp_path: Path, gate: Gate, text: str) -> None:
    session = with_slow_history(agent, tmp_path, gate)
    lose_worker(agent)
    prompt = agent.begin_prompt(session, text)
    gate.reached()
    agent.notify("session/cancel", cancel(session))
    assert_cancelled(agent, prompt)
    gate.release()
    assert_rebuilt(agent, session, gate)


# --- close and the end of input ---------------------------------------------------------------------------------------


def runaway(agent: Agent, session: str) -> None:
    agent.begin_prompt(session, RUNAWAY)
    agent.until(runs)


def loop_in_c(agent: Agent, session: str) -> None:
    agent.begin_prompt(session, UNINTERRUPTIBLE)
    agent.until(runs)


def queue(agent: Agent, session: str) -> None:
    runaway(agent, session)
    for _ in range(5):
        agent.begin_prompt(session, RUNAWAY)


def nothing_yet(agent: Agent, session: str) -> None:
    agent.begin_prompt(session, RUNAWAY)


@pytest.mark.parametrize("under_way", [runaway, loop_in_c, queue, nothing_yet])
def test_end_of_input_answers_every_prompt_and_ends_everything(
    tmp_path: Path, under_way: Callable[[Agent, str], None]
) -> None:
    agent = Agent(tmp_path / "state")
    session = agent.open(tmp_path)
    under_way(agent, session)
    processes = family(psutil.Process(agent.process.pid))
    started = time.monotonic()
    assert agent.close() == 0
    assert time.monotonic() - started < 6
    assert_gone(processes)
    said: list[dict[str, Any]] = []
    while (message := agent.next()) is not None:
        said.append(message)
    prompts = [message for message in said if "stopReason" in (message.get("result") or {})]
    assert len(prompts) == (6 if under_way is queue else 1)
    assert {reason(message) for message in prompts} == {"cancelled"}
    assert said[-1] in prompts


def test_the_end_of_input_while_the_namespace_is_rebuilt(tmp_path: Path, gate: Gate) -> None:
    agent = Agent(tmp_path / "state")
    session = with_slow_history(agent, tmp_path, gate)
    lose_worker(agent)
    prompt = agent.begin_prompt(session, "kept")
    gate.reached()
    processes = family(psutil.Process(agent.process.pid))
    assert agent.close() == 0
    assert reason(agent.response(prompt)) == "cancelled"
    assert_gone(processes)
