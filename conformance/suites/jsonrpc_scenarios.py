"""What scenarios send to show the rules of JSON-RPC over lines, the same for all suites.

A suite opens a connection in its own way and names a request that its program always answers, as a `Probe`. Each act
here sends something unusual around that request. Knows no protocol above JSON-RPC.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.driver import Driver, encode_line, request_message
from conformance.suite import Scenario
from conformance.values import Object, as_object

_WIDE_TEXT: Final = "\u00e9\u4e2d\U0001f600" * 8
"""Characters of several bytes, for messages in pieces."""
UNUSUAL_TEXT: Final = '\u2028 \u2029 \u0085 \ufeff \u00e9 \U0001f600 \\ " \t'
"""Line separators and characters outside the basic plane."""
LINES_WITHOUT_JSON: Final = (b"{\n", b"not json at all\n", b'{"jsonrpc":"2.0","id":901,"method"\n')
LINES_WITHOUT_MESSAGE: Final = (b"5\n", b'"text"\n', b"null\n", b"{}\n")
MALFORMED_LINES: Final = (
    *LINES_WITHOUT_JSON,
    *LINES_WITHOUT_MESSAGE,
    b'{"jsonrpc":"2.0","method":5,"id":902}\n',
    b'{"jsonrpc":"2.0","id":[1],"result":{}}\n',
)
"""Invalid JSON, or JSON that is no message. An empty array is missing, because it is a batch."""
_NOT_UTF8_LINE: Final = b'{"jsonrpc":"2.0","id":903,"method":"\xff\xfe"}\n'
_UNASKED_RESPONSES: Final = (
    b'{"jsonrpc":"2.0","id":987654,"result":{}}\n',
    b'{"jsonrpc":"2.0","id":"987655","error":{"code":-32603,"message":"Internal error"}}\n',
)
"""Responses to no request."""
_IDS: Final = ("a string", "7", "", 0, -1, 2**53 - 1)
_PIECES: Final = 16
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Probe:
    """An open connection, and a request that the program always answers."""

    driver: Driver
    method: str
    params: Object = field(default_factory=dict[str, Any])

    def message(self, label: str, text: str = "") -> tuple[int, Object]:
        """Return the id of a new request with this mark, and the request. `text` goes into its `_meta`."""
        request = self.driver.new_id()
        self.driver.mark(label, request)
        meta = {"_meta": {**as_object(self.params.get("_meta")), "example.org/text": text}} if text else {}
        return request, request_message(request, self.method, {**self.params, **meta})

    def alive(self) -> None:
        """End a scenario: the program still answers."""
        self.driver.response(self.driver.request(self.method, self.params, label="alive"))


Act = Callable[[Probe], None]
Run = Callable[[Driver], None]


def running(opened: Callable[[Driver], Probe], act: Act, alive: bool = False) -> Run:
    """Return a scenario's `run`: open the connection, act, and if `alive`, probe the program at the end."""

    def run(driver: Driver) -> None:
        probe = opened(driver)
        act(probe)
        if alive:
            probe.alive()

    return run


def scenarios(run: Callable[[Act, bool], Run], malformed: Iterable[bytes]) -> tuple[Scenario, ...]:
    """Return the scenarios that every suite has. `run` makes one of an act; if its flag is set, a probe follows."""
    return (
        Scenario(
            "split-writes", "Sends a message in many small writes, some of which split a character.", run(split, False)
        ),
        Scenario("joined-writes", "Sends three messages in one write.", run(joined, False)),
        Scenario("malformed-lines", "Sends lines that are not JSON or not messages.", run(lines(*malformed), True)),
        Scenario("blank-lines", "Sends empty lines.", run(lines(b"\n", b"   \n", b"\r\n"), True)),
        Scenario("not-utf8", "Sends a line that is not UTF-8.", run(lines(_NOT_UTF8_LINE), True)),
        Scenario("unasked-response", "Sends responses to no request.", run(lines(*_UNASKED_RESPONSES), True)),
        Scenario("crlf", "Ends a line with CR LF.", run(crlf, False)),
        Scenario("ids", "Sends requests with ids of various types and sizes.", run(ids, False)),
    )


def split(probe: Probe) -> None:
    """Send a request in many small writes, some of which split a character."""
    request, message = probe.message("split", _WIDE_TEXT)
    data = encode_line(message)
    step = max(1, len(data) // _PIECES)
    for start in range(0, len(data), step):
        probe.driver.send_bytes(data[start : start + step])
        probe.driver.pause(0.01)
    probe.driver.response(request)


def joined(probe: Probe) -> None:
    """Send three requests in one write."""
    requests = [probe.message("joined") for _ in range(3)]
    probe.driver.send_bytes(b"".join(encode_line(message) for _, message in requests))
    for request, _ in requests:
        probe.driver.response(request)


def crlf(probe: Probe) -> None:
    """End a line with CR LF."""
    request, message = probe.message("crlf")
    probe.driver.send_bytes(encode_line(message).replace(b"\n", b"\r\n"))
    probe.driver.response(request)


def ids(probe: Probe) -> None:
    """Send requests with ids of various types and sizes."""
    for value in _IDS:
        probe.driver.request(probe.method, probe.params, label="id", request_id=value)
        probe.driver.response(value)


def long_line(method: str, size: int = 0) -> Act:
    """Send a notification with a text of `size` bytes, by default the longest that the user allows."""

    def act(probe: Probe) -> None:
        length = size or probe.driver.options.long_line
        probe.driver.mark("long-line", length)
        head = encode_line({"jsonrpc": "2.0", "method": method, "params": {"text": ""}})
        probe.driver.send_bytes(head.replace(b'""', b'"' + b"x" * length + b'"'), generated=True)

    return act


def lines(*malformed: bytes, label: str = "malformed") -> Act:
    """Send lines that are not requests. Each may be answered with an error without an id."""

    def act(probe: Probe) -> None:
        for line in malformed:
            probe.driver.mark(label, line.decode(errors="replace")[:_SHOWN])
            probe.driver.send_bytes(line)
            probe.driver.pause(0.05)

    return act


def byte_order_mark(probe: Probe) -> None:
    """Send a byte order mark before the first message."""
    request, message = probe.message("bom")
    probe.driver.send_bytes(b"\xef\xbb\xbf" + encode_line(message))
    probe.driver.response(request, or_refusal=True)


def lone_surrogate(text: str, seconds: float) -> Act:
    """Send a lone surrogate as an escape, in `text`. A program that does not read the line does not answer."""

    def act(probe: Probe) -> None:
        request, message = probe.message("escaped", text)
        probe.driver.send_bytes(json.dumps(message).encode() + b"\n")
        probe.driver.response(request, seconds)

    return act
