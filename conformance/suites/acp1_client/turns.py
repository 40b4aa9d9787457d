"""Turns of a client: its prompts, modes and options; updates of every kind, known and unknown; and ends of turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.driver import Answer, Driver
from conformance.judging import PASS, Judge, Requirement, Verdict, failed, not_tested, skipped
from conformance.suite import Scenario
from conformance.suites.acp1 import AGREED, params_fit, prose, schema, session_of
from conformance.suites.acp1_client.agent import (
    QUIET,
    SIDE,
    Turn,
    agent_advertises,
    exits_as_after_a_turn,
    finish,
    keeps_working,
    never_sends,
    open_turn,
    session_ids,
    sessions,
    then_probe,
)
from conformance.suites.acp1_client.opening import META, OPTIONS
from conformance.suites.default_fields import missing_answer, tolerates_broken_fields
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, at

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
            if needed and not agent_advertises(traffic, f"promptCapabilities.{needed}"):
                kind = as_object(block)["type"]
                return failed(f"a prompt has content of kind {kind}, but {needed} is not advertised", prompt.index)
    return PASS if prompts else _no_prompt()


def _known_session(traffic: Traffic) -> Verdict:
    """The client prompts only in opened sessions, at any time."""
    opened, prompts = session_ids(traffic), _prompts(traffic)
    for prompt in prompts:
        if opened and session_of(prompt) not in opened:
            return failed(f"a prompt names the unknown session {session_of(prompt)!r}", prompt.index)
    return PASS if prompts and opened else skipped("the client sent no prompt")


def _after_session(traffic: Traffic) -> Verdict:
    prompts = _prompts(traffic)
    opened = min((r.answer.order for r in sessions(traffic) if r.answer is not None), default=len(traffic.messages))
    for prompt in prompts:
        if prompt.order < opened:
            return failed("a prompt was sent before a session was open", prompt.index)
    return PASS if prompts else _no_prompt()


def _given(method: str, allowed: Callable[[Object, Object], bool]) -> Judge:
    """The client sets only values that the agent offered in this session."""

    def judge(traffic: Traffic) -> Verdict:
        requests = traffic.requests(SIDE, method)
        for request in requests:
            if not any(allowed(given, request.params) for given in _givens(traffic, session_of(request))):
                return failed(
                    f"{method} was sent with {request.params!r}, which the agent does not offer", request.index
                )
        return PASS if requests else skipped(f"the client never sent {method}")

    return judge


def _givens(traffic: Traffic, session: str) -> list[Object]:
    """Yield what the agent offered in a session: when it was opened, in updates, and in earlier answers."""
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


# --- updates ----------------------------------------------------------------------------------------------------------


def _waits(traffic: Traffic) -> Verdict:
    if not traffic.requests(SIDE, "session/prompt"):
        return not_tested("the client sent no prompt")
    cancels = traffic.notifications(SIDE, "session/cancel")
    if cancels:
        return failed("the client cancelled a turn after less than three silent seconds", cancels[0].index)
    if not traffic.marks("late"):
        return failed("the client ended the connection within three seconds")
    for entry in traffic.transcript.entries:
        if entry.label == "late":
            return PASS
        if entry.label == "output-closed":
            return failed("the client ended the connection within three seconds")
    return PASS


_IGNORE = "Unlike with custom requests, implementations **SHOULD** ignore unrecognized notifications."
_META = "Implementations MUST NOT make assumptions about values at these keys."


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-MODE-001",
        "mandatory",
        "The client sets only modes that the agent offers.",
        prose("session-modes", "The ID of the mode to switch to. Must be one of the modes listed in `availableModes`"),
        _given("session/set_mode", _is_mode),
        violation='"modeId":"yolo", which is not in availableModes',
    ),
    Requirement(
        "ACP1-C-CONFIG-001",
        "mandatory",
        "The client sets options only to values that the agent offers.",
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
        params_fit("session/prompt", "PromptRequest", SIDE),
        violation='"prompt":"Hello"',
    ),
    Requirement(
        "ACP1-C-PROMPT-002",
        "mandatory",
        "The client prompts only in sessions that were opened.",
        prose("prompt-turn", _SETUP),
        _known_session,
        violation='"sessionId":"default"',
    ),
    Requirement(
        "ACP1-C-PROMPT-003",
        "mandatory",
        "The client's prompts contain only text, links, and kinds of content that the agent supports.",
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
        "The client sends no prompt before a late answer to session/new.",
        prose("prompt-turn", _SETUP),
        _after_session,
        scenario="late-answers",
        violation="session/new and session/prompt in one write",
    ),
    Requirement(
        "ACP1-C-PROMPT-005",
        "mandatory",
        "The client sends no prompt after session/new is answered with an error.",
        prose("prompt-turn", _SETUP),
        never_sends("refused", "session/prompt"),
        scenario="session-error",
        violation='session/prompt with "sessionId":null',
    ),
    Requirement(
        "ACP1-C-UPDATE-001",
        "mandatory",
        "The client accepts every kind of update in the schema that needs no capability.",
        AGREED,
        keeps_working,
        scenario="every-update",
        violation="a client that exits at usage_update",
    ),
    Requirement(
        "ACP1-C-UPDATE-002",
        "mandatory",
        "The client accepts any `_meta` in updates.",
        schema("/$defs/SessionNotification/properties/_meta", _META),
        keeps_working,
        scenario="updates-meta",
        violation="a client that uses `_meta` as its own data",
    ),
    Requirement(
        "ACP1-C-UPDATE-003",
        "mandatory",
        "The client accepts null wherever the schema of updates allows it.",
        AGREED,
        keeps_working,
        scenario="updates-nulls",
        violation='a client that exits at "title":null',
    ),
    Requirement(
        "ACP1-C-UPDATE-004",
        "advisory",
        "The client ignores optional fields of wrong types in updates, as the schema requires.",
        schema("/$defs/ToolCallUpdate/properties/kind", '"x-deserialize-default-on-error": true'),
        tolerates_broken_fields(missing_answer, by="server"),
        scenario="updates-malformed",
        violation='a client that exits at "kind":5',
    ),
    Requirement(
        "ACP1-C-UPDATE-005",
        "advisory",
        "The client keeps working after updates with unknown kinds, statuses and content.",
        schema("/$defs/ToolCallUpdate/properties/kind", '"x-deserialize-default-on-error": true'),
        keeps_working,
        scenario="unknown-values",
        violation='a client that exits at "status":"in_flight"',
    ),
    Requirement(
        "ACP1-C-UPDATE-006",
        "informational",
        "The client ignores unknown kinds of updates.",
        prose("extensibility", _IGNORE),
        keeps_working,
        scenario="unknown-updates",
        violation='a client that exits at "sessionUpdate":"a_kind_of_later"',
    ),
    Requirement(
        "ACP1-C-UPDATE-007",
        "informational",
        "The client keeps working after updates of an unknown tool call and an unknown session.",
        prose("extensibility", _IGNORE),
        keeps_working,
        scenario="unknown-references",
        violation="a client that exits",
    ),
    Requirement(
        "ACP1-C-UPDATE-008",
        "advisory",
        "A client that supports notices accepts them, including unknown severities.",
        prose(
            "prompt-turn",
            (
                "Clients preserve unknown values and use a generic notice presentation without inferring additional "
                "behavior from them."
            ),
        ),
        keeps_working,
        scenario="notices",
        applies="session.notices",
        violation='a client that exits at "severity":"_mine"',
    ),
    Requirement(
        "ACP1-C-UPDATE-009",
        "advisory",
        "A client that supports compactions accepts them, including unknown statuses.",
        prose(
            "prompt-turn",
            (
                "Clients preserve unknown strings and present a generic state without inferring lifecycle or control "
                "behavior."
            ),
        ),
        keeps_working,
        scenario="compaction",
        applies="session.compaction",
        violation='a client that exits at "status":"a_status_of_later"',
    ),
    Requirement(
        "ACP1-C-END-001",
        "informational",
        "The client waits for the end of a silent turn.",
        prose("prompt-turn", "Once a prompt turn completes, the Client may send another `session/prompt`"),
        _waits,
        scenario="late-end",
        violation="a client that gives up after two seconds",
    ),
    Requirement(
        "ACP1-C-END-002",
        "informational",
        "A client that exits after a turn also exits after the prompt is answered with an error.",
        prose("overview", "Errors include an `error` object with `code` and `message`"),
        exits_as_after_a_turn,
        scenario="prompt-error",
        violation="a client that waits for ever",
    ),
    Requirement(
        "ACP1-C-END-003",
        "informational",
        "A client that exits after a turn also exits when the agent exits during the turn.",
        prose("transports", "Client->>Agent Process: Close stdin, terminate subprocess"),
        exits_as_after_a_turn,
        scenario="agent-dies",
        violation="a client that waits for ever",
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_TEXT: Final[Object] = {"type": "text", "text": "Some words. "}
_LATE: Final = 3.0
_AFTER: Final = 2.0


def updates(cwd: str) -> list[Object]:
    """Return an update of each kind that needs no capability, as in the schema."""
    path = f"{cwd}/rewindow-conformance.txt"
    diff = {"type": "diff", "path": path, "oldText": None, "newText": "ok\n"}
    entry = {"content": "Answer", "priority": "high", "status": "in_progress"}
    return [
        {"sessionUpdate": "user_message_chunk", "content": _TEXT, "messageId": "u1"},
        {"sessionUpdate": "agent_thought_chunk", "content": _TEXT, "messageId": "t1"},
        {"sessionUpdate": "agent_message_chunk", "content": _TEXT, "messageId": "m1"},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "resource_link", "uri": "file:///a", "name": "a"}},
        {"sessionUpdate": "plan", "entries": [entry]},
        {"sessionUpdate": "tool_call", "toolCallId": "call-1", "title": "Write a file", "kind": "edit"},
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "call-1",
            "status": "completed",
            "content": [diff, {"type": "content", "content": _TEXT}],
            "locations": [{"path": path, "line": 1}],
            "rawInput": {"path": path},
            "rawOutput": [1, "two", None],
        },
        {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "help", "description": "Says"}]},
        {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
        {"sessionUpdate": "config_option_update", "configOptions": OPTIONS},
        {"sessionUpdate": "session_info_update", "title": "A session", "updatedAt": "2026-01-01T00:00:00Z"},
        {"sessionUpdate": "usage_update", "used": 10, "size": 1000, "cost": {"amount": 0.1, "currency": "USD"}},
    ]


def _send(turn: Turn, *found: Object) -> None:
    for update in found:
        fields = {key: value for key, value in update.items() if key != "sessionUpdate"}
        turn.update(update["sessionUpdate"], **fields)


def _run_every_kind(turn: Turn) -> None:
    _send(turn, *updates(turn.cwd))


def _run_with_meta(turn: Turn) -> None:
    for update in updates(turn.cwd):
        _send(turn, {**update, "_meta": META})


_COMMAND: Final[Object] = {"name": "a", "description": "", "input": None}
NULLS: Final[tuple[Object, ...]] = (
    {"sessionUpdate": "agent_message_chunk", "content": {**_TEXT, "annotations": None, "_meta": None}, "_meta": None},
    {"sessionUpdate": "tool_call", "toolCallId": "call-2", "title": "Look", "_meta": None},
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "call-2",
        "title": None,
        "kind": None,
        "status": None,
        "content": None,
        "locations": None,
    },
    {"sessionUpdate": "session_info_update", "title": None, "updatedAt": None},
    {"sessionUpdate": "usage_update", "used": 0, "size": 1000, "cost": None},
    {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "a", "description": "", "input": None}],
    },
)
_STRANGE: Final[tuple[Object, ...]] = (
    {"sessionUpdate": "tool_call", "toolCallId": "call-4", "title": "Fly", "kind": "fly", "status": "in_flight"},
    {"sessionUpdate": "tool_call_update", "toolCallId": "call-4", "kind": "dive", "status": "landed"},
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram", "data": "x"}},
)


def _run_unknown_kind(turn: Turn) -> None:
    _send(
        turn, {"sessionUpdate": "a_kind_of_later", "text": "x"}, {"sessionUpdate": "_rewindow_conformance", "data": 5}
    )


def _run_sending(*found: Object) -> Callable[[Turn], None]:
    return lambda turn: _send(turn, *found)


def _run_unknown_call(turn: Turn) -> None:
    _send(turn, {"sessionUpdate": "tool_call_update", "toolCallId": "never-reported", "status": "completed"})
    content = {"sessionUpdate": "agent_message_chunk", "content": _TEXT}
    turn.driver.notify("session/update", {"sessionId": "rewindow-conformance-unknown", "update": content})


def _run_notices(turn: Turn) -> None:
    turn.need("session.notices")
    for severity in ("info", "warning", "error", "_mine", "a_severity_of_later"):
        turn.update("notice", severity=severity, title="Something happened", description=None)


def _run_compaction(turn: Turn) -> None:
    turn.need("session.compaction")
    turn.update("compaction_update", compactionId="c1", status="in_progress")
    turn.update("compaction_summary_chunk", compactionId="c1", content=_TEXT)
    turn.update("compaction_update", compactionId="c1", status="a_status_of_later", summary=None)
    turn.update("compaction_update", compactionId="c1", status="completed")


def _run_late(driver: Driver) -> None:
    turn = open_turn(driver)
    driver.pause(_LATE)
    driver.mark("late", _LATE)
    finish(turn)


def _run_error(driver: Driver) -> None:
    turn = open_turn(driver)
    driver.answer(turn.prompt, Answer.failing(-32603, "The agent failed"))
    driver.pause(_AFTER)


def _run_dies(driver: Driver) -> None:
    turn = open_turn(driver)
    turn.update("agent_message_chunk", content=_TEXT)
    driver.pause(QUIET)
    driver.close_input()
    driver.pause(_AFTER)


SCENARIOS: Final = (
    Scenario("every-update", "Sends every kind of update that needs no capability.", then_probe(_run_every_kind)),
    Scenario("updates-meta", "Sends every kind of update with `_meta`.", then_probe(_run_with_meta)),
    Scenario(
        "updates-nulls", "Sends updates with null wherever the schema allows it.", then_probe(_run_sending(*NULLS))
    ),
    Scenario("unknown-values", "Sends unknown kinds, statuses and content.", then_probe(_run_sending(*_STRANGE))),
    Scenario("unknown-updates", "Sends unknown kinds of updates.", then_probe(_run_unknown_kind)),
    Scenario(
        "unknown-references",
        "Sends updates of an unknown tool call and an unknown session.",
        then_probe(_run_unknown_call),
    ),
    Scenario("notices", "Sends notices, including unknown severities.", then_probe(_run_notices)),
    Scenario("compaction", "Sends compactions, including unknown statuses.", then_probe(_run_compaction)),
    Scenario("late-end", "Ends the turn after three seconds of silence.", _run_late),
    Scenario("prompt-error", "Answers the prompt with an error.", _run_error),
    Scenario("agent-dies", "Exits during the turn.", _run_dies),
)
"""Scenarios about the end of a turn or of the agent are not `InTurn`, because nothing could follow."""
