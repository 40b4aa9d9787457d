"""What an editor is shown of acts, over the real agent: one card for each act, and no text twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acp_adapter.v1.updates.calls import CANCELLED, NOT_RUN
from acp_adapter.v1.updates.statements import REJECTED
from engine.context.models.written_replies import WRONG_ARGUMENTS
from tests.support.agents import Agent
from tests.support.llm_answers import CHAT, chat
from tests.support.llm_server import llm_server
from tests.support.scripts import load, logged, reason, runs, scripted, transcript


def cards(updates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cards on the screen after these updates, in their order."""
    return list(transcript(updates)["calls"].values())


def words(card: dict[str, Any]) -> str:
    """The text of a card."""
    return "\n".join(block["content"]["text"] for block in card.get("content", []) if block["type"] == "content")


def shown_twice(agent: Agent, session: str, cwd: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The cards of the live session, and those of a load."""
    live = agent.updates()
    load(agent, session, cwd)
    return cards(live), cards(agent.updates()[len(live) :])


# --- what did not go through ------------------------------------------------------------------------------------------


def test_cancelled_statement_has_no_traceback(tmp_path: Path, project: Path) -> None:
    model = scripted(tmp_path, {"statement": "print('begun', flush=True)\nwhile True:\n    pass"}, {"text": "Fine."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(project)
        prompt = agent.begin_prompt(session, "go")
        agent.until(lambda message: "begun" in json.dumps(message) and "rawInput" not in json.dumps(message))
        agent.notify("session/cancel", {"sessionId": session})
        assert reason(agent.response(prompt)) == "cancelled"
        for (card,) in shown_twice(agent, session, project):
            assert card["status"] == "failed"
            assert "begun\n[cancelled after " in words(card)
            assert "Traceback" not in json.dumps(card)
            assert "Interrupt" not in words(card)
        agent.prompt(session, "go on")
    read = [event["text"] for event in logged(tmp_path / "state", session) if event["kind"] == "tool_result"]
    assert [text.partition(" after ")[0] for text in read] == ["begun\n[cancelled"]


def test_cancelled_act_says_so_in_a_word(tmp_path: Path, project: Path) -> None:
    model = scripted(tmp_path, {"statement": "x = 1\nbash('sleep 60')"})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(project)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        prompt = agent.begin_prompt(session, "go")
        agent.until(lambda message: "sleep 60" in json.dumps(message) and runs(message) and "bash" in str(message))
        agent.notify("session/cancel", {"sessionId": session})
        assert reason(agent.response(prompt)) == "cancelled"
        for statement, act in shown_twice(agent, session, project):
            assert words(act).endswith(CANCELLED)
            for card in (statement, act):
                assert card["status"] == "failed"
                assert "Error" not in words(card)
                assert "Traceback" not in words(card)


def test_rejected_act_says_so_without_a_traceback(tmp_path: Path, project: Path) -> None:
    model = scripted(tmp_path, {"statement": "print('begun')\nwrite('a.txt', 'x')"}, {"text": "Fine."})
    with Agent(tmp_path / "state", "--model", model, permission="reject_once") as agent:
        session = agent.open(project)
        assert agent.prompt(session, "go") == "end_turn"
        for statement, act in shown_twice(agent, session, project):
            assert (act["status"], statement["status"]) == ("failed", "failed")
            assert words(act) == "```\nThe user rejected this change.\n```"
            assert words(statement).endswith(f"```\nbegun\n{REJECTED}\n```")
            assert "Traceback" not in words(statement)
    (read,) = (
        event["text"]
        for event in logged(tmp_path / "state", session)
        if event["kind"] == "tool_result" and event["parent_id"] is None
    )
    assert read.endswith("PermissionError: The user rejected this change.")  # the model needs the line that failed


def test_error_that_is_caught_and_another_after_it(tmp_path: Path, project: Path) -> None:
    source = "try:\n    write('a.txt', 'x')\nexcept PermissionError:\n    pass\n1 / 0"
    with Agent(
        tmp_path / "state", "--model", scripted(tmp_path, {"statement": source}), permission="reject_once"
    ) as agent:
        session = agent.open(project)
        agent.prompt(session, "go")
        statement, _ = cards(agent.updates())
        assert "ZeroDivisionError" in words(statement)
        assert REJECTED not in words(statement)


def test_malformed_call_is_a_thought(tmp_path: Path, project: Path) -> None:
    with (
        llm_server(chat("", '{"source": 7}'), chat("Sorry.")) as server,
        Agent(tmp_path / "state", "--model", f"provider:{CHAT}", env=server.environment()) as agent,
    ):
        session = agent.open(project)
        assert agent.prompt(session, "go") == "end_turn"
        live = agent.updates()
        load(agent, session, project)
        for updates in (live, agent.updates()[len(live) :]):
            assert cards(updates) == []
            (thought,) = (each for each in updates if "thought" in each["sessionUpdate"] and "could" in str(each))
            assert thought["content"]["text"].startswith(f"{NOT_RUN}\n\n```\n{WRONG_ARGUMENTS}")
    assert WRONG_ARGUMENTS.partition(":")[0] in str(server.asked[1].body["messages"])


# --- what is no act ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("notices", [True, False], ids=["notices", "thoughts"])
def test_sandbox_is_told_once_and_is_no_card(tmp_path: Path, project: Path, notices: bool) -> None:
    model = scripted(tmp_path, {"statement": "1"}, {}, {"statement": "2"}, {}, {"statement": "3"})
    with Agent(tmp_path / "state", "--model", model) as agent:
        agent.initialize(session={"notices": {}} if notices else {})
        session = agent.new_session(project)
        for mode in ("ask", "auto", "auto"):
            agent.call("session/set_mode", {"sessionId": session, "modeId": mode})
            agent.prompt(session, "go")
        live = agent.updates()
        assert "sandbox" not in json.dumps(cards(live)).lower()
        told = news(live)
        assert ["scratch directory, and" in text for text in told] == [True, False]  # the second may write the project
        assert {update["sessionUpdate"] for update in live if told[0] in str(update)} == {
            "notice" if notices else "agent_thought_chunk"
        }
        load(agent, session, project)
        assert news(agent.updates()[len(live) :]) == []
    with Agent(tmp_path / "state", "--model", model) as later:
        later.initialize()
        load(later, session, project, "session/resume")
        later.prompt(session, "go")
        assert news(later.updates()) == []


def news(updates: list[dict[str, Any]]) -> list[str]:
    """What is told of the sandbox."""
    texts = [str(update.get("description") or update.get("content", {})) for update in updates if "title" in update]
    texts += [update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_thought_chunk"]
    return [text for text in texts if "sandbox" in text]


def test_server_is_told_once_and_is_no_card(tmp_path: Path, project: Path) -> None:
    dead = {"name": "dead", "command": "/no/such/program", "args": [], "env": []}
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, {"statement": "1"}, {}, {})) as agent:
        agent.initialize(session={"notices": {}})
        session = agent.call("session/new", {"cwd": str(project), "mcpServers": [dead]})["sessionId"]
        agent.prompt(session, "go")
        agent.prompt(session, "/rewind 0")
        live = agent.updates()
        (lost,) = (update for update in live if "dead" in str(update.get("title")))
        assert (lost["sessionUpdate"], lost["severity"], lost["title"]) == ("notice", "warning", "MCP server dead")
        assert "/no/such/program" in lost["description"]
        load(agent, session, project)
        assert not any("dead" in str(update) for update in agent.updates()[len(live) :])


def test_mention_is_part_of_the_prompt(tmp_path: Path, project: Path) -> None:
    (project / "notes.md").write_text("# Notes\n")
    link = {"type": "resource_link", "uri": (project / "notes.md").as_uri(), "name": "notes.md"}
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, {"statement": "print(notes_md.title)"})) as agent:
        session = agent.open(project)
        assert agent.prompt(session, "look at", link) == "end_turn"
        for (card,) in shown_twice(agent, session, project):
            assert card["title"] == "print(notes_md.title)"
            assert "notes.md" in words(card)
