"""The suite for clients: what its agent sends, and verdicts on the reactions of clients."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance.traffic import Traffic
from conformance.transcript import Transcript
from tests.conformance.suite_runs import acp_client, suite, transcript_of

NAME = "acp-client"
METHODS = {
    "session/update",
    "session/request_permission",
    "elicitation/create",
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/wait_for_exit",
    "terminal/kill",
    "terminal/release",
    "$/cancel_request",
}


def test_every_method_and_update_kind_occurs() -> None:
    sent = [m for one in suite(NAME).every_scenario() for m in Traffic(transcript_of(one.name, of=NAME)).sent("server")]
    assert {message.method for message in sent} >= METHODS
    kinds = {m.params["update"]["sessionUpdate"] for m in sent if m.method == "session/update"}
    assert len([kind for kind in kinds if "later" not in kind and not kind.startswith("_")]) == 14


def client_traffic(*messages: tuple[str, dict[str, object]]) -> Transcript:
    """Return foreign traffic, as `trace` records it."""
    transcript = Transcript("", {"suite": NAME})
    for ms, (sender, message) in enumerate(messages):
        data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        transcript.add(ms, "client" if sender == "client" else "server", data)
    return transcript


def test_option_from_an_update_may_be_set() -> None:
    option = {"id": "model", "name": "Model", "type": "select", "currentValue": "b"}
    later = {**option, "options": [{"value": "b", "name": "B"}]}
    told = {"sessionUpdate": "config_option_update", "configOptions": [later]}
    start: list[tuple[str, dict[str, object]]] = [
        ("client", {"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}),
        ("server", {"id": 1, "result": {"sessionId": "s"}}),
    ]
    update = ("server", {"method": "session/update", "params": {"sessionId": "s", "update": told}})
    params = {"sessionId": "s", "configId": "model", "value": "b"}
    asked = ("client", {"id": 2, "method": "session/set_config_option", "params": params})
    row = {one.id: one for one in suite(NAME).requirements if one.id == "ACP1-C-CONFIG-001"}
    verdicts = [
        suite(NAME).judge([client_traffic(*found)], row)[0].verdict.outcome
        for found in ([*start, update, asked], [*start, asked])
    ]
    assert verdicts == ["pass", "fail"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": -32603, "message": "Permission denied"}, "skipped"),
        ({"code": -32000, "message": "The user rejected the write"}, "skipped"),
        ({"code": -32603, "message": "there is no such file"}, "fail"),
        ({"code": -32602, "message": "Permission mode is not a number"}, "fail"),
    ],
)
def test_policy_refusal_is_skipped(error: dict[str, Any], expected: str) -> None:
    class Refuses(acp_client.Client):
        def write(self, request: dict[str, Any], params: dict[str, Any]) -> None:
            self.refuse(request, error["code"], error["message"])

    judged = suite(NAME).judge([transcript_of("write-file", Refuses, NAME)])
    found = {each.requirement.id: each.verdict for each in judged}["ACP1-C-FS-012"]
    assert found.outcome == expected
    if expected == "skipped":
        assert error["message"] in found.reason
