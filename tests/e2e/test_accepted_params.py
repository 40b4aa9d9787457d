"""All that the agent accepts, by the schema: each message whole and with one thing changed, to the real agent.

What a reader of the schema cannot read is refused with "invalid params", and what it can read is accepted.
"""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from acp_adapter.jsonrpc.messages import Code
from conformance.documents import json_document
from conformance.values import as_list, as_object, is_list, is_object
from tests.support.acp_schema import schema
from tests.support.agents import Agent
from tests.support.pictures import png
from tests.support.schema_cases import UNKNOWN, Case, Cases
from tests.support.scripts import asks_permission, reason, scripted

SESSION = "$SESSION"
CWD = "$CWD"
KNOWN: dict[str, Any] = {
    "sessionId": SESSION,
    "cwd": CWD,
    "additionalDirectories": [CWD],
    "uri": f"file://{CWD}/a.txt",
    "url": "http://127.0.0.1:9/",
    "command": "/nonexistent/server",
    "args": ["--help"],
    "data": b64encode(png()).decode(),
    "blob": b64encode(png()).decode(),
    "mimeType": "image/png",
    "text": "hello there, my friend",
    "protocolVersion": 1,
    "modeId": "ask",
    "configId": "mode",
    "value": "ask",
    "cursor": None,
    "archived": "include",
    "mode": "append",
    "requestId": 987_654,
}
IN_BOTH = (
    *("InitializeRequest", "NewSessionRequest", "ListSessionsRequest", "ResumeSessionRequest"),
    *("DeleteSessionRequest", "CloseSessionRequest", "SetSessionConfigOptionRequest", "PromptRequest"),
    *("CancelRequestNotification", "ForkSessionRequest", "SetSessionTitleRequest", "SessionStatusRequest"),
    *("AuthStatusRequest", "ArchiveSessionRequest", "UnarchiveSessionRequest"),
)


READ_ALIKE = ("systemPrompt",)
"""Properties with many cases that all requests read alike: one request has them."""


class Version(NamedTuple):
    """A version of the protocol: the names of what it accepts, its schema, and values beside `KNOWN`."""

    number: int
    names: tuple[str, ...]
    document: dict[str, Any]
    known: dict[str, Any]

    def methods(self) -> list[str]:
        """The methods, without making their cases, which takes a second."""
        return sorted(self.document["$defs"][name]["x-method"] for name in self.names)

    def cases(self) -> list[Case]:
        """Everything that is accepted."""
        known = {**KNOWN, **self.known}
        return [
            case
            for name in self.names
            for case in Cases(self.document, known, () if name == "NewSessionRequest" else READ_ALIKE).of(name)
        ]

    def __str__(self) -> str:
        return f"version-{self.number}"


V1 = Version(
    1,
    (
        *IN_BOTH,
        *("AuthenticateRequest", "LogoutRequest", "LoadSessionRequest", "SetSessionModeRequest", "CancelNotification"),
    ),
    schema("stable"),
    {},
)
V2 = Version(
    2,
    (*IN_BOTH, "LoginAuthRequest", "LogoutAuthRequest", "CancelSessionNotification"),
    schema("2"),
    {"protocolVersion": 2},
)
VERSIONS = (V1, V2)
NOTIFICATIONS = frozenset({"session/cancel", "$/cancel_request"})
NEEDING_KEYS = ("authenticate", "logout", "auth/login", "auth/logout", "auth/status")
"""There is nothing to sign in to without a stored key."""
SERVED_BLOCKS = ("text", "image", "resource_link", "resource")
SERVED_SERVERS = (None, "stdio", "http", "sse")
FILTERS = (None, "exclude", "include", "only")
CONSUMING = frozenset({"session/close", "session/delete", "session/archive"})
SAMPLE = 40


def sampled(cases: list[Case]) -> list[Case]:
    """Each message whole, and some of the others."""
    whole = [case for case in cases if case.is_whole]
    return whole + Random(5).sample([case for case in cases if not case.is_whole], SAMPLE)


def is_refused(case: Case) -> bool:
    """Whether the agent may refuse what it can read, because it does not serve this."""
    params = as_object(case.params)
    blocks = [as_object(block) for block in as_list(params.get("prompt"))]
    servers = [as_object(server) for server in as_list(params.get("mcpServers"))]
    prompt = params.get("systemPrompt")
    return (
        case.method in NEEDING_KEYS
        or case.change in ('cursor "a text"', "value true")  # no cursor of the agent's, and no option of that type
        or (case.method == "session/list" and params.get("archived") not in FILTERS)
        or (case.method == "session/prompt" and not blocks)
        or (prompt is not None and not is_appended(as_object(prompt)))
        or any(block.get("type") not in SERVED_BLOCKS for block in blocks)
        or any(server.get("type") not in SERVED_SERVERS for server in servers)
        or (case.method == "session/set_config_option" and params.get("type") not in (None, "id"))
        or (case.method == "session/resume" and as_object(params.get("replayFrom")).get("type") not in (None, "start"))
        or any("blob" in as_object(block.get("resource")) for block in blocks)
    )


def is_appended(prompt: dict[str, Any]) -> bool:
    """Whether this is a system prompt of text that is added to the agent's own."""
    blocks = [as_object(block) for block in as_list(prompt.get("content"))]
    return prompt.get("mode") == "append" and bool(blocks) and all(each.get("type") == "text" for each in blocks)


def filled(value: Any, session: str, cwd: Path) -> Any:
    if is_object(value):
        return {key: filled(item, session, cwd) for key, item in value.items()}
    if is_list(value):
        return [filled(item, session, cwd) for item in value]
    return value.replace(SESSION, session).replace(CWD, str(cwd)) if isinstance(value, str) else value


def problem(agent: Agent, case: Case, params: Any) -> str:
    """What is wrong with the answer; empty if nothing is."""
    response = agent.response(agent.begin(case.method, params))
    code = response.get("error", {}).get("code")
    if not case.is_readable:
        if case.method == "initialize" and code is None and response["result"]["protocolVersion"] == V2.number:
            return ""  # a client that is told version 2 need not have known its shapes
        return "" if code == Code.INVALID_PARAMS else f"was answered with {response}"
    return "" if code is None or (is_refused(case) and code == Code.INVALID_PARAMS) else f"was refused with {response}"


def problems(agent: Agent, version: Version, cases: list[Case], project: Path) -> list[str]:
    beginning = [case for case in cases if case.method == "initialize"]  # not while a session is open
    found = [f"{case}: {wrong}" for case in beginning if (wrong := problem(agent, case, case.params))]
    (agent.initialize if version is V1 else agent.initialize_2)()
    session = agent.new_session(project)
    for case in cases:
        if case in beginning:
            continue
        params = filled(case.params, agent.new_session(project) if case.method in CONSUMING else session, project)
        if case.method in NOTIFICATIONS:
            agent.notify(case.method, params)
        elif wrong := problem(agent, case, params):
            found.append(f"{case}: {wrong}"[:300])
    assert _prompted(agent, version, session) == "end_turn"
    return found


def _prompted(agent: Agent, version: Version, session: str) -> str:
    """Why a turn ended."""
    if version is V1:
        return agent.prompt(session, "hello there")
    return str(agent.work(session, "hello there")["stopReason"])


@pytest.fixture
def folder(project: Path) -> Path:
    (project / "a.txt").write_text("one\n")
    return project


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_sample_of_all_that_is_accepted(tmp_path: Path, folder: Path, version: Version) -> None:
    with Agent(tmp_path / "state") as agent:
        assert problems(agent, version, sampled(version.cases()), folder) == []
        assert b"Traceback" not in agent.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "method"),
    [(version, method) for version in VERSIONS for method in version.methods()],
    ids=str,
)
def test_all_that_is_accepted(tmp_path: Path, folder: Path, version: Version, method: str) -> None:
    with Agent(tmp_path / "state") as agent:
        assert problems(agent, version, [case for case in version.cases() if case.method == method], folder) == []
        assert b"Traceback" not in agent.stderr


@pytest.mark.slow
def test_only_an_approval_approves(tmp_path: Path, folder: Path) -> None:
    """Answers of the client, too: whatever comes as an answer to a question, the turn ends."""
    known = {"optionId": "allow_once", "outcome": {"outcome": "selected", "optionId": "allow_once"}}
    cases = Cases(json_document("acp1.schema"), known).of("RequestPermissionResponse")
    assert len(cases) > 30
    sources = [f'write("{number}.txt", "x")' for number in range(len(cases))]
    model = scripted(tmp_path, *(reply for source in sources for reply in ({"statement": source}, {"text": "Done."})))
    with Agent(tmp_path / "state", "--model", model, permission=None) as agent:
        session = agent.open(folder)
        for number, case in enumerate(cases):
            prompt = agent.begin_prompt(session, "go")
            agent.answer(agent.until(asks_permission), case.params)
            assert reason(agent.response(prompt)) in ("end_turn", "cancelled")
            assert (folder / f"{number}.txt").exists() == case.is_readable, case
        assert b"Traceback" not in agent.stderr


def test_cases_know_the_marks_of_the_schema() -> None:
    cases = {str(case): case.is_readable for case in V1.cases()}
    assert cases["session/new "]
    assert cases[f"session/new  +{UNKNOWN}"]
    assert cases["session/new mcpServers null"]  # default-on-null
    assert not cases["session/new mcpServers left out"]
    assert not cases["session/new cwd 7"]
    assert cases["session/prompt prompt.0.annotations.audience.0 7"]  # skip-invalid-items
    assert cases["session/prompt prompt.0.annotations 7"]  # default-on-error
    assert not cases["session/prompt prompt.0.type 7"]
    cases = {str(case): case.is_readable for case in V2.cases()}
    assert cases["session/new mcpServers left out"]
    assert not cases["session/prompt prompt.0.text left out"]  # of a type that is known
    assert not cases["session/resume replayFrom 7"]
