"""Within sessions: prompts of the kinds that the agent takes, and modes and options that it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.requirement import Judge, Requirement
from conformance.requirements.acp1 import params_are, prose, schema, session_of
from conformance.requirements.acp1_client.reading import (
    SIDE,
    is_offered,
    never_sends,
    session_ids,
    sessions,
)
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, at
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_KINDS: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}


def _prompts(traffic: Traffic) -> list[Message]:
    return traffic.requests(SIDE, "session/prompt")


def _no_prompt() -> Verdict:
    return not_tested("the client sent no prompt")


def _offered_kinds(traffic: Traffic) -> Verdict:
    prompts = _prompts(traffic)
    for prompt in prompts:
        for block in as_list(prompt.params.get("prompt")):
            needed = _KINDS.get(as_text(as_object(block).get("type")))
            if needed and not is_offered(traffic, f"promptCapabilities.{needed}"):
                kind = as_object(block)["type"]
                return failed(f"a prompt of kind {kind}, and {needed} is not advertised", prompt.index)
    return PASS if prompts else _no_prompt()


def _known_session(traffic: Traffic) -> Verdict:
    """The client prompts in sessions that were opened. When, is another requirement's."""
    opened, prompts = session_ids(traffic), _prompts(traffic)
    for prompt in prompts:
        if opened and session_of(prompt) not in opened:
            return failed(f"a prompt names the session {session_of(prompt)!r}, which is none", prompt.index)
    return PASS if prompts and opened else skipped("the client never prompted in a session")


def _after_session(traffic: Traffic) -> Verdict:
    prompts = _prompts(traffic)
    opened = min((r.answer.order for r in sessions(traffic) if r.answer is not None), default=len(traffic.messages))
    for prompt in prompts:
        if prompt.order < opened:
            return failed("a prompt before a session was open", prompt.index)
    return PASS if prompts else _no_prompt()


def _given(method: str, allowed: Callable[[Object, Object], bool]) -> Judge:
    """What the client sets is among what the agent has told it of this session."""

    def judge(traffic: Traffic) -> Verdict:
        requests = traffic.requests(SIDE, method)
        for request in requests:
            if not any(allowed(given, request.params) for given in _givens(traffic, session_of(request))):
                return failed(f"{method} with {request.params!r}, which the agent does not offer", request.index)
        return PASS if requests else skipped(f"the client never sent {method}")

    return judge


def _givens(traffic: Traffic, session: str) -> list[Object]:
    """What the agent told of a session: when it was opened, in updates, and when something was set before."""
    opening = session_ids(traffic).get(session)
    answers = [opening, *traffic.requests(SIDE, "session/set_config_option")]
    told = [as_object(m.params.get("update")) for m in traffic.notifications("server", "session/update")]
    return [*(one.answer.result for one in answers if one is not None and one.answer is not None), *told]


def _is_mode(given: Object, params: Object) -> bool:
    return any(as_object(m).get("id") == params.get("modeId") for m in as_list(at(given, "modes.availableModes")))


def _is_option(given: Object, params: Object) -> bool:
    options = [as_object(one) for one in as_list(given.get("configOptions"))]
    option = next((one for one in options if one.get("id") == params.get("configId")), None)
    if option is None:
        return False
    entries = [as_object(one) for one in as_list(option.get("options"))]
    values = [as_object(v).get("value") for one in entries for v in (as_list(one.get("options")) or [one])]
    return isinstance(params.get("value"), bool) if option.get("type") == "boolean" else params.get("value") in values


_SETUP: Final = (
    "Before sending prompts, Clients **MUST** first complete the [initialization](/protocol/v1/initialization) phase "
    "and [session setup](/protocol/v1/session-setup)."
)

REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-MODE-001",
        "mandatory",
        "The client sets modes that the agent offers.",
        prose("session-modes", "The ID of the mode to switch to. Must be one of the modes listed in `availableModes`"),
        _given("session/set_mode", _is_mode),
        violation='"modeId":"yolo", which is not in availableModes',
    ),
    Requirement(
        "ACP1-C-CONFIG-001",
        "mandatory",
        "The client sets options to values that the agent offers.",
        prose(
            "session-config-options",
            "For `select` options, this must be one of the values listed in the option's `options` array.",
        ),
        _given("session/set_config_option", _is_option),
        violation='"configId":"model","value":"enormous", which is not among its options',
    ),
    Requirement(
        "ACP1-C-PROMPT-001",
        "mandatory",
        "The client's session/prompt has the schema's shape.",
        schema("/$defs/PromptRequest/required", '["sessionId", "prompt"]'),
        params_are("session/prompt", "PromptRequest", SIDE),
        violation='"prompt":"Hello"',
    ),
    Requirement(
        "ACP1-C-PROMPT-002",
        "mandatory",
        "The client prompts in sessions that were opened.",
        prose("prompt-turn", _SETUP),
        _known_session,
        violation='"sessionId":"default"',
    ),
    Requirement(
        "ACP1-C-PROMPT-003",
        "mandatory",
        "The client prompts with the kinds of content that the agent advertises, besides text and links.",
        prose(
            "prompt-turn",
            (
                "Clients **MUST** restrict types of content according to the [Prompt "
                "Capabilities](/protocol/v1/initialization#prompt-capabilities) established during "
                "[initialization](/protocol/v1/initialization)."
            ),
        ),
        _offered_kinds,
        violation='{"type":"image",...} to an agent without promptCapabilities.image',
    ),
    Requirement(
        "ACP1-C-PROMPT-004",
        "mandatory",
        "The client prompts once a session is open, however late that is.",
        prose("prompt-turn", _SETUP),
        _after_session,
        scenario="late-answers",
        violation="session/new and session/prompt in one write",
    ),
    Requirement(
        "ACP1-C-PROMPT-005",
        "mandatory",
        "The client sends no prompt where session/new was answered with an error.",
        prose("prompt-turn", _SETUP),
        never_sends("refused", "session/prompt"),
        scenario="session-error",
        violation='session/prompt with "sessionId":null',
    ),
)
