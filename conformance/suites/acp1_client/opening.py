"""How clients open connections and sessions: initialize, authentication, session/new, and unusual answers to them.

Judges cover capabilities, names, directories and MCP servers. Scenarios answer with minimal, null, unknown, late and
failing results, and with other versions. Has the opening scenario.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from conformance.driver import METHOD_NOT_FOUND, WITHHELD, Answer, Driver, encode_line, notification_message
from conformance.judging import PASS, Requirement, Verdict, every, evidence, failed, not_tested, skipped
from conformance.suite import Scenario
from conformance.suites.acp1 import AGREED, is_absolute, params_fit, prose, schema
from conformance.suites.acp1_client.agent import (
    EVERYTHING,
    QUIET,
    SIDE,
    Agent,
    Turn,
    agent_advertises,
    agent_capability,
    capability,
    exits_as_after_a_turn,
    finish,
    initialized,
    never_sends,
    no_prompt,
    only_if_advertised,
    open_turn,
    reaches_prompt,
    tolerates_early_messages,
    wait_for,
)
from conformance.suites.default_fields import tolerates_broken_fields
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, at

_CAPABILITIES: Final = {
    "fs/read_text_file": "fs.readTextFile",
    "fs/write_text_file": "fs.writeTextFile",
    "terminal/create": "terminal",
    "terminal/output": "terminal",
    "terminal/wait_for_exit": "terminal",
    "terminal/kill": "terminal",
    "terminal/release": "terminal",
    "elicitation/create": "elicitation.form",
}
"""A client's methods, by the capability that promises them."""
_SESSION_METHODS: Final = ("session/new", "session/load", "session/resume", "session/list", "session/prompt")


def _first(traffic: Traffic) -> Verdict:
    called = [message for message in traffic.sent(SIDE) if message.method and not message.method.startswith("_")]
    if not called:
        return not_tested("the client called no method")
    if called[0].method != "initialize":
        return failed(f"the client begins with {called[0].method}", called[0].index)
    return PASS


def _knows_what_it_advertises(traffic: Traffic) -> Verdict:
    found = False
    for request in traffic.sent("server"):
        if request.is_request and capability(traffic, _CAPABILITIES.get(request.method, "-")):
            found = True
            if request.answer is not None and request.answer.error.get("code") == METHOD_NOT_FOUND:
                return failed(f"{request.method}, which is advertised, does not exist", *evidence(request))
    return PASS if found else skipped("the agent called no method that the client advertises")


def _waits_for_initialize(traffic: Traffic) -> Verdict:
    asked = traffic.requests(SIDE, "initialize")
    if not asked:
        return not_tested("the client did not call initialize")
    for request in traffic.requests(SIDE, *_SESSION_METHODS):
        if asked[0].order < request.order and (asked[0].answer is None or request.order < asked[0].answer.order):
            return failed(f"{request.method} was called before initialize was answered", request.index)
    return PASS


def _names_itself(traffic: Traffic) -> Verdict:
    for request in traffic.requests(SIDE, "initialize"):
        named = as_object(request.params.get("clientInfo"))
        return PASS if named else failed("initialize has no clientInfo", request.index)
    return not_tested("the client did not call initialize")


def _known_authentication(traffic: Traffic) -> Verdict:
    methods = [as_object(method) for method in as_list(agent_capability(traffic, "authMethods"))]
    known = [method.get("id") for method in methods if method.get("type") != "terminal"]
    requests = traffic.requests(SIDE, "authenticate")
    for request in requests:
        if request.params.get("methodId") not in known:
            return failed(
                f"{request.params.get('methodId')!r} was not offered as an authentication method", request.index
            )
    return PASS if requests else skipped("the client did not authenticate")


_COMPLETE = (
    "Before creating a session, Clients **MUST** first complete the [initialization](/protocol/v1/initialization) "
    "phase to establish protocol compatibility and capabilities."
)
_ERRORS = "Errors include an `error` object with `code` and `message`"


# --- sessions ---------------------------------------------------------------------------------------------------------


_OPENING: Final = ("session/new", "session/load", "session/resume")


def _opened(traffic: Traffic) -> list[Message]:
    return traffic.requests(SIDE, *_OPENING)


def _unopened() -> Verdict:
    return not_tested("the client opened no session")


def _absolute_cwd(request: Message) -> str:
    cwd = as_text(request.params.get("cwd"))
    return "" if is_absolute(cwd) else f"the working directory {cwd!r} is not absolute"


def _servers(request: Message) -> list[Object]:
    return [as_object(server) for server in as_list(request.params.get("mcpServers"))]


def _offered_transports(traffic: Traffic) -> Verdict:
    remote = [(r, s) for r in _opened(traffic) for s in _servers(r) if s.get("type") in ("http", "sse")]
    for request, server in remote:
        if not agent_advertises(traffic, f"mcpCapabilities.{server['type']}"):
            return failed(
                f"the client passed an MCP server over {server['type']}, which the agent does not advertise",
                request.index,
            )
    return PASS if remote else skipped("the client names no MCP server over HTTP or SSE")


def _absolute_commands(traffic: Traffic) -> Verdict:
    local = [(r, s) for r in _opened(traffic) for s in _servers(r) if isinstance(s.get("command"), str)]
    for request, server in local:
        if not is_absolute(server["command"]):
            return failed(f"the MCP server {server['command']!r} is not an absolute path", request.index)
    return PASS if local else skipped("the client names no MCP server on stdio")


def _directories(request: Message) -> list[object]:
    return as_list(request.params.get("additionalDirectories"))


def _offered_directories(traffic: Traffic) -> Verdict:
    naming = [request for request in _opened(traffic) if "additionalDirectories" in request.params]
    for request in naming:
        if not agent_advertises(traffic, "sessionCapabilities.additionalDirectories"):
            return failed("the client passed additionalDirectories, which the agent does not advertise", request.index)
    return PASS if _opened(traffic) else _unopened()


def _absolute_directories(traffic: Traffic) -> Verdict:
    naming = [(request, folder) for request in _opened(traffic) for folder in _directories(request)]
    for request, folder in naming:
        if not is_absolute(as_text(folder)):
            return failed(f"the additional directory {folder!r} is not absolute", request.index)
    return PASS if naming else skipped("the client names no additional directory")


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-INIT-001",
        "mandatory",
        "The client begins with initialize.",
        prose(
            "initialization",
            "Before a Session can be created, Clients **MUST** initialize the connection by calling the `initialize`",
        ),
        _first,
        violation="session/new as the first message",
    ),
    Requirement(
        "ACP1-C-INIT-002",
        "mandatory",
        "The client's initialize has the schema's shape, with the version as an integer.",
        schema("/$defs/InitializeRequest/required", '["protocolVersion"]'),
        params_fit("initialize", "InitializeRequest", SIDE),
        violation='{"protocolVersion":"1.0"}',
    ),
    Requirement(
        "ACP1-C-INIT-003",
        "mandatory",
        "The client uses no session before a late answer to initialize.",
        prose("session-setup", _COMPLETE),
        _waits_for_initialize,
        scenario="late-answers",
        violation="initialize and session/new in one write",
    ),
    Requirement(
        "ACP1-C-INIT-004",
        "advisory",
        "The client reports its name and version.",
        prose(
            "initialization",
            (
                "Both Clients and Agents **SHOULD** provide information about their implementation in the `clientInfo` "
                "and `agentInfo` fields respectively."
            ),
        ),
        _names_itself,
        violation='{"protocolVersion":1,"clientCapabilities":{}}',
    ),
    Requirement(
        "ACP1-C-INIT-005",
        "advisory",
        "The client uses no session in a version that it does not support.",
        prose(
            "initialization",
            (
                "If the Client does not support the version specified by the Agent in the `initialize` response, the "
                "Client **SHOULD** close the connection and inform the user about it."
            ),
        ),
        never_sends("other-version", *_SESSION_METHODS),
        scenario="version-newer",
        violation='session/new after "protocolVersion":65535',
    ),
    Requirement(
        "ACP1-C-INIT-006",
        "mandatory",
        "The client uses no session after initialize is answered with an error.",
        prose("session-setup", _COMPLETE),
        never_sends("refused", *_SESSION_METHODS),
        scenario="initialize-error",
        violation="session/new after an error",
    ),
    Requirement(
        "ACP1-C-INIT-007",
        "mandatory",
        "The client accepts an answer to initialize with only the version.",
        AGREED,
        reaches_prompt,
        scenario="initialize-bare",
        violation="a client that needs agentInfo",
    ),
    Requirement(
        "ACP1-C-INIT-008",
        "mandatory",
        "The client accepts null wherever the schema of the answer to initialize allows it.",
        AGREED,
        reaches_prompt,
        scenario="initialize-nulls",
        violation='a client that exits at "agentInfo":null',
    ),
    Requirement(
        "ACP1-C-INIT-009",
        "advisory",
        "The client ignores optional fields of wrong types in the answer to initialize, as the schema requires.",
        schema("/$defs/InitializeResponse/properties/agentInfo", '"x-deserialize-default-on-error": true'),
        tolerates_broken_fields(no_prompt, by="server"),
        scenario="initialize-malformed",
        violation='a client that exits at "agentInfo":7',
    ),
    Requirement(
        "ACP1-C-INIT-010",
        "mandatory",
        "The client accepts any `_meta` in the answer to initialize.",
        schema(
            "/$defs/InitializeResponse/properties/_meta",
            "Implementations MUST NOT make assumptions about values at these keys.",
        ),
        reaches_prompt,
        scenario="initialize-meta",
        violation="a client that exits at an unknown key of _meta",
    ),
    Requirement(
        "ACP1-C-INIT-011",
        "advisory",
        "The client ignores unknown capabilities.",
        prose("initialization", "The introduction of new capabilities is not considered a breaking change."),
        reaches_prompt,
        scenario="initialize-unknown",
        violation='a client that exits at "agentCapabilities":{"telepathy":{}}',
    ),
    Requirement(
        "ACP1-C-INIT-012",
        "informational",
        "A client that exits after a turn also exits after initialize is answered with an error.",
        prose("overview", _ERRORS),
        exits_as_after_a_turn,
        scenario="initialize-error",
        violation="a client that waits for ever",
    ),
    Requirement(
        "ACP1-C-INIT-013",
        "advisory",
        "The client implements the methods that it advertises.",
        schema("/$defs/ClientCapabilities/properties/terminal", "Whether the Client support all `terminal/*` methods."),
        _knows_what_it_advertises,
        violation='"code":-32601 for terminal/create, after "terminal":true',
    ),
    Requirement(
        "ACP1-C-AUTH-001",
        "mandatory",
        "The client authenticates with a method that the agent advertises.",
        prose("authentication", "This value must match one of the methods advertised in the `initialize` response."),
        _known_authentication,
        violation='"methodId":"api-key", which is not among authMethods',
    ),
    Requirement(
        "ACP1-C-AUTH-002",
        "mandatory",
        "The client logs out only if the agent advertises logout.",
        prose(
            "authentication",
            (
                "If `agentCapabilities.auth.logout` is omitted or `null`, the Agent does not support `logout` and "
                "Clients **MUST NOT** call it."
            ),
        ),
        only_if_advertised("logout", "auth.logout"),
        violation="logout without agentCapabilities.auth.logout",
    ),
    Requirement(
        "ACP1-C-NEW-001",
        "mandatory",
        "The client's session/new has the schema's shape.",
        schema("/$defs/NewSessionRequest/required", '["cwd", "mcpServers"]'),
        params_fit("session/new", "NewSessionRequest", SIDE),
        violation='{"cwd":"/project"}',
    ),
    Requirement(
        "ACP1-C-NEW-002",
        "mandatory",
        "The working directory of a session is an absolute path.",
        prose("session-setup", "- **MUST** be an absolute path"),
        every(_opened, _absolute_cwd, _unopened),
        violation='"cwd":"."',
    ),
    Requirement(
        "ACP1-C-NEW-003",
        "mandatory",
        "The client passes MCP servers over HTTP and SSE only if the agent supports them.",
        prose(
            "session-setup",
            (
                "Before using HTTP or SSE transports, Clients **MUST** verify the Agent's capabilities during "
                "initialization:"
            ),
        ),
        _offered_transports,
        violation='{"type":"sse",...} to an agent without mcpCapabilities.sse',
    ),
    Requirement(
        "ACP1-C-NEW-004",
        "advisory",
        "The commands of MCP servers are absolute paths.",
        prose("session-setup", "The absolute path to the MCP server executable"),
        _absolute_commands,
        violation='"command":"npx"',
    ),
    Requirement(
        "ACP1-C-NEW-005",
        "mandatory",
        "The client passes additional directories only if the agent supports them.",
        prose(
            "session-setup",
            (
                "Clients **MUST** only send `additionalDirectories` when the Agent advertises "
                "`sessionCapabilities.additionalDirectories`."
            ),
        ),
        _offered_directories,
        violation='"additionalDirectories":["/lib"] to an agent without the capability',
    ),
    Requirement(
        "ACP1-C-NEW-006",
        "mandatory",
        "Additional directories are absolute paths.",
        prose("session-setup", "- each `additionalDirectories` entry **MUST** be an absolute path"),
        _absolute_directories,
        violation='"additionalDirectories":["../lib"]',
    ),
    Requirement(
        "ACP1-C-NEW-007",
        "mandatory",
        "The client accepts null wherever the schema of the answer to session/new allows it.",
        AGREED,
        reaches_prompt,
        scenario="session-nulls",
        violation='a client that exits at "modes":null',
    ),
    Requirement(
        "ACP1-C-NEW-008",
        "advisory",
        "The client ignores optional fields of wrong types in the answer to session/new, as the schema requires.",
        schema("/$defs/NewSessionResponse/properties/modes", '"x-deserialize-default-on-error": true'),
        tolerates_broken_fields(no_prompt, by="server"),
        scenario="session-malformed",
        violation='a client that exits at "modes":5',
    ),
    Requirement(
        "ACP1-C-NEW-009",
        "mandatory",
        "The client accepts options of unknown categories.",
        prose("session-config-options", "Clients **MUST** handle missing or unknown categories gracefully."),
        reaches_prompt,
        scenario="session-categories",
        violation='a client that exits at "category":"_mine"',
    ),
    Requirement(
        "ACP1-C-NEW-010",
        "mandatory",
        "The client accepts any `_meta` in the answer to session/new.",
        schema(
            "/$defs/NewSessionResponse/properties/_meta",
            "Implementations MUST NOT make assumptions about values at these keys.",
        ),
        reaches_prompt,
        scenario="session-meta",
        violation="a client that exits at an unknown key of _meta",
    ),
    Requirement(
        "ACP1-C-NEW-011",
        "advisory",
        "The client accepts updates of a session before its first prompt.",
        prose("prompt-turn", "Session updates are not limited to active prompt turns."),
        tolerates_early_messages,
        scenario="updates-before-prompt",
        violation="a client that exits at available_commands_update",
    ),
    Requirement(
        "ACP1-C-NEW-012",
        "informational",
        "A client that exits after a turn also exits after session/new is answered with an error.",
        prose("overview", "Errors include an `error` object with `code` and `message`"),
        exits_as_after_a_turn,
        scenario="session-error",
        violation="a client that waits for ever",
    ),
    Requirement(
        "ACP1-C-LOAD-001",
        "mandatory",
        "The client loads sessions only if the agent supports loading.",
        prose(
            "session-setup",
            (
                "If `loadSession` is `false` or not present, the Agent does not support loading sessions and Clients "
                "**MUST NOT** attempt to call `session/load`."
            ),
        ),
        only_if_advertised("session/load", "loadSession"),
        violation="session/load to an agent without loadSession",
    ),
    Requirement(
        "ACP1-C-RESUME-001",
        "mandatory",
        "The client resumes sessions only if the agent supports resuming.",
        prose(
            "session-setup",
            (
                "If `sessionCapabilities.resume` is not present, the Agent does not support resuming sessions and "
                "Clients **MUST NOT** attempt to call `session/resume`."
            ),
        ),
        only_if_advertised("session/resume", "sessionCapabilities.resume"),
        violation="session/resume to an agent without the capability",
    ),
    Requirement(
        "ACP1-C-CLOSE-001",
        "mandatory",
        "The client closes sessions only if the agent supports closing.",
        prose(
            "session-setup",
            (
                "If `sessionCapabilities.close` is not present, the Agent does not support closing sessions and "
                "Clients **MUST NOT** attempt to call `session/close`."
            ),
        ),
        only_if_advertised("session/close", "sessionCapabilities.close"),
        violation="session/close to an agent without the capability",
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


NEWER: Final = 65535
"""The largest version that the schema allows."""
_LATE: Final = 2.0
_AFTER: Final = 2.0
"""Seconds for a client to exit, or to do something that it must not do."""
META: Final[Object] = {
    "example.org/number": 1,
    "example.org/nested": {"list": [None, {"deep": True}]},
    "traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01",
    "sessionId": "spoofed",
    "protocolVersion": NEWER,
}
MODES: Final[Object] = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code", "description": "Writes"}],
}
OPTIONS: Final[list[Object]] = [
    {
        "id": "model",
        "name": "Model",
        "category": "model",
        "type": "select",
        "currentValue": "small",
        "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}],
    },
    {
        "id": "style",
        "name": "Style",
        "type": "select",
        "currentValue": "plain",
        "options": [{"group": "all", "name": "All", "options": [{"value": "plain", "name": "Plain"}]}],
    },
]


def _run_turn(**fields: Any) -> Callable[[Driver], None]:
    """Run a whole turn of an agent with these fields."""

    def run(driver: Driver) -> None:
        finish(open_turn(driver, Agent(**fields)))

    return run


def _run_answering(result: Object) -> Callable[[Driver], None]:
    return _run_turn(initialize=Answer(result=result))


def _run_opening(driver: Driver) -> None:
    turn = open_turn(driver)
    turn.update("agent_message_chunk", content={"type": "text", "text": "Hello."})
    driver.pause(QUIET)
    turn.end()
    driver.pause(_AFTER)


def _run_late(driver: Driver) -> None:
    agent = Agent()
    agent.serve(driver)
    driver.answerers["initialize"] = lambda _: WITHHELD
    asked = wait_for(driver, "initialize")
    driver.pause(_LATE)
    driver.answer(asked, agent.initialize)
    agent.serve(driver)
    driver.answerers["session/new"] = lambda _: WITHHELD
    opened = wait_for(driver, "session/new")
    driver.pause(_LATE)
    driver.answer(opened, Answer(result={"sessionId": "session-1"}))
    driver.pause(_AFTER)


def _run_refusing(agent: Agent, method: str) -> Callable[[Driver], None]:
    """Answer a method with an error, and wait for the client's reaction."""

    def run(driver: Driver) -> None:
        agent.serve(driver)
        driver.answerers[method] = lambda _: Answer.failing(-32603, "The agent failed")
        wait_for(driver, method)
        driver.mark("refused", method)
        driver.pause(_AFTER)

    return run


def _run_version(driver: Driver) -> None:
    Agent(initialize=Answer(result=initialized(protocolVersion=NEWER))).serve(driver)
    wait_for(driver, "initialize")
    driver.mark("other-version", NEWER)
    driver.pause(_AFTER)


def _run_authentication(driver: Driver) -> None:
    methods = [{"id": "login", "name": "Log in", "description": "Anyone may"}, {"id": "key", "name": "A key"}]
    agent = Agent(initialize=Answer(result=initialized(authMethods=methods)))
    agent.serve(driver)
    open_session = driver.answerers["session/new"]
    driver.answerers["session/new"] = lambda _: Answer.failing(-32000, "Authentication required")

    def authenticate(_: Object) -> Answer:
        driver.answerers["session/new"] = open_session
        return Answer(result={})

    driver.answerers["authenticate"] = authenticate
    wait_for(driver, "session/new")
    driver.pause(_AFTER)


def _run_updates_first(driver: Driver) -> None:
    Agent().serve(driver)
    driver.answerers["session/new"] = lambda _: WITHHELD
    opened = wait_for(driver, "session/new")
    commands = [{"name": "help", "description": "Describes the project", "input": {"hint": "a topic"}}]
    updates: tuple[Object, ...] = (
        {"sessionUpdate": "available_commands_update", "availableCommands": commands},
        {"sessionUpdate": "session_info_update", "title": "A session"},
        {"sessionUpdate": "usage_update", "used": 0, "size": 1000},
    )
    answer: Object = {"jsonrpc": "2.0", "id": opened.get("id"), "result": {"sessionId": "session-1"}}
    notes = [notification_message("session/update", {"sessionId": "session-1", "update": update}) for update in updates]
    # One write, so that the client reads them before it can send its prompt.
    driver.send_bytes(b"".join(encode_line(message) for message in (answer, *notes)))
    turn = Turn(driver, wait_for(driver, "session/prompt"), as_text(at(opened, "params.cwd")))
    turn.probe("alive")
    finish(turn)


_NULLS: Final[Object] = {
    "protocolVersion": 1,
    "agentCapabilities": {
        "sessionCapabilities": {"list": None, "delete": None, "resume": None, "close": None, "_meta": None},
        "auth": {"logout": None},
        "_meta": None,
    },
    "agentInfo": None,
    "_meta": None,
}
_UNKNOWN: Final[Object] = {
    "loadSession": False,
    "telepathy": {"range": 5},
    "promptCapabilities": {"video": True, "image": False},
    "sessionCapabilities": {"rewind": {}},
}
_META_EVERYWHERE: Final[Object] = initialized(
    agentCapabilities={"promptCapabilities": {"_meta": META}, "_meta": META}, _meta=META
)
_UNKNOWN_CATEGORIES: Final[list[Object]] = [
    {**OPTIONS[0], "category": "_rewindow_conformance"},
    {**OPTIONS[1], "category": "a_category_of_later"},
]

OPENING: Final = Scenario(
    "opening", "Answers initialize, opens a session, and ends the first turn.", _run_opening, alone=True, passive=True
)
SCENARIOS: Final = (
    Scenario("initialize-bare", "Answers initialize with only the version.", _run_answering({"protocolVersion": 1})),
    Scenario("initialize-nulls", "Answers initialize with null wherever the schema allows it.", _run_answering(_NULLS)),
    Scenario("initialize-meta", "Answers initialize with `_meta` everywhere.", _run_answering(_META_EVERYWHERE)),
    Scenario(
        "initialize-unknown",
        "Advertises unknown capabilities.",
        _run_answering(initialized(agentCapabilities=_UNKNOWN)),
    ),
    Scenario(
        "everything-offered",
        "Advertises every capability, offers modes and options, and ends a turn.",
        _run_turn(
            initialize=Answer(result=initialized(agentCapabilities=EVERYTHING)),
            session={"modes": MODES, "configOptions": OPTIONS},
        ),
        passive=True,
    ),
    Scenario("late-answers", "Answers initialize and session/new after two seconds.", _run_late),
    Scenario("initialize-error", "Answers initialize with an error.", _run_refusing(Agent(), "initialize")),
    Scenario("version-newer", "Answers initialize with the unsupported version 65535.", _run_version),
    Scenario(
        "authentication", "Refuses sessions until the client has authenticated.", _run_authentication, passive=True
    ),
    Scenario("session-error", "Answers session/new with an error.", _run_refusing(Agent(), "session/new")),
    Scenario(
        "session-nulls",
        "Opens a session with null wherever the schema allows it.",
        _run_turn(session={"modes": None, "configOptions": None, "_meta": None}),
    ),
    Scenario(
        "session-categories",
        "Opens a session with options of unknown categories.",
        _run_turn(session={"configOptions": _UNKNOWN_CATEGORIES}),
    ),
    Scenario("session-meta", "Opens a session with `_meta`.", _run_turn(session={"_meta": META})),
    Scenario("updates-before-prompt", "Sends updates between session/new and the prompt.", _run_updates_first),
)
