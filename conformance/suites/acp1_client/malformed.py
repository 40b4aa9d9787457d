"""Broken optional fields in the agent's answers, updates and requests.

The schema determines the fields; this module has the messages that contain them. Left out are answers that only a
client's user triggers (other sessions, modes, login), and requests that ask people (elicitation).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from conformance.driver import Answer, Driver, StoppedError
from conformance.judging import Requirement
from conformance.suite import Scenario
from conformance.suites.acp1 import schema
from conformance.suites.acp1_client.agent import PROBE, Agent, InTurn, Turn, finish, initialized, open_turn
from conformance.suites.acp1_client.files import folder, put
from conformance.suites.acp1_client.opening import MODES, OPTIONS
from conformance.suites.acp1_client.terminals import VARIABLE, create, running
from conformance.suites.default_fields import (
    Attempt,
    break_fields,
    missing_answer,
    missing_result,
    tolerates_broken_fields,
)
from conformance.traffic import Traffic
from conformance.values import Object, as_object, as_text, at

_PROBE: Final = "_rewindow_conformance/alive"
"""A request sent after a notification. Any answer shows that the client still reads."""


def _refused(traffic: Traffic, attempt: Attempt) -> str:
    probed = attempt.request is not None and attempt.request.method == _PROBE
    return missing_answer(traffic, attempt) if probed else missing_result(traffic, attempt)


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-RPC-018",
        "advisory",
        "The client ignores optional fields of wrong types in requests, as the schema requires.",
        schema("/$defs/RequestPermissionRequest/properties/_meta", '"x-deserialize-default-on-error": true'),
        tolerates_broken_fields(_refused, by="server"),
        scenario="requests-malformed",
        violation='"code":-32602 for "kind":7 in the tool call of a permission',
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


LEFT_OUT: Final[Mapping[str, tuple[str, ...]]] = {
    "a person would have to answer": (
        *("CreateElicitationRequest", "CompleteElicitationNotification", "ElicitationSchema"),
        *("ElicitationSessionScope", "StringPropertySchema", "NumberPropertySchema", "IntegerPropertySchema"),
        *("BooleanPropertySchema", "MultiSelectPropertySchema", "StringMultiSelectItems", "TitledMultiSelectItems"),
        *("EnumOption", "AuthMethodTerminal"),
    ),
    "the message answers a request that only the client's user triggers": (
        *("AuthenticateResponse", "LogoutResponse", "ListSessionsResponse", "SessionInfo", "LoadSessionResponse"),
        *("ResumeSessionResponse", "DeleteSessionResponse", "CloseSessionResponse", "SetSessionModeResponse"),
        "SetSessionConfigOptionResponse",
    ),
    "a client may exit after this answer, so the suite cannot tell whether the client accepted it": ("PromptResponse",),
}
"""Definitions whose fields are not broken, by the reason."""

_TEXT: Final[Object] = {"type": "text", "text": "Some words. ", "annotations": {}}
INITIALIZED: Final[Object] = {
    **initialized(
        agentCapabilities={
            "promptCapabilities": {},
            "mcpCapabilities": {},
            "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
            "auth": {"logout": {}},
        }
    )
}
LOGIN: Final[Object] = initialized(authMethods=[{"id": "login", "name": "Log in"}])
"""Separate, because some clients let their user choose a method first."""
OPENED: Final[Object] = {
    "sessionId": "session-1",
    "modes": MODES,
    "configOptions": [*OPTIONS, {"id": "loud", "name": "Loud", "type": "boolean", "currentValue": False}],
}


def updates_of(cwd: str, offers: Callable[[str], bool]) -> Iterator[Object]:
    """Return one full update of each kind that the client supports."""
    path = f"{cwd}/rewindow-conformance.txt"
    content: list[Object] = [
        {"type": "content", "content": _TEXT},
        {"type": "diff", "path": path, "newText": "ok\n"},
    ]
    call: Object = {"toolCallId": "call-1", "title": "Write a file", "content": content, "locations": [{"path": path}]}
    for kind in ("user_message_chunk", "agent_thought_chunk", "agent_message_chunk"):
        yield {"sessionUpdate": kind, "content": _TEXT}
    for block in _blocks():
        yield {"sessionUpdate": "agent_message_chunk", "content": block}
    yield {"sessionUpdate": "plan", "entries": [{"content": "Answer", "priority": "high", "status": "pending"}]}
    yield {"sessionUpdate": "tool_call", **call}
    yield {"sessionUpdate": "tool_call_update", **call}
    commands = [{"name": "help", "description": "Describes the project", "input": {"hint": "a topic"}}]
    yield {"sessionUpdate": "available_commands_update", "availableCommands": commands}
    yield {"sessionUpdate": "current_mode_update", "currentModeId": "ask"}
    yield {"sessionUpdate": "config_option_update", "configOptions": OPENED["configOptions"]}
    yield {"sessionUpdate": "session_info_update"}
    yield {"sessionUpdate": "usage_update", "used": 10, "size": 1000, "cost": {"amount": 0.1, "currency": "USD"}}
    if offers("session.notices"):
        yield {"sessionUpdate": "notice", "severity": "info", "title": "Something happened"}
    if offers("session.compaction"):
        yield {"sessionUpdate": "compaction_update", "compactionId": "c1", "status": "in_progress"}
        yield {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c1", "content": _TEXT}


def _blocks() -> Iterator[Object]:
    resource: Object = {"type": "resource", "annotations": {}}
    yield {"type": "resource_link", "uri": "file:///a", "name": "a", "annotations": {}}
    yield {"type": "image", "data": "AAAA", "mimeType": "image/png", "annotations": {}}
    yield {"type": "audio", "data": "AAAA", "mimeType": "audio/wav", "annotations": {}}
    yield {**resource, "resource": {"uri": "file:///a", "text": "Some notes.\n"}}
    yield {**resource, "resource": {"uri": "file:///a", "blob": "AAAA"}}


class _Starts:
    """Starts the client again for each version of an answer before its prompt."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._count = 0

    def turn(self, **fields: Any) -> tuple[Any, bool]:
        """Return no id, and whether the client reached its prompt."""
        driver = self._driver
        if self._count:
            driver.restart()
        agent = Agent(made=self._count, **fields)  # gives each session its own id
        self._count += 1
        agent.serve(driver)
        prompt = driver.wait(lambda message: message.get("method") == "session/prompt")
        if prompt is None:
            return None, False
        finish(Turn(driver, prompt, agent.directories.get(as_text(at(prompt, "params.sessionId")), "")))
        return None, True


def _not_needed() -> None:
    """Do nothing: each version starts the client anyway."""


def _run_initialize(driver: Driver) -> None:
    starts = _Starts(driver)

    def send(result: Object) -> tuple[Any, bool]:
        return starts.turn(initialize=Answer(result=result))

    break_fields(driver, "InitializeResponse", INITIALIZED, send, revive=_not_needed)
    login = "InitializeResponse with a method to log in by"
    break_fields(driver, "InitializeResponse", LOGIN, send, login, _not_needed)


def _run_session(driver: Driver) -> None:
    starts = _Starts(driver)

    def send(result: Object) -> tuple[Any, bool]:
        return starts.turn(session={name: value for name, value in result.items() if name != "sessionId"})

    break_fields(driver, "NewSessionResponse", OPENED, send, revive=_not_needed)


def _run_updates(turn: Turn) -> None:
    if not turn.probe("before"):
        raise StoppedError("the client does not answer an unknown request")
    for update in updates_of(turn.cwd, turn.offers):
        _update(turn, update, update["sessionUpdate"])


def _update(turn: Turn, update: Object, about: str) -> None:
    _tell(turn, "session/update", "SessionNotification", {"sessionId": turn.session, "update": update}, about)


def _tell(turn: Turn, method: str, definition: str, params: Object, about: str = "") -> None:
    driver = turn.driver

    def send(broken: Object) -> tuple[Any, bool]:
        driver.notify(method, broken)
        probe = driver.request(PROBE, {})
        answered = driver.response(probe) is not None
        return (probe if answered or not driver.has_closed() else None), answered

    break_fields(driver, definition, params, send, about, lambda: _open_again(turn))


def _open_again(turn: Turn) -> None:
    turn.driver.restart()
    again = open_turn(turn.driver)
    turn.prompt, turn.cwd = again.prompt, again.cwd


def _run_requests(driver: Driver) -> None:
    turn = open_turn(driver)
    _break(turn, "session/request_permission", "RequestPermissionRequest", permission_of(turn.cwd))
    if turn.offers("fs.readTextFile") and turn.offers("fs.writeTextFile"):
        with folder(turn) as path:
            read: Object = {"path": put(path / "read.txt", "one\n")}
            _break(turn, "fs/read_text_file", "ReadTextFileRequest", read)
            written: Object = {"path": str(path / "written.txt"), "content": "one\n"}
            _break(turn, "fs/write_text_file", "WriteTextFileRequest", written)
    if turn.offers("terminal"):
        _break_terminals(turn)
    _tell(turn, "$/cancel_request", "CancelRequestNotification", {"requestId": "none"})
    finish(turn)


def permission_of(cwd: str) -> Object:
    """Return the params of a permission request, without the session."""
    path = f"{cwd}/rewindow-conformance.txt"
    content: list[Object] = [{"type": "diff", "path": path, "newText": "ok\n"}]
    call = {"toolCallId": "call-1", "title": "Write a file", "content": content, "locations": [{"path": path}]}
    return {"toolCall": call, "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}


def _break_terminals(turn: Turn) -> None:
    command: Object = {**running("lines", "1", "0"), "env": [{"name": VARIABLE, "value": "a"}]}
    _break(turn, "terminal/create", "CreateTerminalRequest", command)
    terminal = create(turn, "", "lines", "1", "0")
    here: Object = {"terminalId": terminal}
    _break(turn, "terminal/wait_for_exit", "WaitForTerminalExitRequest", here)
    _break(turn, "terminal/output", "TerminalOutputRequest", here)
    _break(turn, "terminal/kill", "KillTerminalRequest", here)
    shown = {"toolCallId": "call-1", "title": "Run it", "content": [{"type": "terminal", **here}]}
    _update(turn, {"sessionUpdate": "tool_call", **shown}, "a terminal shown")
    made = {as_text(at(message, "result.terminalId")) for message in turn.driver.received} - {""}
    _break(turn, "terminal/release", "ReleaseTerminalRequest", here, lambda: {"terminalId": made.pop()})


def _break(
    turn: Turn, method: str, definition: str, params: Object, fresh: Callable[[], Object] = dict[str, Any]
) -> None:
    """Break fields. `fresh` returns params that must be new for each request."""

    def send(broken: Object) -> tuple[Any, bool]:
        request = turn.driver.request(method, {**broken, **fresh()})
        return request, "result" in as_object(turn.driver.response(request))

    break_fields(turn.driver, definition, {"sessionId": turn.session, **params}, send)


SCENARIOS: Final = (
    Scenario("initialize-malformed", "Answers initialize with optional fields of wrong types.", _run_initialize),
    Scenario("session-malformed", "Opens a session with optional fields of wrong types.", _run_session),
    Scenario("updates-malformed", "Sends updates with optional fields of wrong types.", InTurn(_run_updates)),
    Scenario("requests-malformed", "Sends requests with optional fields of wrong types.", _run_requests),
)
