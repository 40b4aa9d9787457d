"""Shapes read forgivingly, build strictly, and keep null and omitted apart."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from acp_adapter.content import Annotations, TextContent
from acp_adapter.jsonrpc.messages import WireShapeError
from acp_adapter.questions import RequestPermissionResponse, SelectedOutcome
from acp_adapter.stored_sessions import ListSessionsRequest
from acp_adapter.updates.shapes import AgentMessageChunk, SessionInfoUpdate, ToolCallUpdate
from acp_adapter.v1.client import ReadTextFileRequest
from acp_adapter.v1.handshake import InitializeRequest
from acp_adapter.v1.prompts import PromptRequest
from acp_adapter.v1.sessions import (
    NOT_CONNECTED,
    LoadSessionRequest,
    McpServerHttp,
    McpServerStdio,
    NewSessionRequest,
    ResumeSessionRequest,
    SetConfigOptionRequest,
)
from acp_adapter.wire import Empty, from_wire, to_wire

NEW = {"cwd": "/w", "mcpServers": []}


def test_only_given_fields_are_sent() -> None:
    chunk = AgentMessageChunk(content=TextContent(text="hi"))
    assert to_wire(chunk) == {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}


def test_null_and_omitted_differ() -> None:
    assert to_wire(SessionInfoUpdate(title=None)) == {"sessionUpdate": "session_info_update", "title": None}
    assert to_wire(SessionInfoUpdate(updated_at="t")) == {"sessionUpdate": "session_info_update", "updatedAt": "t"}
    assert to_wire(ToolCallUpdate(tool_call_id="t", content=[])) == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t",
        "content": [],
    }


def test_meta_does_not_override_fields() -> None:
    request = from_wire(NewSessionRequest, {**NEW, "_meta": {"cwd": "/evil", "mcpServers": 1}})
    assert request.cwd == "/w"
    assert request.meta == {"cwd": "/evil", "mcpServers": 1}
    assert to_wire(Empty(meta={"a": None})) == {"_meta": {"a": None}}


def test_only_camel_case_is_read() -> None:
    with pytest.raises(WireShapeError, match="sessionId: is required"):
        from_wire(PromptRequest, {"session_id": "s", "prompt": []})
    assert from_wire(Empty, {"meta": {"a": 1}}).meta is None


@pytest.mark.parametrize(
    "garbage", [{"fs": 1, "terminal": "yes"}, {"fs": {"readTextFile": "yes"}}, 5, [], "x", {"terminal": 1}]
)
def test_malformed_capability_counts_as_omitted(garbage: Any) -> None:
    request = from_wire(InitializeRequest, {"protocolVersion": 1, "clientCapabilities": garbage, "clientInfo": {}})
    assert request.client_capabilities.fs.read_text_file is False
    assert request.client_capabilities.terminal is False
    assert request.client_info is None


def test_fields_beside_a_malformed_one_are_kept() -> None:
    raw = {"fs": {"readTextFile": 1, "writeTextFile": True}, "terminal": True, "elicitation": {"form": {}, "url": 3}}
    capabilities = from_wire(InitializeRequest, {"protocolVersion": 1, "clientCapabilities": raw}).client_capabilities
    assert (capabilities.fs.read_text_file, capabilities.fs.write_text_file) == (False, True)
    assert capabilities.terminal is True
    assert capabilities.elicitation is not None
    assert capabilities.elicitation.form == Empty()
    assert capabilities.elicitation.url is None


def test_invalid_items_are_dropped() -> None:
    annotations = {"audience": ["user", "nobody", 3, "assistant"], "priority": "high"}
    request = from_wire(
        PromptRequest, {"sessionId": "s", "prompt": [{"type": "text", "text": "t", "annotations": annotations}]}
    )
    (block,) = request.prompt
    assert block.annotations is not None
    assert block.annotations.audience == ["user", "assistant"]
    assert block.annotations.priority is None


def test_building_a_model_is_strict() -> None:
    with pytest.raises(ValidationError):
        Annotations(audience=["nobody"])
    with pytest.raises(ValidationError):
        TextContent(text="t", annotations=5)
    with pytest.raises(ValidationError):
        ReadTextFileRequest(session_id="s", path="/p", line=-1)


@pytest.mark.parametrize(
    ("model", "raw", "message"),
    [
        (NewSessionRequest, {"cwd": "work", "mcpServers": []}, "cwd: must be an absolute path"),
        (NewSessionRequest, {"cwd": "/w"}, "mcpServers: is required"),
        (NewSessionRequest, {**NEW, "additionalDirectories": ["a"]}, "additionalDirectories[0]: must be an absolute"),
        (NewSessionRequest, {**NEW, "mcpServers": ["x"]}, "mcpServers[0]: must be an object"),
        (NewSessionRequest, {**NEW, "mcpServers": [{"type": "http"}]}, "mcpServers[0].name: is required"),
        (
            NewSessionRequest,
            {**NEW, "mcpServers": [{"type": "acp", "name": "x", "serverId": "y"}]},
            f"mcpServers[0]: {NOT_CONNECTED}",
        ),
        (NewSessionRequest, {**NEW, "mcpServers": [{"type": []}]}, "mcpServers[0].name: is required"),
        (LoadSessionRequest, NEW, "sessionId: is required"),
        (ListSessionsRequest, {"cwd": "relative"}, "cwd: must be an absolute path"),
        (ListSessionsRequest, {"cursor": 5}, "cursor: must be a valid string"),
        (PromptRequest, {"sessionId": "s", "prompt": {}}, "prompt: must be a valid list"),
        (PromptRequest, {"sessionId": "s", "prompt": [{"text": "x"}]}, "prompt[0]: must have 'type'"),
        (PromptRequest, {"sessionId": "s", "prompt": [{"type": "text", "text": 1}]}, "prompt[0].text: must be a valid"),
        (PromptRequest, [], "must be an object"),
        (InitializeRequest, {"protocolVersion": "2025-01-01"}, "protocolVersion: must be a valid integer"),
        (InitializeRequest, {"protocolVersion": True}, "protocolVersion: must be a valid integer"),
        (InitializeRequest, {"protocolVersion": -1}, "protocolVersion: must be greater than or equal to 0"),
        (RequestPermissionResponse, {"outcome": {"outcome": "granted"}}, "outcome: must be tagged with one of"),
        (RequestPermissionResponse, {"outcome": {"outcome": "selected"}}, "outcome.optionId: is required"),
    ],
)  # fmt: skip
def test_errors_name_place_and_expectation(model: Any, raw: Any, message: str) -> None:
    with pytest.raises(WireShapeError) as refused:
        from_wire(model, raw)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("version", [1, 2, 70_000, 2**70, 0])
def test_any_version_is_read(version: int) -> None:
    assert from_wire(InitializeRequest, {"protocolVersion": version}).protocol_version == version


def test_null_is_an_empty_object_or_list() -> None:
    assert from_wire(ListSessionsRequest, None) == ListSessionsRequest()
    new = from_wire(NewSessionRequest, {"cwd": "/w", "mcpServers": None, "additionalDirectories": None})
    assert (new.mcp_servers, new.additional_directories) == ([], [])
    server = {"name": "n", "command": "/c", "args": None, "env": None}
    assert from_wire(NewSessionRequest, {**NEW, "mcpServers": [server]}).mcp_servers == [
        McpServerStdio(name="n", command="/c", args=[], env=[])
    ]
    assert from_wire(ResumeSessionRequest, {"cwd": "/w", "sessionId": "s"}).mcp_servers == []


def test_server_shape_depends_on_type() -> None:
    servers = [
        {"name": "a", "command": "/c", "args": [], "env": [{"name": "K", "value": "V"}]},
        {"type": "stdio", "name": "b", "command": "/c", "args": [], "env": []},
        {"type": "http", "name": "c", "url": "https://x", "headers": []},
    ]
    read = from_wire(NewSessionRequest, {**NEW, "mcpServers": servers}).mcp_servers
    assert [type(server) for server in read] == [McpServerStdio, McpServerStdio, McpServerHttp]


@pytest.mark.parametrize(
    ("fields", "is_read"),
    [
        ({"value": "v"}, True),
        ({"value": "v", "type": "id"}, True),
        ({"value": "v", "type": 5}, True),
        ({"value": True, "type": "boolean"}, True),
        ({"value": True}, False),
        ({"value": True, "type": "id"}, False),
        ({"value": 1, "type": "boolean"}, False),
        ({"type": "boolean"}, False),
    ],
)
def test_boolean_value_needs_its_type(fields: dict[str, Any], is_read: bool) -> None:
    raw = {"sessionId": "s", "configId": "c", **fields}
    if is_read:
        assert from_wire(SetConfigOptionRequest, raw).value == fields["value"]
    else:
        with pytest.raises(WireShapeError):
            from_wire(SetConfigOptionRequest, raw)


def test_an_answered_permission_is_read() -> None:
    answer = from_wire(RequestPermissionResponse, {"outcome": {"outcome": "selected", "optionId": "yes", "x": 1}})
    assert answer.outcome == SelectedOutcome(option_id="yes")
