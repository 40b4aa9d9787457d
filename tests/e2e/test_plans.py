"""`plan(...)` over the real agent: what editor, terminal and model are told of it, and how it goes back."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.context.tail.section_parts import PLAN
from engine.session.tools.plan import MOST_ENTRIES
from tests.support.agents import Agent
from tests.support.scripts import load, scripted

FIRST = 'plan([{"content": "Read it", "status": "in_progress"}, {"content": "Fix it", "priority": "high"}])'
SECOND = 'x = 1\nplan([{"content": "Read it", "status": "completed"}, {"content": "Fix it", "status": "in_progress"}])'
READING = [("Read it", "medium", "in_progress"), ("Fix it", "high", "pending")]
FIXING = [("Read it", "medium", "completed"), ("Fix it", "medium", "in_progress")]


def plans(updates: list[dict[str, Any]]) -> list[list[tuple[str, str, str]]]:
    """The plans in these updates, in order."""
    return [
        [(entry["content"], entry["priority"], entry["status"]) for entry in update["entries"]]
        for update in updates
        if update["sessionUpdate"] == "plan"
    ]


def test_plan_is_told_as_a_whole_and_goes_back_with_the_session(tmp_path: Path, project: Path) -> None:
    model = scripted(tmp_path, {"statement": FIRST}, {"statement": SECOND}, {"text": "Done."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(project)

        def told(prompt: str) -> list[list[tuple[str, str, str]]]:
            before = len(agent.updates())
            assert agent.prompt(session, prompt) == "end_turn"
            return plans(agent.updates()[before:])

        assert told("go") == [READING, FIXING]
        # The plan is no card, and neither is a statement that does nothing else.
        assert [call["title"].partition(" ")[0] for call in agent.updates("tool_call")] == ["x"]
        assert told("/context tail") == []
        assert f"{PLAN}[x] Read it\n[>] Fix it\n" in agent.text()
        assert told("/rewind 1") == [READING]
        assert told("/rewind 0") == [[]]
        assert told("/timeline") == []
        assert told("/branch main") == [FIXING]
        assert told('/edit 2\nplan([{"content": "Other"}])') == [READING, [("Other", "medium", "pending")]]
        assert told("/replay 1 2") == []
    with Agent(tmp_path / "state", "--model", model) as later:
        later.initialize()
        load(later, session, project)
        assert plans(later.updates()) == [[("Other", "medium", "pending")]]
        fork = later.call("session/fork", {"sessionId": session, "cwd": str(project), "mcpServers": []})["sessionId"]
        before = len(later.updates())
        load(later, fork, project)
        assert plans(later.updates()[before:]) == [[("Other", "medium", "pending")]]


def test_edit_with_recorded_answers_tells_the_plan_again(tmp_path: Path, project: Path) -> None:
    with Agent(tmp_path / "state") as agent:
        session = agent.open(project)
        agent.prompt(session, "1")
        agent.prompt(session, FIRST)
        agent.prompt(session, "/edit 1\n2")
        assert plans(agent.updates()) == [READING, [], READING]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ('plan("all of it")', "TypeError: plan(): entries must be a list of dictionaries, not str"),
        ("plan([5])", "TypeError: plan(): entry 1 must be a dictionary, not int"),
        ('plan([{"content": "a"}, {"content": "b", "status": "done"}])', "the status of entry 2 must be pending"),
        ('plan([{"content": "a", "priority": 1}])', "the priority of entry 1 must be high, medium or low, not 1"),
        ('plan([{"content": " "}])', "entry 1 needs `content`"),
        ('plan([{"text": "a"}])', "entry 1 has the unknown key 'text'"),
        ('plan([{"content": "x" * 1001}])', "1,001 characters; the limit is 1,000"),
        ('plan([{"content": "a"}] * 10_000)', f"a plan has at most {MOST_ENTRIES} entries, not 10,000"),
        ('plan([{"content": object()}])', "TypeError: object is not plain data"),
        ("plan()", "TypeError: plan(): missing a required argument: 'entries'"),
    ],
)
def test_wrong_plan_is_an_error_of_the_statement(agent: Agent, session: str, source: str, error: str) -> None:
    before = len(agent.updates())
    agent.prompt(session, source)
    updates = agent.updates()[before:]
    assert error in "".join(each["content"]["text"] for each in updates if "message" in each["sessionUpdate"])
    assert plans(updates) == []


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Agent(tmp_path_factory.mktemp("state")) as running:
        yield running


@pytest.fixture(scope="module")
def session(agent: Agent, tmp_path_factory: pytest.TempPathFactory) -> str:
    return agent.open(tmp_path_factory.mktemp("project"))


def test_terminal_shows_the_plan(tmp_path: Path, project: Path) -> None:
    model = scripted(tmp_path, {"statement": FIRST}, {"text": "Done."})
    done = subprocess.run(
        [str(Agent.command().parent / "rewindow"), "run", "--model", model, "-p", "go"],
        cwd=project,
        env={**os.environ, "REWINDOW_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    shown = done.stdout + done.stderr
    assert "   Plan:\n   [>] Read it\n   [ ] Fix it (high priority)\n" in shown
    assert "~ Plan" not in shown
