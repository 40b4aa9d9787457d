"""`ask(...)` over the real agent: forms for clients that show them, options for others, and every bad answer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acp_adapter.conversation import ELICIT, NO_FORMS, NOT_SHOWN, REQUEST_PERMISSION
from acp_adapter.questions import NO_ANSWER
from engine.cli.terminal.one_prompt import CANNOT_ASK, UNANSWERED
from tests.support.agents import Agent
from tests.support.scripts import Message, load

FORMS = {"elicitation": {"form": {}}}
CHOICE = 'got = ask("Which one?", ["this\\x1b[31m", "that"])\nprint([got])'
TEXT = 'print([ask("Why?")])'


def asks(message: Message) -> bool:
    return message.get("method") in (ELICIT, REQUEST_PERMISSION)


def opened(agent: Agent, project: Path, **capabilities: Any) -> str:
    agent.initialize(**capabilities)
    return agent.new_session(project)


def answered(agent: Agent, session: str, source: str, answer: Callable[[Message], Any]) -> tuple[Message, str]:
    """The question of a statement, after it was answered, and what the statement printed."""
    before = len(agent.updates())
    prompt = agent.begin_prompt(session, source)
    question = agent.until(asks)
    agent.answer(question, answer(question))
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"
    return question, printed(agent, before)


def printed(agent: Agent, since: int) -> str:
    """The texts of all cards."""
    blocks = [block for each in agent.updates()[since:] for block in each.get("content") or [] if "status" in each]
    return "\n".join(block["content"]["text"] for block in blocks)


def accept(**content: Any) -> Callable[[Message], Any]:
    return lambda _: {"action": "accept", "content": content}


def test_client_with_forms_gets_a_form_and_the_load_asks_nothing(tmp_path: Path, project: Path) -> None:
    with Agent(tmp_path / "state", permission=None) as agent:
        session = opened(agent, project, **FORMS)
        question, text = answered(agent, session, CHOICE, accept(answer="this\\x1b[31m"))
        assert question["method"] == ELICIT
        assert (question["params"]["sessionId"], question["params"]["message"]) == (session, "Which one?")
        properties = question["params"]["requestedSchema"]["properties"]
        assert properties["answer"]["enum"] == ["this\\x1b[31m", "that"]
        cards = {each["toolCallId"]: each for each in agent.updates("tool_call")}
        card = cards[question["params"]["toolCallId"]]
        assert (card["title"], card["kind"]) == ("Which one?", "other")
        assert r"['this\x1b[31m']" in text
        assert "['neither']" in answered(agent, session, CHOICE, accept(answer_other="neither"))[1]
        assert "['so']" in answered(agent, session, TEXT, accept(answer="so"))[1]
        for answer in ({"action": "decline"}, {"action": "cancel"}):
            assert "[None]" in answered(agent, session, TEXT, lambda _, answer=answer: answer)[1]
    with Agent(tmp_path / "state", permission=None) as later:
        later.initialize(**FORMS)
        load(later, session, project)
        later.prompt(session, "print([got])")
        assert "['neither']" in printed(later, 0)
        assert not [message for message in later.received if asks(message)]


def test_second_and_late_answers_change_nothing(tmp_path: Path, project: Path) -> None:
    with Agent(tmp_path / "state", permission=None) as agent:
        session = opened(agent, project, **FORMS)
        question, text = answered(agent, session, CHOICE, accept(answer="that"))
        assert "['that']" in text
        agent.answer(question, {"action": "accept", "content": {"answer_other": "twice"}})
        prompt = agent.begin_prompt(session, TEXT)
        late = agent.until(asks)
        agent.notify("session/cancel", {"sessionId": session})
        assert agent.response(prompt)["result"]["stopReason"] == "cancelled"
        assert [each["params"]["requestId"] for each in agent.received if each.get("method") == "$/cancel_request"] == [
            late["id"]
        ]
        agent.answer(late, {"action": "accept", "content": {"answer": "late"}})
        assert "['now']" in answered(agent, session, TEXT, accept(answer="now"))[1]
        assert agent.prompt(session, "print([got])") == "end_turn"
        assert "['that']" in printed(agent, 0)


def test_error_instead_of_an_answer_is_none(tmp_path: Path, project: Path) -> None:
    with Agent(tmp_path / "state", permission=None) as agent:
        session = opened(agent, project, **FORMS)
        before, prompt = len(agent.updates()), agent.begin_prompt(session, TEXT)
        question = agent.until(asks)
        agent.write(
            b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"Method not found"}}\n' % question["id"]
        )
        assert agent.response(prompt)["result"]["stopReason"] == "end_turn"
        assert NOT_SHOWN in printed(agent, before)
        assert "[None]" in printed(agent, before)


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": None}, {"elicitation": {"url": {}}}])
def test_client_without_forms_gets_the_choices_as_options(
    tmp_path: Path, project: Path, capabilities: dict[str, Any]
) -> None:
    def choose(name: str) -> Callable[[Message], Any]:
        def answer(question: Message) -> Any:
            (option,) = (each for each in question["params"]["options"] if each["name"] == name)
            return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

        return answer

    with Agent(tmp_path / "state", permission=None) as agent:
        session = opened(agent, project, **capabilities)
        question, text = answered(agent, session, CHOICE, choose("that"))
        assert question["method"] == REQUEST_PERMISSION
        assert "['that']" in text
        assert "[None]" in answered(agent, session, CHOICE, choose(NO_ANSWER))[1]
        unknown = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        assert "[None]" in answered(agent, session, CHOICE, lambda _: unknown)[1]
        before = len(agent.updates())
        assert agent.prompt(session, TEXT) == "end_turn"
        assert NO_FORMS in printed(agent, before)
        assert "[None]" in printed(agent, before)
        assert not [message for message in agent.received if message.get("method") == ELICIT]


def test_run_without_a_terminal_answers_none_at_once(tmp_path: Path) -> None:
    ran = subprocess.run(
        [Path(sys.executable).parent / "rewindow", "run", "-p", TEXT],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, "REWINDOW_STATE_DIR": str(tmp_path / "state")},
    )
    assert ran.returncode == 0
    assert UNANSWERED.format("Why?") in ran.stderr
    assert CANNOT_ASK in ran.stdout
    assert "[None]" in ran.stdout
