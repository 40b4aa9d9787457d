"""Bytes: how messages are split, ended and encoded, lines that are none, ids, unknown methods."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from conformance.driver import WITHHELD, Driver, line, request_message
from conformance.scenarios.lines import MALFORMED, NOT_UTF8, UNASKED
from conformance.scenarios.mcp_stdio.client import Client, first_request, open_any
from conformance.suite import Scenario
from conformance.values import Object

_WIDE: Final = "\u00e9\u4e2d\U0001f600" * 8
_SETTLE: Final = 0.2
_UNUSUAL: Final = '\u2028 \u2029 \u0085 \ufeff \u00e9 \U0001f600 \\ " \t'


def _probe(client: Client, request_id: Any, text: str = "") -> Object:
    """A request that every server answers, with a text in it."""
    method, params = client.probe()
    more = {**params, "_meta": {**params.get("_meta", {}), "example.org/text": text}} if text else params
    return request_message(request_id, method, more)


def _marked(client: Client, label: str) -> Any:
    request = client.driver.new_id()
    client.driver.mark(label, request)
    return request


def _split(driver: Driver) -> None:
    client = open_any(driver)
    driver.pause(_SETTLE)
    driver.answerers["ping"] = lambda _: WITHHELD  # an answer between the pieces would be a part of the line
    request = _marked(client, "split")
    data = line(_probe(client, request, _WIDE))
    step = max(1, len(data) // 16)
    for start in range(0, len(data), step):
        driver.raw(data[start : start + step])
        driver.pause(0.01)
    driver.response(request)


def _joined(driver: Driver) -> None:
    client = open_any(driver)
    requests = [_marked(client, "joined") for _ in range(3)]
    driver.raw(b"".join(line(_probe(client, one)) for one in requests))
    for request in requests:
        driver.response(request)


def _unusual(driver: Driver) -> None:
    client = open_any(driver)
    request = _marked(client, "unusual")
    driver.raw(line(_probe(client, request, _UNUSUAL)))
    driver.response(request)


def _escaped(driver: Driver) -> None:
    client = open_any(driver)
    request = _marked(client, "escaped")
    driver.raw(json.dumps(_probe(client, request, "\ud83d")).encode() + b"\n")
    driver.response(request, 2.0)
    client.alive()


def _lines(*lines: bytes) -> Callable[[Driver], None]:
    """Sends lines that are no requests, each of which may be answered with an error that has no id."""

    def run(driver: Driver) -> None:
        client = open_any(driver)
        for one in lines:
            driver.mark("malformed", one.decode(errors="replace")[:80])
            driver.raw(one)
            driver.pause(0.1)
        client.alive()

    return run


def _batch(driver: Driver) -> None:
    client = open_any(driver)
    requests = [driver.new_id() for _ in range(2)]
    driver.mark("malformed", "a batch")
    driver.raw(line([_probe(client, one) for one in requests]))
    driver.pause(0.3)
    client.alive()


def _crlf(driver: Driver) -> None:
    client = open_any(driver)
    request = _marked(client, "crlf")
    driver.raw(line(_probe(client, request)).replace(b"\n", b"\r\n"))
    driver.response(request)


def _bom(driver: Driver) -> None:
    request = driver.new_id()
    driver.mark("bom", request)
    driver.raw(b"\xef\xbb\xbf" + line(request_message(request, *first_request(driver))))
    driver.response(request)


def _long(driver: Driver) -> None:
    client = open_any(driver)
    driver.mark("long-line", driver.options.long_line)
    head = line({"jsonrpc": "2.0", "method": "notifications/rewindow_conformance", "params": {"text": ""}})
    driver.raw(head.replace(b'""', b'"' + b"x" * driver.options.long_line + b'"'), generated=True)
    client.alive()


def _ids(driver: Driver) -> None:
    client = open_any(driver)
    method, params = client.probe()
    for value in ("a string", "7", "", 0, -1, 2**53 - 1):
        driver.request(method, params, label="id", request_id=value)
        driver.response(value)


def _unknown(driver: Driver) -> None:
    client = open_any(driver)
    for method in ("rewindow_conformance/unknown", "tools/rewindow_conformance"):
        client.asked(method, label="unknown")
    client.alive()


def _notes(driver: Driver) -> None:
    client = open_any(driver)
    for method in ("notifications/rewindow_conformance", "rewindow_conformance/unknown", "$/note"):
        driver.notify(method, client.params(text="nothing"))
    driver.pause(0.3)
    client.alive()


SCENARIOS: Final = (
    Scenario("split-writes", "Sends a message in many small writes, in the middle of characters too.", _split),
    Scenario("joined-writes", "Sends three messages in one write.", _joined),
    Scenario("unusual-characters", "Sends line separators and characters outside the basic plane.", _unusual),
    Scenario("lone-surrogate", "Sends an escaped half of a surrogate pair.", _escaped),
    Scenario("malformed-lines", "Sends lines that are no JSON or no messages.", _lines(*MALFORMED)),
    Scenario("blank-lines", "Sends empty lines.", _lines(b"\n", b"   \n", b"\r\n")),
    Scenario("not-utf8", "Sends a line that is not UTF-8.", _lines(NOT_UTF8)),
    Scenario("batch", "Sends an array of two requests, which versions before could.", _batch),
    Scenario("unasked-response", "Sends responses that nobody asked for.", _lines(*UNASKED)),
    Scenario("crlf", "Ends a line with CR LF.", _crlf),
    Scenario("byte-order-mark", "Begins with a byte order mark.", _bom),
    Scenario("long-line", "Sends a notification of 50 MB.", _long, alone=True),
    Scenario("ids", "Sends requests with ids of several types and sizes.", _ids),
    Scenario("unknown-methods", "Sends requests that do not exist.", _unknown),
    Scenario("unknown-notifications", "Sends notifications that do not exist.", _notes),
)
