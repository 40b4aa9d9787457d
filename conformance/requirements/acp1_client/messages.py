"""JSON-RPC: versions, ids, results and errors, what is answered and what is not, and what nobody may add."""

from __future__ import annotations

from functools import partial
from typing import Final

from conformance.judging import every, unanswered
from conformance.judging_rpc import (
    all_answered,
    asked_for,
    coded,
    form_problem,
    ids_repeated,
    no_message,
    notifications_unanswered,
    objects,
    own_ids,
    responses,
    version_problem,
)
from conformance.requirement import Requirement
from conformance.requirements.acp1 import are, definition, error_problem, method_problem, no_own_fields, prose, schema
from conformance.requirements.acp1_client.reading import SIDE, answered, goes_on, marked, probed
from conformance.traffic import Message, Traffic
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_NOT_FOUND: Final = -32601


def _objects(traffic: Traffic) -> list[Message]:
    return objects(traffic, SIDE)


def _responses(traffic: Traffic) -> list[Message]:
    return responses(traffic, SIDE)


def _calls(traffic: Traffic) -> list[Message]:
    return [message for message in _objects(traffic) if message.method]


def _no_response() -> Verdict:
    return skipped("the client was asked nothing")


def _refuses_unadvertised(traffic: Traffic) -> Verdict:
    requests = marked(traffic, "unadvertised")
    if not requests:
        done = traffic.requests(SIDE, "session/prompt")
        return skipped("the client advertises everything") if done else not_tested("the client sent no prompt")
    for request in requests:
        declined = request.answer is not None and request.answer.result.get("action") in ("decline", "cancel")
        if request.succeeded and not declined:
            return failed(f"{request.method}, which is not advertised, was answered with a result", request.index)
        if request.answer is None:
            return failed(unanswered(traffic, request, f"{request.method}, which is not advertised,"), request.index)
    return PASS


_BOTH = "Either the result member or error member MUST be included, but both members MUST NOT be included."
_REPLY = "When a rpc call is made, the Server MUST reply with a Response, except for in the case of Notifications."
_REFUSED: Final = (
    *("before", "unadvertised", "whole", "missing", "relative", "new", "over", "started", "output", "wait"),
    *("release", "kill", "unknown-terminal"),
)
"""Marks of requests that have no answer but success, or that a client may refuse, where that is advice."""
_OF_USERS: Final = frozenset({"session/request_permission", "elicitation/create"})

_OTHERS: Final = (
    "AuthenticateRequest",
    "LogoutRequest",
    "LoadSessionRequest",
    "ResumeSessionRequest",
    "ListSessionsRequest",
    "DeleteSessionRequest",
    "CloseSessionRequest",
    "SetSessionModeRequest",
    "SetSessionConfigOptionRequest",
    "CancelRequestNotification",
    "KillTerminalResponse",
    "ReleaseTerminalResponse",
)

REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-RPC-001",
        "mandatory",
        "Every message of the client says that it is JSON-RPC 2.0.",
        schema("/anyOf/0/properties/jsonrpc", '"enum": ["2.0"]'),
        every(_objects, version_problem, no_message),
        violation='{"id":1,"method":"initialize","params":{}}',
    ),
    Requirement(
        "ACP1-C-RPC-002",
        "mandatory",
        "A response of the client holds either a result or an error.",
        prose("json-rpc", _BOTH),
        every(_objects, form_problem, no_message),
        violation='{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-32603,"message":"Internal error"}}',
    ),
    Requirement(
        "ACP1-C-RPC-003",
        "mandatory",
        "An error of the client has an integer code and a message.",
        schema("/$defs/Error/required", '["code", "message"]'),
        every(_responses, error_problem, _no_response),
        violation='{"jsonrpc":"2.0","id":1,"error":"no such file"}',
    ),
    Requirement(
        "ACP1-C-RPC-004",
        "mandatory",
        "The client answers what it was asked, and each request once.",
        prose("json-rpc", "It MUST be the same as the value of the id member in the Request Object."),
        partial(asked_for, side=SIDE),
        violation="two responses with the id 3",
    ),
    Requirement(
        "ACP1-C-RPC-005",
        "mandatory",
        "The client answers no notification.",
        prose(
            "json-rpc", "The Server MUST NOT reply to a Notification, including those that are within a batch request."
        ),
        partial(notifications_unanswered, side=SIDE),
        violation='{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}',
    ),
    Requirement(
        "ACP1-C-RPC-006",
        "mandatory",
        "The client's responses repeat ids exactly, whatever their type.",
        schema("/$defs/RequestId", "The Server MUST reply with the same value in the Response object if included."),
        probed(partial(ids_repeated, side=SIDE)),
        scenario="ids",
        violation='the request with the id "7" answered with the id 7',
    ),
    Requirement(
        "ACP1-C-RPC-007",
        "mandatory",
        "The client's own requests have ids that the schema allows, and that no other waiting request has.",
        schema("/$defs/RequestId", "MUST contain a String, Number, or NULL value if included."),
        own_ids(definition("RequestId"), SIDE),
        violation="session/new with the id of initialize, which was not answered yet",
    ),
    Requirement(
        "ACP1-C-RPC-008",
        "advisory",
        "The client calls methods of the protocol, or ones whose names begin with an underscore.",
        prose(
            "extensibility",
            (
                "implementations **MAY** expose and call custom JSON-RPC requests as long as their "
                "name starts with an underscore (`_`)."
            ),
        ),
        every(_calls, method_problem, lambda: skipped("the client called nothing")),
        violation='{"jsonrpc":"2.0","id":1,"method":"session/telemetry","params":{}}',
    ),
    Requirement(
        "ACP1-C-RPC-009",
        "mandatory",
        "The client adds no fields of its own to the protocol's types, outside `_meta`.",
        prose(
            "extensibility",
            (
                "Implementations **MUST NOT** add any custom fields at the root of a type that's "
                "part of the specification."
            ),
        ),
        no_own_fields(SIDE),
        violation='{"cwd":"/project","mcpServers":[],"theme":"dark"}',
    ),
    Requirement(
        "ACP1-C-RPC-010",
        "mandatory",
        "The client answers a method that does not exist.",
        prose("json-rpc", _REPLY),
        answered("unknown"),
        scenario="unknown-methods",
        violation="silence",
    ),
    Requirement(
        "ACP1-C-RPC-011",
        "advisory",
        "That answer is an error with the code -32601.",
        schema("/$defs/ErrorCode/anyOf/2", "The method does not exist or is not available."),
        coded("unknown", _NOT_FOUND, instead_of_result=True, by="server"),
        scenario="unknown-methods",
        violation='"code":-32603',
    ),
    Requirement(
        "ACP1-C-RPC-012",
        "mandatory",
        "The client answers every extension's request, known or not.",
        prose(
            "extensibility",
            "Upon receiving a custom request, implementations **MUST** respond accordingly with the provided `id`:",
        ),
        answered("extension"),
        scenario="unknown-methods",
        violation="silence",
    ),
    Requirement(
        "ACP1-C-RPC-013",
        "advisory",
        "The client answers an extension's request that it does not know with -32601.",
        prose(
            "extensibility",
            (
                "If the receiving end doesn't recognize the custom method name, it should respond "
                'with the standard "Method not found" error:'
            ),
        ),
        coded("extension", _NOT_FOUND, instead_of_result=True, by="server"),
        scenario="unknown-methods",
        violation='{"result":null}',
    ),
    Requirement(
        "ACP1-C-RPC-014",
        "advisory",
        "The client takes no notice of notifications that it does not know.",
        prose(
            "extensibility",
            "Unlike with custom requests, implementations **SHOULD** ignore unrecognized notifications.",
        ),
        goes_on,
        scenario="unknown-notifications",
        violation="a client that ends",
    ),
    Requirement(
        "ACP1-C-RPC-015",
        "advisory",
        "The client answers methods that it does not advertise with errors.",
        prose(
            "initialization",
            (
                "Clients and Agents **MUST** treat all capabilities omitted in the `initialize` request as "
                "**UNSUPPORTED**."
            ),
        ),
        _refuses_unadvertised,
        scenario="unadvertised-methods",
        violation='{"result":{"terminalId":"t1"}} of a client without the capability `terminal`',
    ),
    Requirement(
        "ACP1-C-RPC-016",
        "mandatory",
        "The client answers every request that need not wait for its user.",
        prose("json-rpc", _REPLY),
        all_answered(*_REFUSED, user=_OF_USERS, side=SIDE),
        violation="silence",
    ),
    Requirement(
        "ACP1-C-RPC-017",
        "mandatory",
        "The client's messages that no other requirement is about have the schema's shape.",
        schema("/$defs/SetSessionConfigOptionRequest/required", '["sessionId", "configId"]'),
        are(SIDE, *_OTHERS),
        violation='{"configId":"model","value":"large"} as the params of session/set_config_option',
    ),
)
