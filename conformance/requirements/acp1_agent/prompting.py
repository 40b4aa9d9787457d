"""Prompts: that turns end, with a reason; kinds of content; several turns, several sessions; errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.judging import answered, evidence, marked, unanswered
from conformance.judging_fields import takes_broken_fields
from conformance.requirement import Requirement
from conformance.requirements.acp1 import TURN_ENDS, prose, result_is, schema, session_of
from conformance.requirements.acp1_agent.reading import updates
from conformance.traffic import Message, Traffic
from conformance.values import as_text, at
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_SHOWN: Final = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "plan", "notice")


def _says_something(traffic: Traffic) -> Verdict:
    for prompt in marked(traffic, "turn"):
        if prompt.answer is None:
            return failed(unanswered(traffic, prompt, "the prompt"), prompt.index)
        during = [m for m, _ in updates(traffic, *_SHOWN) if prompt.order < m.order < prompt.answer.order]
        return PASS if during else failed("the turn ended without one session/update", *evidence(prompt))
    return not_tested("no turn was run")


def _not_cancelled(traffic: Traffic) -> Verdict:
    prompts = [p for p in traffic.requests("client", "session/prompt") if p.answer is not None and p.succeeded]
    for prompt in prompts:
        assert prompt.answer
        if prompt.answer.result.get("stopReason") == "cancelled" and not _ended_by_client(traffic, prompt):
            return failed("a turn that nobody cancelled ended as cancelled", *evidence(prompt))
    return PASS if prompts else skipped("no prompt was answered with a result")


def _ended_by_client(traffic: Traffic, prompt: Message) -> bool:
    """Whether the client did anything before the answer that may have ended this turn."""
    assert prompt.answer
    end = prompt.answer.order
    closes = [m for m in traffic.requests("client", "session/close", "session/delete") if m.order < end]
    cancels = [m for m in traffic.notifications("client", "session/cancel") if m.order < end]
    asked = [m for m in traffic.notifications("client", "$/cancel_request") if m.order < end]
    gone = [e for e in traffic.marks("input-closed") if e.ms <= prompt.answer.ms]
    permissions = traffic.requests("server", "session/request_permission")
    unchosen = [
        m
        for m in permissions
        if m.answer and m.answer.order < end and at(m.answer.result, "outcome.outcome") != "selected"
    ]
    return bool(closes or cancels or asked or gone or unchosen)


def _own_updates(traffic: Traffic) -> Verdict:
    opened = {as_text(message.result.get("sessionId")) for message in traffic.sent("server")}
    # Whether a prompt for a session that does not exist should have been refused is a requirement of its own.
    named = traffic.requests("client", "session/load", "session/resume", "session/prompt")
    known = opened | {session_of(message) for message in named}
    found = updates(traffic)
    for message, _ in found:
        if session_of(message) not in known and isinstance(message.params.get("sessionId"), str):
            return failed(
                f"an update is for the session {session_of(message)!r}, which nobody opened or prompted", message.index
            )
    return PASS if found else skipped("the agent sent no session/update")


def _content(label: str) -> Callable[[Traffic], Verdict]:
    """The prompt is answered with a result where the agent advertises the kind of content; else skipped."""
    judge = answered(label, expect="result")

    def content(traffic: Traffic) -> Verdict:
        if traffic.marks("unadvertised"):
            return skipped("the agent does not advertise it")
        return judge(traffic)

    return content


_ANOTHER: Final = (
    "Once a prompt turn completes, the Client may send another `session/prompt` to continue the conversation"
)
_BASELINE: Final = "As a baseline, the Agent MUST support `text` and `resource_link` content blocks"

REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-PROMPT-001",
        "mandatory",
        "The result of a prompt has the schema's shape: one of five stop reasons.",
        schema("/$defs/PromptResponse/required", '["stopReason"]'),
        result_is("session/prompt", "PromptResponse"),
        violation='{"stopReason":"done"}',
    ),
    Requirement(
        "ACP1-A-PROMPT-002",
        "mandatory",
        "A turn ends, and its prompt is answered with a stop reason.",
        TURN_ENDS,
        answered("prompt", expect="result"),
        scenario="two-texts",
        violation="an agent that says its text and never answers",
    ),
    Requirement(
        "ACP1-A-PROMPT-003",
        "mandatory",
        "Several turns run in a session, one after the other.",
        TURN_ENDS,
        answered("first", "second", "third", expect="result"),
        scenario="several-turns",
        violation='"code":-32600 for the second prompt',
    ),
    Requirement(
        "ACP1-A-PROMPT-004",
        "advisory",
        "Turns of two sessions run at the same time, and both end.",
        prose("session-setup", "allowing multiple independent interactions with the same Agent."),
        answered("first", "second", expect="result"),
        scenario="interleaved-sessions",
        violation="one of two prompts never answered",
    ),
    Requirement(
        "ACP1-A-PROMPT-005",
        "mandatory",
        "The agent takes prompts with resource links.",
        schema("/$defs/PromptRequest/properties/prompt", _BASELINE),
        answered("prompt", expect="result"),
        scenario="resource-link",
        violation='"code":-32602 for {"type":"resource_link",...}',
    ),
    Requirement(
        "ACP1-A-PROMPT-006",
        "capability",
        "An agent that advertises images takes prompts with images.",
        TURN_ENDS,
        _content("prompt"),
        scenario="image",
        applies="promptCapabilities.image",
        violation='"code":-32602 for {"type":"image",...}',
    ),
    Requirement(
        "ACP1-A-PROMPT-007",
        "capability",
        "An agent that advertises audio takes prompts with audio.",
        TURN_ENDS,
        _content("prompt"),
        scenario="audio",
        applies="promptCapabilities.audio",
        violation='"code":-32602 for {"type":"audio",...}',
    ),
    Requirement(
        "ACP1-A-PROMPT-008",
        "capability",
        "An agent that advertises embedded context takes prompts with embedded resources.",
        TURN_ENDS,
        _content("prompt"),
        scenario="embedded-resource",
        applies="promptCapabilities.embeddedContext",
        violation='"code":-32602 for {"type":"resource",...}',
    ),
    Requirement(
        "ACP1-A-PROMPT-009",
        "mandatory",
        "The agent takes null wherever the schema of prompts allows it.",
        schema("/$defs/ContentBlock/oneOf/0", "All agents MUST support text content blocks in prompts."),
        answered("prompt", expect="result"),
        scenario="prompt-nulls",
        violation='"code":-32602 for "annotations":{"audience":null}',
    ),
    Requirement(
        "ACP1-A-PROMPT-010",
        "advisory",
        "The agent takes optional fields of content that have wrong types for absent, as the schema marks them.",
        schema("/$defs/TextContent/properties/annotations", '"x-deserialize-default-on-error": true'),
        takes_broken_fields(),
        scenario="prompt-malformed",
        violation='"code":-32602 for "annotations":"none"',
    ),
    Requirement(
        "ACP1-A-PROMPT-011",
        "advisory",
        "The agent answers a prompt for a session that does not exist with an error.",
        schema("/$defs/ErrorCode/anyOf/7", "A given resource, such as a session or file, was not found."),
        answered("prompt", expect="error"),
        scenario="unknown-session",
        violation='{"stopReason":"end_turn"}',
    ),
    Requirement(
        "ACP1-A-PROMPT-012",
        "advisory",
        "The agent shows something of a turn.",
        prose(
            "initialization",
            (
                "As a baseline, all Agents **MUST** support `session/new`, `session/prompt`, "
                "`session/cancel`, and `session/update`."
            ),
        ),
        _says_something,
        scenario="opening",
        violation="a response and nothing before it",
    ),
    Requirement(
        "ACP1-A-PROMPT-013",
        "advisory",
        "A turn that nobody cancelled does not end as cancelled.",
        schema("/$defs/StopReason/oneOf/4", "The turn was cancelled by the client via `session/cancel`."),
        _not_cancelled,
        violation='{"stopReason":"cancelled"} after an error of the model',
    ),
    Requirement(
        "ACP1-A-PROMPT-014",
        "advisory",
        "Updates are for sessions that the client opened or prompted.",
        schema("/$defs/SessionNotification/properties/sessionId", "The ID of the session this update pertains to."),
        _own_updates,
        violation='"sessionId":"internal-7"',
    ),
)
