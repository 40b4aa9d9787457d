"""Order: nothing for a session before it is there, nothing of a turn after its end."""

from __future__ import annotations

from typing import Final

from conformance.requirement import Requirement
from conformance.requirements.acp1 import prose, schema, session_of
from conformance.requirements.acp1_agent.reading import is_cancelled, next_of, updates_between
from conformance.traffic import Traffic
from conformance.values import as_text
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_OF_A_TURN: Final = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update")
_ASKED: Final = ("session/prompt", "session/load", "session/resume", "session/close")


def _late(traffic: Traffic, *, cancelled: bool) -> Verdict:
    judged = False
    for prompt in traffic.requests("client", "session/prompt"):
        if prompt.answer is None or is_cancelled(traffic, prompt) != cancelled:
            continue
        judged = True
        # Until anything else is asked of the session, whose updates may be of either then.
        until = next_of(traffic, prompt, *_ASKED)
        for late, _ in updates_between(traffic, session_of(prompt), prompt.answer.order, until, *_OF_A_TURN):
            return failed("an update of a turn came after the answer to its prompt", prompt.answer.index, late.index)
    return PASS if judged else skipped("no turn was cancelled" if cancelled else "no turn ended by itself")


def _before_new(traffic: Traffic) -> Verdict:
    opened = [r for r in traffic.requests("client", "session/new") if r.answer is not None and r.succeeded]
    seen: set[str] = set()
    for request in opened:
        assert request.answer
        session = as_text(request.answer.result.get("sessionId"))
        if session in seen:
            continue  # one id for two sessions: another requirement's
        seen.add(session)
        for early, _ in updates_between(traffic, session, -1, request.answer.order):
            return failed("an update came before the answer that names its session", early.index, request.answer.index)
    return PASS if opened else not_tested("no session was opened")


def _before_initialize(traffic: Traffic) -> Verdict:
    requests = traffic.requests("client", "initialize")
    if not requests or requests[0].answer is None:
        return not_tested("initialize was not answered")
    for message in traffic.sent("server"):
        if message.method and message.order < requests[0].answer.order and message.method != "$/cancel_request":
            return failed(f"{message.method} came before the answer to initialize", message.index)
    return PASS


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-ORDER-001",
        "mandatory",
        "After a cancel, all updates of the turn come before the answer to its prompt.",
        prose(
            "prompt-turn", "but it **MUST** ensure that it does so before responding to the `session/prompt` request."
        ),
        lambda traffic: _late(traffic, cancelled=True),
        violation='{"stopReason":"cancelled"}, and then {"sessionUpdate":"tool_call_update",...}',
    ),
    Requirement(
        "ACP1-A-ORDER-002",
        "advisory",
        "All updates of a turn that ends by itself come before the answer to its prompt.",
        schema("/$defs/SessionNotification", "Used to stream real-time progress and results during prompt processing."),
        lambda traffic: _late(traffic, cancelled=False),
        violation='{"stopReason":"end_turn"}, and then {"sessionUpdate":"agent_message_chunk",...}',
    ),
    Requirement(
        "ACP1-A-ORDER-003",
        "informational",
        "Nothing is sent for a session before the answer that names it.",
        schema(
            "/$defs/NewSessionResponse/properties/sessionId", "Used in all subsequent requests for this conversation."
        ),
        _before_new,
        violation='{"sessionUpdate":"available_commands_update",...}, and then {"sessionId":"s1"}',
    ),
    Requirement(
        "ACP1-A-ORDER-004",
        "informational",
        "The agent asks and tells nothing before it has answered initialize.",
        prose(
            "initialization",
            (
                "Before a Session can be created, Clients **MUST** initialize the connection by "
                "calling the `initialize` method with:"
            ),
        ),
        _before_initialize,
        violation="a session/update before the first response",
    ),
)
