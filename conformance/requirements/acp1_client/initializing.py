"""Initialization: it comes first, says what the client really can, and bears every answer that the schema allows."""

from __future__ import annotations

from typing import Final

from conformance.judging import evidence
from conformance.judging_fields import takes_broken_fields
from conformance.requirement import Requirement
from conformance.requirements.acp1 import AGREED, params_are, prose, schema
from conformance.requirements.acp1_client.reading import (
    SIDE,
    capability,
    ends,
    never_sends,
    no_prompt,
    offered,
    only_if_offered,
    reaches_prompt,
)
from conformance.traffic import Traffic
from conformance.values import as_list, as_object
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_NOT_FOUND: Final = -32601
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
"""What a client says with each capability that it has."""
_SESSION_METHODS: Final = ("session/new", "session/load", "session/resume", "session/list", "session/prompt")


def _first(traffic: Traffic) -> Verdict:
    called = [message for message in traffic.sent(SIDE) if message.method and not message.method.startswith("_")]
    if not called:
        return not_tested("the client called nothing")
    if called[0].method != "initialize":
        return failed(f"the client begins with {called[0].method}", called[0].index)
    return PASS


def _knows_what_it_advertises(traffic: Traffic) -> Verdict:
    found = False
    for request in traffic.sent("server"):
        if request.is_request and capability(traffic, _CAPABILITIES.get(request.method, "-")):
            found = True
            if request.answer is not None and request.answer.error.get("code") == _NOT_FOUND:
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
    methods = [as_object(method) for method in as_list(offered(traffic, "authMethods"))]
    known = [method.get("id") for method in methods if method.get("type") != "terminal"]
    requests = traffic.requests(SIDE, "authenticate")
    for request in requests:
        if request.params.get("methodId") not in known:
            return failed(f"{request.params.get('methodId')!r} is no method for this that was offered", request.index)
    return PASS if requests else skipped("the client did not authenticate")


_COMPLETE = (
    "Before creating a session, Clients **MUST** first complete the [initialization](/protocol/v1/initialization) "
    "phase to establish protocol compatibility and capabilities."
)
_ERRORS = "Errors include an `error` object with `code` and `message`"

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
        params_are("initialize", "InitializeRequest", SIDE),
        violation='{"protocolVersion":"1.0"}',
    ),
    Requirement(
        "ACP1-C-INIT-003",
        "mandatory",
        "The client uses no session before initialize was answered, however late.",
        prose("session-setup", _COMPLETE),
        _waits_for_initialize,
        scenario="late-answers",
        violation="initialize and session/new in one write",
    ),
    Requirement(
        "ACP1-C-INIT-004",
        "advisory",
        "The client says its name and version.",
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
        "The client uses no session in a version that it does not speak.",
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
        "The client uses no session where initialize was answered with an error.",
        prose("session-setup", _COMPLETE),
        never_sends("refused", *_SESSION_METHODS),
        scenario="initialize-error",
        violation="session/new after an error",
    ),
    Requirement(
        "ACP1-C-INIT-007",
        "mandatory",
        "The client takes an answer to initialize that holds nothing but the version.",
        AGREED,
        reaches_prompt,
        scenario="initialize-bare",
        violation="a client that needs agentInfo",
    ),
    Requirement(
        "ACP1-C-INIT-008",
        "mandatory",
        "The client takes null wherever the schema of the answer to initialize allows it.",
        AGREED,
        reaches_prompt,
        scenario="initialize-nulls",
        violation='a client that ends at "agentInfo":null',
    ),
    Requirement(
        "ACP1-C-INIT-009",
        "advisory",
        "The client takes optional fields of wrong types for absent, as the schema marks them.",
        schema("/$defs/InitializeResponse/properties/agentInfo", '"x-deserialize-default-on-error": true'),
        takes_broken_fields(no_prompt, by="server"),
        scenario="initialize-malformed",
        violation='a client that ends at "agentInfo":7',
    ),
    Requirement(
        "ACP1-C-INIT-010",
        "mandatory",
        "The client takes any `_meta` in the answer to initialize.",
        schema(
            "/$defs/InitializeResponse/properties/_meta",
            "Implementations MUST NOT make assumptions about values at these keys.",
        ),
        reaches_prompt,
        scenario="initialize-meta",
        violation="a client that ends at an unknown key of _meta",
    ),
    Requirement(
        "ACP1-C-INIT-011",
        "advisory",
        "The client takes no notice of capabilities that it does not know.",
        prose("initialization", "The introduction of new capabilities is not considered a breaking change."),
        reaches_prompt,
        scenario="initialize-unknown",
        violation='a client that ends at "agentCapabilities":{"telepathy":{}}',
    ),
    Requirement(
        "ACP1-C-INIT-012",
        "informational",
        "A client that ends after a turn also ends where initialize was answered with an error.",
        prose("overview", _ERRORS),
        ends,
        scenario="initialize-error",
        violation="a client that waits for ever",
    ),
    Requirement(
        "ACP1-C-INIT-013",
        "advisory",
        "The client has the methods that it advertises.",
        schema("/$defs/ClientCapabilities/properties/terminal", "Whether the Client support all `terminal/*` methods."),
        _knows_what_it_advertises,
        violation='"code":-32601 for terminal/create, after "terminal":true',
    ),
    Requirement(
        "ACP1-C-AUTH-001",
        "mandatory",
        "The client authenticates by a method that the agent advertises.",
        prose("authentication", "This value must match one of the methods advertised in the `initialize` response."),
        _known_authentication,
        violation='"methodId":"api-key", which is not among authMethods',
    ),
    Requirement(
        "ACP1-C-AUTH-002",
        "mandatory",
        "The client logs out only where the agent advertises it.",
        prose(
            "authentication",
            (
                "If `agentCapabilities.auth.logout` is omitted or `null`, the Agent does not support `logout` and "
                "Clients **MUST NOT** call it."
            ),
        ),
        only_if_offered("logout", "auth.logout"),
        violation="logout without agentCapabilities.auth.logout",
    ),
)
