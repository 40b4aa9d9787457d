"""JSON-RPC: versions, ids, results and errors, what is answered and what is not."""

from __future__ import annotations

from typing import Final

from conformance.judging import answered, every, survived
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
from conformance.requirements.mcp_stdio.reading import definition, prose, schema
from conformance.traffic import Message, Traffic, id_key
from conformance.verdict import PASS, Verdict, failed, skipped

_NOT_FOUND: Final = -32601
_BOTH: Final = "Either the result member or error member MUST be included, but both members MUST NOT be included."
_REPLY: Final = (
    "When a rpc call is made, the Server MUST reply with a Response, except for in the case of Notifications."
)


def _error_problem(message: Message) -> str:
    if "error" not in message.object or "result" in message.object:
        return ""
    wrong = definition("Error")(message.object["error"])
    return f"the error: {wrong}" if wrong else ""


def _never_again(traffic: Traffic) -> Verdict:
    used: dict[tuple[int, object], Message] = {}
    for message in traffic.sent("server"):
        if message.is_request:
            before = used.setdefault((traffic.start_of(message), id_key(message.id)), message)
            if before is not message:
                return failed(f"two requests have the id {message.id!r}", before.index, message.index)
    return PASS if used else skipped("the server sent no request")


_REFUSED: Final = (
    *("unknown-version", "partial-meta", "no-meta", "wrong-cursor", "unknown-tool", "missing-argument", "wrong-type"),
    *("undeclared-tools", "undeclared-resources", "undeclared-prompts", "undeclared-completions", "undeclared-logging"),
    *("unknown-resource", "unknown-prompt", "missing-prompt-argument", "complete", "complete-unknown", "wrong-level"),
)
"""Marks of requests that a server may refuse, where the requirement about them is advice or does not ask for more."""

REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-RPC-001",
        "mandatory",
        "Every message of the server says that it is JSON-RPC 2.0.",
        schema("/$defs/JSONRPCResultResponse/properties/jsonrpc", '"const": "2.0"'),
        every(objects, version_problem, no_message),
        violation='{"id":1,"result":{}}',
    ),
    Requirement(
        "MCP-S-RPC-002",
        "mandatory",
        "A response of the server holds either a result or an error.",
        prose("json-rpc", _BOTH),
        every(objects, form_problem, no_message),
        violation='{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-32603,"message":"Internal error"}}',
    ),
    Requirement(
        "MCP-S-RPC-003",
        "mandatory",
        "An error of the server has an integer code and a message.",
        prose("basic", "Error responses **MUST** include an `error` field with a `code` and `message`."),
        every(responses, _error_problem, no_message),
        violation='{"jsonrpc":"2.0","id":1,"error":"no such tool"}',
    ),
    Requirement(
        "MCP-S-RPC-004",
        "mandatory",
        "The server answers what it was asked, and each request once.",
        prose("basic", "Result responses **MUST** include the same ID as the request they correspond to."),
        asked_for,
        violation="two responses with the id 3",
    ),
    Requirement(
        "MCP-S-RPC-005",
        "mandatory",
        "The server answers no notification.",
        prose("basic", "The receiver **MUST NOT** send a response."),
        notifications_unanswered,
        violation='{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}',
    ),
    Requirement(
        "MCP-S-RPC-006",
        "mandatory",
        "The server's responses repeat ids exactly, whatever their type.",
        prose("basic", "Result responses **MUST** include the same ID as the request they correspond to."),
        ids_repeated,
        scenario="ids",
        violation='the request with the id "7" answered with the id 7',
    ),
    Requirement(
        "MCP-S-RPC-007",
        "mandatory",
        "The server's own requests have ids that are strings or integers, and that no other waiting request has.",
        prose("basic", "Requests **MUST** include a string or integer ID."),
        own_ids(definition("RequestId")),
        violation='{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    ),
    Requirement(
        "MCP-S-RPC-008",
        "mandatory",
        "The server answers a method that does not exist.",
        prose("json-rpc", _REPLY),
        answered("unknown"),
        scenario="unknown-methods",
        violation="silence",
    ),
    Requirement(
        "MCP-S-RPC-009",
        "advisory",
        "That answer is an error with the code -32601.",
        prose("json-rpc", "The method does not exist / is not available."),
        coded("unknown", _NOT_FOUND, instead_of_result=True),
        scenario="unknown-methods",
        violation='"code":-32602',
    ),
    Requirement(
        "MCP-S-RPC-010",
        "advisory",
        "The server takes no notice of notifications that it does not know.",
        prose("basic", "The receiver **MUST NOT** send a response."),
        survived,
        scenario="unknown-notifications",
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-RPC-011",
        "mandatory",
        "The server answers each of several requests that wait at the same time.",
        prose("json-rpc", _REPLY),
        answered("at-once"),
        scenario="at-once",
        violation="of ten requests with ids of both types, eight answered",
    ),
    Requirement(
        "MCP-S-RPC-012",
        "mandatory",
        "The server answers every request.",
        prose("json-rpc", _REPLY),
        all_answered(*_REFUSED),
        violation="silence",
    ),
    Requirement(
        "MCP-S-RPC-013",
        "mandatory",
        "The server uses the id of a request once.",
        prose(
            "basic", "The request ID **MUST NOT** have been previously used by the requestor within the same session."
        ),
        _never_again,
        violation="a second ping with the id 0, after the first was answered",
    ),
)
