"""Prompts and turns: stop reasons, content kinds, several turns and sessions, and errors. Has the opening scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.driver import Driver
from conformance.judging import (
    PASS,
    Requirement,
    Verdict,
    answered,
    evidence,
    failed,
    marked_requests,
    not_tested,
    skipped,
    unanswered_reason,
)
from conformance.suite import Scenario
from conformance.suites.acp1 import TURN_ENDS, prose, results_fit, schema, session_of
from conformance.suites.acp1_agent.client import (
    QUIET,
    advertises,
    begin,
    finish_turn,
    open_session,
    prompt_params,
    start_turn,
    text_block,
    turn,
    updates,
)
from conformance.suites.default_fields import tolerates_broken_fields
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_text, at

_SHOWN: Final = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "plan", "notice")


def _shows_activity(traffic: Traffic) -> Verdict:
    for prompt in marked_requests(traffic, "turn"):
        if prompt.answer is None:
            return failed(unanswered_reason(traffic, prompt, "the prompt"), prompt.index)
        during = [m for m, _ in updates(traffic, *_SHOWN) if prompt.order < m.order < prompt.answer.order]
        return PASS if during else failed("the turn ended without a session/update", *evidence(prompt))
    return not_tested("no turn was run")


def _not_cancelled(traffic: Traffic) -> Verdict:
    prompts = [p for p in traffic.requests("client", "session/prompt") if p.answer is not None and p.succeeded]
    for prompt in prompts:
        assert prompt.answer
        if prompt.answer.result.get("stopReason") == "cancelled" and not _ended_by_client(traffic, prompt):
            return failed("a turn ended as cancelled, but the client did not cancel it", *evidence(prompt))
    return PASS if prompts else skipped("no prompt was answered with a result")


def _ended_by_client(traffic: Traffic, prompt: Message) -> bool:
    """Whether the client may have ended this turn by some message before the answer."""
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
    # Whether a prompt for an unknown session should be refused is another requirement.
    named = traffic.requests("client", "session/load", "session/resume", "session/prompt")
    known = opened | {session_of(message) for message in named}
    found = updates(traffic)
    for message, _ in found:
        if session_of(message) not in known and isinstance(message.params.get("sessionId"), str):
            return failed(
                f"an update is for the session {session_of(message)!r}, which was never opened or prompted",
                message.index,
            )
    return PASS if found else skipped("the agent sent no session/update")


def _content(label: str) -> Callable[[Traffic], Verdict]:
    """A prompt has a result if the agent advertises its kind of content; else skipped."""
    judge = answered(label, expect="result")

    def content(traffic: Traffic) -> Verdict:
        if traffic.marks("unadvertised"):
            return skipped("the agent does not advertise this kind of content")
        return judge(traffic)

    return content


_ANOTHER: Final = (
    "Once a prompt turn completes, the Client may send another `session/prompt` to continue the conversation"
)
_BASELINE: Final = "As a baseline, the Agent MUST support `text` and `resource_link` content blocks"


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-PROMPT-001",
        "mandatory",
        "The result of a prompt has the schema's shape: one of five stop reasons.",
        schema("/$defs/PromptResponse/required", '["stopReason"]'),
        results_fit("session/prompt", "PromptResponse"),
        violation='{"stopReason":"done"}',
    ),
    Requirement(
        "ACP1-A-PROMPT-002",
        "mandatory",
        "A turn ends, and its prompt is answered with a stop reason.",
        TURN_ENDS,
        answered("prompt", expect="result"),
        scenario="two-texts",
        violation="an agent that sends its text, but never the answer to the prompt",
    ),
    Requirement(
        "ACP1-A-PROMPT-003",
        "mandatory",
        "A session runs several turns in sequence.",
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
        "The agent accepts prompts with resource links.",
        schema("/$defs/PromptRequest/properties/prompt", _BASELINE),
        answered("prompt", expect="result"),
        scenario="resource-link",
        violation='"code":-32602 for {"type":"resource_link",...}',
    ),
    Requirement(
        "ACP1-A-PROMPT-006",
        "capability",
        "An agent that advertises images accepts prompts with images.",
        TURN_ENDS,
        _content("prompt"),
        scenario="image",
        applies="promptCapabilities.image",
        violation='"code":-32602 for {"type":"image",...}',
    ),
    Requirement(
        "ACP1-A-PROMPT-007",
        "capability",
        "An agent that advertises audio accepts prompts with audio.",
        TURN_ENDS,
        _content("prompt"),
        scenario="audio",
        applies="promptCapabilities.audio",
        violation='"code":-32602 for {"type":"audio",...}',
    ),
    Requirement(
        "ACP1-A-PROMPT-008",
        "capability",
        "An agent that advertises embedded context accepts prompts with embedded resources.",
        TURN_ENDS,
        _content("prompt"),
        scenario="embedded-resource",
        applies="promptCapabilities.embeddedContext",
        violation='"code":-32602 for {"type":"resource",...}',
    ),
    Requirement(
        "ACP1-A-PROMPT-009",
        "mandatory",
        "The agent accepts null wherever the schema of prompts allows it.",
        schema("/$defs/ContentBlock/oneOf/0", "All agents MUST support text content blocks in prompts."),
        answered("prompt", expect="result"),
        scenario="prompt-nulls",
        violation='"code":-32602 for "annotations":{"audience":null}',
    ),
    Requirement(
        "ACP1-A-PROMPT-010",
        "advisory",
        "The agent ignores optional fields of wrong types in content, as the schema requires.",
        schema("/$defs/TextContent/properties/annotations", '"x-deserialize-default-on-error": true'),
        tolerates_broken_fields(),
        scenario="prompt-malformed",
        violation='"code":-32602 for "annotations":"none"',
    ),
    Requirement(
        "ACP1-A-PROMPT-011",
        "advisory",
        "The agent answers a prompt for an unknown session with an error.",
        schema("/$defs/ErrorCode/anyOf/7", "A given resource, such as a session or file, was not found."),
        answered("prompt", expect="error"),
        scenario="unknown-session",
        violation='{"stopReason":"end_turn"}',
    ),
    Requirement(
        "ACP1-A-PROMPT-012",
        "advisory",
        "The agent shows some activity in a turn.",
        prose(
            "initialization",
            (
                "As a baseline, all Agents **MUST** support `session/new`, `session/prompt`, "
                "`session/cancel`, and `session/update`."
            ),
        ),
        _shows_activity,
        scenario="opening",
        violation="a response and nothing before it",
    ),
    Requirement(
        "ACP1-A-PROMPT-013",
        "advisory",
        "A turn without a cancel does not end as cancelled.",
        schema("/$defs/StopReason/oneOf/4", "The turn was cancelled by the client via `session/cancel`."),
        _not_cancelled,
        violation='{"stopReason":"cancelled"} after an error of the model',
    ),
    Requirement(
        "ACP1-A-PROMPT-014",
        "advisory",
        "Updates belong to sessions that the client opened or prompted.",
        schema("/$defs/SessionNotification/properties/sessionId", "The ID of the session this update pertains to."),
        _own_updates,
        violation='"sessionId":"internal-7"',
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_LONGEST: Final = 12.0
"""Seconds to watch a slow turn without interrupting it. A longer turn is slow enough."""
PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="


def _run_opening(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    request = start_turn(driver, session, driver.options.prompt, label="turn")
    finish_turn(driver, request)
    driver.pause(QUIET)
    slow = start_turn(driver, session, driver.options.slow_prompt, label="slow-turn")
    driver.response(slow, _LONGEST)


def _run_several(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    for label in ("first", "second", "third"):
        request = start_turn(driver, session, driver.options.prompt, label=label)
        finish_turn(driver, request)


def _run_interleaved(driver: Driver) -> None:
    begin(driver)
    sessions = [open_session(driver), open_session(driver)]
    requests = [start_turn(driver, session, driver.options.prompt) for session in sessions]
    for label, request in zip(("first", "second"), requests, strict=True):
        driver.mark(label, request)
        finish_turn(driver, request)


def _run_tool(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    request = start_turn(driver, session, driver.options.tool_prompt, label="turn")
    finish_turn(driver, request)
    driver.pause(QUIET)


def _run_two_texts(driver: Driver) -> None:
    begin(driver)
    blocks = text_block(driver.options.prompt), text_block("Answer briefly.")
    params = prompt_params(open_session(driver), *blocks)
    finish_turn(driver, driver.request("session/prompt", params, label="prompt"))


def _prompt_with(driver: Driver, label: str, block: Object, *, capability: str | None = None) -> None:
    begin(driver)
    session = open_session(driver)
    if capability is not None and not advertises(driver, f"promptCapabilities.{capability}"):
        driver.mark("unadvertised", capability)
    request = driver.request(
        "session/prompt", prompt_params(session, text_block(driver.options.prompt), block), label=label
    )
    finish_turn(driver, request)


def _run_link(driver: Driver) -> None:
    path = f"{driver.options.cwd}/README.md"
    _prompt_with(driver, "prompt", {"type": "resource_link", "uri": f"file://{path}", "name": "README.md"})


def _run_image(driver: Driver) -> None:
    _prompt_with(driver, "prompt", {"type": "image", "data": PNG, "mimeType": "image/png"}, capability="image")


def _run_audio(driver: Driver) -> None:
    _prompt_with(driver, "prompt", {"type": "audio", "data": WAV, "mimeType": "audio/wav"}, capability="audio")


def _run_resource(driver: Driver) -> None:
    resource = {"uri": "file:///project/notes.txt", "mimeType": "text/plain", "text": "Some notes.\n"}
    _prompt_with(driver, "prompt", {"type": "resource", "resource": resource}, capability="embeddedContext")


def _run_unknown_session(driver: Driver) -> None:
    begin(driver)
    request = start_turn(driver, "rewindow-conformance-no-such-session", driver.options.prompt, label="prompt")
    driver.response(request)
    turn(driver, open_session(driver), driver.options.prompt)


def _run_optional_nulls(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver, _meta=None)
    annotations = {"audience": None, "priority": None, "lastModified": None, "_meta": None}
    block = {**text_block(driver.options.prompt), "annotations": annotations, "_meta": None}
    request = driver.request("session/prompt", {**prompt_params(session, block), "_meta": None}, label="prompt")
    finish_turn(driver, request)


OPENING: Final = Scenario(
    "opening", "Runs a normal turn and a slow turn, and measures their time.", _run_opening, alone=True
)
SCENARIOS: Final = (
    Scenario("two-texts", "Prompts with two text blocks.", _run_two_texts),
    Scenario("several-turns", "Runs three turns in one session.", _run_several),
    Scenario("interleaved-sessions", "Runs turns of two sessions at the same time.", _run_interleaved),
    Scenario(
        "tool-turn",
        "Runs a turn with tools, offers files and terminals, and allows everything.",
        _run_tool,
        passive=True,
    ),
    Scenario("resource-link", "Prompts with text and a resource link.", _run_link),
    Scenario("image", "Prompts with an image.", _run_image),
    Scenario("audio", "Prompts with audio.", _run_audio),
    Scenario("embedded-resource", "Prompts with an embedded resource.", _run_resource),
    Scenario("unknown-session", "Prompts in an unknown session, then in an open session.", _run_unknown_session),
    Scenario("prompt-nulls", "Prompts with null wherever the schema allows it.", _run_optional_nulls),
)
