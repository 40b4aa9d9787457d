"""What the scenarios' agent sends is what the schema allows, but where a scenario is about what it does not."""

from __future__ import annotations

import json

import pytest

from conformance.requirements.acp1 import definition
from conformance.traffic import Message, Traffic
from conformance.transcript import Transcript
from tests.conformance.suite_runs import suite, transcript_of

NAME = "acp-client"
# What these send is wrong, or of a later version, on purpose.
STRANGE = {
    "initialize-malformed",
    "initialize-unknown",
    "session-malformed",
    "malformed-lines",
    "not-utf8",
    "updates-malformed",
    "requests-malformed",
    "unknown-values",
    "unknown-updates",
    "compaction",
    "elicitation",
}
RESULTS = {
    "initialize": "InitializeResponse",
    "authenticate": "AuthenticateResponse",
    "session/new": "NewSessionResponse",
    "session/prompt": "PromptResponse",
    "session/set_mode": "SetSessionModeResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
}
PARAMS = {
    "session/update": "SessionNotification",
    "session/request_permission": "RequestPermissionRequest",
    "elicitation/create": "CreateElicitationRequest",
    "fs/read_text_file": "ReadTextFileRequest",
    "fs/write_text_file": "WriteTextFileRequest",
    "terminal/create": "CreateTerminalRequest",
    "terminal/output": "TerminalOutputRequest",
    "terminal/wait_for_exit": "WaitForTerminalExitRequest",
    "terminal/kill": "KillTerminalRequest",
    "terminal/release": "ReleaseTerminalRequest",
    "$/cancel_request": "CancelRequestNotification",
}


def problem(message: Message) -> str:
    name = PARAMS.get(message.method) if message.method else None
    value = message.params
    if message.answers is not None and "result" in message.object:
        name, value = RESULTS.get(message.answers.method), message.result
    return str(definition(name)(value) or "") if name else ""


@pytest.mark.parametrize("scenario", [one.name for one in suite(NAME).every_scenario() if one.name not in STRANGE])
def test_the_agent_sends_what_the_schema_allows(scenario: str) -> None:
    traffic = Traffic(transcript_of(scenario, of=NAME))
    wrong = {problem(message) for message in traffic.sent("server")} - {""}
    assert wrong == set()


def test_what_is_sent_on_purpose_is_found_wrong() -> None:
    traffic = Traffic(transcript_of("session-malformed", of=NAME))
    assert any(problem(message) for message in traffic.sent("server"))


def test_every_method_and_every_kind_of_update_of_the_schema_occurs() -> None:
    sent = [m for one in suite(NAME).every_scenario() for m in Traffic(transcript_of(one.name, of=NAME)).sent("server")]
    assert set(PARAMS) <= {message.method for message in sent}
    kinds = {m.params["update"]["sessionUpdate"] for m in sent if m.method == "session/update"}
    assert len([kind for kind in kinds if "later" not in kind and not kind.startswith("_")]) == 14


def client_traffic(*messages: tuple[str, dict[str, object]]) -> Transcript:
    """Foreign traffic, as `trace` records it."""
    transcript = Transcript("", {"suite": NAME})
    for ms, (sender, message) in enumerate(messages):
        data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        transcript.add(ms, "client" if sender == "client" else "server", data)
    return transcript


def test_an_option_that_came_with_an_update_may_be_set() -> None:
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
