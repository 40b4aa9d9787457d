"""The agent with a model of a provider, as an editor starts it, against a server that nobody here wrote."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import Agent
from tests.support.aimock import Aimock, aimock
from tests.support.api_rules import violations

pytestmark = pytest.mark.slow

LEAKS = "import os\nprint([k for k, v in os.environ.items() if 'OPENAI' in k or 'sk-test' in v])\n6 * 7"


def turn(index: int, **response: Any) -> dict[str, Any]:
    """What is answered when the request has so many messages of the assistant."""
    return {"match": {"turnIndex": index}, "response": response}


def calls(source: str, call_id: str) -> list[dict[str, Any]]:
    return [{"id": call_id, "name": "python", "arguments": {"source": source}}]


FIXTURES = [
    turn(0, content="Let me compute.", reasoning="Easy.", toolCalls=calls(LEAKS, "call_1")),
    turn(1, content="It is 42."),
    turn(2, toolCalls=calls("1 / 0", "call_1")),
    turn(3, toolCalls=[{"id": "call_3", "name": "python", "arguments": '{"sauce": "1"}'}]),
    turn(4, error={"message": "slow down", "type": "rate_limit_error"}, status=401),
]


@pytest.fixture
def mock(tmp_path: Path) -> Iterator[Aimock]:
    with aimock(tmp_path, FIXTURES) as served:
        yield served


def test_a_prompt_leads_to_a_statement_whose_result_goes_back(tmp_path: Path, mock: Aimock) -> None:
    with Agent(tmp_path / "state", "--model", "provider:openai:gpt-5", env=mock.openai) as agent:
        session = agent.open(tmp_path)
        assert agent.prompt(session, "what is six times seven?") == "end_turn"
        assert agent.text() == "Let me compute.It is 42."

        first, second = mock.journal()
        # What a trivial turn costs: instructions, the tool, the prompt and its tail.
        assert len(json.dumps(first["body"])) <= 6 * 1024
        assert second["body"]["messages"][2]["tool_calls"][0]["id"] == "call_1"
        result = second["body"]["messages"][3]
        assert (result["role"], result["tool_call_id"]) == ("tool", "call_1")
        assert result["content"] == "[]\n42"
        # The tail of the first request is in no later one, and all before it is as it was.
        shared = first["body"]["messages"][1]["content"]
        assert shared.startswith(second["body"]["messages"][1]["content"])

        failed = agent.response(agent.begin_prompt(session, "and now?"))
        assert "OPENAI_API_KEY" in json.dumps([failed, agent.updates()])
        assert "sk-test-openai-key" not in json.dumps(agent.received)
        assert b"sk-test-openai-key" not in agent.stderr

        asked = mock.journal()
        assert len(asked) == 5
        assert [violations(each["path"], each["body"]) for each in asked] == [[]] * 5
        results = [each for each in asked[-1]["body"]["messages"] if each["role"] == "tool"]
        assert "ZeroDivisionError" in results[1]["content"]
        assert "arguments must be" in results[2]["content"]


def test_cancelling_ends_a_reply_that_is_on_its_way(tmp_path: Path) -> None:
    slow = {"match": {}, "response": {"content": "word " * 500}, "latency": 200}
    with (
        aimock(tmp_path, [slow], "--chunk-size", "5") as mock,
        Agent(tmp_path / "state", "--model", "provider:openai:gpt-5", env=mock.openai) as agent,
    ):
        session = agent.open(tmp_path)
        request = agent.begin_prompt(session, "talk")
        agent.until(lambda message: "agent_message_chunk" in json.dumps(message))
        agent.notify("session/cancel", {"sessionId": session})
        assert agent.response(request, 5)["result"]["stopReason"] == "cancelled"
        assert 0 < len(agent.text()) < 500


def _imported(agent: Agent) -> set[str]:
    """What the interpreter says on standard error that it has imported so far."""
    lines = agent.stderr.decode().splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


def test_provider_library_loads_before_the_first_reply(tmp_path: Path, mock: Aimock) -> None:
    env = {**mock.openai, "PYTHONPROFILEIMPORTTIME": "1"}
    with Agent(tmp_path / "state", "--model", "provider:openai:gpt-5", env=env) as agent:
        agent.initialize()
        assert "pydantic_ai" not in _imported(agent)
        session = agent.new_session(tmp_path)
        deadline = time.monotonic() + 60
        before = set[str]()
        # There is nothing but time to wait for, because the editor is not told.
        while "pydantic_ai.providers._openai_compatible" not in before or before != _imported(agent):
            assert time.monotonic() < deadline
            before = _imported(agent)
            time.sleep(1)
        assert agent.prompt(session, "what is six times seven?") == "end_turn"
        late = {name for name in _imported(agent) - before if name.startswith(("pydantic_ai", "openai", "griffe"))}
        assert late == set()


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_model_without_tools_writes_statements_and_reads_results(tmp_path: Path, api: str) -> None:
    block = f'Let me compute.\n<script type="text/x-python">\n{LEAKS}\n</script>\n'
    written = [turn(0, content=f"{block}It is 41."), turn(1, content="It is 42.")]
    with aimock(tmp_path, written, "--chunk-size", "1") as mock:
        environment = mock.openai if api == "openai" else mock.anthropic
        options = ("--model", f"provider:{api}:some-model", "--models-without-tools", f"{api}:some-*")
        with Agent(tmp_path / "state", *options, env=environment) as agent:
            session = agent.open(tmp_path)
            assert agent.prompt(session, "what is six times seven?") == "end_turn"
            assert agent.text() == "Let me compute.\nIt is 42."
        first, second = mock.journal()
        # The journal has every API's messages in the form of chat completions.
        assert [violations("/chat/completions", each["body"]) for each in (first, second)] == [[], []]
        assert not {"tools", "tool_choice"} & {*first["body"], *second["body"]}
        told = json.dumps(second["body"]["messages"][-1])
        assert "[Result of the statement]\\n```\\n[]\\n42\\n```\\n[Only one statement of a reply is run" in told
