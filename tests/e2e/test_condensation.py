"""A conversation that outgrows its budget, as an editor sees it: condensed, carried on, loaded again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.aimock import Aimock, aimock
from tests.support.judge import judge
from tests.support.scripts import last_value, load, logged, scripted, transcript

pytestmark = pytest.mark.slow

BUDGET = {"REWINDOW_CONTEXT_BUDGET": "6000"}
LONG = "print('word ' * 700); len('word ' * 700)"


def condensations(agent: Agent) -> list[dict[str, object]]:
    calls = transcript(agent.updates())["calls"]
    return [call for name, call in calls.items() if name.startswith("condense_")]


def test_run_over_its_budget_is_condensed_and_completes(tmp_path: Path) -> None:
    replies = [{"statement": LONG} for _ in range(12)] + [{"text": "Counted."}]
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, *replies), env=BUDGET) as agent:
        session = agent.open(tmp_path)
        assert agent.prompt(session, "count the words") == "end_turn"
        assert all(usage["used"] <= usage["size"] == 6000 for usage in agent.updates("usage_update"))
        shown = condensations(agent)
        assert shown
        assert all((call["kind"], call["status"]) == ("think", "completed") for call in shown)
        assert "Summary of the earlier conversation:" in str(shown[0]["content"])
        first = transcript(agent.updates())
    with Agent(tmp_path / "state", env=BUDGET) as again:
        again.initialize()
        load(again, session, tmp_path)
        replayed = transcript(again.updates())
        assert [replayed[part] for part in ("order", "messages", "calls")] == [
            first[part] for part in ("order", "messages", "calls")
        ]
        assert again.prompt(session, "1 + 1") == "end_turn"
        assert last_value(again) == "2"


def test_compact_replaces_the_conversation_and_the_names_stay(tmp_path: Path) -> None:
    with Agent(tmp_path / "state") as agent:
        session = agent.open(tmp_path)
        agent.prompt(session, f"x = 20\n{LONG}")
        assert agent.prompt(session, "/compact") == "end_turn"
        (call,) = condensations(agent)
        assert "The user asked: x = 20" in str(call["content"])
        (event,) = (event for event in logged(tmp_path / "state", session) if event["kind"] == "condensation")
        assert event["summary_offset"] == 0
        assert event["forgotten"][0] == "e1"
        assert agent.prompt(session, "x + 1") == "end_turn"
        assert last_value(agent) == "21"
        assert agent.prompt(session, "/compact") == "end_turn"
        assert agent.prompt(session, "/context") == "end_turn"


def says(index: int, heard: str, **response: object) -> dict[str, object]:
    """What the provider answers a request with so many of its replies in it, whose newest user text has `heard`."""
    return {"match": {"turnIndex": index, "userMessage": heard}, "response": response}


def runs(source: str, call: str) -> list[dict[str, object]]:
    return [{"id": call, "name": "python", "arguments": {"source": source}}]


CONVERSATION = [
    says(0, "[the user]", content="Seven hundred words were counted.\nx is 20."),
    says(0, "letters", content="I look.", reasoning="x is there.", toolCalls=runs("x + 1", "call_2")),
    says(1, "", content="It is 21."),
    says(0, "count", content="I count.", reasoning="By printing.", toolCalls=runs(f"x = 20\n{LONG}", "call_1")),
]


@pytest.mark.parametrize(
    "model", [pytest.param("provider:openai:gpt-5", marks=pytest.mark.slow), "provider:anthropic:claude-sonnet-4-5"]
)
def test_provider_conversation_continues_after_condensation(tmp_path: Path, model: str) -> None:
    with aimock(tmp_path, CONVERSATION) as mock, judge(mock.url) as strict:
        env = Aimock(strict.url).openai | Aimock(strict.url).anthropic
        with Agent(tmp_path / "state", "--model", model, env=env) as agent:
            session = agent.open(tmp_path)
            assert agent.prompt(session, "count the words") == "end_turn"
            assert agent.prompt(session, "/compact") == "end_turn"
            (call,) = condensations(agent)
            assert "Seven hundred words were counted." in str(call["content"])
            assert agent.prompt(session, "and the letters?") == "end_turn"
            assert agent.text().endswith("It is 21.")
        assert strict.refused == []
        assert len(strict.asked) == 5
        first, last = (json.dumps(strict.asked[at]["messages"]) for at in (3, 4))
        assert "Seven hundred words were counted." in first
        assert "count the words" not in first
        assert "call_1" not in last
        assert "call_2" in last
