"""Tools: what their descriptions may hold, and what becomes of wrong calls."""

from __future__ import annotations

import re
from typing import Final

from conformance.judging import answered, evidence, marked
from conformance.judging_rpc import coded
from conformance.requirement import Judge, Requirement
from conformance.requirements.mcp_stdio.json_schemas import schema_problem
from conformance.requirements.mcp_stdio.reading import listed, prose, schema, when
from conformance.traffic import Message, Traffic
from conformance.values import Object, cut
from conformance.verdict import PASS, Verdict, failed, skipped

_INVALID: Final = -32602
_LONGEST: Final = 128
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]*")
_REPLY: Final = (
    "When a rpc call is made, the Server MUST reply with a Response, except for in the case of Notifications."
)


def _tools(traffic: Traffic) -> list[tuple[Message, Object]]:
    return [(request, tool) for request, items in listed(traffic, "tools/list", "tools") for tool in items]


def _schemas(field: str) -> Judge:
    """What every tool has in a field is a JSON Schema, where it is there at all and no other requirement's matter."""

    def judge(traffic: Traffic) -> Verdict:
        tools = [(request, tool) for request, tool in _tools(traffic) if isinstance(tool.get(field), dict)]
        for request, tool in tools:
            problem = schema_problem(tool[field])
            if problem:
                return failed(f"the {field} of {tool.get('name')!r}: {problem}", *evidence(request))
        return PASS if tools else skipped(f"no tool has an {field}")

    return judge


def _names(traffic: Traffic) -> Verdict:
    tools = _tools(traffic)
    for request, tool in tools:
        name = tool.get("name")
        if isinstance(name, str) and not (name and len(name) <= _LONGEST and _NAME.fullmatch(name)):
            return failed(f"a tool has the name {cut(name, _LONGEST)!r}", *evidence(request))
    return PASS if tools else skipped("no tools were listed")


def _is_error(request: Message) -> bool:
    """Whether a call was answered with an error, of the protocol or of the tool."""
    return request.answer is not None and (not request.succeeded or request.answer.result.get("isError") is True)


def _fails(label: str, text: str) -> Judge:
    """Each call under a mark, if it is answered, is answered with an error of some kind."""

    def judge(traffic: Traffic) -> Verdict:
        calls = [request for request in marked(traffic, label) if request.answer is not None]
        for request in calls:
            if not _is_error(request):
                return failed(f"{request.params.get('name')} {text} succeeded", *evidence(request))
        return PASS if calls else skipped("no such call was answered")

    return judge


REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-TOOL-001",
        "capability",
        "The inputSchema of each tool is a valid JSON Schema.",
        prose("server/tools", "**MUST** be a valid JSON Schema object (not `null`)"),
        _schemas("inputSchema"),
        applies="tools",
        violation='"inputSchema":{"type":"object","properties":{"path":"string"}}',
    ),
    Requirement(
        "MCP-S-TOOL-002",
        "capability",
        "The outputSchema of each tool, if it has one, is a valid JSON Schema.",
        prose("basic", "Schemas **MUST** be valid according to their declared or default dialect"),
        _schemas("outputSchema"),
        applies="tools",
        violation='"outputSchema":{"type":"object","required":"name"}',
    ),
    Requirement(
        "MCP-S-TOOL-003",
        "advisory",
        "Names of tools have 1 to 128 letters, digits, `_`, `-` and `.`.",
        prose("server/tools", "Tool names SHOULD be between 1 and 128 characters in length (inclusive)."),
        _names,
        applies="tools",
        violation='"name":"read file"',
    ),
    Requirement(
        "MCP-S-TOOL-004",
        "advisory",
        "A call of a tool that does not exist is answered with an error of the protocol, -32602.",
        schema(
            "/$defs/CallToolResult/properties/isError",
            "However, any errors in _finding_ the tool, an error indicating that the server does not support tool "
            "calls, or any other exceptional conditions, should be reported as an MCP error response.",
        ),
        when("unknown-tool", coded("unknown-tool", _INVALID, instead_of_result=True)),
        applies="tools",
        violation='{"content":[{"type":"text","text":"Unknown tool"}],"isError":true}',
    ),
    Requirement(
        "MCP-S-TOOL-005",
        "capability",
        "A call without a tool's name is answered.",
        prose("json-rpc", _REPLY),
        when("malformed-call", answered("malformed-call")),
        applies="tools",
        violation="silence",
    ),
    Requirement(
        "MCP-S-TOOL-006",
        "advisory",
        "A call without a tool's name is answered with -32602.",
        prose("json-rpc", "Invalid method parameter(s)."),
        when("malformed-call", coded("malformed-call", _INVALID, instead_of_result=True)),
        applies="tools",
        violation='"code":-32603',
    ),
    Requirement(
        "MCP-S-TOOL-007",
        "capability",
        "A call without an argument that is required does not succeed.",
        prose("server/tools", "1. Servers **MUST**: - Validate all tool inputs"),
        when("missing-argument", _fails("missing-argument", "without a required argument")),
        applies="tools",
        violation='"arguments":{} answered with a result, where the schema requires `path`',
    ),
    Requirement(
        "MCP-S-TOOL-008",
        "advisory",
        "A call with an argument of another type does not succeed.",
        prose("server/tools", "1. Servers **MUST**: - Validate all tool inputs"),
        when("wrong-type", _fails("wrong-type", "with an argument of another type")),
        applies="tools",
        violation='"arguments":{"path":{"an":"object"}} answered with a result, where the schema says string',
    ),
    Requirement(
        "MCP-S-TOOL-009",
        "capability",
        "Each call is answered.",
        prose("json-rpc", _REPLY),
        when("call", answered("call")),
        applies="tools",
        violation="silence",
    ),
)
