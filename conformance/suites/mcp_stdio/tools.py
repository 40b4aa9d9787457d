"""Tools: their descriptions, correct and wrong calls, parallel calls, and the shape of results."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from conformance.driver import Driver, StoppedError, encode_line, request_message
from conformance.judging import PASS, Judge, Requirement, Verdict, answered, evidence, failed, marked_requests, skipped
from conformance.schema import Check, Schema, UnknownKeywordError
from conformance.suite import Scenario
from conformance.suites.jsonrpc import INVALID_PARAMS, error_code_is
from conformance.suites.jsonrpc_rules import REPLY_QUOTE
from conformance.suites.mcp_stdio.client import (
    Client,
    answered_requests,
    answers_to,
    arguments_of,
    candidates,
    in_both,
    is_safe,
    known_calls,
    listed,
    open_any,
    prose,
    results_fit_schema,
    schema,
    when,
)
from conformance.suites.mcp_stdio.tool_schemas import CannotMakeError, schema_problem
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, at, is_object, truncate, walk

_LONGEST: Final = 128
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]*")


def _tools(traffic: Traffic) -> list[tuple[Message, Object]]:
    return [(request, tool) for request, items in listed(traffic, "tools/list", "tools") for tool in items]


def _schemas(field: str) -> Judge:
    """Every tool's schema in this field is valid. Missing fields belong to other requirements."""

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
            return failed(f"a tool has the name {truncate(name, _LONGEST)!r}", *evidence(request))
    return PASS if tools else skipped("no tools were listed")


def _is_error(request: Message) -> bool:
    """Whether a call was answered with a protocol error or a tool error."""
    return request.answer is not None and (not request.succeeded or request.answer.result.get("isError") is True)


def _fails(label: str, text: str) -> Judge:
    """Each answered call under a mark fails in some way."""

    def judge(traffic: Traffic) -> Verdict:
        calls = [request for request in marked_requests(traffic, label) if request.answer is not None]
        for request in calls:
            if not _is_error(request):
                return failed(f"{request.params.get('name')} {text} succeeded", *evidence(request))
        return PASS if calls else skipped("no call of this kind was answered")

    return judge


# --- results ----------------------------------------------------------------------------------------------------------


def _calls(traffic: Traffic) -> list[Message]:
    """Return successful calls, without those that ask for input."""
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
    """Return the check of a foreign schema; None if it is invalid or unsupported."""
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
            reason = f"no text in the result of {request.params.get('name')} has its structuredContent as JSON"
            return failed(reason, *evidence(request))
    return PASS if calls else skipped("no result had structuredContent")


def _holds(text: object, wanted: object) -> bool:
    try:
        return isinstance(text, str) and json.loads(text) == wanted
    except (ValueError, RecursionError):
        return False


def _binary(message: Message) -> Iterator[tuple[str, str]]:
    """Yield every binary string with its position: blobs of resources, data of images and sounds."""
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


# --- requirements -----------------------------------------------------------------------------------------------------


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
        "Tool names have 1 to 128 letters, digits, `_`, `-` and `.`.",
        prose("server/tools", "Tool names SHOULD be between 1 and 128 characters in length (inclusive)."),
        _names,
        applies="tools",
        violation='"name":"read file"',
    ),
    Requirement(
        "MCP-S-TOOL-004",
        "advisory",
        "A call of an unknown tool is answered with the protocol error -32602.",
        schema(
            "/$defs/CallToolResult/properties/isError",
            "However, any errors in _finding_ the tool, an error indicating that the server does not support tool "
            "calls, or any other exceptional conditions, should be reported as an MCP error response.",
        ),
        when("unknown-tool", error_code_is("unknown-tool", INVALID_PARAMS, instead_of_result=True)),
        applies="tools",
        violation='{"content":[{"type":"text","text":"Unknown tool"}],"isError":true}',
    ),
    Requirement(
        "MCP-S-TOOL-005",
        "capability",
        "A call without a tool's name is answered.",
        prose("json-rpc", REPLY_QUOTE),
        when("malformed-call", answered("malformed-call")),
        applies="tools",
        violation="silence",
    ),
    Requirement(
        "MCP-S-TOOL-006",
        "advisory",
        "A call without a tool's name is answered with -32602.",
        prose("json-rpc", "Invalid method parameter(s)."),
        when("malformed-call", error_code_is("malformed-call", INVALID_PARAMS, instead_of_result=True)),
        applies="tools",
        violation='"code":-32603',
    ),
    Requirement(
        "MCP-S-TOOL-007",
        "capability",
        "A call without a required argument fails.",
        prose("server/tools", "1. Servers **MUST**: - Validate all tool inputs"),
        when("missing-argument", _fails("missing-argument", "without a required argument")),
        applies="tools",
        violation='"arguments":{} answered with a result, where the schema requires `path`',
    ),
    Requirement(
        "MCP-S-TOOL-008",
        "advisory",
        "A call with an argument of a wrong type fails.",
        prose("server/tools", "1. Servers **MUST**: - Validate all tool inputs"),
        when("wrong-type", _fails("wrong-type", "with an argument of a wrong type")),
        applies="tools",
        violation='"arguments":{"path":{"an":"object"}} answered with a result, where the schema says string',
    ),
    Requirement(
        "MCP-S-TOOL-009",
        "capability",
        "Each call is answered.",
        prose("json-rpc", REPLY_QUOTE),
        when("call", answered("call")),
        applies="tools",
        violation="silence",
    ),
    Requirement(
        "MCP-S-CALL-001",
        "capability",
        "Results of tools/call have the schema's shape.",
        schema("/$defs/CallToolResult/required", '["content"]'),
        results_fit_schema("tools/call"),
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
        "A result with structuredContent has the same JSON in a text block.",
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


# --- scenarios --------------------------------------------------------------------------------------------------------


UNKNOWN_TOOL: Final = "rewindow-conformance-no-such-tool"
_AT_ONCE: Final = 5


def _run_calls(client: Client) -> None:
    client.need("tools")
    calls = candidates(client.driver, client.listed("tools/list"))
    if not calls:
        known_calls(client.driver)
    for call in calls:
        _call_and_more(client, call)


def _call_and_more(client: Client, call: Object) -> None:
    """Send a call and two requests in one write. A process that also reads standard input would take them."""
    driver = client.driver
    ids = [driver.new_id() for _ in range(3)]
    driver.mark("call", ids[0])
    method, params = client.probe()
    messages = [request_message(ids[0], "tools/call", client.params(**call))]
    for one in ids[1:]:
        driver.mark("behind", one)
        messages.append(request_message(one, method, params))
    driver.send_bytes(b"".join(map(encode_line, messages)))
    for one in ids:
        driver.response(one)


def _run_wrong(client: Client) -> None:
    client.need("tools")
    tools = client.listed("tools/list")
    client.asked("tools/call", label="unknown-tool", name=UNKNOWN_TOOL, arguments={})
    client.asked("tools/call", label="malformed-call", arguments={})
    client.asked("tools/call", label="malformed-call", name=5, arguments={})
    for tool in tools:
        if is_safe(client.driver, tool) and _break(client, tool):
            break
    client.alive()


def _break(client: Client, tool: Object) -> bool:
    """Call a tool without a required argument, and with one of a wrong type; False if it requires none."""
    required = [name for name in as_list(at(tool, "inputSchema.required")) if isinstance(name, str)]
    try:
        arguments = arguments_of(client.driver, tool)
    except CannotMakeError:
        arguments = {}
    if not required:
        return False
    less = {name: value for name, value in arguments.items() if name != required[0]}
    client.asked("tools/call", label="missing-argument", name=tool.get("name"), arguments=less)
    kind = as_object(as_object(at(tool, "inputSchema.properties")).get(required[0])).get("type")
    if isinstance(kind, str):
        wrong: Any = {"an": "object"} if kind != "object" else ["an array"]
        given = {**arguments, required[0]: wrong}
        client.asked("tools/call", label="wrong-type", name=tool.get("name"), arguments=given)
    return True


def _run_at_once(driver: Driver) -> None:
    client = open_any(driver)
    method, params = client.probe()
    requests: list[tuple[str, Object]] = [(method, params)] * _AT_ONCE
    try:
        requests += [("tools/call", client.params(**known_calls(driver)[0]))] * _AT_ONCE
    except StoppedError:
        requests += [(method, params)] * _AT_ONCE
    ids: list[Any] = []
    for index, (name, given) in enumerate(requests):
        ids.append(f"at-once-{index}" if index % 2 else driver.new_id())
        driver.request(name, given, label="at-once", request_id=ids[-1])
    for one in ids:
        driver.response(one)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    *in_both("calls", "Calls tools, with more requests after each call in the same write.", _run_calls),
    *in_both("wrong-calls", "Calls an unknown tool, and a tool with wrong arguments.", _run_wrong),
    Scenario("at-once", "Sends ten requests without waiting, including calls.", _run_at_once),
)
