"""Bytes on stdio: message framing and encoding, malformed lines, and the end of input."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from conformance.driver import Driver, encode_line, request_message
from conformance.judging import PASS, Requirement, Verdict, answered, answered_or_refused, failed, skipped, survived
from conformance.suite import Scenario
from conformance.suites.acp1 import prose, schema
from conformance.suites.acp1_agent.client import (
    NONE,
    begin,
    finish_turn,
    initialize,
    is_working,
    new_session_params,
    open_session,
    prompt_params,
    start_turn,
    text_block,
)
from conformance.suites.jsonrpc import (
    MALFORMED_LINES,
    NOT_UTF8_LINE,
    REPLY_QUOTE,
    UNASKED_RESPONSES,
    UNUSUAL_TEXT,
    WIDE_TEXT,
    exits_after_input,
    malformed_answered,
    messages_only,
    newline_at_end,
    no_lone_surrogates,
    no_processes_left,
    utf8,
)
from conformance.traffic import Traffic
from conformance.values import Object

_MESSAGE = "The agent MUST NOT write anything to its `stdout` that is not a valid ACP message."
_LINE = "Messages are delimited by newlines (`\\n`), and MUST NOT contain embedded newlines."
_ID = (
    "If there was an error in detecting the id in the Request object (e.g. Parse error/Invalid "
    "Request), it MUST be Null."
)

_PIPE: Final = 65_536
"""Bytes in a Linux pipe by default."""


def _modest_log(traffic: Traffic) -> Verdict:
    logged = [(i, entry) for i, entry in enumerate(traffic.transcript.entries) if entry.kind == "server-log"]
    size = sum(entry.omitted or len(entry.data) for _, entry in logged)
    shown = [index for index, _ in (*logged[:2], *logged[-1:])]
    return failed(f"{size:,} bytes were written to standard error", *shown) if size > _PIPE else PASS


def _answers_meanwhile(traffic: Traffic) -> Verdict:
    if not traffic.marks("meanwhile"):
        return skipped("the agent showed no activity in the turn")
    return answered("meanwhile")(traffic)


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-FRAME-001",
        "mandatory",
        "The agent writes only messages to standard output, one per line.",
        prose("transports", _MESSAGE),
        messages_only,
        violation="a line of standard output: Loading model ...",
    ),
    Requirement(
        "ACP1-A-FRAME-002",
        "mandatory",
        "The agent's messages are UTF-8.",
        prose("transports", "JSON-RPC messages MUST be UTF-8 encoded."),
        utf8,
        violation='{"jsonrpc":"2.0","method":"session/update", ... "text":"caf\\xe9"}',
    ),
    Requirement(
        "ACP1-A-FRAME-003",
        "mandatory",
        "The agent ends each message with a newline, including the last one.",
        prose("transports", _LINE),
        newline_at_end,
        violation='{"jsonrpc":"2.0","id":1,"result":{}} and no newline before the agent exits',
    ),
    Requirement(
        "ACP1-A-FRAME-004",
        "informational",
        "The agent's strings contain no lone surrogates.",
        prose("transports", "JSON-RPC messages MUST be UTF-8 encoded."),
        no_lone_surrogates,
        violation='"text":"\\ud83d"',
    ),
    Requirement(
        "ACP1-A-FRAME-005",
        "mandatory",
        "The agent accepts a message in many small pieces.",
        prose("transports", _LINE),
        answered("split", expect="result"),
        scenario="split-writes",
        violation="the second half of a line, treated as a separate message",
    ),
    Requirement(
        "ACP1-A-FRAME-006",
        "mandatory",
        "The agent accepts several messages in one write.",
        prose("transports", _LINE),
        answered("joined-1", "joined-2", "joined-3", expect="result"),
        scenario="joined-writes",
        violation="one of three requests answered",
    ),
    Requirement(
        "ACP1-A-FRAME-007",
        "mandatory",
        "The agent accepts line separators and characters outside the basic plane in strings.",
        prose("transports", "JSON-RPC messages MUST be UTF-8 encoded."),
        answered("prompt", expect="result"),
        scenario="unusual-characters",
        violation="a message split at U+2028",
    ),
    Requirement(
        "ACP1-A-FRAME-008",
        "informational",
        "The agent keeps working after an escaped lone surrogate.",
        prose("transports", "JSON-RPC messages MUST be UTF-8 encoded."),
        survived,
        scenario="lone-surrogate",
        violation="an agent that exits",
    ),
    Requirement(
        "ACP1-A-FRAME-009",
        "advisory",
        "The agent keeps working after lines that are not messages.",
        schema("/$defs/ErrorCode/anyOf/0", "Invalid JSON was received by the server."),
        survived,
        scenario="malformed-lines",
        violation="an agent that exits at the line `[]`",
    ),
    Requirement(
        "ACP1-A-FRAME-010",
        "advisory",
        "The agent answers lines that are not messages with a parse error or an invalid request error.",
        schema("/$defs/ErrorCode/anyOf/0", "Invalid JSON was received by the server."),
        malformed_answered,
        scenario="malformed-lines",
        violation="silence",
    ),
    Requirement(
        "ACP1-A-FRAME-011",
        "informational",
        "The agent keeps working after a line that is not UTF-8.",
        prose("transports", "JSON-RPC messages MUST be UTF-8 encoded."),
        survived,
        scenario="not-utf8",
        violation="an agent that exits",
    ),
    Requirement(
        "ACP1-A-FRAME-012",
        "informational",
        "The agent ignores empty lines.",
        prose("transports", _LINE),
        survived,
        scenario="blank-lines",
        violation="an agent that exits",
    ),
    Requirement(
        "ACP1-A-FRAME-013",
        "informational",
        "The agent accepts a line that ends with CR LF, because JSON allows CR as white space.",
        prose("transports", _LINE),
        answered("crlf", expect="result"),
        scenario="crlf",
        violation="silence",
    ),
    Requirement(
        "ACP1-A-FRAME-014",
        "informational",
        "The agent accepts a byte order mark before the first message, or answers it with an error.",
        prose("transports", "JSON-RPC messages MUST be UTF-8 encoded."),
        answered_or_refused("bom"),
        scenario="byte-order-mark",
        violation="silence",
    ),
    Requirement(
        "ACP1-A-FRAME-015",
        "informational",
        "The agent keeps working after a line of 50 MB, accepted or not.",
        prose("transports", _LINE),
        survived,
        scenario="long-line",
        violation="an agent whose reader stops at 64 KiB",
    ),
    Requirement(
        "ACP1-A-FRAME-016",
        "informational",
        "The agent keeps working after responses to no request.",
        schema("/$defs/RequestId", "The Server MUST reply with the same value in the Response object if included."),
        survived,
        scenario="unasked-response",
        violation="an agent that exits",
    ),
    Requirement(
        "ACP1-A-FRAME-017",
        "informational",
        "The agent exits within three seconds after its input ends.",
        prose("transports", "Client->>Agent Process: Close stdin, terminate subprocess"),
        exits_after_input,
        scenario="end-of-input",
        violation="an agent that runs on after its editor was closed",
    ),
    Requirement(
        "ACP1-A-FRAME-018",
        "informational",
        "The agent exits within three seconds after its input ends during a turn.",
        prose("transports", "Client->>Agent Process: Close stdin, terminate subprocess"),
        exits_after_input,
        scenario="end-of-input-in-a-turn",
        violation="an agent that still finishes its turn",
    ),
    Requirement(
        "ACP1-A-FRAME-019",
        "advisory",
        "The agent answers a request that is directly followed by the end of its input.",
        prose("json-rpc", REPLY_QUOTE),
        answered("last", expect="result"),
        scenario="end-of-input-at-once",
        violation="`echo '{...initialize...}' | agent` prints nothing",
    ),
    Requirement(
        "ACP1-A-FRAME-020",
        "informational",
        "The agent leaves no processes behind.",
        prose("session-setup", "then free the resources associated with the session."),
        no_processes_left,
        violation="an MCP server that outlives its agent",
    ),
    Requirement(
        "ACP1-A-FRAME-021",
        "informational",
        "The agent writes no more to standard error in a scenario than fits into a pipe, 64 KiB.",
        prose("transports", "Clients **MAY** capture, forward, or ignore this logging."),
        _modest_log,
        violation="an agent that stops when the pipe is full, because its client does not read it",
    ),
    Requirement(
        "ACP1-A-FRAME-022",
        "mandatory",
        "The agent answers requests while tools run: the processes that it starts do not read its input.",
        prose("json-rpc", REPLY_QUOTE),
        _answers_meanwhile,
        scenario="asked-meanwhile",
        violation="a request that was read by a command which the agent runs",
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


def _alive(driver: Driver) -> None:
    """End a scenario: the agent still opens a session."""
    request = driver.request("session/new", new_session_params(driver), label="alive")
    driver.response(request)


def _run_split(driver: Driver) -> None:
    begin(driver)
    request = driver.new_id()
    driver.mark("split", request)
    message = request_message(request, "session/new", new_session_params(driver, _meta={"text": WIDE_TEXT}))
    data = encode_line(message)
    step = max(1, len(data) // 16)
    for start in range(0, len(data), step):
        driver.send_bytes(data[start : start + step])
        driver.pause(0.01)
    driver.response(request)


def _run_joined(driver: Driver) -> None:
    begin(driver)
    requests = [driver.new_id() for _ in range(3)]
    for label, request in zip(("joined-1", "joined-2", "joined-3"), requests, strict=True):
        driver.mark(label, request)
    driver.send_bytes(
        b"".join(encode_line(request_message(one, "session/new", new_session_params(driver))) for one in requests)
    )
    for request in requests:
        driver.response(request)


def _run_unusual(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    text = f"{driver.options.prompt} {UNUSUAL_TEXT}"
    request = driver.request("session/prompt", prompt_params(session, text_block(text)), label="prompt")
    finish_turn(driver, request)


def _run_escaped(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    request = driver.new_id()
    driver.mark("prompt", request)
    params = prompt_params(session, text_block(f"{driver.options.prompt} \ud83d"))
    driver.send_bytes(json.dumps(request_message(request, "session/prompt", params)).encode() + b"\n")
    driver.response(
        request, driver.options.scenario_timeout / 2
    )  # an agent that does not read the line does not answer
    _alive(driver)


def _run_lines(*lines: bytes) -> Callable[[Driver], None]:
    """Send lines that are not requests. Each may be answered with an error without an id."""

    def run(driver: Driver) -> None:
        begin(driver, NONE)
        for one in lines:
            driver.mark("malformed", one.decode(errors="replace")[:80])
            driver.send_bytes(one)
            driver.pause(0.1)
        _alive(driver)

    return run


def _run_crlf(driver: Driver) -> None:
    begin(driver, NONE)
    request = driver.new_id()
    driver.mark("crlf", request)
    driver.send_bytes(
        encode_line(request_message(request, "session/new", new_session_params(driver))).replace(b"\n", b"\r\n")
    )
    driver.response(request)


def _run_bom(driver: Driver) -> None:
    request = driver.new_id()
    driver.mark("bom", request)
    params: Object = {"protocolVersion": 1, "clientCapabilities": {}}
    driver.send_bytes(b"\xef\xbb\xbf" + encode_line(request_message(request, "initialize", params)))
    driver.response(request)


def _run_long(driver: Driver) -> None:
    begin(driver, NONE)
    driver.mark("long-line", driver.options.long_line)
    head = encode_line({"jsonrpc": "2.0", "method": "_rewindow_conformance/long", "params": {"text": ""}})
    driver.send_bytes(head.replace(b'""', b'"' + b"x" * driver.options.long_line + b'"'), generated=True)
    _alive(driver)


def _run_ids(driver: Driver) -> None:
    begin(driver, NONE)
    for value in ("a string", "7", "", 0, -1, 2**53 - 1):
        driver.request("session/new", new_session_params(driver), label="id", request_id=value)
        driver.response(value)
    _alive(driver)


def _run_unknown(driver: Driver) -> None:
    begin(driver, NONE)
    for label, method in (("unknown", "session/rewindow_conformance"), ("extension", "_rewindow_conformance/unknown")):
        request = driver.request(method, {}, label=label)
        driver.response(request)
    for method in ("_rewindow_conformance/note", "$/rewindow_conformance", "session/rewindow_conformance"):
        driver.mark("notification", method)
        driver.notify(method, {"text": "nothing"})
    driver.pause(0.3)
    _alive(driver)


def _run_unadvertised(driver: Driver) -> None:
    initialize(driver, NONE)
    for method in ("session/rewindow_conformance_other", "terminal/create", "fs/read_text_file"):
        request = driver.request(method, {"sessionId": "none"}, label="unknown")
        driver.response(request)


def _run_without_params(driver: Driver) -> None:
    begin(driver, NONE)
    for label, method in (("no-params", "session/new"), ("no-params", "session/prompt")):
        request = driver.request(method, label=label)
        driver.response(request)
    # JSON-RPC allows params that are an array or an object. The others are not requests and may be ignored.
    wrong: tuple[tuple[str, Any], ...] = (("no-params", []), ("no-request", "text"), ("no-request", 5))
    for label, params in wrong:
        request = driver.request("session/new", params, label=label)
        driver.response(request)
    _alive(driver)


def _end(driver: Driver, prepare: Callable[[Driver], Any]) -> None:
    prepare(driver)
    driver.close_input()
    driver.mark("closed-in-time", driver.wait_closed(3.0))


def _run_end_idle(driver: Driver) -> None:
    _end(driver, lambda d: (begin(d), open_session(d)))


def _run_end_turn(driver: Driver) -> None:
    def prepare(d: Driver) -> None:
        begin(d)
        start_turn(d, open_session(d), d.options.slow_prompt)
        d.wait(is_working, 2)

    _end(driver, prepare)


def _run_end_unread(driver: Driver) -> None:
    request = driver.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, label="last")
    driver.close_input()
    driver.response(request, 5)


SCENARIOS: Final = (
    Scenario("split-writes", "Sends a message in many small writes, some of which split a character.", _run_split),
    Scenario("joined-writes", "Sends three messages in one write.", _run_joined),
    Scenario(
        "unusual-characters", "Prompts with line separators and characters outside the basic plane.", _run_unusual
    ),
    Scenario("lone-surrogate", "Prompts with an escaped lone surrogate.", _run_escaped),
    Scenario(
        "malformed-lines", "Sends lines that are not JSON or not messages.", _run_lines(*MALFORMED_LINES, b"[]\n")
    ),
    Scenario("blank-lines", "Sends empty lines.", _run_lines(b"\n", b"   \n", b"\r\n")),
    Scenario("not-utf8", "Sends a line that is not UTF-8.", _run_lines(NOT_UTF8_LINE)),
    Scenario("unasked-response", "Sends responses to no request.", _run_lines(*UNASKED_RESPONSES)),
    Scenario("crlf", "Ends a line with CR LF.", _run_crlf),
    Scenario("byte-order-mark", "Sends a byte order mark before the first message.", _run_bom),
    Scenario("long-line", "Sends a notification of 50 MB.", _run_long, alone=True),
    Scenario("ids", "Sends requests with ids of various types and sizes.", _run_ids),
    Scenario("unknown-methods", "Sends unknown requests and notifications.", _run_unknown),
    Scenario("client-methods", "Calls the client's methods on the agent.", _run_unadvertised),
    Scenario(
        "wrong-params", "Sends requests without params, and with params that are not an object.", _run_without_params
    ),
    Scenario("end-of-input", "Closes the input while nothing happens.", _run_end_idle),
    Scenario("end-of-input-in-a-turn", "Closes the input during a slow turn.", _run_end_turn),
    Scenario("end-of-input-at-once", "Closes the input right after a request.", _run_end_unread),
)
