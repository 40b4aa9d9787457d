"""The shapes agree with the official schema: names, forgiveness, and everything they send."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from acp_adapter import content, options, questions, stored_sessions
from acp_adapter.jsonrpc.messages import WireShapeError
from acp_adapter.updates import shapes
from acp_adapter.v1 import client, handshake, prompts, sessions
from acp_adapter.wire import Empty, ForgivingModel, WireModel, from_wire, to_wire
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
    "Content": shapes.Content,
    "Diff": shapes.Diff,
    "Terminal": shapes.Terminal,
    "ToolCallLocation": shapes.ToolCallLocation,
    "ToolCall": shapes.ToolCall,
    "ToolCallUpdate": shapes.ToolCallPatch,
    "SessionMode": sessions.SessionMode,
    "SessionModeState": sessions.SessionModeState,
    "SessionConfigSelectOption": options.SelectOption,
    "SessionConfigSelectGroup": options.SelectGroup,
    "SetSessionModeRequest": sessions.SetModeRequest,
    "SetSessionModeResponse": Empty,
    "SetSessionConfigOptionRequest": sessions.SetConfigOptionRequest,
    "SetSessionConfigOptionResponse": sessions.SetConfigOptionResponse,
    "Implementation": handshake.Implementation,
    "FileSystemCapabilities": handshake.FileSystemCapabilities,
    "SessionConfigOptionsCapabilities": handshake.ConfigOptionsCapabilities,
    "ClientSessionCapabilities": handshake.ClientSessionCapabilities,
    "AuthCapabilities": handshake.ClientAuthCapabilities,
    "ElicitationCapabilities": handshake.ElicitationCapabilities,
    "ClientCapabilities": handshake.ClientCapabilities,
    "InitializeRequest": handshake.InitializeRequest,
    "PromptCapabilities": handshake.PromptCapabilities,
    "McpCapabilities": handshake.McpCapabilities,
    "SessionCapabilities": handshake.SessionCapabilities,
    "AgentAuthCapabilities": handshake.AgentAuthCapabilities,
    "AgentCapabilities": handshake.AgentCapabilities,
    "AuthMethodAgent": handshake.AgentAuthMethod,
    "InitializeResponse": handshake.InitializeResponse,
    "AuthenticateRequest": handshake.AuthenticateRequest,
    "AuthenticateResponse": Empty,
    "LogoutRequest": Empty,
    "LogoutResponse": Empty,
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
    "ListSessionsRequest": stored_sessions.ListSessionsRequest,
    "ListSessionsResponse": stored_sessions.ListSessionsResponse,
    "SessionInfo": stored_sessions.SessionInfo,
    "DeleteSessionRequest": stored_sessions.SessionRequest,
    "CloseSessionRequest": stored_sessions.SessionRequest,
    "CancelNotification": stored_sessions.SessionRequest,
    "PromptRequest": prompts.PromptRequest,
    "PromptResponse": prompts.PromptResponse,
    "ContentChunk": shapes.AgentMessageChunk,
    "UnstructuredCommandInput": shapes.CommandInput,
    "AvailableCommand": shapes.AvailableCommand,
    "AvailableCommandsUpdate": shapes.AvailableCommandsUpdate,
    "CurrentModeUpdate": shapes.CurrentModeUpdate,
    "ConfigOptionUpdate": shapes.ConfigOptionUpdate,
    "SessionInfoUpdate": shapes.SessionInfoUpdate,
    "Cost": shapes.Cost,
    "UsageUpdate": shapes.UsageUpdate,
    "PermissionOption": questions.PermissionOption,
    "RequestPermissionRequest": client.RequestPermissionRequest,
    "RequestPermissionResponse": questions.RequestPermissionResponse,
    "SelectedPermissionOutcome": questions.SelectedOutcome,
    "ReadTextFileRequest": client.ReadTextFileRequest,
    "ReadTextFileResponse": client.ReadTextFileResponse,
    "WriteTextFileRequest": client.WriteTextFileRequest,
    "WriteTextFileResponse": Empty,
}
READ = {name: model for name, model in SHAPES.items() if issubclass(model, ForgivingModel)}
IN_BRANCHES = {"SetSessionConfigOptionRequest": {"value", "type"}}
"""Fields that the schema describes in the branches of a union."""


def alias(field: Any) -> str:
    return str(field.serialization_alias)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_fields_match_the_schema(name: str) -> None:
    shape = schema("stable")["$defs"][name]
    model = SHAPES[name]
    sent = {key: field for key, field in model.model_fields.items() if not field.exclude}
    fields = {alias(field): field for key, field in sent.items() if key not in model.tags}
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
    }.get(name, {})


CANDIDATES: list[Any] = [5, 0.5, "/no", True, ["/no"], {"no": 1}]
"""Strings are absolute paths, because some fields require that."""


@pytest.mark.parametrize("name", sorted(READ))
def test_malformed_fields_are_forgiven_like_the_schema(name: str) -> None:
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
def test_items_are_dropped_like_the_schema(name: str) -> None:
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
MODES = sessions.SessionModeState(
    current_mode_id="ask", available_modes=[sessions.SessionMode(id="ask", name="Ask", description="d")]
)
TOOL_CONTENT: list[Any] = [
    *(shapes.Content(content=block) for block in BLOCKS),
    shapes.Diff(path="/x", old_text=None, new_text="n"),
    shapes.Terminal(terminal_id="t"),
]
PATCH = shapes.ToolCallPatch(
    tool_call_id="t",
    title="T",
    name="edit",
    kind="edit",
    status="failed",
    content=TOOL_CONTENT,
    locations=[shapes.ToolCallLocation(path="/x", line=1)],
    raw_input={"a": [1, None]},
    raw_output="out",
)
UPDATES: list[Any] = [
    *(shapes.UserMessageChunk(content=block, message_id="m") for block in BLOCKS),
    shapes.AgentMessageChunk(content=BLOCKS[0]),
    shapes.AgentThoughtChunk(content=BLOCKS[0], message_id=None),
    shapes.ToolCall(tool_call_id="t", title="T"),
    shapes.ToolCall(**{**dict(PATCH), "meta": {"k": 1}}),
    shapes.ToolCallUpdate(tool_call_id="t", title=None, content=None, locations=None),
    shapes.ToolCallUpdate(**dict(PATCH)),
    shapes.AvailableCommandsUpdate(
        available_commands=[
            shapes.AvailableCommand(name="tick", description="d", input=shapes.CommandInput(hint="h")),
            shapes.AvailableCommand(name="views", description="d", input=None),
        ]
    ),
    shapes.CurrentModeUpdate(current_mode_id="ask"),
    shapes.ConfigOptionUpdate(config_options=[SELECT, GROUPED, SWITCH]),
    shapes.SessionInfoUpdate(title=None, updated_at="2026-11-20T00:00:00Z"),
    shapes.UsageUpdate(used=1, size=2**64 - 1, cost=shapes.Cost(amount=0.5, currency="USD")),
]
CAPABILITIES = handshake.AgentCapabilities(
    load_session=True,
    prompt_capabilities=handshake.PromptCapabilities(image=True, audio=True, embedded_context=True),
    mcp_capabilities=handshake.McpCapabilities(http=True, sse=False),
    session_capabilities=handshake.SessionCapabilities(
        list_=Empty(), delete=Empty(), additional_directories=Empty(), resume=Empty(), close=None, fork=Empty()
    ),
    auth=handshake.AgentAuthCapabilities(logout=Empty(), status=Empty()),
    meta={"rewindow": {}},
)
RESPONSES: list[tuple[str, WireModel]] = [
    ("initialize", handshake.InitializeResponse(protocol_version=1)),
    (
        "initialize",
        handshake.InitializeResponse(
            protocol_version=1,
            agent_capabilities=CAPABILITIES,
            auth_methods=[
                handshake.AgentAuthMethod(id="a", name="A"),
                handshake.TerminalAuthMethod(id="t", name="T", description="d", args=["--setup"], meta={"x": {}}),
            ],
            agent_info=handshake.Implementation(name="n", version="1", title=None),
        ),
    ),
    ("authenticate", Empty()),
    ("logout", Empty()),
    ("auth/status", handshake.AuthStatusResponse(state="not_required")),
    (
        "auth/status",
        handshake.AuthStatusResponse(state="authenticated", accounts=[handshake.Account(label="openai", active=True)]),
    ),
    ("session/new", sessions.NewSessionResponse(session_id="s", modes=MODES, config_options=[SELECT, SWITCH])),
    ("session/load", sessions.LoadSessionResponse(modes=MODES, config_options=[GROUPED])),
    ("session/resume", sessions.LoadSessionResponse()),
    ("session/fork", sessions.NewSessionResponse(session_id="s", modes=MODES)),
    ("session/list", stored_sessions.ListSessionsResponse(sessions=[], next_cursor=None)),
    (
        "session/list",
        stored_sessions.ListSessionsResponse(
            sessions=[stored_sessions.SessionInfo(session_id="s", cwd="/w", title="t", updated_at="t", archived=True)],
            next_cursor="2",
        ),
    ),
    ("session/set_title", stored_sessions.SetSessionTitleResponse(title="t")),
    ("session/status", stored_sessions.SessionStatusResponse(status="saved")),
    ("session/archive", Empty()),
    ("session/unarchive", Empty()),
    ("session/delete", Empty()),
    ("session/close", Empty()),
    ("session/prompt", prompts.PromptResponse(stop_reason="end_turn", meta={"x": 1})),
    ("session/set_mode", Empty()),
    ("session/set_config_option", sessions.SetConfigOptionResponse(config_options=[SELECT, SWITCH])),
]
REQUESTS: list[tuple[str, WireModel]] = [
    (
        "session/request_permission",
        client.RequestPermissionRequest(
            session_id="s",
            tool_call=PATCH,
            options=[questions.PermissionOption(option_id="y", name="Yes", kind="allow_once")],
        ),
    ),
    ("fs/read_text_file", client.ReadTextFileRequest(session_id="s", path="/x", line=1, limit=2**32 - 1)),
    ("fs/write_text_file", client.WriteTextFileRequest(session_id="s", path="/x", content="c")),
]


def test_updates_are_valid() -> None:
    coverage = Coverage()
    for update in UPDATES:
        params = {"sessionId": "s", "update": to_wire(update)}
        coverage.check({"jsonrpc": "2.0", "method": "session/update", "params": params})
    assert len(coverage.updates) == len({type(update) for update in UPDATES})


def test_responses_are_valid_and_cover_every_method() -> None:
    coverage = Coverage()
    for method, model in RESPONSES:
        coverage.check({"jsonrpc": "2.0", "id": 1, "result": to_wire(model)}, method)
    assert set(coverage.answered) == methods_of("agent") - {"session/cancel"}


def test_requests_to_the_client_are_valid() -> None:
    coverage = Coverage()
    for method, model in REQUESTS:
        coverage.check({"jsonrpc": "2.0", "id": 1, "method": method, "params": to_wire(model)})
    assert set(coverage.sent) == {method for method, _ in REQUESTS}


def methods_of(side: str) -> set[str]:
    definitions = schema("stable")["$defs"].values()
    return {shape["x-method"] for shape in definitions if shape.get("x-side") == side}


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
def test_judge_refuses_invalid_messages(message: dict[str, Any], method: str | None) -> None:
    with pytest.raises(NotConformantError):
        validate_outgoing(message, method)
