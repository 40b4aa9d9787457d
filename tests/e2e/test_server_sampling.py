"""MCP servers that ask for a reply of the session's model: only with the setting, and only what the user allows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.session.tools.mcp_client import MOST_SAMPLES, REFUSED, TOO_MANY_SAMPLES
from engine.session.tools.mcp_sampling import ALLOW, LONGEST_TEXT, MOST_TOKENS, NO_MODEL, REFUSE
from tests.support import mcp_server
from tests.support.agents import Agent
from tests.support.llm_answers import chat
from tests.support.llm_server import Asked, llm_server
from tests.support.scripts import asks_permission, logged, scripted
from tests.support.transcripts import selected

SECRET = "kN4vB8wQ2xZ7"
ON = {"REWINDOW_MCP_SAMPLING": "yes", "MY_TOKEN": SECRET}


def wanted(text: str = "Name a colour.", **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": 50, **more}


def source(params: dict[str, Any], times: int = 1) -> str:
    return f"answers = test.book(form={params!r}, method='sampling/createMessage', times={times}).text\nprint(answers)"


class Editor:
    """An agent with the server, whose user chooses an answer by its name."""

    def __init__(self, agent: Agent, cwd: Path, record: Path) -> None:
        self.agent = agent
        self.record = record
        agent.initialize()
        variables = [{"name": "MCP_TEST_RECORD", "value": str(record)}]
        server = {"name": "test", "command": sys.executable, "args": [mcp_server.__file__, "asking"], "env": variables}
        self.session = agent.call("session/new", {"cwd": str(cwd), "mcpServers": [server]})["sessionId"]

    def prompt(self, *choices: str) -> list[str]:
        """Prompt, and answer each question about a reply so; return these questions."""
        asked: list[str] = []
        left = list(choices)
        number = self.agent.begin_prompt(self.session, "go")
        while True:
            message = self.agent.next(60)
            assert message is not None
            if asks_permission(message):
                options = {each["name"]: each["optionId"] for each in message["params"]["options"]}
                if REFUSE in options:
                    asked.append(json.dumps(message["params"]["toolCall"], ensure_ascii=False))
                    self.agent.answer(message, selected(options[left.pop(0)]))
                else:
                    self.agent.answer(message, selected("allow_once"))
            elif message.get("id") == number and "method" not in message:
                assert message["result"]["stopReason"] == "end_turn", message
                assert left == []
                return asked

    def answers(self) -> list[Any]:
        """What the server got for its requests."""
        lines = [json.loads(line) for line in self.record.read_text().splitlines()]
        return [line.get("result", line.get("error")) for line in lines if str(line.get("id", "")).startswith("ask-")]

    def offered(self) -> dict[str, Any]:
        """What the server was told that its client can do."""
        lines = [json.loads(line) for line in self.record.read_text().splitlines()]
        (begun,) = [line for line in lines if line.get("method") == "initialize"]
        return begun["params"]["capabilities"]


def texts(asked: Asked) -> str:
    return json.dumps(asked.body["messages"])


@pytest.mark.slow
def test_a_reply_of_the_model_goes_to_the_server_after_the_users_yes(tmp_path: Path, project: Path) -> None:
    request = wanted(f"Name a colour. {SECRET}", systemPrompt="You are a painter.")
    statement = chat("", json.dumps({"source": source(request)}))
    with llm_server(statement, chat("Red."), chat("Done.")) as served:
        model = ("--model", "provider:openai-chat:gpt-5")
        with Agent(tmp_path / "state", *model, env={**served.environment(), **ON}, permission=None) as agent:
            editor = Editor(agent, project, tmp_path / "record")
            (question,) = editor.prompt(ALLOW)
            assert all(part in question for part in ("Name a colour.", "You are a painter.", "openai-chat:gpt-5", "50"))
            (answer,) = editor.answers()
            assert (answer["content"]["text"], answer["role"], answer["stopReason"]) == ("Red.", "assistant", "endTurn")
            assert answer["model"] == "openai-chat:gpt-5"
            assert "sampling" in editor.offered()
            sent = served.asked[1]
            assert ("You are a painter." in texts(sent), "Name a colour." in texts(sent)) == (True, True)
            assert SECRET not in question + texts(sent)
            assert sent.body["tool_choice"] == "none"
            events = logged(tmp_path / "state", editor.session)
            (ended,) = [event for event in events if event["kind"] == "summary_call_ended"]
            assert (ended["server"], ended["answered"]) == ("test", True)
            (recorded,) = [event for event in events if event["kind"] == "tool_result" and event.get("text") == "Red."]
            assert recorded["status"] == "ok"
            assert "Red." in texts(served.asked[2])  # as what the statement printed
            agent.prompt(editor.session, "/cost")
            assert ": 3 calls, " in agent.text()


@pytest.mark.slow
def test_without_the_setting_a_server_is_told_that_there_is_no_sampling(tmp_path: Path, project: Path) -> None:
    model = scripted(tmp_path, {"statement": source(wanted())}, {"text": "Done."})
    with Agent(tmp_path / "state", "--model", model, permission=None) as agent:
        editor = Editor(agent, project, tmp_path / "record")
        assert editor.prompt() == []
        assert "sampling" not in editor.offered()
        assert [answer["code"] for answer in editor.answers()] == [-32600]


@pytest.mark.slow
def test_requests_that_are_not_answered(tmp_path: Path, project: Path) -> None:
    image = {"role": "user", "content": {"type": "image", "data": "", "mimeType": "image/png"}}
    refused = (
        wanted(messages=[image]),
        wanted("x" * (LONGEST_TEXT + 1)),
        wanted(maxTokens=0),
        wanted(messages=[]),
    )
    statements = [*map(source, refused), source(wanted(), MOST_SAMPLES + 2)]
    replies = [chat("", json.dumps({"source": each})) for each in statements]
    model = ("--model", "provider:openai-chat:gpt-5")
    with (
        llm_server(*replies, chat("Done.")) as served,
        Agent(tmp_path / "state", *model, env={**served.environment(), **ON}, permission=None) as agent,
    ):
        editor = Editor(agent, project, tmp_path / "record")
        assert len(editor.prompt(*[REFUSE] * MOST_SAMPLES)) == MOST_SAMPLES
        assert len(served.asked) == len(statements) + 1
        answers = editor.answers()
        assert [answer["code"] for answer in answers[: len(refused)]] == [-32602] * len(refused)
        said = sorted(answer["message"] for answer in answers[len(refused) :])
        assert said == sorted([REFUSED] * MOST_SAMPLES + [TOO_MANY_SAMPLES] * 2)


@pytest.mark.slow
def test_a_long_reply_is_cut(tmp_path: Path, project: Path) -> None:
    statement = chat("", json.dumps({"source": source(wanted(maxTokens=10))}))
    with llm_server(statement, chat("Red. " * 100), chat("Done.")) as served:
        model = ("--model", "provider:openai-chat:gpt-5")
        with Agent(tmp_path / "state", *model, env={**served.environment(), **ON}, permission=None) as agent:
            editor = Editor(agent, project, tmp_path / "record")
            (question,) = editor.prompt(ALLOW)
            assert "at most 10 tokens" in question
            (answer,) = editor.answers()
            assert (len(answer["content"]["text"]), answer["stopReason"]) == (40, "maxTokens")
    assert MOST_TOKENS > 10


@pytest.mark.slow
def test_a_session_without_a_language_model_answers_nothing(tmp_path: Path, project: Path) -> None:
    with Agent(tmp_path / "state", env=ON) as agent:
        editor = Editor(agent, project, tmp_path / "record")
        agent.prompt(editor.session, source(wanted()), seconds=60)
        assert [answer["message"] for answer in editor.answers()] == [NO_MODEL]
