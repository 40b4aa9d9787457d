"""The suite for agents of version 2 of the Agent Client Protocol, a draft, as far as its schema has sentences for it.

The client asks for version 2. A turn ends with an update, not with the response of its prompt. `acp2_messages` has what
is demanded of single messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from conformance.driver import Driver
from conformance.judging import (
    PASS,
    Judge,
    Requirement,
    Verdict,
    evidence,
    failed,
    marked_requests,
    not_tested,
    skipped,
    unanswered_reason,
)
from conformance.suite import Scenario, Suite
from conformance.suites import acp2_messages
from conformance.suites.acp import obstacle, other_version
from conformance.suites.acp2 import VERSION, begin, definition, open_session, schema
from conformance.suites.jsonrpc import params_fit, results_fit
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, at, is_object

_HIGHEST: Final = 65535
_INVALID_PARAMS: Final = -32602
_METHOD_NOT_FOUND: Final = -32601
_INSTANT_MS: Final = 100
"""A slow turn that takes less may end before the agent reads a pending cancel."""


# --- the client -------------------------------------------------------------------------------------------------------


def _prompt(driver: Driver, session: str, text: str, label: str = "") -> int:
    """Send a prompt; return how many messages came before."""
    before = len(driver.received)
    content = [{"type": "text", "text": text}]
    driver.request("session/prompt", {"sessionId": session, "prompt": content}, label=label)
    return before


def _rest(driver: Driver, before: int) -> None:
    """Wait until the session is idle after these messages, up to the scenario's limit."""

    def is_idle(_: Object) -> bool:
        return any(_state(message) == "idle" for message in driver.received[before:])

    driver.wait(is_idle, driver.options.scenario_timeout, everything=True)


def _turn(driver: Driver, session: str, text: str, label: str = "") -> None:
    _rest(driver, _prompt(driver, session, text, label))


def _state(message: Object) -> str:
    if message.get("method") != "session/update" or at(message, "params.update.sessionUpdate") != "state_update":
        return ""
    return as_text(at(message, "params.update.state"))


def _works(message: Object) -> bool:
    """Whether an agent that sends this message is in the middle of a turn."""
    kinds = ("agent_message_chunk", "agent_thought_chunk", "agent_message", "tool_call_update", "plan_update")
    return message.get("method") == "session/update" and at(message, "params.update.sessionUpdate") in kinds


def _opening(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    _turn(driver, session, driver.options.prompt, "turn")
    _turn(driver, session, driver.options.slow_prompt, "slow-turn")


def _newer(driver: Driver) -> None:
    driver.response(driver.request("initialize", _asking(_HIGHEST), label="newer"))


def _asking(version: int) -> Object:
    return {"protocolVersion": version, "info": {"name": "rewindow-conformance", "version": "1"}}


def _authenticating(driver: Driver) -> None:
    offered = as_list(begin(driver).get("authMethods"))
    if not offered:
        driver.mark("no-methods")
        return
    driver.response(driver.request("auth/login", {"methodId": "_no_such_method"}, label="login"))


def _tools(driver: Driver) -> None:
    begin(driver)
    _turn(driver, open_session(driver), driver.options.tool_prompt)


def _cancelling(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    before = _prompt(driver, session, driver.options.slow_prompt, "cancelled")
    driver.wait(_works)
    driver.notify("session/cancel", {"sessionId": session})
    _rest(driver, before)


def _closing(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    _prompt(driver, session, driver.options.slow_prompt, "closed-turn")
    driver.wait(_works)
    driver.response(driver.request("session/close", {"sessionId": session}, label="close"))
    driver.pause(1.0)


def _closing_unknown(driver: Driver) -> None:
    begin(driver)
    driver.response(driver.request("session/close", {"sessionId": "no-such-session"}, label="close-unknown"))


def _resuming(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    _turn(driver, session, driver.options.prompt, "told")
    driver.call("session/close", {"sessionId": session})
    where = {"sessionId": session, "cwd": driver.options.cwd}
    driver.response(driver.request("session/resume", {**where, "replayFrom": {"type": "start"}}, label="resume"))


def _resuming_elsewhere(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    _turn(driver, session, driver.options.prompt)
    where = {"sessionId": session, "cwd": driver.options.cwd}
    driver.response(driver.request("session/resume", {**where, "replayFrom": {"type": "_nowhere"}}, label="cursor"))


def _configuring(driver: Driver) -> None:
    begin(driver)
    opened = driver.call("session/new", {"cwd": driver.options.cwd})
    options = [as_object(option) for option in as_list(opened.get("configOptions"))]
    if not options:
        driver.mark("no-options")
        return
    where = {"sessionId": opened.get("sessionId"), "type": "id"}
    current = options[0].get("currentValue")
    kind = "boolean" if isinstance(current, bool) else "id"
    kept = {**where, "configId": options[0].get("configId"), "type": kind, "value": current}
    driver.response(driver.request("session/set_config_option", kept))
    unknown = {**where, "configId": "_no_such_option", "value": "x"}
    driver.response(driver.request("session/set_config_option", unknown, label="unknown-option"))


def _listing(driver: Driver) -> None:
    begin(driver)
    _turn(driver, open_session(driver), driver.options.prompt)
    driver.response(driver.request("session/list", {}))


# --- judges -----------------------------------------------------------------------------------------------------------


def _updates(traffic: Traffic, *kinds: str) -> list[tuple[Message, Object]]:
    found = [(m, as_object(m.params.get("update"))) for m in traffic.notifications("server", "session/update")]
    return [pair for pair in found if pair[1].get("sessionUpdate") in kinds]


def _states_after(traffic: Traffic, request: Message) -> list[tuple[Message, Object]]:
    """Return the states from a prompt to the next one."""
    later = [each.order for each in traffic.requests("client", "session/prompt") if each.order > request.order]
    end = min(later, default=len(traffic.messages))
    return [pair for pair in _updates(traffic, "state_update") if request.order < pair[0].order < end]


def _newest_version(traffic: Traffic) -> Verdict:
    for request in marked_requests(traffic, "newer"):
        if request.answer is None:
            return failed(unanswered_reason(traffic, request, "initialize"), request.index)
        given = request.answer.result.get("protocolVersion")
        if not request.succeeded or given == _HIGHEST or not isinstance(given, int):
            return failed(f"asked for version {_HIGHEST}, the agent answered {given!r}", *evidence(request))
        return PASS
    return not_tested("initialize was not sent")


def _logs_in(traffic: Traffic) -> Verdict:
    if traffic.marks("no-methods"):
        return skipped("no authentication method is offered")
    for request in marked_requests(traffic, "login"):
        if request.answer is None:
            return failed(unanswered_reason(traffic, request, "auth/login"), request.index)
        if request.answer.error.get("code") == _METHOD_NOT_FOUND:
            return failed("authMethods is not empty, but auth/login does not exist", *evidence(request))
        return PASS
    return not_tested("auth/login was not sent")


def _echoes(traffic: Traffic) -> Verdict:
    prompts = [each for each in traffic.requests("client", "session/prompt") if each.answer and each.succeeded]
    shown = {update.get("messageId") for _, update in _updates(traffic, "user_message", "user_message_chunk")}
    for prompt in prompts:
        assert prompt.answer
        name = prompt.answer.result.get("messageId")
        if isinstance(name, str) and name not in shown:
            return failed(f"no update shows the user's message {name!r}", *evidence(prompt))
    return PASS if prompts else skipped("no prompt was answered with a result")


def _reports_states(traffic: Traffic) -> Verdict:
    for prompt in marked_requests(traffic, "turn"):
        states = [update.get("state") for _, update in _states_after(traffic, prompt)]
        if "idle" not in states:
            return failed("the turn did not end with the state idle", prompt.index)
        if states[0] not in ("running", "requires_action"):
            return failed(f"the first state of a turn is {states[0]!r}", prompt.index)
        return PASS
    return not_tested("no turn was run")


def _gives_a_reason(traffic: Traffic) -> Verdict:
    for prompt in marked_requests(traffic, "turn"):
        ends = [pair for pair in _states_after(traffic, prompt) if pair[1].get("state") == "idle"]
        if ends and not isinstance(ends[0][1].get("stopReason"), str):
            return failed("the idle state at the end of a turn has no stopReason", ends[0][0].index)
        return PASS if ends else not_tested("the turn did not end")
    return not_tested("no turn was run")


def _is_cancelled(traffic: Traffic, prompt: Message, before: float) -> Verdict:
    """The turn's idle state says that it was cancelled, and comes before this position."""
    ends = [pair for pair in _states_after(traffic, prompt) if pair[1].get("state") == "idle"]
    if any(update.get("stopReason") == "cancelled" and message.order < before for message, update in ends):
        return PASS
    undisturbed = as_object(traffic.transcript.facts.get("calibration")).get("slow_turn_ms")
    if not isinstance(undisturbed, int | float) or undisturbed < _INSTANT_MS:
        return skipped("not exercised: the turn may have ended normally; a longer --slow-prompt avoids this")
    reasons = [update.get("stopReason") for _, update in ends]
    return failed(f"no idle state with the reason 'cancelled' came in time; the reasons are {reasons}", prompt.index)


def _cancels(traffic: Traffic) -> Verdict:
    for prompt in marked_requests(traffic, "cancelled"):
        return _is_cancelled(traffic, prompt, len(traffic.messages))
    return not_tested("no turn was cancelled")


def _closes_in_order(traffic: Traffic) -> Verdict:
    for prompt in marked_requests(traffic, "closed-turn"):
        for close in marked_requests(traffic, "close"):
            if close.answer is None:
                return failed(unanswered_reason(traffic, close, "session/close"), close.index)
            return _is_cancelled(traffic, prompt, close.answer.order)
    return not_tested("no session was closed")


def _is_silent_after_close(traffic: Traffic) -> Verdict:
    for close in marked_requests(traffic, "close"):
        if close.answer is None:
            return not_tested("session/close was not answered")
        for message in traffic.notifications("server", "session/update"):
            if message.order > close.answer.order:
                return failed("an update followed the response to session/close", message.index)
        return PASS
    return not_tested("no session was closed")


def _refused(label: str, what: str, *, none: str = "") -> Judge:
    """A marked request is refused with -32602."""

    def judge(traffic: Traffic) -> Verdict:
        if none and traffic.marks(none):
            return skipped("the agent offers no options")
        for request in marked_requests(traffic, label):
            if request.answer is None:
                return failed(unanswered_reason(traffic, request, request.method), request.index)
            code = request.answer.error.get("code")
            if code != _INVALID_PARAMS:
                return failed(f"{what} was answered with {code or 'a result'}, not -32602", *evidence(request))
            return PASS
        return not_tested("the request was not sent")

    return judge


def _succeeds(label: str) -> Judge:
    def judge(traffic: Traffic) -> Verdict:
        for request in marked_requests(traffic, label):
            if request.answer is None:
                return failed(unanswered_reason(traffic, request, request.method), request.index)
            return PASS if request.succeeded else failed("the request was answered with an error", *evidence(request))
        return not_tested("the request was not sent")

    return judge


def _snapshot(traffic: Traffic) -> Verdict:
    for request in marked_requests(traffic, "resume"):
        if request.answer is None:
            return failed(unanswered_reason(traffic, request, "session/resume"), request.index)
        states = [message.order for message, _ in _updates(traffic, "state_update")]
        if request.succeeded and not any(request.order < each < request.answer.order for each in states):
            return failed("no state_update came between session/resume and its response", *evidence(request))
        return PASS
    return not_tested("no session was resumed")


def _keeps_ids(traffic: Traffic) -> Verdict:
    for request in marked_requests(traffic, "resume"):
        shown = _updates(traffic, "user_message", "user_message_chunk")
        live = {update.get("messageId") for message, update in shown if message.order < request.order}
        again = [(message, update) for message, update in shown if message.order > request.order]
        for message, update in again:
            if update.get("messageId") not in live:
                return failed("a replayed message of the user has another messageId", message.index)
        return PASS if again else skipped("the agent replayed no message of the user")
    return not_tested("no session was resumed")


# --- when an agent can be judged --------------------------------------------------------------------------------------


def _other_version(traffic: Traffic) -> str:
    return other_version(traffic.requests("client", "initialize"), VERSION)


def _obstacle(traffic: Traffic) -> str:
    return obstacle(traffic, VERSION, "auth/login", "methodId")


def _calibration(traffic: Traffic) -> dict[str, Any]:
    """Return the milliseconds of a normal turn and a slow one; for an unfinished one, how long it was watched."""
    times: dict[str, Any] = {}
    for label, name in (("turn", "turn_ms"), ("slow-turn", "slow_turn_ms")):
        for prompt in marked_requests(traffic, label):
            ends = [pair[0].ms for pair in _states_after(traffic, prompt) if pair[1].get("state") == "idle"]
            times[name] = round((ends[0] if ends else traffic.transcript.entries[-1].ms) - prompt.ms, 3)
    return times


def _capability(traffic: Traffic, path: str) -> bool | None:
    """Whether the agent advertises a capability; None if initialize was not answered."""
    for request in traffic.requests("client", "initialize"):
        if request.answer is not None and request.succeeded:
            return is_object(at(request.answer.result, f"capabilities.{path}"))
    return None


# --- the suite --------------------------------------------------------------------------------------------------------


REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    Requirement(
        "ACP2-A-INIT-001",
        "mandatory",
        "The result of initialize has the schema's shape.",
        schema("/$defs/InitializeResponse/required", '["protocolVersion", "info"]'),
        results_fit(definition, "initialize", "InitializeResponse"),
        violation='{"protocolVersion":2,"agentCapabilities":{}}',
    ),
    Requirement(
        "ACP2-A-INIT-002",
        "advisory",
        "An agent answers an unknown version with the highest version that it supports.",
        schema(
            "/$defs/InitializeResponse/properties/protocolVersion",
            "The highest protocol version supported by the agent that is at or below the version requested by the "
            "client.",
        ),
        _newest_version,
        scenario="version-newer",
        violation='"protocolVersion":65535',
    ),
    Requirement(
        "ACP2-A-AUTH-001",
        "mandatory",
        "An agent that offers authentication methods has auth/login.",
        schema(
            "/$defs/InitializeResponse/properties/authMethods",
            "Supplying one or more methods means the agent MUST support both `auth/login` and `auth/logout`.",
        ),
        _logs_in,
        scenario="authentication",
        violation='"code":-32601 for auth/login',
    ),
    Requirement(
        "ACP2-A-NEW-001",
        "mandatory",
        "The result of session/new has the schema's shape.",
        schema("/$defs/NewSessionResponse/required", '["sessionId"]'),
        results_fit(definition, "session/new", "NewSessionResponse"),
        violation='{"sessionId":"s1","configOptions":null}',
    ),
    Requirement(
        "ACP2-A-LIST-001",
        "mandatory",
        "The result of session/list has the schema's shape.",
        schema("/$defs/ListSessionsResponse/required", '["sessions"]'),
        results_fit(definition, "session/list", "ListSessionsResponse"),
        scenario="list",
        violation='{"sessions":[{"cwd":"/project"}]}',
    ),
    Requirement(
        "ACP2-A-PROMPT-001",
        "mandatory",
        "The result of a prompt has the id of its message.",
        schema("/$defs/PromptResponse/required", '["messageId"]'),
        results_fit(definition, "session/prompt", "PromptResponse"),
        violation='{"stopReason":"end_turn"}',
    ),
    Requirement(
        "ACP2-A-PROMPT-002",
        "advisory",
        "An agent shows the message of each prompt that it accepts.",
        schema(
            "/$defs/PromptResponse/properties/messageId",
            "Agents must echo the message during the live session, but are not required to retain it.",
        ),
        _echoes,
        violation="an agent that sends its answer, but never the user's message",
    ),
    Requirement(
        "ACP2-A-UPDATE-001",
        "mandatory",
        "Each update has the schema's shape.",
        schema("/$defs/UpdateSessionNotification/required", '["sessionId", "update"]'),
        params_fit(definition, "session/update", "UpdateSessionNotification", notification=True),
        violation='{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello."}}',
    ),
    Requirement(
        "ACP2-A-STATE-001",
        "mandatory",
        "A turn begins with the state running or requires_action, and ends with idle.",
        schema(
            "/$defs/StateUpdate",
            "Either way, the agent MUST report `running` when foreground work starts, or `requires_action` if it "
            "starts blocked on user action, and `idle` when it ends.",
        ),
        _reports_states,
        scenario="opening",
        violation="a turn whose only state is idle",
    ),
    Requirement(
        "ACP2-A-STATE-002",
        "advisory",
        "The idle state at the end of a turn has a stop reason.",
        schema("/$defs/StateUpdate", "The agent SHOULD include a stop reason on that idle update."),
        _gives_a_reason,
        scenario="opening",
        violation='{"sessionUpdate":"state_update","state":"idle"}',
    ),
    Requirement(
        "ACP2-A-PERM-001",
        "mandatory",
        "A permission request has the schema's shape.",
        schema("/$defs/RequestPermissionRequest/required", '["sessionId", "title", "options"]'),
        params_fit(definition, "session/request_permission", "RequestPermissionRequest"),
        scenario="tool-turn",
        violation='{"sessionId":"s1","toolCall":{"toolCallId":"c1"},"options":[]}',
    ),
    Requirement(
        "ACP2-A-CANCEL-001",
        "mandatory",
        "A cancelled turn ends with the stop reason cancelled.",
        schema(
            "/$defs/IdleStateUpdate/anyOf/4",
            "Agents MUST report this stop reason on an idle `state_update` when cancellation ends active foreground "
            "work, even if aborting causes exceptions.",
        ),
        _cancels,
        scenario="cancel",
        violation='"stopReason":"error" after session/cancel',
    ),
    Requirement(
        "ACP2-A-CLOSE-001",
        "mandatory",
        "Closing a session ends its turn as cancelled, before the response.",
        schema(
            "/$defs/CloseSessionRequest",
            "When closing cancels active foreground work, the Agent MUST send the final updates for that work and the "
            'idle `state_update` with `stopReason: "cancelled"` before responding successfully to `session/close`.',
        ),
        _closes_in_order,
        scenario="close",
        violation="an idle state after the response to session/close",
    ),
    Requirement(
        "ACP2-A-CLOSE-002",
        "advisory",
        "Nothing follows the response to session/close.",
        schema(
            "/$defs/CloseSessionRequest",
            "After the close response, the Agent sends no other messages for the session on that connection.",
        ),
        _is_silent_after_close,
        scenario="close",
        violation="a usage_update after the response to session/close",
    ),
    Requirement(
        "ACP2-A-CLOSE-003",
        "advisory",
        "Closing a session that does not exist succeeds.",
        schema("/$defs/CloseSessionRequest", "Closing a session that does not exist or is not active SHOULD succeed"),
        _succeeds("close-unknown"),
        scenario="close-unknown",
        violation='"code":-32002',
    ),
    Requirement(
        "ACP2-A-RESUME-001",
        "mandatory",
        "A state_update precedes the response to session/resume.",
        schema(
            "/$defs/ResumeSessionResponse",
            "The agent MUST send a current `state_update` after any requested history replay and before this response, "
            "even without replay.",
        ),
        _snapshot,
        scenario="resume",
        violation="a response to session/resume without an update before it",
    ),
    Requirement(
        "ACP2-A-RESUME-002",
        "advisory",
        "A replayed message keeps its id.",
        schema(
            "/$defs/PromptResponse/properties/messageId",
            "If retained and replayed, the message keeps this identifier.",
        ),
        _keeps_ids,
        scenario="resume",
        violation='"messageId":"replayed-1"',
    ),
    Requirement(
        "ACP2-A-RESUME-003",
        "mandatory",
        "An unknown replay cursor is refused with -32602.",
        schema(
            "/$defs/ResumeSessionRequest/properties/replayFrom",
            "Agents MUST reject unsupported cursor types or malformed cursor values with `-32602` (Invalid params)",
        ),
        _refused("cursor", "an unknown cursor"),
        scenario="resume-cursor",
        violation="a result for replayFrom of the type _nowhere",
    ),
    Requirement(
        "ACP2-A-CONFIG-001",
        "mandatory",
        "The result of session/set_config_option has the schema's shape.",
        schema("/$defs/SetSessionConfigOptionResponse/required", '["configOptions"]'),
        results_fit(definition, "session/set_config_option", "SetSessionConfigOptionResponse"),
        scenario="config-options",
        violation="{}",
    ),
    Requirement(
        "ACP2-A-CONFIG-002",
        "mandatory",
        "An unknown option is refused with -32602.",
        schema(
            "/$defs/SetSessionConfigOptionRequest",
            "Agents MUST reject an unknown `configId` or invalid value with `-32602` and leave the configuration "
            "unchanged.",
        ),
        _refused("unknown-option", "an unknown option", none="no-options"),
        scenario="config-options",
        violation="a result for the option _no_such_option",
    ),
)

_SCENARIOS: Final[tuple[tuple[str, str, Callable[[Driver], None]], ...]] = (
    ("version-newer", "Ask for version 65535.", _newer),
    ("authentication", "Log in with a method that does not exist.", _authenticating),
    ("list", "Run a turn and list the sessions.", _listing),
    ("tool-turn", "Run a turn that uses tools, and allow everything.", _tools),
    ("config-options", "Set an option to its current value, then set an option that does not exist.", _configuring),
    ("close-unknown", "Close a session that does not exist.", _closing_unknown),
    ("resume", "Close a session after a turn, and resume it with its history.", _resuming),
    ("resume-cursor", "Resume a session from an unknown cursor.", _resuming_elsewhere),
)
SUITE: Final = Suite(
    name="acp2-agent",
    title="Agent Client Protocol 2 (draft), agents",
    subject="server",
    requirements=(*REQUIREMENTS, *acp2_messages.REQUIREMENTS),
    opening=Scenario("opening", "Open a session, and run a normal turn and a slow turn.", _opening, alone=True),
    scenarios=(
        *(Scenario(name, text, run) for name, text, run in _SCENARIOS),
        *acp2_messages.SCENARIOS,
        Scenario("cancel", "Cancel a slow turn.", _cancelling, alone=True),
        Scenario("close", "Close a session during a slow turn.", _closing, alone=True),
    ),
    obstacle=_obstacle,
    unrequested_version=_other_version,
    calibration=_calibration,
    capability=_capability,
    server="agent",
)
