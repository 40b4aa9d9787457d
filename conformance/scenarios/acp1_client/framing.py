"""Bytes: how messages are split, ended and encoded, lines that are none, ids, unknown methods and notifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.driver import line, request_message
from conformance.scenarios.acp1_client.agent import PROBE, InTurn, Turn, probed
from conformance.scenarios.lines import MALFORMED, NOT_UTF8, UNASKED
from conformance.suite import Scenario

_WIDE: Final = "\u00e9\u4e2d\U0001f600" * 8
_UNUSUAL: Final = '\u2028 \u2029 \u0085 \ufeff \u00e9 \U0001f600 \\ " \t'
_LONG: Final = 1024 * 1024


def _split(turn: Turn) -> None:
    driver = turn.driver
    request = driver.new_id()
    driver.mark("asked", request)
    data = line(request_message(request, PROBE, {"text": _WIDE}))
    step = max(1, len(data) // 16)
    for start in range(0, len(data), step):
        driver.raw(data[start : start + step])
        driver.pause(0.01)
    driver.response(request)


def _joined(turn: Turn) -> None:
    driver = turn.driver
    requests = [driver.new_id() for _ in range(3)]
    for request in requests:
        driver.mark("asked", request)
    driver.raw(b"".join(line(request_message(request, PROBE, {})) for request in requests))
    for request in requests:
        driver.response(request)


def _unusual(turn: Turn) -> None:
    turn.driver.response(turn.driver.request(PROBE, {"text": _UNUSUAL, _UNUSUAL: 1}, label="asked"))


def _crlf(turn: Turn) -> None:
    driver = turn.driver
    request = driver.new_id()
    driver.mark("asked", request)
    driver.raw(line(request_message(request, PROBE, {})).replace(b"\n", b"\r\n"))
    driver.response(request)


def _lines(*lines: bytes) -> Callable[[Turn], None]:
    """Sends lines that are no requests, each of which may be answered with an error that has no id."""

    def act(turn: Turn) -> None:
        for one in lines:
            turn.driver.mark("malformed", one.decode(errors="replace")[:80])
            turn.driver.raw(one)
            turn.driver.pause(0.05)

    return act


def _long(size: Callable[[Turn], int]) -> Callable[[Turn], None]:
    def act(turn: Turn) -> None:
        length = size(turn)
        turn.driver.mark("long-line", length)
        head = line({"jsonrpc": "2.0", "method": "_rewindow_conformance/long", "params": {"text": ""}})
        turn.driver.raw(head.replace(b'""', b'"' + b"x" * length + b'"'), generated=True)

    return act


def _ids(turn: Turn) -> None:
    for value in ("a string", "7", "", 0, -1, 2**53 - 1):
        turn.driver.request(PROBE, {}, label="id", request_id=value)
        turn.driver.response(value)


def _unknown(turn: Turn) -> None:
    for label, method in (("unknown", "session/rewindow_conformance"), ("extension", "_rewindow_conformance/unknown")):
        turn.driver.response(turn.driver.request(method, {}, label=label))


def _unadvertised(turn: Turn) -> None:
    path = f"{turn.cwd}/rewindow-conformance-no-such-file"
    if not turn.offers("fs.readTextFile"):
        turn.call("fs/read_text_file", "unadvertised", path=path)
    if not turn.offers("fs.writeTextFile"):
        turn.call("fs/write_text_file", "unadvertised", path="/rewindow-conformance/no/such/file", content="")
    if not turn.offers("terminal"):
        turn.call("terminal/create", "unadvertised", command="true")
        turn.call("terminal/output", "unadvertised", terminalId="none")
    if not turn.offers("elicitation.url"):
        asked = {"mode": "url", "elicitationId": "e1", "url": "https://example.org/", "message": "Open this page"}
        turn.call("elicitation/create", "unadvertised", **asked)


def _notifications(turn: Turn) -> None:
    for method in ("_rewindow_conformance/note", "$/rewindow_conformance", "session/rewindow_conformance"):
        turn.driver.mark("notification", method)
        turn.driver.notify(method, {"text": "nothing"})
    turn.driver.notify("_rewindow_conformance/bare")


SCENARIOS: Final = (
    Scenario("split-writes", "Asks in many small writes, in the middle of characters too.", probed(_split)),
    Scenario("joined-writes", "Asks three times in one write.", probed(_joined)),
    Scenario(
        "unusual-characters", "Asks with line separators and characters outside the basic plane.", probed(_unusual)
    ),
    Scenario("crlf", "Ends a line with CR LF.", probed(_crlf)),
    Scenario("malformed-lines", "Sends lines that are no JSON or no messages.", probed(_lines(*MALFORMED, b"[]\n"))),
    Scenario("blank-lines", "Sends empty lines.", probed(_lines(b"\n", b"   \n", b"\r\n"))),
    Scenario("not-utf8", "Sends a line that is not UTF-8.", probed(_lines(NOT_UTF8))),
    Scenario("unasked-response", "Sends responses that nobody asked for.", probed(_lines(*UNASKED))),
    Scenario("long-line", "Sends a notification of 1 MB.", probed(_long(lambda _: _LONG)), alone=True),
    Scenario(
        "very-long-line",
        "Sends a notification of 50 MB.",
        probed(_long(lambda turn: turn.driver.options.long_line)),
        alone=True,
    ),
    Scenario("ids", "Asks with ids of several types and sizes.", probed(_ids)),
    Scenario("unknown-methods", "Calls methods that do not exist.", InTurn(_unknown)),
    Scenario(
        "unadvertised-methods",
        "Calls what the client does not advertise, which agents must not.",
        InTurn(_unadvertised),
    ),
    Scenario("unknown-notifications", "Sends notifications that do not exist.", probed(_notifications)),
)
