"""An agent whose model cannot be used, as an editor starts it: it says what to set, and writes no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acp_adapter.sign_in import SIGN_IN
from engine.context.models.providers import NAMED, NO_PROVIDER, how_to_set
from tests.support.agents import Agent
from tests.support.llm_server import Answer, llm_server

pytestmark = pytest.mark.slow

TO_DO = how_to_set(NAMED["openai-responses"])
NO_KEYS = {"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": "", "OPENAI_BASE_URL": ""}


def refused(agent: Agent, session: str) -> str:
    """Why a prompt was not answered; with the code for what a person has to sign in to or to set."""
    response = agent.response(agent.begin_prompt(session, "hello"))
    assert response["error"]["code"] == -32000, response
    return response["error"]["message"]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("provider:openai:gpt-5", f"openai:gpt-5 needs credentials: {TO_DO}"),
        (
            "provider:nosuch:x",
            f"{NO_PROVIDER.format(name='nosuch', names=', '.join(NAMED))}; set REWINDOW_MODEL, and restart the agent",
        ),
    ],
)
def test_missing_key_and_unknown_provider_show_no_traceback(tmp_path: Path, model: str, said: str) -> None:
    with Agent(tmp_path / "state", "--model", model, env=NO_KEYS) as agent:
        (method,) = agent.initialize()["authMethods"]
        session = agent.new_session(tmp_path)
        assert refused(agent, session) == said
        assert agent.prompt(session, "/timeline") == "end_turn"
        if "openai" in model:
            assert agent.error("authenticate", {"methodId": method["id"]})["code"] == -32000
    assert b"Traceback" not in agent.stderr


def test_refused_key_and_failing_server_are_different_errors(tmp_path: Path) -> None:
    body = json.dumps({"error": {"message": "bad sk-test-openai-key"}}).encode()
    with (
        llm_server(Answer(401, (body,)), Answer(400, (b'{"error": {"message": "no"}}',))) as server,
        Agent(tmp_path / "state", "--model", "provider:openai:m", env=server.environment()) as agent,
    ):
        session = agent.open(tmp_path)
        assert agent.call("authenticate", {"methodId": SIGN_IN}) == {}
        assert refused(agent, session) == (
            f"openai:m at {server.environment()['OPENAI_BASE_URL']} does not accept the credentials: {TO_DO}"
        )
        response = agent.response(agent.begin_prompt(session, "again"))
        assert (response["error"]["code"], "(HTTP 400)" in response["error"]["message"]) == (-32603, True)
    assert b"Traceback" not in agent.stderr
    assert b"sk-test" not in agent.stderr
