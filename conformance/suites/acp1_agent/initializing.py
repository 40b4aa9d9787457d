"""Initialization and authentication: versions, capabilities, minimal and unusual requests, login and logout."""

from __future__ import annotations

from typing import Any, Final

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
from conformance.suites.acp1 import prose, results_fit, schema
from conformance.suites.acp1_agent.client import (
    FULL,
    NONE,
    VERSION,
    Editor,
    auth_methods,
    begin,
    finish_turn,
    initialize,
    need,
    open_session,
    prompt_params,
    text_block,
    turn,
)
from conformance.suites.default_fields import tolerates_broken_fields
from conformance.traffic import Message, Traffic
from conformance.values import as_object, is_object

_SPOKEN: Final = 1


def _same_version(traffic: Traffic) -> Verdict:
    for request in traffic.requests("client", "initialize"):
        if request.params.get("protocolVersion") == _SPOKEN and request.answer is not None:
            given = request.answer.result.get("protocolVersion")
            if request.succeeded and given != _SPOKEN:
                return failed(f"asked for version 1, the agent chose {given!r}", *evidence(request))
            return PASS
    return not_tested("the agent was not asked for version 1")


def _latest_version(traffic: Traffic) -> Verdict:
    for request in marked_requests(traffic, "initialize"):
        asked = request.params.get("protocolVersion")
        if request.answer is None:
            return failed(unanswered_reason(traffic, request, f"initialize with version {asked}"), request.index)
        if not request.succeeded:
            return failed(f"version {asked} was answered with an error, not with another version", *evidence(request))
        given = request.answer.result.get("protocolVersion")
        if given == asked:
            return failed(f"the agent claims to speak version {asked}", *evidence(request))
        return PASS
    return not_tested("initialize was not sent")


def _names_itself(traffic: Traffic) -> Verdict:
    for request in traffic.requests("client", "initialize"):
        if request.answer is not None and request.succeeded:
            named = as_object(request.answer.result.get("agentInfo"))
            return PASS if named else failed("the result has no agentInfo", *evidence(request))
    return not_tested("initialize was not answered")


def _methods_differ(traffic: Traffic) -> Verdict:
    methods = auth_methods(traffic)
    if not methods:
        return skipped("no authentication method is advertised")
    ids = [method.get("id") for method in methods]
    if len(set(map(str, ids))) < len(ids):
        return failed(f"two authentication methods have the same id: {ids}", *_initialized(traffic))
    return PASS


def _initialized(traffic: Traffic) -> tuple[int, ...]:
    """Return the entries of the first initialize."""
    return next((evidence(request) for request in traffic.requests("client", "initialize")), ())


def _unadvertised_terminal(traffic: Traffic) -> Verdict:
    methods = auth_methods(traffic)
    if methods is None:
        return not_tested("initialize was not answered")
    if any(method.get("type") == "terminal" for method in methods):
        return failed("an authentication method of type terminal is offered", *_initialized(traffic))
    return PASS


def _capabilities(traffic: Traffic) -> Verdict:
    for request in traffic.requests("client", "initialize"):
        if request.answer is not None and request.succeeded:
            if is_object(request.answer.result.get("agentCapabilities")):
                return PASS
            return failed("the result has no agentCapabilities", *evidence(request))
    return not_tested("initialize was not answered")


_NEGOTIATION: Final = (
    "If the Agent supports the requested version, it **MUST** respond with the same version. "
    "Otherwise, the Agent **MUST** respond with the latest version it supports."
)


# --- authentication ---------------------------------------------------------------------------------------------------


_REQUIRED: Final = -32000
_LOGOUT: Final = "auth.logout"


def _needs_authentication(requests: list[Message]) -> Verdict:
    for request in requests:
        if request.answer is not None and request.answer.error.get("code") == _REQUIRED:
            return failed(f"session/new was answered with {_REQUIRED}: authentication is required", *evidence(request))
    return PASS if requests else skipped("no session was requested")


def _session_without_login(traffic: Traffic) -> Verdict:
    login = next((request for request in traffic.requests("client", "authenticate") if request.succeeded), None)
    if login is None or not auth_methods(traffic):
        return skipped("no login was tried; choose a method with --auth")
    logouts = traffic.requests("client", "logout")
    until = logouts[0].order if logouts else len(traffic.messages)
    return _needs_authentication(
        [request for request in traffic.requests("client", "session/new") if login.order < request.order < until]
    )


def _authentication_is_advertised(traffic: Traffic) -> Verdict:
    if auth_methods(traffic):
        return PASS
    return _needs_authentication(traffic.requests("client", "session/new"))


def _logged_out(traffic: Traffic) -> Verdict:
    if traffic.marks("logout-not-allowed"):
        return skipped("a logout may end the user's sessions; allow it with --allow-logout")
    return answered("logout", expect="result")(traffic)


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-INIT-001",
        "mandatory",
        "The agent answers initialize with a result of the schema's shape.",
        schema("/$defs/InitializeResponse/required", '["protocolVersion"]'),
        results_fit("initialize", "InitializeResponse"),
        violation='{"protocolVersion":"1"}',
    ),
    Requirement(
        "ACP1-A-INIT-002",
        "mandatory",
        "An agent that speaks version 1 chooses it on request.",
        prose("initialization", _NEGOTIATION),
        _same_version,
        violation="asked for 1, the result says 2",
    ),
    Requirement(
        "ACP1-A-INIT-003",
        "mandatory",
        "The agent answers a newer version with the latest version that it supports.",
        prose("initialization", _NEGOTIATION),
        _latest_version,
        scenario="version-newer",
        violation='asked for 65535: {"error":{"code":-32602,"message":"Unsupported version"}}',
    ),
    Requirement(
        "ACP1-A-INIT-004",
        "mandatory",
        "The agent answers an older version with the latest version that it supports.",
        prose("initialization", _NEGOTIATION),
        _latest_version,
        scenario="version-older",
        violation="asked for 0, the result says 0",
    ),
    Requirement(
        "ACP1-A-INIT-005",
        "advisory",
        "The agent reports its capabilities, even if it supports only the baseline.",
        prose(
            "initialization",
            (
                "The Agent **MUST** respond with the chosen [protocol version](#protocol-version) "
                "and the [capabilities](#agent-capabilities) it supports."
            ),
        ),
        _capabilities,
        violation='{"protocolVersion":1}',
    ),
    Requirement(
        "ACP1-A-INIT-006",
        "mandatory",
        "The agent accepts initialize with only the version.",
        prose(
            "initialization", "If the Agent supports the requested version, it **MUST** respond with the same version."
        ),
        answered("initialize", expect="result"),
        scenario="initialize-bare",
        violation='"code":-32602,"message":"clientCapabilities is required"',
    ),
    Requirement(
        "ACP1-A-INIT-007",
        "mandatory",
        "The agent accepts null wherever the schema of initialize allows it.",
        prose(
            "initialization", "If the Agent supports the requested version, it **MUST** respond with the same version."
        ),
        answered("initialize", expect="result"),
        scenario="initialize-nulls",
        violation='"code":-32602 for "clientInfo":null',
    ),
    Requirement(
        "ACP1-A-INIT-008",
        "advisory",
        "The agent ignores optional fields of wrong types, as the schema requires.",
        schema("/$defs/InitializeRequest/properties/clientInfo", '"x-deserialize-default-on-error": true'),
        tolerates_broken_fields(),
        scenario="initialize-malformed",
        violation='"code":-32602 for "clientInfo":7',
    ),
    Requirement(
        "ACP1-A-INIT-009",
        "mandatory",
        "The agent accepts any `_meta` and takes no parameter from it.",
        schema(
            "/$defs/InitializeRequest/properties/_meta",
            "Implementations MUST NOT make assumptions about values at these keys.",
        ),
        answered("initialize", expect="result"),
        scenario="meta",
        violation='"code":-32602 for an unknown key in _meta',
    ),
    Requirement(
        "ACP1-A-INIT-014",
        "mandatory",
        "The agent accepts any `_meta` in a prompt.",
        schema(
            "/$defs/PromptRequest/properties/_meta",
            "Implementations MUST NOT make assumptions about values at these keys.",
        ),
        answered("prompt", expect="result"),
        scenario="meta",
        violation='"code":-32602 for a traceparent in the _meta of session/prompt',
    ),
    Requirement(
        "ACP1-A-INIT-010",
        "advisory",
        "The agent reports its name and version.",
        prose("initialization", "It **SHOULD** also provide a name and version to the Client as well:"),
        _names_itself,
        violation="a result without agentInfo",
    ),
    Requirement(
        "ACP1-A-INIT-011",
        "advisory",
        "The agent's authentication methods have different ids.",
        schema("/$defs/AuthMethodAgent/properties/id", "Unique identifier for this authentication method."),
        _methods_differ,
        violation='"authMethods":[{"id":"login",...},{"id":"login",...}]',
    ),
    Requirement(
        "ACP1-A-INIT-012",
        "mandatory",
        "The agent offers terminal authentication only to clients that support it.",
        schema(
            "/$defs/AuthMethodTerminal",
            "Agents MUST advertise this method only when the client enabled its terminal authentication capability.",
        ),
        _unadvertised_terminal,
        violation='"authMethods":[{"type":"terminal",...}]',
    ),
    Requirement(
        "ACP1-A-INIT-013",
        "informational",
        "The agent answers an unknown authentication method with an error.",
        prose("authentication", "This value must match one of the methods advertised in the `initialize` response."),
        answered("authenticate", expect="error"),
        scenario="authenticate-unknown",
        violation="{}",
    ),
    Requirement(
        "ACP1-A-AUTH-001",
        "advisory",
        "After a login, the client can open sessions.",
        prose(
            "authentication",
            "After successful authentication, the Client can create new sessions without receiving an "
            "`auth_required` error",
        ),
        _session_without_login,
        violation='session/new after authenticate: {"error":{"code":-32000,"message":"Authentication required"}}',
    ),
    Requirement(
        "ACP1-A-AUTH-002",
        "advisory",
        "An agent that advertises logout logs out on request.",
        prose("authentication", "Supplying `{}` means the Agent supports the method."),
        _logged_out,
        scenario="logout",
        applies=_LOGOUT,
        violation='{"error":{"code":-32601,"message":"Method not found"}}',
    ),
    Requirement(
        "ACP1-A-AUTH-003",
        "informational",
        "The agent requires authentication only if it advertises a method.",
        schema("/$defs/InitializeResponse/properties/authMethods", "Authentication methods supported by the agent."),
        _authentication_is_advertised,
        violation='"authMethods":[], and then {"error":{"code":-32000,"message":"Authentication required"}}',
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


NEWER: Final = 65535
"""The largest version that the schema allows."""


def _ask(driver: Driver, label: str, params: Any) -> None:
    driver.response(driver.request("initialize", params, label=label))


def _run_newer(driver: Driver) -> None:
    _ask(driver, "initialize", {"protocolVersion": NEWER, "clientCapabilities": {}})


def _run_older(driver: Driver) -> None:
    _ask(driver, "initialize", {"protocolVersion": 0, "clientCapabilities": {}})


def _run_bare(driver: Driver) -> None:
    Editor().serve(driver, NONE)
    _ask(driver, "initialize", {"protocolVersion": VERSION})
    turn(driver, open_session(driver), driver.options.tool_prompt)


def _run_nulls(driver: Driver) -> None:
    capabilities = {"fs": {"_meta": None}, "session": None, "elicitation": None, "_meta": None}
    params = {"protocolVersion": VERSION, "clientCapabilities": capabilities, "clientInfo": None, "_meta": None}
    _ask(driver, "initialize", params)


def _run_meta(driver: Driver) -> None:
    meta = {"example.org/number": 1, "traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01"}
    params = {"protocolVersion": VERSION, "clientCapabilities": {**FULL, "_meta": meta}, "_meta": meta}
    Editor().serve(driver, FULL)
    _ask(driver, "initialize", params)
    session = open_session(driver, _meta={**meta, "cwd": "/nonexistent", "sessionId": "spoofed"})
    prompted = {**prompt_params(session, text_block(driver.options.prompt)), "_meta": meta}
    finish_turn(driver, driver.request("session/prompt", prompted, label="prompt"))


def _run_minimal(driver: Driver) -> None:
    begin(driver, NONE)
    turn(driver, open_session(driver), driver.options.tool_prompt)


def _run_logout(driver: Driver) -> None:
    begin(driver)
    need(driver, "auth.logout")
    if not driver.options.allow_logout:
        driver.mark("logout-not-allowed")
        return
    driver.response(driver.request("logout", {}, label="logout"))


def _run_unknown_method_id(driver: Driver) -> None:
    initialize(driver, NONE)
    request = driver.request("authenticate", {"methodId": "rewindow-conformance-unknown"}, label="authenticate")
    driver.response(request)


SCENARIOS: Final = (
    Scenario("version-newer", "Requests the unsupported protocol version 65535.", _run_newer),
    Scenario("version-older", "Requests the unsupported protocol version 0.", _run_older),
    Scenario("initialize-bare", "Initializes with only the version, and runs a turn.", _run_bare),
    Scenario("initialize-nulls", "Initializes with null wherever the schema allows it.", _run_nulls),
    Scenario("meta", "Sends `_meta` with unknown keys and with names of real parameters.", _run_meta),
    Scenario("minimal-client", "Advertises no capability, and runs a turn with tools.", _run_minimal),
    Scenario("logout", "Logs out, if `--allow-logout` permits it.", _run_logout),
    Scenario("authenticate-unknown", "Authenticates with a method that is not advertised.", _run_unknown_method_id),
)
