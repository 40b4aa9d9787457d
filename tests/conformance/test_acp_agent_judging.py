"""What agents of others showed: verdicts of what conforms although it looks as if it did not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.driver import line, request_message
from conformance.judging_lines import left_nothing
from conformance.runner import run_scenario
from conformance.traffic import Traffic
from conformance.transcript import Transcript
from tests.conformance.peers.acp_agent import Agent
from tests.conformance.suite_runs import OPTIONS, conforming, in_memory, suite, transcript_of

PROMPT = request_message(2, "session/prompt", {"sessionId": "s1", "prompt": []})
CANCEL = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}


def outcome(requirement: str, transcript: Transcript) -> str:
    return next(r.verdict.outcome for r in suite().judge([transcript]) if r.requirement.id == requirement)


def response(request_id: int, **result: Any) -> bytes:
    return line({"jsonrpc": "2.0", "id": request_id, "result": result})


@pytest.mark.parametrize(("slow_turn_ms", "expected"), [(3.5, "skipped"), (99, "skipped"), (3000, "fail")])
def test_a_turn_that_is_over_at_once_is_not_blamed_for_a_cancel_sent_with_its_prompt(
    slow_turn_ms: float, expected: str
) -> None:
    transcript = Transcript("cancel-at-once", {"calibration": {"slow_turn_ms": slow_turn_ms}})
    transcript.mark(0, "cancelled", 2)
    transcript.add(0, "client", line(PROMPT) + line(CANCEL))
    transcript.add(3, "server", response(2, stopReason="end_turn"))
    assert outcome("ACP1-A-CANCEL-005", transcript) == expected


@pytest.mark.parametrize(("session", "expected"), [("s1", "pass"), ("internal-7", "fail")])
def test_an_update_may_be_for_a_session_that_the_client_prompted_in_without_opening_it(
    session: str, expected: str
) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hello."}}
    transcript = Transcript("unknown-session")
    transcript.add(0, "client", line(PROMPT))
    params = {"sessionId": session, "update": update}
    transcript.add(1, "server", line({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    transcript.add(2, "server", response(2, stopReason="end_turn"))
    assert outcome("ACP1-A-PROMPT-014", transcript) == expected


def test_capabilities_that_are_left_out_are_those_that_the_schema_says_by_default() -> None:
    transcript = Transcript("opening")
    transcript.add(0, "client", line(request_message(1, "initialize", {"protocolVersion": 1})))
    transcript.add(1, "server", response(1, protocolVersion=1))
    found = next(r for r in suite().judge([transcript]) if r.requirement.id == "ACP1-A-INIT-005")
    assert found.verdict.outcome == "fail"
    assert not found.is_violation


def test_an_answer_in_another_version_is_not_held_to_the_schema_of_this_one() -> None:
    transcript = Transcript("version-newer")
    transcript.mark(0, "initialize", 1)
    transcript.add(0, "client", line(request_message(1, "initialize", {"protocolVersion": 65535})))
    transcript.add(1, "server", response(1, protocolVersion=2, info={"name": "x", "version": "1"}, capabilities={}))
    assert {r.requirement.id for r in suite().judge([transcript]) if r.verdict.outcome == "fail"} == set()
    assert outcome("ACP1-A-INIT-003", transcript) == "pass"


class PassesOver(Agent):
    """Answers no line whose params are of a type."""

    kind: type = str

    def take(self, message: dict[str, Any]) -> None:
        if not isinstance(message.get("params"), self.kind):
            super().take(message)


class PassesOverArrays(PassesOver):
    kind = list


@pytest.mark.parametrize(("agent", "expected"), [(PassesOver, "pass"), (PassesOverArrays, "fail")])
def test_a_line_whose_params_json_rpc_forbids_may_be_passed_over(agent: type[Agent], expected: str) -> None:
    assert outcome("ACP1-A-RPC-016", transcript_of("wrong-params", agent)) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"error": {"code": -32601, "message": "Method not found"}}, "pass"),
        ({"result": {"outcome": {"outcome": "cancelled"}}}, "pass"),
        ({"result": {"outcome": {"outcome": "selected", "optionId": "allow"}}}, "fail"),
    ],
)
def test_a_turn_may_end_as_cancelled_where_no_option_of_a_permission_was_chosen(
    answer: dict[str, Any], expected: str
) -> None:
    transcript = Transcript("permission-error")
    transcript.add(0, "client", line(PROMPT))
    ask: dict[str, Any] = {"sessionId": "s1", "toolCall": {"toolCallId": "c1"}, "options": []}
    transcript.add(1, "server", line(request_message(0, "session/request_permission", ask)))
    transcript.add(2, "client", line({"jsonrpc": "2.0", "id": 0, **answer}))
    transcript.add(3, "server", response(2, stopReason="cancelled"))
    assert outcome("ACP1-A-PROMPT-013", transcript) == expected


@pytest.mark.parametrize("scenario", ["permission-refused-always", "permission-allowed-always"])
def test_nothing_is_permitted_or_refused_for_ever_unless_that_is_allowed(scenario: str) -> None:
    found = next(one for one in suite().scenarios if one.name == scenario)
    transcript = run_scenario(found, in_memory(Agent), replace(OPTIONS, allow_always=False), {})
    row = next(row for row in suite().requirements if row.scenario == scenario)
    assert outcome(row.id, transcript) == "skipped"
    assert not any(message.method == "session/prompt" for message in Traffic(transcript).messages)
    assert outcome(row.id, transcript_of(scenario)) == "pass"


def test_the_scenarios_that_an_agent_may_remember_are_the_last_ones() -> None:
    names = [one.name for one in suite().scenarios if one.alone]
    assert names[-2:] == ["permission-refused-always", "permission-allowed-always"]


@pytest.mark.parametrize(
    ("answered", "waited", "expected"), [(True, False, "pass"), (False, False, "skipped"), (False, True, "fail")]
)
def test_only_a_request_that_was_waited_for_is_known_to_be_unanswered(
    answered: bool, waited: bool, expected: str
) -> None:
    transcript = Transcript("")
    transcript.add(0, "client", line(request_message(1, "initialize", {})))
    transcript.add(1, "server", response(1, protocolVersion=1))
    transcript.add(2, "client", line(PROMPT))
    if answered:
        transcript.add(3, "server", response(2, stopReason="end_turn"))
    if waited:
        transcript.mark(10_000, "unanswered", 2)
    assert outcome("ACP1-A-RPC-019", transcript) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"id": 1, "result": {"protocolVersion": 1}}, "pass"),
        ({"id": 1, "error": {"code": -32700, "message": "no"}}, "pass"),
        ({"id": None, "error": {"code": -32700, "message": "no"}}, "pass"),
        ({"id": None, "result": {}}, "fail"),
        (None, "fail"),
    ],
)
def test_a_line_with_a_byte_order_mark_may_be_refused_without_its_id(said: Any, expected: str) -> None:
    transcript = Transcript("byte-order-mark")
    transcript.mark(0, "bom", 1)
    transcript.add(0, "client", line(request_message(1, "initialize", {"protocolVersion": 1})))
    if said is not None:
        transcript.add(1, "server", line({"jsonrpc": "2.0", **said}))
    assert outcome("ACP1-A-FRAME-014", transcript) == expected


@pytest.mark.parametrize("given", ["1", 2, None])
def test_an_answer_with_another_id_is_shown_where_one_is_missing(given: Any) -> None:
    transcript = Transcript("initialize-bare", {"options": {"timeout": 10}})
    transcript.mark(0, "initialize", 1)
    transcript.add(0, "client", line(request_message(1, "initialize", {"protocolVersion": 1})))
    answer = line({"jsonrpc": "2.0", "id": given, "result": {"protocolVersion": 1}})
    transcript.add(1, "server", answer)
    transcript.mark(10_000, "unanswered", 1)
    came = f"; what came is a response with the id {given!r}: {answer.decode().strip()}"
    obstacle = suite().obstacle(Traffic(transcript))
    assert obstacle == f"the agent did not answer initialize, whose id is 1{came}"
    found = next(r for r in suite().judge([transcript]) if r.requirement.id == "ACP1-A-INIT-006")
    said = "initialize with id 1 was not answered within 10 s, which --timeout sets"
    assert found.verdict.reason == said + came
    assert len(found.verdict.evidence) == 2


def test_what_any_process_of_a_scenario_left_behind_counts() -> None:
    transcript = Transcript("load-after-restart")
    for left in (0, 2):
        transcript.mark(0, "ended", {"by": "close stdin", "code": 0, "left": left})
    verdict = left_nothing(Traffic(transcript))
    assert (verdict.outcome, verdict.reason[:11]) == ("fail", "2 processes")


def test_what_one_process_began_to_say_the_next_does_not_end() -> None:
    transcript = Transcript("load-after-restart")
    transcript.add(0, "server", b'{"jsonrpc":"2.0",')
    transcript.mark(1, "restarted")
    transcript.add(2, "server", b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    assert [(m.ended, bool(m.object)) for m in Traffic(transcript).messages] == [(False, False), (True, True)]


def test_what_one_process_asked_is_not_answered_to_the_next_and_ids_begin_anew() -> None:
    ask = line(request_message(1, "session/request_permission", {}))
    transcript = Transcript("load-after-restart")
    transcript.add(0, "server", ask)
    transcript.mark(1, "restarted")
    transcript.add(2, "server", ask)
    transcript.add(3, "client", response(1, outcome={"outcome": "cancelled"}))
    asked = [message for message in Traffic(transcript).messages if message.is_request]
    assert [message.answer is not None for message in asked] == [False, True]
    assert outcome("ACP1-A-RPC-007", transcript) == "pass"


def test_an_agent_may_connect_to_an_mcp_server_behind_its_first_turn() -> None:
    agent: Any = conforming()

    class ConnectsLate(agent):
        def __init__(self, world: Any, start_server: Any) -> None:
            def later(server: Any) -> bool:
                world.later(5, lambda: start_server(server))
                return True

            super().__init__(world, later)

    transcript = transcript_of("mcp-server", ConnectsLate)
    assert outcome("ACP1-A-MCP-001", transcript) == "pass"
