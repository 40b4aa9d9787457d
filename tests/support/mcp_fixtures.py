"""What the official conformance suite of MCP expects to find on a server that it tests, registered on the product's."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.extension import compose_tool_call_handler
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from mcp_tools.tasks import Tasks
from tests.support.mcp_task_fixtures import TASK_TOOLS, AskingTasks

Context = ServerRequestContext[Any, Any]
Json = dict[str, Any]
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
_WAV = base64.b64encode(
    b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\2\0\0\0\0\0"
).decode()
_STEP_SECONDS = 0.05
_ANY: Json = {"type": "object"}
_COMPLETE: Json = {"resultType": "complete"}


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _embedded(uri: str, mime_type: str, text: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


_IMAGE: Json = {"type": "image", "data": _PNG, "mimeType": "image/png"}
_CONTENTS: Mapping[str, list[Json]] = {
    "test_simple_text": [_text("This is a simple text response for testing.")],
    "test_image_content": [_IMAGE],
    "test_audio_content": [{"type": "audio", "data": _WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        _embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        _text("Multiple content types test:"),
        _IMAGE,
        _embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
}
"""Tools that always answer the same."""


def _form(message: str, properties: Json) -> Json:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def _sampling(text: str, tokens: int) -> Json:
    message = {"role": "user", "content": _text(text)}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}}


_NAME = {"name": {"type": "string"}}
_OK = {"ok": {"type": "boolean"}}
_ROOTS: Json = {"method": "roots/list", "params": {}}
_ASKING: Mapping[str, Json] = {
    "test_input_required_result_elicitation": {"user_name": _form("What is your name?", _NAME)},
    "test_input_required_result_sampling": {"capital_question": _sampling("What is the capital of France?", 100)},
    "test_input_required_result_list_roots": {"client_roots": _ROOTS},
    "test_input_required_result_request_state": {"confirm": _form("Please confirm", _OK)},
    "test_input_required_result_tampered_state": {"confirm": _form("Please confirm", _OK)},
    "test_input_required_result_multiple_inputs": {
        "user_name": _form("What is your name?", _NAME),
        "greeting": _sampling("Generate a greeting", 50),
        "client_roots": _ROOTS,
    },
    "test_streaming_elicitation": {"user_name": _form("What is your name?", _NAME)},
}
"""Tools that ask the client first: what they ask, by key."""
_STATEFUL = ("test_input_required_result_request_state", "test_input_required_result_tampered_state")
_STATE = "round one"
_ELICITING: Mapping[str, Json] = {
    "test_elicitation_sep1034_defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2"]},
        "titledSingle": {"type": "string", "oneOf": [{"const": "value1", "title": "First Option"}]},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": [{"const": "value1", "title": "First Choice"}]}},
    },
    "test_elicitation": {"username": {"type": "string"}, "email": {"type": "string"}},
}
"""Tools that ask by a request of their own, in the handshake era: the properties they ask for."""
_SCHEMAS: Mapping[str, Json] = {
    "test_sampling": {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]},
    "test_elicitation": {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
    "test_x_mcp_header": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
}
_PROMPTS: Mapping[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


def _asked(requests: Json, state: str | None = None) -> Json:
    return {"resultType": "input_required", "inputRequests": requests} | (
        {} if state is None else {"requestState": state}
    )


async def _logging(ctx: Context, _params: types.CallToolRequestParams) -> Json:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message(  # pyright: ignore[reportDeprecated]
            "info", text, related_request_id=ctx.request_id
        )
        await anyio.sleep(_STEP_SECONDS)
    return {"content": [_text("done")]}


async def _progress(ctx: Context, _params: types.CallToolRequestParams) -> Json:
    for progress in (0, 50, 100):
        await ctx.session.report_progress(progress, 100)
        await anyio.sleep(_STEP_SECONDS)
    return {"content": [_text("done")]}


async def _sample(ctx: Context, params: types.CallToolRequestParams) -> Json:
    prompt = (params.arguments or {})["prompt"]
    request = types.CreateMessageRequest.model_validate(_sampling(prompt, 100))
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    answer = await ctx.session.send_request(request, types.CreateMessageResult, metadata=related)
    assert isinstance(answer.content, types.TextContent)
    return {"content": [_text(f"LLM response: {answer.content.text}")]}


async def _elicit(ctx: Context, params: types.CallToolRequestParams) -> Json:
    message = (params.arguments or {}).get("message", "Please say")
    schema = {"type": "object", "properties": _ELICITING[params.name]}
    answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return {"content": [_text(f"User response: action={answer.action}, content={answer.content}")]}


async def _fail(_ctx: Context, _params: types.CallToolRequestParams) -> Json:
    return {"isError": True, "content": [_text("This tool intentionally returns an error for testing")]}


async def _need_sampling(ctx: Context, _params: types.CallToolRequestParams) -> Json:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        data: Json = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "this needs sampling", data)
    return {"content": [_text("sampling is there")]}


async def _ask_what_is_possible(ctx: Context, params: types.CallToolRequestParams) -> Json:
    if params.input_responses:
        return {"content": [_text("done")]}
    capabilities = ctx.session.client_capabilities
    possible: Json = {}
    if capabilities is not None and capabilities.elicitation is not None:
        possible["name"] = _form("What is your name?", _NAME)
    if capabilities is not None and capabilities.sampling is not None:
        possible["greeting"] = _sampling("Generate a greeting", 50)
    return _asked(possible)


async def _ask_twice(_ctx: Context, params: types.CallToolRequestParams) -> Json:
    if params.request_state == "2":
        return {"content": [_text("all steps are done")]}
    if params.request_state == "1":
        return _asked({"step2": _form("Step 2: What is your favorite color?", {"color": {"type": "string"}})}, "2")
    return _asked({"step1": _form("Step 1: What is your name?", _NAME)}, "1")


async def _ask(_ctx: Context, params: types.CallToolRequestParams) -> Json:
    wanted, given = _ASKING[params.name], params.input_responses or {}
    keeps_state = params.name in _STATEFUL or len(wanted) > 1
    if not set(wanted) <= set(given):
        return _asked(wanted, _STATE if keeps_state else None)
    if keeps_state and params.request_state != _STATE:
        raise MCPError(types.INVALID_PARAMS, "that is not the state")
    said = [response.model_dump_json(by_alias=True) for key, response in given.items() if key in wanted]
    return {"content": [_text(f"state-ok, Hello, {' '.join(said)}!")]}


async def _same(_ctx: Context, params: types.CallToolRequestParams) -> Json:
    return {"content": _CONTENTS.get(params.name, [_text("ok")])}


_TOOLS: Mapping[str, Callable[[Context, types.CallToolRequestParams], Awaitable[Json]]] = {
    **dict.fromkeys(_CONTENTS, _same),
    **dict.fromkeys(_ASKING, _ask),
    **dict.fromkeys(_ELICITING, _elicit),
    **dict.fromkeys(("json_schema_2020_12_tool", "test_x_mcp_header"), _same),
    "test_tool_with_logging": _logging,
    "test_logging_tool": _logging,
    "test_tool_with_progress": _progress,
    "test_sampling": _sample,
    "test_error_handling": _fail,
    "test_missing_capability": _need_sampling,
    "test_input_required_result_capabilities": _ask_what_is_possible,
    "test_input_required_result_multi_round": _ask_twice,
}


def _read(uri: str) -> Json | None:
    if uri == "test://static-text":
        found = {"mimeType": "text/plain", "text": "This is the content of the static text resource."}
    elif uri == "test://static-binary":
        found = {"mimeType": "image/png", "blob": _PNG}
    elif uri.startswith("test://template/") and uri.endswith("/data"):
        number = uri.split("/")[3]
        text = f'{{"id":"{number}","templateTest":true,"data":"Data for ID: {number}"}}'
        found = {"mimeType": "application/json", "text": text}
    else:
        return None
    return {"contents": [{"uri": uri, **found}], "ttlMs": 0, "cacheScope": "private"}


def _prompt(params: types.GetPromptRequestParams) -> Json:
    given, name = params.arguments or {}, params.name
    if name == "test_input_required_result_prompt" and "user_context" not in (params.input_responses or {}):
        question = _form("What context should the prompt use?", {"context": {"type": "string"}})
        return _asked({"user_context": question})
    if name == "test_prompt_with_embedded_resource":
        resource = _embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing.")
        contents = [resource, _text("Please process the embedded resource above.")]
    elif name == "test_prompt_with_image":
        contents = [_IMAGE, _text("Please analyze the image above.")]
    elif name == "test_prompt_with_arguments":
        contents = [_text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
    else:
        contents = [_text("This is a simple prompt for testing.")]
    return {"messages": [{"role": "user", "content": content} for content in contents]}


def add_fixtures(server: Server[Any], tasks: Tasks) -> None:  # noqa: C901 -- one short handler for each method
    """Has the server answer for the fixtures too, in whose tasks' place those are that may ask their client."""
    asking = AskingTasks(tasks)

    def before(method: str) -> Callable[[Context, Any], Awaitable[Any]]:
        entry = server.get_request_handler(method)
        assert entry is not None
        return entry.handler

    call, tools = before("tools/call"), before("tools/list")
    read, resources, templates = before("resources/read"), before("resources/list"), before("resources/templates/list")
    get, prompts = before("prompts/get"), before("prompts/list")
    schema_of = server.get_tool_input_schema

    async def list_tools(ctx: Context, params: Any) -> types.ListToolsResult:
        found: types.ListToolsResult = await tools(ctx, params)
        more = [
            types.Tool(name=name, description=name, input_schema=_SCHEMAS.get(name, _ANY))
            for name in (*_TOOLS, *TASK_TOOLS)
        ]
        return found.model_copy(update={"tools": [*found.tools, *more]})

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Any:
        if params.name in TASK_TOOLS:
            return _COMPLETE | await TASK_TOOLS[params.name](asking, ctx, params)
        if params.name not in _TOOLS:
            return await call(ctx, params)
        return _COMPLETE | await _TOOLS[params.name](ctx, params)

    async def list_resources(ctx: Context, params: Any) -> types.ListResourcesResult:
        found: types.ListResourcesResult = await resources(ctx, params)
        more = [
            types.Resource(uri=uri, name=uri, description=uri) for uri in ("test://static-text", "test://static-binary")
        ]
        return found.model_copy(update={"resources": [*found.resources, *more]})

    async def list_templates(ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
        found: types.ListResourceTemplatesResult = await templates(ctx, params)
        more = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template")
        return found.model_copy(update={"resource_templates": [*found.resource_templates, more]})

    async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> Any:
        found = _read(params.uri)
        return await read(ctx, params) if found is None else _COMPLETE | found

    async def list_prompts(ctx: Context, params: Any) -> types.ListPromptsResult:
        found: types.ListPromptsResult = await prompts(ctx, params)
        more = [
            types.Prompt(
                name=name,
                description=name,
                arguments=[types.PromptArgument(name=each, description=each, required=True) for each in arguments],
            )
            for name, arguments in _PROMPTS.items()
        ]
        return found.model_copy(update={"prompts": [*found.prompts, *more]})

    async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> Any:
        return _COMPLETE | _prompt(params) if params.name in _PROMPTS else await get(ctx, params)

    def schema(name: str) -> Mapping[str, Any] | None:
        return _SCHEMAS.get(name) or (None if schema_of is None else schema_of(name))

    server.get_tool_input_schema = schema
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=server.name))
    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    composed = compose_tool_call_handler([asking], call_tool)
    server.add_request_handler("tools/call", types.CallToolRequestParams, composed)
    for method in asking.methods():
        server.add_request_handler(method.method, method.params_type, method.handler)
    server.add_request_handler("resources/list", types.PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read_resource)
    server.add_request_handler("prompts/list", types.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, get_prompt)
