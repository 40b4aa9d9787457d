"""Resources, prompts, completions and logging: results, and errors for what does not exist."""

from __future__ import annotations

from typing import Final

from conformance.judging import answered
from conformance.judging_rpc import coded
from conformance.requirement import Requirement
from conformance.requirements.mcp_stdio.reading import (
    HANDSHAKE,
    answers_to,
    notifications_are_shaped,
    prose,
    results_are_shaped,
    schema,
    when,
)
from conformance.traffic import Traffic
from conformance.values import as_list, at
from conformance.verdict import PASS, Verdict, failed, skipped

_INVALID: Final = -32602
_MISSING: Final = -32002
_MOST: Final = 100
_REPLY: Final = (
    "When a rpc call is made, the Server MUST reply with a Response, except for in the case of Notifications."
)


def _at_most(traffic: Traffic) -> Verdict:
    answers = answers_to(traffic, "completion/complete")
    for answer in answers:
        count = len(as_list(at(answer.result, "completion.values")))
        if count > _MOST:
            return failed(f"{count} completions were given", answer.index)
    return PASS if answers else skipped("nothing was completed")


REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-RES-001",
        "capability",
        "Results of resources/read have the shape that the schema gives them.",
        schema("/$defs/ReadResourceResult/required", '["contents"]'),
        results_are_shaped("resources/read"),
        applies="resources",
        violation='{"contents":[{"text":"..."}]}',
    ),
    Requirement(
        "MCP-S-RES-002",
        "capability",
        "A listed resource that is asked for is answered.",
        prose("json-rpc", _REPLY),
        when("read", answered("read")),
        applies="resources",
        violation="silence",
    ),
    Requirement(
        "MCP-S-RES-003",
        "advisory",
        "A resource that does not exist is answered with -32002, or with -32602 as the later version has it.",
        prose("server/resources", "Resource not found: `-32002`"),
        when("unknown-resource", coded("unknown-resource", _MISSING, _INVALID, instead_of_result=True)),
        applies="resources",
        violation='{"contents":[]}',
    ),
    Requirement(
        "MCP-S-PROMPT-001",
        "capability",
        "Results of prompts/get have the shape that the schema gives them.",
        schema("/$defs/GetPromptResult/required", '["messages"]'),
        results_are_shaped("prompts/get"),
        applies="prompts",
        violation='{"messages":[{"role":"system","content":"..."}]}',
    ),
    Requirement(
        "MCP-S-PROMPT-002",
        "capability",
        "A listed prompt that is asked for is answered.",
        prose("json-rpc", _REPLY),
        when("get", answered("get")),
        applies="prompts",
        violation="silence",
    ),
    Requirement(
        "MCP-S-PROMPT-003",
        "advisory",
        "A prompt that does not exist is answered with -32602.",
        prose("server/prompts", "Invalid prompt name: `-32602` (Invalid params)"),
        when("unknown-prompt", coded("unknown-prompt", _INVALID, instead_of_result=True)),
        applies="prompts",
        violation='"code":-32603',
    ),
    Requirement(
        "MCP-S-PROMPT-004",
        "advisory",
        "A prompt without an argument that it requires is answered with -32602.",
        prose("server/prompts", "Missing required arguments: `-32602` (Invalid params)"),
        when("missing-prompt-argument", coded("missing-prompt-argument", _INVALID, instead_of_result=True)),
        applies="prompts",
        violation="a prompt with `undefined` in it",
    ),
    Requirement(
        "MCP-S-COMPLETE-001",
        "capability",
        "Results of completion/complete have the shape that the schema gives them.",
        schema("/$defs/CompleteResult/required", '["completion"]'),
        results_are_shaped("completion/complete"),
        applies="completions",
        violation='{"values":["a"]}',
    ),
    Requirement(
        "MCP-S-COMPLETE-002",
        "capability",
        "At most 100 completions are given.",
        schema("/$defs/CompleteResult/properties/completion/properties/values", "Must not exceed 100 items."),
        _at_most,
        applies=f"{HANDSHAKE} completions",
        violation="101 values",
    ),
    Requirement(
        "MCP-S-COMPLETE-003",
        "advisory",
        "Completions of a prompt that does not exist are answered with -32602.",
        prose("server/utilities/completion", "Invalid prompt name: `-32602` (Invalid params)"),
        when("complete-unknown", coded("complete-unknown", _INVALID, instead_of_result=True)),
        applies="completions",
        violation='{"completion":{"values":[]}}',
    ),
    Requirement(
        "MCP-S-LOG-001",
        "advisory",
        "A server with logging takes a level.",
        schema("/$defs/SetLevelRequest", '"const": "logging/setLevel"'),
        when("level", answered("level", expect="result")),
        scenario="levels",
        applies=f"{HANDSHAKE} logging",
        violation='{"error":{"code":-32601,"message":"Method not found"}}',
    ),
    Requirement(
        "MCP-S-LOG-002",
        "advisory",
        "A level that does not exist is answered with -32602.",
        prose("server/utilities/logging", "Invalid log level: `-32602` (Invalid params)"),
        when("wrong-level", coded("wrong-level", _INVALID, instead_of_result=True)),
        scenario="levels",
        applies=f"{HANDSHAKE} logging",
        violation="{}",
    ),
    Requirement(
        "MCP-S-LOG-003",
        "mandatory",
        "Log messages have the shape that the schema gives them.",
        schema("/$defs/LoggingMessageNotificationParams/required", '["data", "level"]'),
        notifications_are_shaped({"notifications/message": "LoggingMessageNotificationParams"}),
        violation='{"level":"warn","message":"..."}',
    ),
    Requirement(
        "MCP-S-EMPTY-001",
        "mandatory",
        "Pings, levels and subscriptions are answered with an object.",
        schema("/$defs/JSONRPCResultResponse/properties/result", '"$ref": "#/$defs/Result"'),
        results_are_shaped("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"),
        violation='{"jsonrpc":"2.0","id":1,"result":null}',
    ),
)
