"""Broken optional fields in the client's requests, notifications and answers.

The schema determines the fields; this module has the messages that contain them. Messages that ask people (elicitation)
or need an HTTP server are left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from conformance.driver import Answer, Driver, StoppedError
from conformance.judging import Requirement
from conformance.suite import Scenario
from conformance.suites.acp1 import schema
from conformance.suites.acp1_agent.client import (
    VERSION,
    advertises,
    begin,
    finish_turn,
    open_session,
    prompt_params,
    start_turn,
    text_block,
    turn,
    update_of,
    updates,
)
from conformance.suites.acp1_agent.prompting import PNG, WAV
from conformance.suites.default_fields import (
    Attempt,
    break_fields,
    default_fields,
    missing_answer,
    missing_result,
    tolerates_broken_fields,
)
from conformance.traffic import Traffic
from conformance.values import Object, as_list, as_object, as_text, at

_NOTIFIED: Final = "_rewindow_conformance/alive"
"""A request sent after a notification. Any answer shows that the agent still reads."""


def _refused(traffic: Traffic, attempt: Attempt) -> str:
    asked = attempt.request is not None and attempt.request.method == _NOTIFIED
    return missing_answer(traffic, attempt) if asked else missing_result(traffic, attempt)


def _tools_fail(traffic: Traffic, attempt: Attempt) -> str:
    """Report a turn that did not end, or a failed tool of it."""
    for message, update in updates(traffic, "tool_call", "tool_call_update"):
        if attempt.begin < message.index < attempt.end and update.get("status") == "failed":
            return f"the turn ran a tool that failed: {update.get('toolCallId')!r}"
    return missing_result(traffic, attempt)


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-RPC-022",
        "advisory",
        "The agent ignores optional fields of wrong types in any request, as the schema requires.",
        schema("/$defs/NewSessionRequest/properties/_meta", '"x-deserialize-default-on-error": true'),
        tolerates_broken_fields(_refused),
        scenario="requests-malformed",
        violation='"code":-32602 for "_meta":7 in session/new',
    ),
    Requirement(
        "ACP1-A-RPC-023",
        "advisory",
        "The agent ignores optional fields of wrong types in answers, as the schema requires.",
        schema("/$defs/TerminalOutputResponse/properties/exitStatus", '"x-deserialize-default-on-error": true'),
        tolerates_broken_fields(_tools_fail),
        scenario="answers-malformed",
        violation='a tool call that ends as failed after "exitStatus":7',
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_PROBE: Final = Path(__file__).parents[2] / "probes" / "mcp_server.py"
_TURNS: Final = 2
"""Turns with tools. A request that the agent makes once per turn gets two kinds of answers."""
_ALIVE: Final = "_rewindow_conformance/alive"

LEFT_OUT: Final[Mapping[str, tuple[str, ...]]] = {
    "the message answers a question to a person, and the suite has no person": ("CreateElicitationResponse",),
    "an HTTP server would be needed": ("HttpHeader", "McpServerHttp", "McpServerSse"),
}
"""Definitions whose fields are not broken, by the reason."""

INITIALIZE: Final[Object] = {
    "protocolVersion": VERSION,
    "clientCapabilities": {
        "fs": {},
        "session": {"configOptions": {"boolean": {}}},
        "auth": {},
        "elicitation": {"form": {}, "url": {}},
    },
    "clientInfo": {"name": "rewindow-conformance", "version": "1"},
}
_CONTENT: Final[Mapping[str, tuple[Object, ...]]] = {
    "": ({"type": "resource_link", "uri": "file:///project/notes.txt", "name": "notes.txt", "annotations": {}},),
    "image": ({"type": "image", "data": PNG, "mimeType": "image/png", "annotations": {}},),
    "audio": ({"type": "audio", "data": WAV, "mimeType": "audio/wav", "annotations": {}},),
    "embeddedContext": (
        {"type": "resource", "resource": {"uri": "file:///project/a", "text": "Some notes.\n"}, "annotations": {}},
    ),
}
"""By the capability that a prompt needs for it."""
BLOB: Final[Object] = {"type": "resource", "resource": {"uri": "file:///project/b", "blob": "AAAA"}}
"""In a prompt of its own, because agents that accept text may refuse bytes."""
ANSWERS: Final[Mapping[str, tuple[str, Object]]] = {
    "session/request_permission": (
        "RequestPermissionResponse",
        {"outcome": {"outcome": "selected", "optionId": "allow"}},
    ),
    "fs/read_text_file": ("ReadTextFileResponse", {"content": "ok\n"}),
    "fs/write_text_file": ("WriteTextFileResponse", {}),
    "terminal/create": ("CreateTerminalResponse", {"terminalId": "terminal-1"}),
    "terminal/output": ("TerminalOutputResponse", {"output": "ok\n", "truncated": False, "exitStatus": {}}),
    "terminal/wait_for_exit": ("WaitForTerminalExitResponse", {}),
    "terminal/kill": ("KillTerminalResponse", {}),
    "terminal/release": ("ReleaseTerminalResponse", {}),
}
"""The definitions of the client's answers with examples, by method."""


def prompt_of(text: str, *capabilities: str) -> list[Object]:
    """Return prompt content for an agent with these capabilities."""
    blocks = [block for capability in ("", *capabilities) for block in _CONTENT[capability]]
    return [{**text_block(text), "annotations": {}}, *blocks]


def requests_of(session: str, cwd: str) -> Iterator[tuple[str, str, Object, str]]:
    """Return the requests that need only a session: method, definition, params, and the needed capability."""
    nowhere = {"name": "REWINDOW_CONFORMANCE_RECORD", "value": os.devnull}
    server = {"name": "probe", "command": sys.executable, "args": [str(_PROBE)], "env": [nowhere]}
    opened: Object = {"cwd": cwd, "mcpServers": []}
    here: Object = {"sessionId": session}
    yield "session/new", "NewSessionRequest", {**opened, "mcpServers": [server]}, ""
    yield "session/list", "ListSessionsRequest", {}, "sessionCapabilities.list"
    yield "session/load", "LoadSessionRequest", {**here, **opened}, "loadSession"
    yield "session/resume", "ResumeSessionRequest", {**here, **opened}, "sessionCapabilities.resume"
    yield "session/close", "CloseSessionRequest", here, "sessionCapabilities.close"
    yield "session/delete", "DeleteSessionRequest", here, "sessionCapabilities.delete"


def _run_initialize(driver: Driver) -> None:
    asked: list[Any] = []

    def send(params: Object) -> tuple[Any, bool]:
        try:
            taken = _ask(driver, "initialize", params)
        except StoppedError:
            if not asked or not driver.has_closed():
                raise
            taken = None, False
        # If an agent accepts one initialize per connection, a second one shows nothing.
        if not taken[1] and asked:
            asked.clear()
            driver.restart()
            taken = _ask(driver, "initialize", params)
        asked.append(taken)
        return taken

    break_fields(driver, "InitializeRequest", INITIALIZE, send)


def _run_prompt(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    offered = [name for name in _CONTENT if name and advertises(driver, f"promptCapabilities.{name}")]

    def send(params: Object) -> tuple[Any, bool]:
        request = driver.request("session/prompt", params)
        return request, "result" in as_object(finish_turn(driver, request))

    message = prompt_params(session, *prompt_of(driver.options.prompt, *offered))
    break_fields(driver, "PromptRequest", message, send)
    if "embeddedContext" in offered:
        bytes_too = prompt_params(session, text_block(driver.options.prompt), BLOB)
        break_fields(driver, "PromptRequest", bytes_too, send, "PromptRequest with a blob")


def _run_requests(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    turn(driver, session, driver.options.prompt)
    _break_settings(driver, session)
    for method, definition, params, capability in requests_of(session, driver.options.cwd):
        if not capability or advertises(driver, capability):
            break_fields(driver, definition, params, _asking(driver, method))
    here = open_session(driver)
    for method, definition, params in notifications_of(here):
        break_fields(driver, definition, params, _telling(driver, method))
    if driver.options.auth is not None:
        given = {"methodId": driver.options.auth}
        break_fields(driver, "AuthenticateRequest", given, _asking(driver, "authenticate"))
    if driver.options.allow_logout and advertises(driver, "auth.logout"):
        break_fields(driver, "LogoutRequest", {}, _asking(driver, "logout"))


def notifications_of(session: str) -> Iterator[tuple[str, str, Object]]:
    """Return notifications without effect while nothing runs: method, definition and params."""
    yield "session/cancel", "CancelNotification", {"sessionId": session}
    yield "$/cancel_request", "CancelRequestNotification", {"requestId": "none"}


def settings_of(session: str, opened: Object) -> Iterator[tuple[str, str, Object]]:
    """Return requests that repeat the current choices in an answer to session/new."""
    mode = at(opened, "modes.currentModeId")
    if isinstance(mode, str):
        yield "session/set_mode", "SetSessionModeRequest", {"sessionId": session, "modeId": mode}
    for option in map(as_object, as_list(opened.get("configOptions"))[:1]):
        chosen = {"sessionId": session, "configId": option.get("id"), "value": option.get("currentValue")}
        kind = {"type": "boolean"} if isinstance(option.get("currentValue"), bool) else {}
        yield "session/set_config_option", "SetSessionConfigOptionRequest", {**chosen, **kind}


def _break_settings(driver: Driver, session: str) -> None:
    answers = (as_object(message.get("result")) for message in driver.received)
    opened = next(result for result in answers if result.get("sessionId") == session)
    for method, definition, params in settings_of(session, opened):
        break_fields(driver, definition, params, _asking(driver, method))


def _asking(driver: Driver, method: str) -> Callable[[Object], tuple[Any, bool]]:
    def send(params: Object) -> tuple[Any, bool]:
        # A request that ends its session works once per session.
        once = method in ("session/close", "session/delete")
        return _ask(driver, method, {**params, "sessionId": open_session(driver)} if once else params)

    return send


def _ask(driver: Driver, method: str, params: Object) -> tuple[Any, bool]:
    request = driver.request(method, params)
    return request, "result" in as_object(driver.response(request))


def _telling(driver: Driver, method: str) -> Callable[[Object], tuple[Any, bool]]:
    def send(params: Object) -> tuple[Any, bool]:
        driver.notify(method, params)
        request = driver.request(_ALIVE, {})
        return request, driver.response(request) is not None

    return send


def _run_answers(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    plain = dict(driver.answerers)
    plain["fs/read_text_file"] = _also_from_disk(plain["fs/read_text_file"], driver.options.cwd)
    counts: dict[str, int] = {}
    seen = len(driver.received)
    for _ in range(_TURNS):
        fields: dict[str, None] = {}
        driver.answerers.update({name: _breaking(name, plain[name], counts, fields) for name in plain})
        _tool_turn(driver, session, fields)
    if any(has_failed(message) for message in driver.received[seen:]):
        driver.answerers.update(plain)
        _tool_turn(driver, session, ())


def _also_from_disk(read: Callable[[Object], Answer], cwd: str) -> Callable[[Object], Answer]:
    """Also serve files that the agent wrote to disk, because other content stops some agents."""

    def answer(params: Object) -> Answer:
        given, path = read(params), Path(as_text(params.get("path")))
        if given.error is not None and path.is_relative_to(cwd) and path.is_file():
            return Answer(result={"content": path.read_text(encoding="utf-8", errors="replace")})
        return given

    return answer


def _tool_turn(driver: Driver, session: str, fields: Iterable[str]) -> None:
    request = start_turn(driver, session, driver.options.tool_prompt)
    finish_turn(driver, request)
    driver.mark("broken", {"id": request, "message": "answers", "fields": list(fields)})


def has_failed(message: Object) -> bool:
    """Whether a message reports a failed tool call or turn."""
    return (
        update_of(message, "tool_call", "tool_call_update") and at(message, "params.update.status") == "failed"
    ) or ("error" in message and "method" not in message)


def _breaking(
    method: str, answerer: Callable[[Object], Answer], counts: dict[str, int], fields: dict[str, None]
) -> Callable[[Object], Answer]:
    """Return an answerer that sends broken versions of a normal answer, one after the other."""

    def answer(params: Object) -> Answer:
        given = answerer(params)
        if given.error is not None:
            return given
        versions = default_fields().break_together(ANSWERS[method][0], as_object(given.result))
        count = counts[method] = counts.get(method, -1) + 1
        broken = versions[count % len(versions)]
        fields.update(dict.fromkeys(broken.fields))
        return Answer(result=broken.value)

    return answer


SCENARIOS: Final = (
    Scenario("initialize-malformed", "Initializes with optional fields of wrong types.", _run_initialize),
    Scenario("prompt-malformed", "Prompts with optional fields of wrong types.", _run_prompt),
    Scenario("requests-malformed", "Sends other requests with optional fields of wrong types.", _run_requests),
    Scenario("answers-malformed", "Answers an agent's requests with optional fields of wrong types.", _run_answers),
)
