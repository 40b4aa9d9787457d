"""`$/cancel_request` of what opens and closes sessions, and clients that leave or read slowly: none stays half open."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import SECONDS, Agent
from tests.support.scripts import (
    last_value,
    logged,
    prompt_params,
    reason,
    update_in,
)

LONG = "pass  # " + "x" * 400_000
"""A statement that makes its replay larger than all the buffers on the way to a client that does not read."""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(tmp_path / "state") as running:
        yield running


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("prepared")
    with Agent(folder / "state") as first:
        session = first.open(folder)
        first.prompt(session, "x = 41")
        for _ in range(2):
            first.prompt(session, LONG)
    return folder / "state", session


@pytest.fixture
def long_session(prepared: tuple[Path, str], tmp_path: Path) -> str:
    """A session whose load takes as long as its client wants."""
    state, session = prepared
    shutil.copytree(state, tmp_path / "state", dirs_exist_ok=True)
    return session


def where(session: str, cwd: Path) -> dict[str, Any]:
    return {"sessionId": session, "cwd": str(cwd), "mcpServers": []}


def begin_load(agent: Agent, session: str, cwd: Path) -> None:
    """Has the agent stand in the middle of the replay."""
    agent.initialize()
    agent.read_ahead(1)
    agent.write(agent.line("session/load", where(session, cwd), "load"))
    agent.until(lambda message: update_in(message).get("sessionUpdate") == "user_message_chunk")


def assert_works(agent: Agent, session: str) -> None:
    assert agent.prompt(session, "x + 1") == "end_turn"
    assert last_value(agent) == "42"


@pytest.mark.slow
def test_agent_ends_when_its_client_leaves_during_a_load(tmp_path: Path, long_session: str) -> None:
    agent = Agent(tmp_path / "state")
    begin_load(agent, long_session, tmp_path)
    agent.write(agent.line("session/prompt", prompt_params(long_session, "while True: pass"), "prompt"))
    assert agent.process.stdout
    with open(os.devnull) as null:
        os.dup2(null.fileno(), agent.process.stdout.fileno())
    agent.read_ahead()
    assert agent.close() == 0


@pytest.mark.slow
def test_response_follows_its_updates_for_a_slow_reader(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "x = 41")
    agent.read_ahead(1)
    # The first fills what the client has read ahead, so that the second's updates have to wait in the agent.
    prompts = [agent.begin_prompt(session, LONG) for _ in range(2)]
    deadline = time.monotonic() + SECONDS
    while [event["kind"] for event in logged(tmp_path / "state", session)].count("run_stop") < 3:
        assert time.monotonic() < deadline
    agent.read_ahead()
    for prompt in prompts:
        assert reason(agent.response(prompt)) == "end_turn"
        ended = [update["status"] for update in agent.updates("tool_call_update") if update.get("status")]
        assert ended.count("completed") >= 2 + prompts.index(prompt)
    agent.quiet()
