"""What calls are answered with: the shape of results, structured ones by their schema, and binary data."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Final

from conformance.judging import evidence
from conformance.requirement import Requirement
from conformance.requirements.mcp_stdio.json_schemas import schema_problem
from conformance.requirements.mcp_stdio.reading import (
    answered_requests,
    answers_to,
    listed,
    prose,
    results_are_shaped,
    schema,
)
from conformance.schema import Check, Schema, UnknownKeywordError
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, is_object, walk
from conformance.verdict import PASS, Verdict, failed, skipped


def _calls(traffic: Traffic) -> list[Message]:
    """Calls that ended well, and not with a question."""
    return [
        request
        for request in answered_requests(traffic, "tools/call")
        if request.answer is not None
        and request.answer.result.get("isError") is not True
        and request.answer.result.get("resultType") != "input_required"
    ]


def _output_schemas(traffic: Traffic) -> dict[str, Object]:
    return {
        tool["name"]: tool["outputSchema"]
        for _, tools in listed(traffic, "tools/list", "tools")
        for tool in tools
        if is_object(tool.get("outputSchema")) and isinstance(tool.get("name"), str)
    }


def _structured(traffic: Traffic) -> Verdict:
    schemas = _output_schemas(traffic)
    described = [request for request in _calls(traffic) if request.params.get("name") in schemas]
    judged = 0
    for request in described:
        assert request.answer
        name, result = request.params["name"], request.answer.result
        check = _compiled(schemas[name])
        if check is None:
            continue
        judged += 1
        if "structuredContent" not in result:
            return failed(f"{name} has an outputSchema and answered without structuredContent", *evidence(request))
        wrong = check(result["structuredContent"])
        if wrong:
            return failed(f"the structuredContent of {name}: {wrong}", *evidence(request))
    if judged:
        return PASS
    return skipped(
        "the outputSchema uses keywords that are not judged" if described else "no tool with an outputSchema was called"
    )


def _compiled(node: Object) -> Check | None:
    """The check of a foreign schema; None where it is none, or uses what cannot be checked."""
    if schema_problem(node):
        return None
    try:
        return Schema(node).compile(node)
    except (UnknownKeywordError, LookupError, ValueError, re.error, RecursionError):
        return None


def _as_text(traffic: Traffic) -> Verdict:
    calls = [r for r in _calls(traffic) if r.answer is not None and "structuredContent" in r.answer.result]
    for request in calls:
        assert request.answer
        wanted = request.answer.result["structuredContent"]
        texts = [as_object(block).get("text") for block in as_list(request.answer.result.get("content"))]
        if not any(_holds(text, wanted) for text in texts):
            reason = f"no text of the result of {request.params.get('name')} holds its structuredContent as JSON"
            return failed(reason, *evidence(request))
    return PASS if calls else skipped("no result was structured")


def _holds(text: object, wanted: object) -> bool:
    try:
        return isinstance(text, str) and json.loads(text) == wanted
    except (ValueError, RecursionError):
        return False


def _binary(message: Message) -> Iterator[tuple[str, str]]:
    """Every string that is binary data, with where it stands: blobs of resources, data of images and sounds."""
    for path, value in walk(message.result):
        node = as_object(value)
        name = "blob" if "uri" in node else "data" if node.get("type") in ("image", "audio") else ""
        if name and isinstance(node.get(name), str):
            yield f"{path}/{name}", node[name]


def _encoded(traffic: Traffic) -> Verdict:
    found = False
    for answer in answers_to(traffic, "resources/read", "tools/call", "prompts/get"):
        for path, text in _binary(answer):
            found = True
            try:
                base64.b64decode(text, validate=True)
            except ValueError:
                return failed(f"{path} is not base64", answer.index)
    return PASS if found else skipped("no binary data was sent")


REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-CALL-001",
        "capability",
        "Results of tools/call have the shape that the schema gives them.",
        schema("/$defs/CallToolResult/required", '["content"]'),
        results_are_shaped("tools/call"),
        applies="tools",
        violation='{"content":"done"}',
    ),
    Requirement(
        "MCP-S-CALL-002",
        "capability",
        "A tool with an outputSchema answers with structuredContent that fits it.",
        prose("server/tools", "Servers **MUST** provide structured results that conform to this schema."),
        _structured,
        applies="tools",
        violation='"structuredContent":{"count":"3"}, where the schema says integer',
    ),
    Requirement(
        "MCP-S-CALL-003",
        "advisory",
        "A result with structuredContent holds the same as JSON in a text.",
        prose(
            "server/tools",
            "a tool that returns structured content SHOULD also return the serialized JSON in a TextContent block.",
        ),
        _as_text,
        applies="tools",
        violation='"content":[],"structuredContent":{"count":3}',
    ),
    Requirement(
        "MCP-S-CALL-004",
        "mandatory",
        "Binary data is base64.",
        prose("server/resources", "Binary data **MUST** be properly encoded"),
        _encoded,
        violation='"blob":"data:image/png;base64,iVBO..."',
    ),
)
