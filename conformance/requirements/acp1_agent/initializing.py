"""Initialization: versions, capabilities that are absent, null or malformed, authentication, what the result holds."""

from __future__ import annotations

from typing import Final

from conformance.judging import answered, evidence, marked, unanswered
from conformance.judging_fields import takes_broken_fields
from conformance.requirement import Requirement
from conformance.requirements.acp1 import prose, result_is, schema
from conformance.requirements.acp1_agent.reading import auth_methods
from conformance.traffic import Traffic
from conformance.values import as_object, is_object
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

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
    for request in marked(traffic, "initialize"):
        asked = request.params.get("protocolVersion")
        if request.answer is None:
            return failed(unanswered(traffic, request, f"initialize with version {asked}"), request.index)
        if not request.succeeded:
            return failed(f"version {asked} was answered with an error, not with another version", *evidence(request))
        given = request.answer.result.get("protocolVersion")
        if given == asked:
            return failed(f"the agent says that it speaks version {asked}", *evidence(request))
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
    """The entries of the first initialize."""
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

REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-INIT-001",
        "mandatory",
        "The agent answers initialize with a result of the schema's shape.",
        schema("/$defs/InitializeResponse/required", '["protocolVersion"]'),
        result_is("initialize", "InitializeResponse"),
        violation='{"protocolVersion":"1"}',
    ),
    Requirement(
        "ACP1-A-INIT-002",
        "mandatory",
        "An agent that speaks version 1 chooses it where it is asked for.",
        prose("initialization", _NEGOTIATION),
        _same_version,
        violation="asked for 1, the result says 2",
    ),
    Requirement(
        "ACP1-A-INIT-003",
        "mandatory",
        "The agent answers a newer version than it speaks with the latest that it does.",
        prose("initialization", _NEGOTIATION),
        _latest_version,
        scenario="version-newer",
        violation='asked for 65535: {"error":{"code":-32602,"message":"Unsupported version"}}',
    ),
    Requirement(
        "ACP1-A-INIT-004",
        "mandatory",
        "The agent answers an older version than it speaks with the latest that it does.",
        prose("initialization", _NEGOTIATION),
        _latest_version,
        scenario="version-older",
        violation="asked for 0, the result says 0",
    ),
    Requirement(
        "ACP1-A-INIT-005",
        "advisory",
        "The agent tells its capabilities, even where it has none besides the baseline.",
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
        "The agent takes an initialize that holds nothing but the version.",
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
        "The agent takes null wherever the schema of initialize allows it.",
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
        "The agent takes optional fields of wrong types for absent, as the schema marks them.",
        schema("/$defs/InitializeRequest/properties/clientInfo", '"x-deserialize-default-on-error": true'),
        takes_broken_fields(),
        scenario="initialize-malformed",
        violation='"code":-32602 for "clientInfo":7',
    ),
    Requirement(
        "ACP1-A-INIT-009",
        "mandatory",
        "The agent takes any `_meta`, and no parameter from it.",
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
        "The agent takes any `_meta` of a prompt.",
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
        "The agent says its name and version.",
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
        "The agent offers no authentication in a terminal to a client that does not advertise it.",
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
        "The agent answers a method of authentication that it does not have with an error.",
        prose("authentication", "This value must match one of the methods advertised in the `initialize` response."),
        answered("authenticate", expect="error"),
        scenario="authenticate-unknown",
        violation="{}",
    ),
)
