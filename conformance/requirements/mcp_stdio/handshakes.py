"""The handshake: versions, what clients may say in it, and what servers may ask before and after it."""

from __future__ import annotations

from typing import Final

from conformance.judging import answered, evidence, marked, unanswered
from conformance.requirement import Judge, Requirement
from conformance.requirements.mcp_stdio.reading import (
    HANDSHAKE,
    MODERN,
    discoveries,
    handshakes,
    prose,
    results_are_shaped,
    schema,
)
from conformance.traffic import Message, Traffic
from conformance.values import as_object, at, is_object
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_KNOWN: Final = ("2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE)
_INVALID: Final = -32602
_NEEDS: Final = {"roots": "roots", "sampling": "sampling", "elicitation": "elicitation", "tasks": "tasks"}
"""Capabilities of clients by the first word of the methods that need them."""
_VERSION: Final = "Otherwise, the server **MUST** respond with another protocol version it supports."


def _answered_with(versions: tuple[str, ...]) -> Judge:
    """The handshake under the mark has a result with one of these versions, or the error that names versions."""

    def judge(traffic: Traffic) -> Verdict:
        requests = marked(traffic, "initialize")
        if not requests:
            return not_tested("initialize was not sent")
        request = requests[0]
        if request.answer is None:
            return failed(unanswered(traffic, request, "initialize"), request.index)
        error = request.answer.error
        if error.get("code") == _INVALID and is_object(error.get("data")):
            return PASS  # the page's own example of a mismatch
        version = request.answer.result.get("protocolVersion")
        if request.succeeded and version in versions:
            return PASS
        said = f"version {version}" if request.succeeded else f"the error {error.get('code')}: {error.get('message')}"
        asked = request.params.get("protocolVersion")
        return failed(f"initialize with version {asked} was answered with {said}", *evidence(request))

    return judge


def _asks_early(traffic: Traffic) -> Verdict:
    ready = traffic.notifications("client", "notifications/initialized")
    if not handshakes(traffic) or not ready:
        return skipped("no handshake was completed")
    for message in traffic.sent("server"):
        if message.is_request and message.method != "ping" and message.order < ready[0].order:
            return failed(f"{message.method} was asked before notifications/initialized", message.index)
    return PASS


def _negotiated(traffic: Traffic) -> Verdict:
    if not handshakes(traffic):
        return skipped("no handshake was completed")
    offered = as_object(at(traffic.requests("client", "initialize")[0].params, "capabilities"))
    for message in traffic.sent("server"):
        need = _need(message)
        if need and not is_object(offered.get(need)):
            return failed(f"{message.method} was asked of a client that does not advertise {need}", message.index)
    return PASS


def _need(message: Message) -> str:
    return _NEEDS.get(message.method.partition("/")[0], "") if message.is_request else ""


def _after_probe(traffic: Traffic) -> Verdict:
    verdict = answered("after-probe", expect="result")(traffic)
    if discoveries(traffic) and verdict.outcome == "fail":
        return skipped(f"the server speaks {MODERN}, and no client falls back")
    return verdict


REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-INIT-001",
        "capability",
        "The server answers initialize with its version, its capabilities and its name.",
        schema("/$defs/InitializeResult/required", '["capabilities", "protocolVersion", "serverInfo"]'),
        results_are_shaped("initialize"),
        applies=HANDSHAKE,
        violation='{"protocolVersion":"2025-11-25","capabilities":{}}',
    ),
    Requirement(
        "MCP-S-INIT-002",
        "capability",
        "The server answers a version that nobody knows with one that it supports.",
        prose("basic/lifecycle", _VERSION),
        _answered_with(_KNOWN),
        scenario="handshake-newer",
        applies=HANDSHAKE,
        violation='"protocolVersion":"2099-12-31" in the result, as in the request',
    ),
    Requirement(
        "MCP-S-INIT-003",
        "capability",
        "The server answers an older version with the same, or with another that it supports.",
        prose("basic/lifecycle", _VERSION),
        _answered_with(_KNOWN),
        scenario="handshake-older",
        applies=HANDSHAKE,
        violation='{"error":{"code":-32603,"message":"Unsupported version"}}',
    ),
    Requirement(
        "MCP-S-INIT-004",
        "capability",
        "The server takes capabilities and fields of clients that it does not know.",
        prose("basic/lifecycle", "The server **MUST** respond with its own capabilities and information:"),
        answered("initialize", expect="result"),
        scenario="handshake-fields",
        applies=HANDSHAKE,
        violation='{"error":{"code":-32602,"message":"Unknown capability"}}',
    ),
    Requirement(
        "MCP-S-INIT-005",
        "advisory",
        "The server answers a ping that comes before notifications/initialized.",
        schema("/$defs/PingRequest", "The receiver must promptly respond, or else may be disconnected."),
        answered("early-ping", expect="result"),
        scenario="handshake",
        applies=HANDSHAKE,
        violation="silence",
    ),
    Requirement(
        "MCP-S-INIT-006",
        "advisory",
        "The server asks the client nothing but pings before notifications/initialized.",
        prose("basic/lifecycle", "The server **SHOULD NOT** send requests other than"),
        _asks_early,
        applies=HANDSHAKE,
        violation="roots/list right after the result of initialize",
    ),
    Requirement(
        "MCP-S-INIT-007",
        "capability",
        "The server asks the client only for what the client advertises.",
        prose("basic/lifecycle", "Both parties **MUST**: - Respect the negotiated protocol version - Only use"),
        _negotiated,
        applies=HANDSHAKE,
        violation="sampling/createMessage asked of a client without sampling",
    ),
    Requirement(
        "MCP-S-INIT-008",
        "advisory",
        "The server answers initialize after server/discover, unless it knows that.",
        prose(
            "basic/transports/stdio",
            "Any other error, or no response within a reasonable timeout, identifies a legacy server",
            MODERN,
        ),
        _after_probe,
        scenario="probe",
        applies=HANDSHAKE,
        violation="a server that exits",
    ),
)
