"""How servers end: soon after their input does, with every request answered, and with nothing left behind."""

from __future__ import annotations

from typing import Final

from conformance.judging import answered
from conformance.judging_lines import closed_in_time, left_nothing
from conformance.requirement import Requirement
from conformance.requirements.mcp_stdio.reading import MODERN, prose, when

_EXIT: Final = "Servers **SHOULD** exit promptly when their standard input is closed or reads return end-of-file."


def _exits(number: int, text: str, scenario: str, violation: str) -> Requirement:
    return Requirement(
        f"MCP-S-END-{number:03}",
        "advisory",
        text,
        prose("basic/transports/stdio", _EXIT, MODERN),
        when("input-closed", closed_in_time),
        scenario=scenario,
        violation=violation,
    )


REQUIREMENTS: Final = (
    _exits(
        1,
        "The server exits soon when its input ends: within three seconds, and what it takes to start.",
        "end-of-input",
        "a server that runs on after its client has gone",
    ),
    _exits(
        2,
        "The server exits just as soon when its input ends before anything was said.",
        "end-of-input-unopened",
        "a server that waits for a handshake for ever",
    ),
    _exits(
        3,
        "The server exits just as soon when its input ends in the middle of a call.",
        "end-of-input-in-a-call",
        "a server that finishes a long call for nobody",
    ),
    _exits(
        4,
        "The server exits just as soon when its input ends while a subscription is open.",
        "end-of-input-subscribed",
        "a server whose watcher keeps it alive",
    ),
    Requirement(
        "MCP-S-END-005",
        "advisory",
        "The server answers a request that the end of its input follows at once.",
        prose(
            "json-rpc",
            "When a rpc call is made, the Server MUST reply with a Response, except for in the case of Notifications.",
        ),
        answered("last", expect="result"),
        scenario="end-of-input-at-once",
        violation="`echo '{...initialize...}' | server` prints nothing",
    ),
    Requirement(
        "MCP-S-END-006",
        "informational",
        "The server leaves no process behind when it has ended.",
        prose("basic/transports/stdio", _EXIT, MODERN),
        left_nothing,
        violation="a child of the server that outlives it",
    ),
)
