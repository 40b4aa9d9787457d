"""The suite for agents: verdicts on unusual but correct traffic, and the order of scenarios."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.driver import encode_line, request_message
from conformance.runner import run_scenario
from conformance.suites.jsonrpc import no_processes_left
from conformance.traffic import Traffic
from conformance.transcript import Transcript
from tests.conformance.peers.acp_agent import Agent
from tests.conformance.suite_runs import OPTIONS, conforming, in_memory, suite, transcript_of

PROMPT = request_message(2, "session/prompt", {"sessionId": "s1", "prompt": []})
CANCEL = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}


def outcome(requirement: str, transcript: Transcript) -> str:
    return next(r.verdict.outcome for r in suite().judge([transcript]) if r.requirement.id == requirement)


def response(request_id: int, **result: Any) -> bytes:
    return encode_line({"jsonrpc": "2.0", "id": request_id, "result": result})


@pytest.mark.parametrize(("slow_turn_ms", "expected"), [(3.5, "skipped"), (99, "skipped"), (3000, "fail")])
def test_instant_turn_does_not_fail_an_immediate_cancel(slow_turn_ms: float, expected: str) -> None:
    transcript = Transcript("cancel-at-once", {"calibration": {"slow_turn_ms": slow_turn_ms}})
    transcript.mark(0, "cancelled", 2)
    transcript.add(0, "client", encode_line(PROMPT) + encode_line(CANCEL))
    transcript.add(3, "server", response(2, stopReason="end_turn"))
    assert outcome("ACP1-A-CANCEL-005", transcript) == expected


@pytest.mark.parametrize(("session", "expected"), [("s1", "pass"), ("internal-7", "fail")])
def test_update_may_name_a_prompted_unopened_session(session: str, expected: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hello."}}
    transcript = Transcript("unknown-session")
    transcript.add(0, "client", encode_line(PROMPT))
    params = {"sessionId": session, "update": update}
    transcript.add(1, "server", encode_line({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    transcript.add(2, "server", response(2, stopReason="end_turn"))
    assert outcome("ACP1-A-PROMPT-014", transcript) == expected


def test_missing_capabilities_have_schema_defaults() -> None:
    transcript = Transcript("opening")
    transcript.add(0, "client", encode_line(request_message(1, "initialize", {"protocolVersion": 1})))
    transcript.add(1, "server", response(1, protocolVersion=1))
    found = next(r for r in suite().judge([transcript]) if r.requirement.id == "ACP1-A-INIT-005")
    assert found.verdict.outcome == "fail"
    assert not found.is_violation


def test_answer_in_another_version_skips_the_schema() -> None:
    transcript = Transcript("version-newer")
    transcript.mark(0, "initialize", 1)
    transcript.add(0, "client", encode_line(request_message(1, "initialize", {"protocolVersion": 65535})))
    transcript.add(1, "server", response(1, protocolVersion=2, info={"name": "x", "version": "1"}, capabilities={}))
    assert {r.requirement.id for r in suite().judge([transcript]) if r.verdict.outcome == "fail"} == set()
    assert outcome("ACP1-A-INIT-003", transcript) == "pass"


class PassesOver(Agent):
    """Ignores lines with params of a given type."""

    kind: type = str

    def take(self, message: dict[str, Any]) -> None:
        if not isinstance(message.get("params"), self.kind):
            super().take(message)


class PassesOverArrays(PassesOver):
    kind = list


@pytest.mark.parametrize(("agent", "expected"), [(PassesOver, "pass"), (PassesOverArrays, "fail")])
def test_invalid_params_line_may_be_ignored(agent: type[Agent], expected: str) -> None:
    assert outcome("ACP1-A-RPC-016", transcript_of("wrong-params", agent)) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"error": {"code": -32601, "message": "Method not found"}}, "pass"),
        ({"result": {"outcome": {"outcome": "cancelled"}}}, "pass"),
        ({"result": {"outcome": {"outcome": "selected", "optionId": "allow"}}}, "fail"),
    ],
)
def test_turn_may_end_cancelled_without_a_chosen_option(answer: dict[str, Any], expected: str) -> None:
    transcript = Transcript("permission-error")
    transcript.add(0, "client", encode_line(PROMPT))
    ask: dict[str, Any] = {"sessionId": "s1", "toolCall": {"toolCallId": "c1"}, "options": []}
    transcript.add(1, "server", encode_line(request_message(0, "session/request_permission", ask)))
    transcript.add(2, "client", encode_line({"jsonrpc": "2.0", "id": 0, **answer}))
    transcript.add(3, "server", response(2, stopReason="cancelled"))
    assert outcome("ACP1-A-PROMPT-013", transcript) == expected


@pytest.mark.parametrize("scenario", ["permission-refused-always", "permission-allowed-always"])
def test_no_lasting_permission_without_option(scenario: str) -> None:
    found = next(one for one in suite().scenarios if one.name == scenario)
    transcript = run_scenario(found, in_memory(Agent), replace(OPTIONS, allow_always=False), {})
    row = next(row for row in suite().requirements if row.scenario == scenario)
    assert outcome(row.id, transcript) == "skipped"
    assert not any(message.method == "session/prompt" for message in Traffic(transcript).messages)
    assert outcome(row.id, transcript_of(scenario)) == "pass"


def test_lasting_permissions_run_last() -> None:
    names = [one.name for one in suite().scenarios if one.alone]
    assert names[-2:] == ["permission-refused-always", "permission-allowed-always"]


@pytest.mark.parametrize(
    ("answered", "waited", "expected"), [(True, False, "pass"), (False, False, "skipped"), (False, True, "fail")]
)
def test_only_awaited_requests_count_as_unanswered(answered: bool, waited: bool, expected: str) -> None:
    transcript = Transcript("")
    transcript.add(0, "client", encode_line(request_message(1, "initialize", {})))
    transcript.add(1, "server", response(1, protocolVersion=1))
    transcript.add(2, "client", encode_line(PROMPT))
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
def test_byte_order_mark_may_be_refused_without_id(said: Any, expected: str) -> None:
    transcript = Transcript("byte-order-mark")
    transcript.mark(0, "bom", 1)
    transcript.add(0, "client", encode_line(request_message(1, "initialize", {"protocolVersion": 1})))
    if said is not None:
        transcript.add(1, "server", encode_line({"jsonrpc": "2.0", **said}))
    assert outcome("ACP1-A-FRAME-014", transcript) == expected


@pytest.mark.parametrize("given", ["1", 2, None])
def test_answer_with_wrong_id_is_shown(given: Any) -> None:
    transcript = Transcript("initialize-bare", {"options": {"timeout": 10}})
    transcript.mark(0, "initialize", 1)
    transcript.add(0, "client", encode_line(request_message(1, "initialize", {"protocolVersion": 1})))
    answer = encode_line({"jsonrpc": "2.0", "id": given, "result": {"protocolVersion": 1}})
    transcript.add(1, "server", answer)
    transcript.mark(10_000, "unanswered", 1)
    came = f"a response with the id {given!r} arrived: {answer.decode().strip()}"
    assert suite().obstacle(Traffic(transcript)).endswith(came)
    found = next(r for r in suite().judge([transcript]) if r.requirement.id == "ACP1-A-INIT-006")
    assert found.verdict.reason.endswith(came)
    assert " 10 s" in found.verdict.reason
    assert len(found.verdict.evidence) == 2


def test_leftovers_of_every_start_count() -> None:
    transcript = Transcript("load-after-restart")
    for left in (0, 2):
        transcript.mark(0, "ended", {"by": "close stdin", "code": 0, "left": left})
    verdict = no_processes_left(Traffic(transcript))
    assert (verdict.outcome, verdict.reason) == ("fail", "after the program ended, 2 of its processes still ran")


def test_restart_does_not_complete_partial_lines() -> None:
    transcript = Transcript("load-after-restart")
    transcript.add(0, "server", b'{"jsonrpc":"2.0",')
    transcript.mark(1, "restarted")
    transcript.add(2, "server", b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    assert [(m.ended, bool(m.object)) for m in Traffic(transcript).messages] == [(False, False), (True, True)]


def test_restart_drops_pending_requests_and_ids() -> None:
    ask = encode_line(request_message(1, "session/request_permission", {}))
    transcript = Transcript("load-after-restart")
    transcript.add(0, "server", ask)
    transcript.mark(1, "restarted")
    transcript.add(2, "server", ask)
    transcript.add(3, "client", response(1, outcome={"outcome": "cancelled"}))
    asked = [message for message in Traffic(transcript).messages if message.is_request]
    assert [message.answer is not None for message in asked] == [False, True]
    assert outcome("ACP1-A-RPC-007", transcript) == "pass"


def test_agent_may_connect_to_mcp_server_late() -> None:
    agent: Any = conforming()

    class ConnectsLate(agent):
        def __init__(self, world: Any, start_server: Any) -> None:
            def later(server: Any) -> bool:
                world.later(5, lambda: start_server(server))
                return True

            super().__init__(world, later)

    transcript = transcript_of("mcp-server", ConnectsLate)
    assert outcome("ACP1-A-MCP-001", transcript) == "pass"
