"""JSON-RPC messages of an agent: ids, results, errors, unknown methods, and fields that the protocol lacks."""

from __future__ import annotations

from typing import Final

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
from conformance.suites import jsonrpc_rules as rules
from conformance.suites.acp1 import (
    DECLARED_VERSION,
    ERROR_FIELDS,
    EXTENSION_REQUEST,
    ID_TYPES,
    IGNORED_NOTIFICATION,
    METHOD_NAMES,
    OWN_FIELDS,
    SAME_ID,
    UNKNOWN_EXTENSION,
    UNKNOWN_METHOD,
    messages_fit,
    prose,
    schema,
)
from conformance.suites.acp1_agent.client import AGENT
from conformance.suites.jsonrpc import refused_with_error
from conformance.suites.jsonrpc_rules import REPLY_QUOTE
from conformance.traffic import Message, Traffic
from conformance.values import as_text


def _invalid_params(traffic: Traffic) -> Verdict:
    asked = marked_requests(traffic, "no-params", "no-request")
    requests = [request for request in asked if request.answer is not None and not request.succeeded]
    for request in requests:
        if request.answer is not None and request.answer.error.get("code") not in (-32602, -32600):
            return failed(f"wrong params were answered with {request.answer.error.get('code')}", *evidence(request))
    return PASS if requests else not_tested("nothing was answered")


def _errors(traffic: Traffic) -> list[Message]:
    return [message for message in traffic.sent("server") if message.is_response and message.error]


def _wordy(answer: Message) -> str:
    text = as_text(answer.error.get("message"))
    return "" if text.strip() and len(text.splitlines()) == 1 else f"the message of an error is {text[:60]!r}"


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
    rules.VERSION.of(AGENT, "ACP1-A-RPC-001", DECLARED_VERSION),
    rules.RESULT_OR_ERROR.of(AGENT, "ACP1-A-RPC-002"),
    rules.ERROR_SHAPE.of(AGENT, "ACP1-A-RPC-003", ERROR_FIELDS),
    rules.ANSWERS_ONCE.of(AGENT, "ACP1-A-RPC-004"),
    rules.NOTIFICATIONS.of(AGENT, "ACP1-A-RPC-005"),
    rules.IDS.of(AGENT, "ACP1-A-RPC-006", SAME_ID),
    rules.OWN_IDS.of(AGENT, "ACP1-A-RPC-007", ID_TYPES),
    METHOD_NAMES.of(AGENT, "ACP1-A-RPC-008"),
    OWN_FIELDS.of(AGENT, "ACP1-A-RPC-009"),
    rules.UNKNOWN_METHOD.of(AGENT, "ACP1-A-RPC-010"),
    rules.UNKNOWN_METHOD_CODE.of(AGENT, "ACP1-A-RPC-011", UNKNOWN_METHOD),
    EXTENSION_REQUEST.of(AGENT, "ACP1-A-RPC-012"),
    UNKNOWN_EXTENSION.of(AGENT, "ACP1-A-RPC-013"),
    rules.UNKNOWN_NOTIFICATIONS.of(AGENT, "ACP1-A-RPC-014", IGNORED_NOTIFICATION, scenario="unknown-methods"),
    Requirement(
        "ACP1-A-RPC-015",
        "mandatory",
        "The agent answers requests for client methods, which no agent implements.",
        prose("json-rpc", REPLY_QUOTE),
        answered("unknown"),
        scenario="client-methods",
        violation="silence",
    ),
    Requirement(
        "ACP1-A-RPC-016",
        "advisory",
        "The agent answers requests with errors if their params are missing or an array.",
        schema("/$defs/NewSessionRequest/required", '["cwd", "mcpServers"]'),
        refused_with_error("no-params"),
        scenario="wrong-params",
        violation="silence",
    ),
    Requirement(
        "ACP1-A-RPC-017",
        "advisory",
        "Errors for missing params, or for an array, have the code -32602.",
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
    rules.EVERY_REQUEST.of(AGENT, "ACP1-A-RPC-019"),
    Requirement(
        "ACP1-A-RPC-021",
        "advisory",
        "Error messages of the agent are one line and not empty.",
        schema("/$defs/Error/properties/message", "The message should be limited to a concise single sentence."),
        every(_errors, _wordy, lambda: skipped("the agent sent no error")),
        violation='"message":"Traceback (most recent call last):\\n  File ..."',
    ),
    Requirement(
        "ACP1-A-RPC-020",
        "mandatory",
        "Agent messages that no other requirement covers have the schema's shape.",
        schema("/$defs/CloseSessionResponse", '"type": "object"'),
        messages_fit("server", *_OTHERS),
        violation='{"jsonrpc":"2.0","id":3,"result":null} as the answer to session/close',
    ),
)
