"""JSON-RPC messages of an agent: ids, results, errors, unknown methods, and fields that the protocol lacks."""

from __future__ import annotations

from typing import Final

from conformance.driver import METHOD_NOT_FOUND
from conformance.judging import (
    PASS,
    Requirement,
    Verdict,
    answered,
    every,
    evidence,
    failed,
    marked_requests,
    not_tested,
    skipped,
    survived,
)
from conformance.suites.acp1 import (
    definition,
    error_problem,
    messages_fit,
    method_problem,
    no_own_fields,
    prose,
    schema,
)
from conformance.suites.jsonrpc import (
    REPLY_QUOTE,
    RESULT_OR_ERROR_QUOTE,
    all_answered,
    error_code_is,
    form_problem,
    ids_preserved,
    message_objects,
    no_message,
    notifications_unanswered,
    own_ids_are_valid,
    refused_with_error,
    responses,
    responses_match,
    version_problem,
)
from conformance.traffic import Message, Traffic
from conformance.values import as_text


def _invalid_params(traffic: Traffic) -> Verdict:
    asked = marked_requests(traffic, "no-params", "no-request")
    requests = [request for request in asked if request.answer is not None and not request.succeeded]
    for request in requests:
        if request.answer is not None and request.answer.error.get("code") not in (-32602, -32600):
            return failed(f"wrong params were answered with {request.answer.error.get('code')}", *evidence(request))
    return PASS if requests else not_tested("nothing was answered")


_SAME = "The Server MUST reply with the same value in the Response object if included."


def _errors(traffic: Traffic) -> list[Message]:
    return [message for message in traffic.sent("server") if message.is_response and message.error]


def _wordy(answer: Message) -> str:
    text = as_text(answer.error.get("message"))
    return "" if text.strip() and len(text.splitlines()) == 1 else f"the message of an error is {text[:60]!r}"


_REFUSED: Final = (
    *("authenticate", "logout", "relative-cwd", "without-cwd", "cwd-number", "again", "bad-cursor"),
    *("delete", "delete-again", "close", "prompt", "no-params"),
    *("set-mode", "unknown-mode", "set-option", "unknown-option", "unknown-value"),
)
"""Marks of requests that an agent may refuse, because their requirement is advice or asks for no more."""

_OTHERS: Final = (
    "AuthenticateResponse",
    "LogoutResponse",
    "DeleteSessionResponse",
    "CloseSessionResponse",
    "CreateElicitationRequest",
    "CompleteElicitationNotification",
    "CancelRequestNotification",
)


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-RPC-001",
        "mandatory",
        "Every message of the agent declares JSON-RPC 2.0.",
        schema("/anyOf/0/properties/jsonrpc", '"enum": ["2.0"]'),
        every(message_objects, version_problem, no_message),
        violation='{"id":1,"result":{}}',
    ),
    Requirement(
        "ACP1-A-RPC-002",
        "mandatory",
        "A response of the agent has either a result or an error.",
        prose("json-rpc", RESULT_OR_ERROR_QUOTE),
        every(message_objects, form_problem, no_message),
        violation='{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-32603,"message":"Internal error"}}',
    ),
    Requirement(
        "ACP1-A-RPC-003",
        "mandatory",
        "An error of the agent has an integer code and a message.",
        schema("/$defs/Error/required", '["code", "message"]'),
        every(responses, error_problem, no_message),
        violation='{"jsonrpc":"2.0","id":1,"error":"no such session"}',
    ),
    Requirement(
        "ACP1-A-RPC-004",
        "mandatory",
        "The agent answers only requests, and each of them once.",
        prose("json-rpc", "It MUST be the same as the value of the id member in the Request Object."),
        responses_match,
        violation="two responses with the id 3",
    ),
    Requirement(
        "ACP1-A-RPC-005",
        "mandatory",
        "The agent answers no notification.",
        prose(
            "json-rpc", "The Server MUST NOT reply to a Notification, including those that are within a batch request."
        ),
        notifications_unanswered,
        violation='{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}',
    ),
    Requirement(
        "ACP1-A-RPC-006",
        "mandatory",
        "The agent's responses repeat ids exactly, whatever their type.",
        schema("/$defs/RequestId", _SAME),
        ids_preserved,
        scenario="ids",
        violation='the request with the id "7" answered with the id 7',
    ),
    Requirement(
        "ACP1-A-RPC-007",
        "mandatory",
        "The agent's own requests have valid ids, and pending requests have different ones.",
        schema("/$defs/RequestId", "MUST contain a String, Number, or NULL value if included."),
        own_ids_are_valid(definition("RequestId")),
        violation="two permissions asked for with the id 1",
    ),
    Requirement(
        "ACP1-A-RPC-008",
        "advisory",
        "The agent calls only methods of the protocol, or methods that begin with an underscore.",
        prose(
            "extensibility",
            (
                "implementations **MAY** expose and call custom JSON-RPC requests as long as their "
                "name starts with an underscore (`_`)."
            ),
        ),
        every(
            lambda t: [m for m in message_objects(t) if m.method],
            method_problem,
            lambda: skipped("the agent called nothing"),
        ),
        violation='{"jsonrpc":"2.0","method":"status/changed","params":{}}',
    ),
    Requirement(
        "ACP1-A-RPC-009",
        "mandatory",
        "The agent adds no fields of its own to protocol types outside `_meta`.",
        prose(
            "extensibility",
            (
                "Implementations **MUST NOT** add any custom fields at the root of a type that's "
                "part of the specification."
            ),
        ),
        no_own_fields("server"),
        violation='{"stopReason":"end_turn","durationMs":120}',
    ),
    Requirement(
        "ACP1-A-RPC-010",
        "mandatory",
        "The agent answers an unknown method of the protocol.",
        prose("json-rpc", REPLY_QUOTE),
        answered("unknown"),
        scenario="unknown-methods",
        violation="silence",
    ),
    Requirement(
        "ACP1-A-RPC-011",
        "advisory",
        "The answer to an unknown method is the error -32601.",
        schema("/$defs/ErrorCode/anyOf/2", "The method does not exist or is not available."),
        error_code_is("unknown", METHOD_NOT_FOUND, instead_of_result=True),
        scenario="unknown-methods",
        violation='"code":-32603',
    ),
    Requirement(
        "ACP1-A-RPC-012",
        "mandatory",
        "The agent answers every extension request, known or not.",
        prose(
            "extensibility",
            "Upon receiving a custom request, implementations **MUST** respond accordingly with the provided `id`:",
        ),
        answered("extension"),
        scenario="unknown-methods",
        violation="silence",
    ),
    Requirement(
        "ACP1-A-RPC-013",
        "advisory",
        "The agent answers an unknown extension request with -32601.",
        prose(
            "extensibility",
            (
                "If the receiving end doesn't recognize the custom method name, it should respond "
                'with the standard "Method not found" error:'
            ),
        ),
        error_code_is("extension", METHOD_NOT_FOUND, instead_of_result=True),
        scenario="unknown-methods",
        violation='{"result":null}',
    ),
    Requirement(
        "ACP1-A-RPC-014",
        "advisory",
        "The agent ignores unknown notifications.",
        prose(
            "extensibility",
            "Unlike with custom requests, implementations **SHOULD** ignore unrecognized notifications.",
        ),
        survived,
        scenario="unknown-methods",
        violation="an agent that exits",
    ),
    Requirement(
        "ACP1-A-RPC-015",
        "mandatory",
        "The agent answers client methods, which it does not implement.",
        prose("json-rpc", REPLY_QUOTE),
        answered("unknown"),
        scenario="client-methods",
        violation="silence",
    ),
    Requirement(
        "ACP1-A-RPC-016",
        "advisory",
        "The agent answers requests whose params are missing or an array with errors.",
        schema("/$defs/NewSessionRequest/required", '["cwd", "mcpServers"]'),
        refused_with_error("no-params"),
        scenario="wrong-params",
        violation="silence",
    ),
    Requirement(
        "ACP1-A-RPC-017",
        "advisory",
        "Errors for such params have the code -32602.",
        schema("/$defs/ErrorCode/anyOf/3", "Invalid method parameter(s)."),
        _invalid_params,
        scenario="wrong-params",
        violation='"code":-32603',
    ),
    Requirement(
        "ACP1-A-RPC-018",
        "mandatory",
        "The agent keeps working after requests whose params are missing or not an object.",
        prose("json-rpc", REPLY_QUOTE),
        survived,
        scenario="wrong-params",
        violation="an agent that exits",
    ),
    Requirement(
        "ACP1-A-RPC-019",
        "mandatory",
        "The agent answers every request.",
        prose("json-rpc", REPLY_QUOTE),
        all_answered(*_REFUSED),
        violation="silence",
    ),
    Requirement(
        "ACP1-A-RPC-021",
        "advisory",
        "Error messages of the agent are one line and not empty.",
        schema("/$defs/Error/properties/message", "The message should be limited to a concise single sentence."),
        every(_errors, _wordy, lambda: skipped("the agent answered nothing with an error")),
        violation='"message":"Traceback (most recent call last):\\n  File ..."',
    ),
    Requirement(
        "ACP1-A-RPC-020",
        "mandatory",
        "Agent messages without a requirement of their own have the schema's shape.",
        schema("/$defs/CloseSessionResponse", '"type": "object"'),
        messages_fit("server", *_OTHERS),
        violation='{"jsonrpc":"2.0","id":3,"result":null} as the answer to session/close',
    ),
)
