"""A change of a file reaches the model once, in the first call that begins to answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.context.tail.section_parts import EARLIER, NEW
from tests.support.agents import Agent
from tests.support.llm_answers import chat
from tests.support.llm_server import Answer, Asked, LlmServer, llm_server
from tests.support.scripts import load

pytestmark = pytest.mark.slow

MODEL = ("--model", "provider:openai:gpt-5")
CHANGE = "+two, longer"


@pytest.fixture
def served() -> Iterator[LlmServer]:
    with llm_server() as server:
        yield server


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder


def runs(source: str) -> Answer:
    return chat("", json.dumps({"source": source}))


def newest(asked: Asked) -> str:
    """The last message of a prompt, in which the tail stands."""
    return str(asked.body["messages"][-1]["content"])


def told(server: LlmServer) -> list[bool]:
    """Of each prompt, whether it tells of the change as new."""
    return [CHANGE in newest(asked).partition(NEW)[2].partition(EARLIER)[0] for asked in server.asked]


def follow(agent: Agent, server: LlmServer, session: str, project: Path) -> None:
    """Has the model follow a file, which changes then."""
    server.answers += [runs("a = view('a.txt', freq='Sync')"), chat("It says one.")]
    assert agent.prompt(session, "look at a.txt") == "end_turn"
    (project / "a.txt").write_text("two, longer\n")
    server.asked.clear()


def ask(agent: Agent, server: LlmServer, session: str) -> None:
    server.answers.append(chat("So it does."))
    assert agent.prompt(session, "and now?") == "end_turn"


def test_a_change_that_a_failed_call_carried_is_told_again(tmp_path: Path, project: Path, served: LlmServer) -> None:
    with Agent(tmp_path / "state", *MODEL, env=served.environment()) as agent:
        session = agent.open(project)
        follow(agent, served, session, project)
        refused = agent.response(agent.begin_prompt(session, "and now?"))
        assert "error" in refused
        for _ in range(2):
            ask(agent, served, session)
        assert told(served) == [True, True, False]


def test_a_change_that_a_cancelled_call_carried_is_told_again(tmp_path: Path, project: Path, served: LlmServer) -> None:
    with Agent(tmp_path / "state", *MODEL, env=served.environment()) as agent:
        session = agent.open(project)
        follow(agent, served, session, project)
        served.answers.append(Answer(hang=True))
        request = agent.begin_prompt(session, "and now?")
        assert served.hanging.wait(20)
        agent.notify("session/cancel", {"sessionId": session})
        assert agent.response(request)["result"]["stopReason"] == "cancelled"
        for _ in range(2):
            ask(agent, served, session)
        assert told(served) == [True, True, False]


def test_unread_change_is_reported_after_a_reload(tmp_path: Path, project: Path, served: LlmServer) -> None:
    with Agent(tmp_path / "state", *MODEL, env=served.environment()) as agent:
        session = agent.open(project)
        follow(agent, served, session, project)
        assert "error" in agent.response(agent.begin_prompt(session, "and now?"))
        assert agent.prompt(session, "/context") == "end_turn"
        agent.kill()
    with Agent(tmp_path / "state", *MODEL, env=served.environment()) as agent:
        agent.initialize()
        load(agent, session, project)
        for _ in range(2):
            ask(agent, served, session)
        assert told(served) == [True, True, False]
