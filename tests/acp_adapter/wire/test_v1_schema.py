"""The models of v1 agree with the official schema: names, what is forgiven, and everything they send."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from acp_adapter.rpc.errors import WireShapeError
from acp_adapter.wire.model import Empty, ForgivingModel, WireModel, from_wire, to_wire
from acp_adapter.wire.v1.shapes import client, content, initialize, options, prompts, sessions, tools, updates
from tests.support.acp_schema import Coverage, NotConformantError, schema, validate_outgoing

SHAPES: dict[str, type[WireModel]] = {
    "Annotations": content.Annotations,
    "TextContent": content.TextContent,
    "ImageContent": content.ImageContent,
    "AudioContent": content.AudioContent,
    "ResourceLink": content.ResourceLink,
    "TextResourceContents": content.TextResourceContents,
    "BlobResourceContents": content.BlobResourceContents,
    "EmbeddedResource": content.EmbeddedResource,
    "Content": tools.Content,
    "Diff": tools.Diff,
    "Terminal": tools.Terminal,
    "ToolCallLocation": tools.ToolCallLocation,
    "ToolCall": tools.ToolCall,
    "ToolCallUpdate": tools.ToolCallPatch,
    "SessionMode": options.SessionMode,
    "SessionModeState": options.SessionModeState,
    "SessionConfigSelectOption": options.SelectOption,
    "SessionConfigSelectGroup": options.SelectGroup,
    "SetSessionModeRequest": options.SetModeRequest,
    "SetSessionModeResponse": Empty,
    "SetSessionConfigOptionRequest": options.SetConfigOptionRequest,
    "SetSessionConfigOptionResponse": options.SetConfigOptionResponse,
    "Implementation": initialize.Implementation,
    "FileSystemCapabilities": initialize.FileSystemCapabilities,
    "SessionConfigOptionsCapabilities": initialize.ConfigOptionsCapabilities,
    "ClientSessionCapabilities": initialize.ClientSessionCapabilities,
    "AuthCapabilities": initialize.ClientAuthCapabilities,
    "ElicitationCapabilities": initialize.ElicitationCapabilities,
    "ClientCapabilities": initialize.ClientCapabilities,
    "InitializeRequest": initialize.InitializeRequest,
    "PromptCapabilities": initialize.PromptCapabilities,
    "McpCapabilities": initialize.McpCapabilities,
    "SessionCapabilities": initialize.SessionCapabilities,
    "AgentAuthCapabilities": initialize.AgentAuthCapabilities,
    "AgentCapabilities": initialize.AgentCapabilities,
    "AuthMethodAgent": initialize.AgentAuthMethod,
    "AuthMethodTerminal": initialize.TerminalAuthMethod,
    "InitializeResponse": initialize.InitializeResponse,
    "AuthenticateRequest": initialize.AuthenticateRequest,
    "AuthenticateResponse": Empty,
    "LogoutRequest": Empty,
    "LogoutResponse": Empty,
    "CancelRequestNotification": initialize.CancelRequestNotification,
    "EnvVariable": sessions.NameValue,
    "HttpHeader": sessions.NameValue,
    "McpServerStdio": sessions.McpServerStdio,
    "McpServerHttp": sessions.McpServerHttp,
    "McpServerSse": sessions.McpServerSse,
    "NewSessionRequest": sessions.NewSessionRequest,
    "NewSessionResponse": sessions.NewSessionResponse,
    "LoadSessionRequest": sessions.LoadSessionRequest,
    "LoadSessionResponse": sessions.LoadSessionResponse,
    "ResumeSessionRequest": sessions.ResumeSessionRequest,
    "ResumeSessionResponse": sessions.LoadSessionResponse,
    "ListSessionsRequest": sessions.ListSessionsRequest,
    "ListSessionsResponse": sessions.ListSessionsResponse,
    "SessionInfo": sessions.SessionInfo,
    "DeleteSessionRequest": sessions.SessionRequest,
    "CloseSessionRequest": sessions.SessionRequest,
    "CancelNotification": sessions.SessionRequest,
    "PromptRequest": prompts.PromptRequest,
    "PromptResponse": prompts.PromptResponse,
    "ContentChunk": updates.AgentMessageChunk,
    "PlanEntry": updates.PlanEntry,
    "Plan": updates.PlanUpdate,
    "UnstructuredCommandInput": updates.CommandInput,
    "AvailableCommand": updates.AvailableCommand,
    "AvailableCommandsUpdate": updates.AvailableCommandsUpdate,
    "CurrentModeUpdate": updates.CurrentModeUpdate,
    "ConfigOptionUpdate": updates.ConfigOptionUpdate,
    "SessionInfoUpdate": updates.SessionInfoUpdate,
    "Cost": updates.Cost,
    "UsageUpdate": updates.UsageUpdate,
    "Notice": updates.NoticeUpdate,
    "CompactionUpdate": updates.CompactionUpdate,
    "CompactionSummaryChunk": updates.CompactionSummaryChunk,
    "SessionNotification": updates.SessionNotification,
    "PermissionOption": client.PermissionOption,
    "RequestPermissionRequest": client.RequestPermissionRequest,
    "RequestPermissionResponse": client.RequestPermissionResponse,
    "SelectedPermissionOutcome": client.SelectedOutcome,
    "ReadTextFileRequest": client.ReadTextFileRequest,
    "ReadTextFileResponse": client.ReadTextFileResponse,
    "WriteTextFileRequest": client.WriteTextFileRequest,
    "WriteTextFileResponse": Empty,
    "CreateTerminalRequest": client.CreateTerminalRequest,
    "CreateTerminalResponse": client.CreateTerminalResponse,
    "TerminalOutputRequest": client.TerminalRequest,
    "WaitForTerminalExitRequest": client.TerminalRequest,
    "KillTerminalRequest": client.TerminalRequest,
    "ReleaseTerminalRequest": client.TerminalRequest,
    "TerminalExitStatus": client.TerminalExitStatus,
    "TerminalOutputResponse": client.TerminalOutputResponse,
    "WaitForTerminalExitResponse": client.TerminalExitStatus,
    "KillTerminalResponse": Empty,
    "ReleaseTerminalResponse": Empty,
}
READ = {name: model for name, model in SHAPES.items() if issubclass(model, ForgivingModel)}
IN_BRANCHES = {"SetSessionConfigOptionRequest": {"value", "type"}}
"""Fields that the schema describes in the branches of a union, beside the properties of the shape itself."""


def alias(field: Any) -> str:
    return str(field.serialization_alias)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_model_has_the_fields_of_its_shape_and_requires_the_same(name: str) -> None:
    shape = schema("stable")["$defs"][name]
    model = SHAPES[name]
    fields = {alias(field): field for key, field in model.model_fields.items() if key not in model.tags}
    assert set(fields) == set(shape["properties"]) | IN_BRANCHES.get(name, set())
    required = {key for key, field in fields.items() if field.is_required()} - IN_BRANCHES.get(name, set())
    assert required == set(shape.get("required", []))


def sample(name: str) -> dict[str, Any]:
    return {
        "Annotations": {},
        "TextContent": {"text": "t"},
        "ImageContent": {"data": "", "mimeType": "image/png"},
        "AudioContent": {"data": "", "mimeType": "audio/wav"},
        "ResourceLink": {"uri": "u", "name": "n"},
        "TextResourceContents": {"uri": "u", "text": "t"},
        "BlobResourceContents": {"uri": "u", "blob": ""},
        "EmbeddedResource": {"resource": {"uri": "u", "text": "t"}},
        "SetSessionModeRequest": {"sessionId": "s", "modeId": "m"},
        "SetSessionConfigOptionRequest": {"sessionId": "s", "configId": "c", "value": "v"},
        "Implementation": {"name": "n", "version": "v"},
        "InitializeRequest": {"protocolVersion": 1},
        "AuthenticateRequest": {"methodId": "m"},
        "CancelRequestNotification": {"requestId": 1},
        "EnvVariable": {"name": "n", "value": "v"},
        "HttpHeader": {"name": "n", "value": "v"},
        "McpServerStdio": {"name": "n", "command": "/c", "args": [], "env": []},
        "McpServerHttp": {"name": "n", "url": "u", "headers": []},
        "McpServerSse": {"name": "n", "url": "u", "headers": []},
        "NewSessionRequest": {"cwd": "/w", "mcpServers": []},
        "LoadSessionRequest": {"cwd": "/w", "mcpServers": [], "sessionId": "s"},
        "ResumeSessionRequest": {"cwd": "/w", "sessionId": "s"},
        "DeleteSessionRequest": {"sessionId": "s"},
        "CloseSessionRequest": {"sessionId": "s"},
        "CancelNotification": {"sessionId": "s"},
        "PromptRequest": {"sessionId": "s", "prompt": []},
        "RequestPermissionResponse": {"outcome": {"outcome": "cancelled"}},
        "SelectedPermissionOutcome": {"optionId": "o"},
        "ReadTextFileResponse": {"content": "c"},
        "CreateTerminalResponse": {"terminalId": "t"},
        "TerminalOutputResponse": {"output": "", "truncated": False},
    }.get(name, {})


CANDIDATES: list[Any] = [5, 0.5, "/no", True, ["/no"], {"no": 1}]
"""Strings are absolute paths, because that is asked of some."""


@pytest.mark.parametrize("name", sorted(READ))
def test_a_malformed_field_is_forgiven_exactly_where_the_schema_says_so(name: str) -> None:
    model, properties = READ[name], schema("stable")["$defs"][name]["properties"]
    plain = from_wire(model, sample(name))
    for key, field in model.model_fields.items():
        if alias(field) not in properties:
            continue
        shape = properties[alias(field)]
        judge = Draft202012Validator({**shape, "$defs": schema("stable")["$defs"]})
        for value in CANDIDATES:
            raw = {**sample(name), alias(field): value}
            if judge.is_valid(value) or (isinstance(value, list) and "x-deserialize-skip-invalid-items" in shape):
                from_wire(model, raw)
            elif "x-deserialize-default-on-error" in shape:
                assert getattr(from_wire(model, raw), key) == getattr(plain, key)
            else:
                with pytest.raises(WireShapeError):
                    from_wire(model, raw)
        if "x-deserialize-default-on-null" in shape:
            assert getattr(from_wire(model, {**sample(name), alias(field): None}), key) == []


@pytest.mark.parametrize("name", sorted(READ))
def test_items_are_dropped_only_where_the_schema_says_so(name: str) -> None:
    model, properties = READ[name], schema("stable")["$defs"][name]["properties"]
    for key, field in model.model_fields.items():
        marks = properties.get(alias(field), {})
        if "array" not in repr(marks.get("type")):
            continue
        raw = {**sample(name), alias(field): [{"no": 1}]}
        if "x-deserialize-skip-invalid-items" in marks:
            assert getattr(from_wire(model, raw), key) == []
        else:
            with pytest.raises(WireShapeError):
                from_wire(model, raw)


BLOCKS: list[Any] = [
    content.TextContent(text="t", annotations=content.Annotations(audience=["user"], priority=0.5, last_modified="t")),
    content.ImageContent(data="aGk=", mime_type="image/png", uri="file:///x.png"),
    content.AudioContent(data="aGk=", mime_type="audio/wav"),
    content.ResourceLink(uri="file:///x", name="x", title="X", description="d", mime_type="text/plain", size=3),
    content.EmbeddedResource(resource=content.TextResourceContents(uri="file:///x", text="t")),
    content.EmbeddedResource(resource=content.BlobResourceContents(uri="file:///x", blob="aGk=", mime_type="x/y")),
]
SELECT = options.SelectConfigOption(
    id="model",
    name="Model",
    category="model",
    current_value="a",
    options=[options.SelectOption(value="a", name="A", description=None)],
)
GROUPED = options.SelectConfigOption(
    id="m2",
    name="M",
    current_value="a",
    options=[options.SelectGroup(group="g", name="G", options=[options.SelectOption(value="a", name="A")])],
)
SWITCH = options.BooleanConfigOption(id="b", name="B", description="d", current_value=True)
MODES = options.SessionModeState(
    current_mode_id="ask", available_modes=[options.SessionMode(id="ask", name="Ask", description="d")]
)
TOOL_CONTENT: list[Any] = [
    *(tools.Content(content=block) for block in BLOCKS),
    tools.Diff(path="/x", old_text=None, new_text="n"),
    tools.Terminal(terminal_id="t"),
]
PATCH = tools.ToolCallPatch(
    tool_call_id="t",
    title="T",
    name="edit",
    kind="edit",
    status="failed",
    content=TOOL_CONTENT,
    locations=[tools.ToolCallLocation(path="/x", line=1)],
    raw_input={"a": [1, None]},
    raw_output="out",
)
UPDATES: list[Any] = [
    *(updates.UserMessageChunk(content=block, message_id="m") for block in BLOCKS),
    updates.AgentMessageChunk(content=BLOCKS[0]),
    updates.AgentThoughtChunk(content=BLOCKS[0], message_id=None),
    tools.ToolCall(tool_call_id="t", title="T"),
    tools.ToolCall(**{**dict(PATCH), "meta": {"k": 1}}),
    tools.ToolCallUpdate(tool_call_id="t", title=None, content=None, locations=None),
    tools.ToolCallUpdate(**dict(PATCH)),
    updates.PlanUpdate(entries=[updates.PlanEntry(content="c", priority="high", status="in_progress")]),
    updates.AvailableCommandsUpdate(
        available_commands=[
            updates.AvailableCommand(name="tick", description="d", input=updates.CommandInput(hint="h")),
            updates.AvailableCommand(name="views", description="d", input=None),
        ]
    ),
    updates.CurrentModeUpdate(current_mode_id="ask"),
    updates.ConfigOptionUpdate(config_options=[SELECT, GROUPED, SWITCH]),
    updates.SessionInfoUpdate(title=None, updated_at="2026-11-20T00:00:00Z"),
    updates.UsageUpdate(used=1, size=2**64 - 1, cost=updates.Cost(amount=0.5, currency="USD")),
    updates.NoticeUpdate(severity="info", title="t", description="d"),
    updates.CompactionUpdate(compaction_id="c", status="completed", summary=BLOCKS, error=None),
    updates.CompactionSummaryChunk(compaction_id="c", content=BLOCKS[0]),
]
CAPABILITIES = initialize.AgentCapabilities(
    load_session=True,
    prompt_capabilities=initialize.PromptCapabilities(image=True, audio=True, embedded_context=True),
    mcp_capabilities=initialize.McpCapabilities(http=True, sse=False),
    session_capabilities=initialize.SessionCapabilities(
        list_=Empty(), delete=Empty(), additional_directories=Empty(), resume=Empty(), close=None, fork=Empty()
    ),
    auth=initialize.AgentAuthCapabilities(logout=Empty()),
    meta={"rewindow": {}},
)
RESPONSES: list[tuple[str, WireModel]] = [
    ("initialize", initialize.InitializeResponse(protocol_version=1)),
    (
        "initialize",
        initialize.InitializeResponse(
            protocol_version=1,
            agent_capabilities=CAPABILITIES,
            auth_methods=[
                initialize.AgentAuthMethod(id="a", name="A"),
                initialize.TerminalAuthMethod(id="t", name="T", args=["login"], env={"K": "V"}),
            ],
            agent_info=initialize.Implementation(name="n", version="1", title=None),
        ),
    ),
    ("authenticate", Empty()),
    ("logout", Empty()),
    ("session/new", sessions.NewSessionResponse(session_id="s", modes=MODES, config_options=[SELECT, SWITCH])),
    ("session/load", sessions.LoadSessionResponse(modes=MODES, config_options=[GROUPED])),
    ("session/resume", sessions.LoadSessionResponse()),
    ("session/fork", sessions.NewSessionResponse(session_id="s", modes=MODES)),
    ("session/list", sessions.ListSessionsResponse(sessions=[], next_cursor=None)),
    (
        "session/list",
        sessions.ListSessionsResponse(
            sessions=[sessions.SessionInfo(session_id="s", cwd="/w", title="t", updated_at="t")], next_cursor="2"
        ),
    ),
    ("session/delete", Empty()),
    ("session/close", Empty()),
    ("session/prompt", prompts.PromptResponse(stop_reason="end_turn", meta={"x": 1})),
    ("session/set_mode", Empty()),
    ("session/set_config_option", options.SetConfigOptionResponse(config_options=[SELECT, SWITCH])),
]
REQUESTS: list[tuple[str, WireModel]] = [
    (
        "session/request_permission",
        client.RequestPermissionRequest(
            session_id="s",
            tool_call=PATCH,
            options=[client.PermissionOption(option_id="y", name="Yes", kind="allow_once")],
        ),
    ),
    ("fs/read_text_file", client.ReadTextFileRequest(session_id="s", path="/x", line=1, limit=2**32 - 1)),
    ("fs/write_text_file", client.WriteTextFileRequest(session_id="s", path="/x", content="c")),
    (
        "terminal/create",
        client.CreateTerminalRequest(
            session_id="s",
            command="ls",
            args=["-l"],
            env=[client.EnvVariable(name="K", value="V")],
            cwd="/w",
            output_byte_limit=10,
        ),
    ),
    *(
        (f"terminal/{name}", client.TerminalRequest(session_id="s", terminal_id="t"))
        for name in ("output", "wait_for_exit", "kill", "release")
    ),
]


def test_every_update_that_can_be_sent_is_valid_and_every_kind_is_covered() -> None:
    coverage = Coverage()
    for update in UPDATES:
        params = to_wire(updates.SessionNotification(session_id="s", update=update))
        coverage.check({"jsonrpc": "2.0", "method": "session/update", "params": params})
    kinds = {
        branch["properties"]["sessionUpdate"]["const"] for branch in schema("stable")["$defs"]["SessionUpdate"]["oneOf"]
    }
    assert set(coverage.updates) == kinds


def test_every_response_that_can_be_sent_is_valid_and_every_method_is_covered() -> None:
    coverage = Coverage()
    for method, model in RESPONSES:
        coverage.check({"jsonrpc": "2.0", "id": 1, "result": to_wire(model)}, method)
    assert set(coverage.answered) == methods_of("agent") - {"session/cancel"}


def test_every_request_to_the_client_is_valid_and_every_method_is_covered() -> None:
    coverage = Coverage()
    for method, model in REQUESTS:
        coverage.check({"jsonrpc": "2.0", "id": 1, "method": method, "params": to_wire(model)})
    elicitation = {"elicitation/create", "elicitation/complete"}
    assert set(coverage.sent) == methods_of("client") - {"session/update"} - elicitation


def methods_of(side: str) -> set[str]:
    shapes = schema("stable")["$defs"].values()
    return {shape["x-method"] for shape in shapes if shape.get("x-side") == side}


@pytest.mark.parametrize(
    ("message", "method"),
    [
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, "session/new"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s", "custom": 1}}, "session/new"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s", "modes": {"currentModeId": "a"}}}, "session/new"),
        ({"jsonrpc": "2.0", "id": 1, "result": None}, "session/prompt"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "error"}}, "session/prompt"),
        ({"jsonrpc": "2.0", "id": 1.5, "result": {}}, None),
        ({"jsonrpc": "2.0", "id": 1, "result": {}, "error": None}, None),
        ({"id": 1, "result": {}}, None),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": "m"}}, None),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "a\nb"}}, None),
        ({"jsonrpc": "2.0", "method": "session/prompt", "params": {}}, None),
        ({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s"}}, None),
        (
            {
                "jsonrpc": "2.0",
                "method": "session/update",
                "params": {"sessionId": "s", "update": {"sessionUpdate": "current_mode_update", "modeId": "m"}},
            },
            None,
        ),
        (
            {
                "jsonrpc": "2.0",
                "method": "session/update",
                "params": {
                    "sessionId": "s",
                    "update": {"sessionUpdate": "current_mode_update", "currentModeId": "m", "custom": 1},
                },
            },
            None,
        ),
    ],
)
def test_the_judge_refuses_what_an_agent_may_not_send(message: dict[str, Any], method: str | None) -> None:
    with pytest.raises(NotConformantError):
        validate_outgoing(message, method)


def test_the_judge_lets_extensions_and_errors_pass() -> None:
    validate_outgoing({"jsonrpc": "2.0", "method": "_rewindow/x", "params": {"any": 1}}, None)
    validate_outgoing({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "m"}}, None)
    validate_outgoing({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}, None)
    validate_outgoing({"jsonrpc": "2.0", "id": 1, "result": {"any": 1}}, "_rewindow/x")
