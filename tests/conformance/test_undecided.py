"""What no sentence forbids is no violation, however unusual it is: such programs get advice at most."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.suite_runs import conforming, defect, suite, transcript_of

Agent: Any = conforming("acp")
Client: Any = conforming("acp-client")
Message = dict[str, Any]


class OffersModels(Agent):
    """In a field that the schema had when the SDK of the agent was made."""

    def answer(self, request: Message, result: Any) -> None:
        if request.get("method") == "session/new":
            result = {**result, "models": {"currentModelId": "a", "availableModels": []}}
        super().answer(request, result)


class OffersItsOwn(Agent):
    """In a field that no schema ever had."""

    def answer(self, request: Message, result: Any) -> None:
        if request.get("method") == "session/new":
            result = {**result, "myModels": []}
        super().answer(request, result)


class LeavesAServerRunning(Agent):
    """In a terminal that it goes on to use in later turns: it does not wait for the exit, nor release it."""

    def run(self, session: Message, call: str, diff: Message, *, kill: bool) -> Any:
        del call, diff, kill
        yield ("call", "terminal/create", {"sessionId": session["id"], "command": "serve"})
        return "end_turn"


class AnswersWhatItDoesNotKnow(Agent):
    """With an empty result."""

    def refuse(self, request: Message, code: int, text: str) -> None:
        if code == -32601:
            self.answer(request, {})
        else:
            super().refuse(request, code, text)


class PretendsFiles(Client):
    """Every file holds the same."""

    def content(self, params: Message) -> str:
        del params
        return "pretended"


def undecided(of: str, scenario: str, program: Any) -> tuple[set[str], set[str]]:
    """The violations, and what fails without deciding."""
    rows = {row.id: row for row in suite(of).requirements if row.scenario in (None, scenario)}
    results = suite(of).judge([transcript_of(scenario, program, of)], rows)
    failing = [one for one in results if one.verdict.outcome == "fail"]
    return {one.requirement.id for one in failing if one.is_violation}, {
        one.requirement.id for one in failing if not one.is_violation
    }


@pytest.mark.parametrize(
    ("of", "scenario", "program", "advice"),
    [
        ("acp", "opening", OffersModels, set[str]()),
        ("acp", "tool-turn", LeavesAServerRunning, set[str]()),
        ("acp", "unknown-methods", AnswersWhatItDoesNotKnow, {"ACP1-A-RPC-011", "ACP1-A-RPC-013"}),
        ("acp", "mcp-server", defect("ACP1-A-MCP-001"), {"ACP1-A-MCP-001"}),
        ("acp", "list", defect("ACP1-A-LIST-010"), {"ACP1-A-LIST-010"}),
        ("acp-client", "read-file", PretendsFiles, {f"ACP1-C-FS-{number:03}" for number in (2, 4, 5, 6, 7, 8, 10)}),
        ("acp-client", "read-files-at-once", PretendsFiles, set[str]()),
    ],
)
def test_what_is_not_forbidden_is_no_violation(of: str, scenario: str, program: Any, advice: set[str]) -> None:
    assert undecided(of, scenario, program) == (set(), advice)


def test_a_field_that_no_schema_ever_had_is_a_violation() -> None:
    assert undecided("acp", "opening", OffersItsOwn) == ({"ACP1-A-RPC-009"}, set())
