"""The suite for agents that listen: what the proposal "Streamable HTTP & WebSocket" says of requests of HTTP.

Scenarios send requests named `_http`. Their params describe a request of HTTP, and the result is the response
(`conformance.peers.remote` makes them). The proposal is a draft, so much of it has no binding sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from conformance.documents import Source
from conformance.driver import Driver
from conformance.judging import (
    PASS,
    Judge,
    Level,
    Requirement,
    Verdict,
    evidence,
    failed,
    marked_requests,
    not_tested,
    unanswered_reason,
)
from conformance.suite import Scenario, Suite
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_object, as_text, is_object

RAW: Final = "_http"
PAGE: Final = "streamable-http-websocket-transport"
_CONNECTION: Final = "Acp-Connection-Id"
_SESSION: Final = "Acp-Session-Id"
_JSON: Final = {"Content-Type": "application/json"}
_STREAM: Final = {"Accept": "text/event-stream"}
_INITIALIZE: Final[Object] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {}},
}
_PROMPT: Final[Object] = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "session/prompt",
    "params": {"sessionId": "none", "prompt": []},
}
_LIST: Final[Object] = {"jsonrpc": "2.0", "id": "listed", "method": "_rewindow_conformance/unknown", "params": {}}
_UNKNOWN: Final = {_CONNECTION: "unknown"}


def _ask(driver: Driver, label: str, method: str, headers: Object, body: Any = None, **more: Any) -> Object:
    """Make a request of HTTP and return the response, or an empty object."""
    params = {"method": method, "headers": headers, **({} if body is None else {"body": body}), **more}
    answer = driver.response(driver.request(RAW, params, label=label))
    return as_object((answer or {}).get("result"))


def _connect(driver: Driver) -> Object:
    """Initialize a connection, and return the header that names it."""
    response = _ask(driver, "initialize", "POST", _JSON, _INITIALIZE)
    headers = {name.lower(): value for name, value in as_object(response.get("headers")).items()}
    return {_CONNECTION: as_text(headers.get(_CONNECTION.lower())) or "none"}


def _run_opening(driver: Driver) -> None:
    _connect(driver)


def _run_posts(driver: Driver) -> None:
    own = _connect(driver)
    _ask(driver, "text", "POST", {**own, "Content-Type": "text/plain"}, "{}")
    _ask(driver, "batch", "POST", {**own, **_JSON}, [_LIST])
    _ask(driver, "post-without-connection", "POST", _JSON, _LIST)
    _ask(driver, "post-to-unknown", "POST", {**_UNKNOWN, **_JSON}, _LIST)
    _ask(driver, "post-without-session", "POST", {**own, **_JSON}, _PROMPT)
    _ask(driver, "post", "POST", {**own, **_JSON}, _LIST)
    _ask(driver, "stream", "GET", {**own, **_STREAM}, until='"listed"')
    _ask(driver, "stream-again", "GET", {**own, **_STREAM, "Last-Event-ID": "0"}, until='"listed"', seconds=2)


def _run_gets(driver: Driver) -> None:
    own = _connect(driver)
    _ask(driver, "get-without-accept", "GET", {**own, "Accept": "application/json"})
    _ask(driver, "get-without-connection", "GET", _STREAM)
    _ask(driver, "get-of-unknown", "GET", {**_UNKNOWN, **_STREAM})
    _ask(driver, "delete-without-connection", "DELETE", {})
    _ask(driver, "delete", "DELETE", own)
    _ask(driver, "post-after-delete", "POST", {**own, **_JSON}, _LIST)


OPENING: Final = Scenario("opening", "Initializes a connection.", _run_opening)
SCENARIOS: Final = (
    Scenario("posts", "Sends messages by POST that the transport accepts or refuses.", _run_posts),
    Scenario("gets", "Opens streams and deletes the connection.", _run_gets),
)


# --- judges -----------------------------------------------------------------------------------------------------------


def _responses(label: str, problem: Callable[[Object], str]) -> Judge:
    """The response of HTTP to the marked request has no problem."""

    def judge(traffic: Traffic) -> Verdict:
        requests = marked_requests(traffic, label)
        if not requests:
            return not_tested("the request was not sent")
        for request in requests:
            if request.answer is None:
                return failed(unanswered_reason(traffic, request), *evidence(request))
            reason = problem(request.answer.result)
            if reason:
                return failed(reason, *evidence(request))
        return PASS

    return judge


def _is_status(wanted: int, response: Object) -> str:
    given = response.get("status")
    return "" if given == wanted else f"the status is {given}, not {wanted}"


def _names_connection(response: Object) -> str:
    names = [name.lower() for name in as_object(response.get("headers"))]
    return "" if _CONNECTION.lower() in names else f"the response has no header {_CONNECTION}"


def _is_http2(response: Object) -> str:
    given = as_text(response.get("version"))
    return "" if given == "HTTP/2" else f"the response came over {given or 'nothing'}"


def _has_response(response: Object) -> str:
    return "" if '"listed"' in as_text(response.get("body")) else "the stream does not have the response"


# --- requirements -----------------------------------------------------------------------------------------------------


def _row(number: str, level: Level, text: str, quote: str, judge: Judge, scenario: str, violation: str) -> Requirement:
    source = Source("acp.remote", PAGE, quote)
    return Requirement(f"ACPR-A-{number}", level, text, source, judge, scenario=scenario, violation=violation)


def _status(label: str, wanted: int) -> Judge:
    return _responses(label, partial(_is_status, wanted))


_INITIALIZED: Final = (
    "it returns `200 OK` with a JSON response body containing capabilities and the `Acp-Connection-Id`."
)
_ACCEPTED: Final = "Most POST requests return `202 Accepted` immediately with an empty body."
_NOT_FOUND: Final = "Unknown Acp-Connection-Id? → 404 Not Found"
_CONTENT: Final = "POST `Content-Type` **MUST** be `application/json` (415 otherwise)."
_ACCEPT: Final = "GET `Accept` **MUST** include `text/event-stream` (406 otherwise)."
_SESSION_HEADER: Final = "POST requests for session-scoped operations **MUST** include both `Acp-Connection-Id`"
_CONNECTION_HEADER: Final = "GET requests without `Upgrade: websocket` **MUST** include `Acp-Connection-Id`."
_DELETED: Final = "Has Acp-Connection-Id? → Terminate connection and all associated sessions, return 202"
_NO_ID: Final = "No Acp-Connection-Id? → 400 Bad Request"
_STREAMS: Final = (
    "All server→client messages (responses to requests and unsolicited notifications) are delivered via SSE streams "
    "opened with GET."
)

REQUIREMENTS: Final = (
    _row(
        "INIT-001", "advisory", "The agent answers initialize with the status 200.",
        _INITIALIZED, _status("initialize", 200), "opening", "a response with the status 202",
    ),
    _row(
        "INIT-002", "advisory", "The agent names the new connection in a header.",
        "The `Acp-Connection-Id` is also included in the response header.",
        _responses("initialize", _names_connection), "opening", "a response without Acp-Connection-Id",
    ),
    _row(
        "INIT-003", "mandatory", "The agent serves HTTP/2.",
        "Streamable HTTP transport MUST use HTTP/2.",
        _responses("initialize", _is_http2), "opening", "a server that only speaks HTTP/1.1",
    ),
    _row(
        "POST-001", "mandatory", "The agent refuses another content type than JSON with the status 415.",
        _CONTENT, _status("text", 415), "posts", "a response with the status 400 to text/plain",
    ),
    _row(
        "POST-002", "advisory", "The agent refuses a batch with the status 501.",
        "Batch JSON-RPC requests return 501.", _status("batch", 501), "posts", "a response with the status 400",
    ),
    _row(
        "POST-003", "advisory", "The agent refuses a message without a connection with the status 400.",
        _NO_ID, _status("post-without-connection", 400), "posts", "a response with the status 404",
    ),
    _row(
        "POST-004", "advisory", "The agent refuses a message for an unknown connection with the status 404.",
        _NOT_FOUND, _status("post-to-unknown", 404), "posts", "a response with the status 202",
    ),
    _row(
        "POST-005", "mandatory", "The agent refuses a prompt without a session in its headers with the status 400.",
        _SESSION_HEADER, _status("post-without-session", 400), "posts", "a response with the status 202",
    ),
    _row(
        "POST-006", "advisory", "The agent accepts other messages with the status 202.",
        _ACCEPTED, _status("post", 202), "posts", "a response with the status 200",
    ),
    _row(
        "STREAM-001", "advisory", "The agent sends the response to a request on the stream of the connection.",
        _STREAMS, _responses("stream", _has_response), "posts", "a stream that stays empty",
    ),
    Requirement(
        "ACPR-A-STREAM-002", "informational", "The agent sends again what follows the position of Last-Event-ID.",
        Source("acp.remote", "durable-resumable-http-transport",
               "the server replays the messages it missed before resuming live delivery."),
        _responses("stream-again", _has_response), scenario="posts",
        violation="a stream that begins with the next message",
    ),
    _row(
        "STREAM-003", "mandatory", "The agent refuses a stream that is not accepted with the status 406.",
        _ACCEPT, _status("get-without-accept", 406), "gets", "a response with the status 200",
    ),
    _row(
        "STREAM-004", "mandatory", "The agent refuses a stream without a connection with the status 400.",
        _CONNECTION_HEADER, _status("get-without-connection", 400), "gets", "a response with the status 404",
    ),
    _row(
        "STREAM-005", "advisory", "The agent refuses the stream of an unknown connection with the status 404.",
        _NOT_FOUND, _status("get-of-unknown", 404), "gets", "an empty stream",
    ),
    _row(
        "DELETE-001", "advisory", "The agent refuses to delete no connection with the status 400.",
        _NO_ID, _status("delete-without-connection", 400), "gets", "a response with the status 202",
    ),
    _row(
        "DELETE-002", "advisory", "The agent deletes a connection with the status 202.",
        _DELETED, _status("delete", 202), "gets", "a response with the status 405",
    ),
    _row(
        "DELETE-003", "advisory", "The agent no longer knows a connection that was deleted.",
        _DELETED, _status("post-after-delete", 404), "gets", "a response with the status 202",
    ),
)  # fmt: skip


def _obstacle(traffic: Traffic) -> str:
    for entry in traffic.marks("not-started"):
        return str(entry.value)
    first: Message | None = next(iter(marked_requests(traffic, "initialize")), None)
    if first is None or first.answer is None or not is_object(first.answer.result):
        return "there is no answer at this address"
    status = first.answer.result.get("status")
    if status == 0:
        return f"there is no answer at this address: {first.answer.result.get('error')}"
    return f"the server refused the connection with the status {status}" if status in (401, 403, 421) else ""


def _advertised(traffic: Traffic, capability: str) -> bool | None:
    """Return None: no requirement depends on a capability."""
    del traffic, capability


SUITE: Final = Suite(
    name="remote",
    title="Agent Client Protocol, agents that listen (draft)",
    subject="server",
    requirements=REQUIREMENTS,
    opening=OPENING,
    scenarios=SCENARIOS,
    obstacle=_obstacle,
    calibration=lambda _: {},
    capability=_advertised,
    server="agent",
)
