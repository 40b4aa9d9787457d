"""Bytes: how messages are split, ended and encoded, lines that are none, ids, unknown methods, the end of input."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from conformance.driver import Driver, line, request_message
from conformance.scenarios.acp1_agent.client import (
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
from conformance.scenarios.lines import MALFORMED, NOT_UTF8, UNASKED
from conformance.suite import Scenario
from conformance.values import Object

_WIDE: Final = "\u00e9\u4e2d\U0001f600" * 8
_UNUSUAL: Final = '\u2028 \u2029 \u0085 \ufeff \u00e9 \U0001f600 \\ " \t'


def _alive(driver: Driver) -> None:
    """Ends a scenario: the agent still opens a session."""
    request = driver.request("session/new", new_session_params(driver), label="alive")
    driver.response(request)


def _split(driver: Driver) -> None:
    begin(driver)
    request = driver.new_id()
    driver.mark("split", request)
    message = request_message(request, "session/new", new_session_params(driver, _meta={"text": _WIDE}))
    data = line(message)
    step = max(1, len(data) // 16)
    for start in range(0, len(data), step):
        driver.raw(data[start : start + step])
        driver.pause(0.01)
    driver.response(request)


def _joined(driver: Driver) -> None:
    begin(driver)
    requests = [driver.new_id() for _ in range(3)]
    for label, request in zip(("joined-1", "joined-2", "joined-3"), requests, strict=True):
        driver.mark(label, request)
    driver.raw(b"".join(line(request_message(one, "session/new", new_session_params(driver))) for one in requests))
    for request in requests:
        driver.response(request)


def _unusual(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    text = f"{driver.options.prompt} {_UNUSUAL}"
    request = driver.request("session/prompt", prompt_params(session, text_block(text)), label="prompt")
    finish_turn(driver, request)


def _escaped(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    request = driver.new_id()
    driver.mark("prompt", request)
    params = prompt_params(session, text_block(f"{driver.options.prompt} \ud83d"))
    driver.raw(json.dumps(request_message(request, "session/prompt", params)).encode() + b"\n")
    driver.response(request, driver.options.scenario_timeout / 2)  # an agent that does not read the line answers none
    _alive(driver)


def _lines(*lines: bytes) -> Callable[[Driver], None]:
    """Sends lines that are no requests, each of which may be answered with an error that has no id."""

    def run(driver: Driver) -> None:
        begin(driver, NONE)
        for one in lines:
            driver.mark("malformed", one.decode(errors="replace")[:80])
            driver.raw(one)
            driver.pause(0.1)
        _alive(driver)

    return run


def _crlf(driver: Driver) -> None:
    begin(driver, NONE)
    request = driver.new_id()
    driver.mark("crlf", request)
    driver.raw(line(request_message(request, "session/new", new_session_params(driver))).replace(b"\n", b"\r\n"))
    driver.response(request)


def _bom(driver: Driver) -> None:
    request = driver.new_id()
    driver.mark("bom", request)
    params: Object = {"protocolVersion": 1, "clientCapabilities": {}}
    driver.raw(b"\xef\xbb\xbf" + line(request_message(request, "initialize", params)))
    driver.response(request)


def _long(driver: Driver) -> None:
    begin(driver, NONE)
    driver.mark("long-line", driver.options.long_line)
    head = line({"jsonrpc": "2.0", "method": "_rewindow_conformance/long", "params": {"text": ""}})
    driver.raw(head.replace(b'""', b'"' + b"x" * driver.options.long_line + b'"'), generated=True)
    _alive(driver)


def _ids(driver: Driver) -> None:
    begin(driver, NONE)
    for value in ("a string", "7", "", 0, -1, 2**53 - 1):
        driver.request("session/new", new_session_params(driver), label="id", request_id=value)
        driver.response(value)
    _alive(driver)


def _unknown(driver: Driver) -> None:
    begin(driver, NONE)
    for label, method in (("unknown", "session/rewindow_conformance"), ("extension", "_rewindow_conformance/unknown")):
        request = driver.request(method, {}, label=label)
        driver.response(request)
    for method in ("_rewindow_conformance/note", "$/rewindow_conformance", "session/rewindow_conformance"):
        driver.mark("notification", method)
        driver.notify(method, {"text": "nothing"})
    driver.pause(0.3)
    _alive(driver)


def _unadvertised(driver: Driver) -> None:
    initialize(driver, NONE)
    for method in ("session/rewindow_conformance_other", "terminal/create", "fs/read_text_file"):
        request = driver.request(method, {"sessionId": "none"}, label="unknown")
        driver.response(request)


def _without_params(driver: Driver) -> None:
    begin(driver, NONE)
    for label, method in (("no-params", "session/new"), ("no-params", "session/prompt")):
        request = driver.request(method, label=label)
        driver.response(request)
    # JSON-RPC lets params be an array or an object: the others are no requests, and may be passed over.
    wrong: tuple[tuple[str, Any], ...] = (("no-params", []), ("no-request", "text"), ("no-request", 5))
    for label, params in wrong:
        request = driver.request("session/new", params, label=label)
        driver.response(request)
    _alive(driver)


def _end(driver: Driver, prepare: Callable[[Driver], Any]) -> None:
    prepare(driver)
    driver.close_input()
    driver.mark("closed-in-time", driver.wait_closed(3.0))


def _end_idle(driver: Driver) -> None:
    _end(driver, lambda d: (begin(d), open_session(d)))


def _end_turn(driver: Driver) -> None:
    def prepare(d: Driver) -> None:
        begin(d)
        start_turn(d, open_session(d), d.options.slow_prompt)
        d.wait(is_working, 2)

    _end(driver, prepare)


def _end_unread(driver: Driver) -> None:
    request = driver.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, label="last")
    driver.close_input()
    driver.response(request, 5)


SCENARIOS: Final = (
    Scenario("split-writes", "Sends a message in many small writes, in the middle of characters too.", _split),
    Scenario("joined-writes", "Sends three messages in one write.", _joined),
    Scenario("unusual-characters", "Prompts with line separators and characters outside the basic plane.", _unusual),
    Scenario("lone-surrogate", "Prompts with an escaped half of a surrogate pair.", _escaped),
    Scenario("malformed-lines", "Sends lines that are no JSON or no messages.", _lines(*MALFORMED, b"[]\n")),
    Scenario("blank-lines", "Sends empty lines.", _lines(b"\n", b"   \n", b"\r\n")),
    Scenario("not-utf8", "Sends a line that is not UTF-8.", _lines(NOT_UTF8)),
    Scenario("unasked-response", "Sends responses that nobody asked for.", _lines(*UNASKED)),
    Scenario("crlf", "Ends a line with CR LF.", _crlf),
    Scenario("byte-order-mark", "Begins with a byte order mark.", _bom),
    Scenario("long-line", "Sends a notification of 50 MB.", _long, alone=True),
    Scenario("ids", "Sends requests with ids of several types and sizes.", _ids),
    Scenario("unknown-methods", "Sends requests and notifications that do not exist.", _unknown),
    Scenario("client-methods", "Calls the client's methods on the agent.", _unadvertised),
    Scenario("wrong-params", "Sends requests without params, and with params that are no object.", _without_params),
    Scenario("end-of-input", "Ends the input while nothing happens.", _end_idle),
    Scenario("end-of-input-in-a-turn", "Ends the input in the middle of a slow turn.", _end_turn),
    Scenario("end-of-input-at-once", "Ends the input right after a request.", _end_unread),
)
