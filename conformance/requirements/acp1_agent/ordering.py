"""Order: nothing for a session before it is there, nothing of a turn after its end."""

from __future__ import annotations

from typing import Final

from conformance.requirement import Requirement
from conformance.requirements.acp1 import prose, schema, session_of
from conformance.requirements.acp1_agent.reading import is_cancelled, updates
from conformance.traffic import Message, Traffic
from conformance.values import as_text
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_OF_A_TURN: Final = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update")


def _late(traffic: Traffic, *, cancelled: bool) -> Verdict:
    prompts = traffic.requests("client", "session/prompt")
    judged = False
    for prompt in prompts:
        if prompt.answer is None or is_cancelled(traffic, prompt) != cancelled:
            continue
        judged = True
        late = _after(traffic, prompt, prompts)
        if late is not None:
            return failed("an update of a turn came after the answer to its prompt", prompt.answer.index, late.index)
    return PASS if judged else skipped("no turn was cancelled" if cancelled else "no turn ended by itself")


def _after(traffic: Traffic, prompt: Message, prompts: list[Message]) -> Message | None:
    """The first content or tool call of a session after a turn's end and before anything else is asked of it."""
    assert prompt.answer
    asked = [*prompts, *traffic.requests("client", "session/load", "session/resume", "session/close")]
    next_order = min(
        (m.order for m in asked if m.order > prompt.order and session_of(m) == session_of(prompt)),
        default=len(traffic.messages),
    )
    for message, _ in updates(traffic, *_OF_A_TURN):
        if session_of(message) == session_of(prompt) and prompt.answer.order < message.order < next_order:
            return message
    return None


def _before_new(traffic: Traffic) -> Verdict:
    opened = [r for r in traffic.requests("client", "session/new") if r.answer is not None and r.succeeded]
    seen: set[str] = set()
    for request in opened:
        assert request.answer
        session = as_text(request.answer.result.get("sessionId"))
        if session in seen:
            continue  # one id for two sessions: another requirement's
        seen.add(session)
        for message, _ in updates(traffic):
            if session_of(message) == session and message.order < request.answer.order:
                return failed(
                    "an update came before the answer that names its session", message.index, request.answer.index
                )
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
        "advisory",
        "Nothing is sent for a session before the answer that names it.",
        schema(
            "/$defs/NewSessionResponse/properties/sessionId", "Used in all subsequent requests for this conversation."
        ),
        _before_new,
        violation='{"sessionUpdate":"available_commands_update",...}, and then {"sessionId":"s1"}',
    ),
    Requirement(
        "ACP1-A-ORDER-004",
        "advisory",
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
