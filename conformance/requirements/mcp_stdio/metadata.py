"""Requests that bring their version along: discovery, versions, and `_meta`, which alone says what holds."""

from __future__ import annotations

from typing import Final

from conformance.judging import answered, evidence, marked, unanswered
from conformance.judging_rpc import coded, refused
from conformance.requirement import Requirement
from conformance.requirements.mcp_stdio.reading import (
    META,
    MODERN,
    definition,
    meta_of,
    offers,
    prose,
    results_are_shaped,
    schema,
)
from conformance.traffic import Message, Traffic
from conformance.values import as_list, as_object, as_text, at
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_INVALID: Final = -32602
_NOT_FOUND: Final = -32601
_STATELESS: Final = "Servers **MUST NOT** rely on prior requests over the same connection to establish context"
_MALFORMED: Final = (
    "A request missing any required field is malformed; the server **MUST** reject it with JSON-RPC error code "
    "`-32602` (Invalid params)."
)


def _unknown_version(traffic: Traffic) -> Verdict:
    requests = marked(traffic, "unknown-version")
    if not requests:
        return not_tested("the request was not sent")
    for request in requests:
        if request.answer is None:
            return failed(unanswered(traffic, request, f"{request.method} in an unknown version"), request.index)
        wrong = definition("UnsupportedProtocolVersionError", MODERN)(request.answer.object)
        if wrong:
            return failed(f"the answer to an unknown version: {wrong}", *evidence(request))
    return PASS


def _inline(traffic: Traffic) -> Verdict:
    for request in marked(traffic, "inline"):
        refused_so = request.answer is not None and request.answer.error.get("code") == _NOT_FOUND
        if refused_so and not offers(traffic, "tools"):
            return skipped("the server offers no tools to list")
    return answered("inline", expect="result")(traffic)


def _stateless(traffic: Traffic) -> Verdict:
    """Who asks the same gets the same, whoever asked in between."""
    requests = marked(traffic, "by-turns")
    if not requests:
        return not_tested("the requests were not sent")
    seen: dict[str, tuple[Message, object]] = {}
    for request in requests:
        if not request.succeeded or request.answer is None:
            continue
        able = str(at(request.params, "_meta") and meta_of(request).get(f"{META}clientCapabilities"))
        names = sorted(as_text(as_object(tool).get("name")) for tool in as_list(request.answer.result.get("tools")))
        before = seen.setdefault(able, (request, names))
        if before[1] != names:
            reason = "the same request listed other tools after one of a client with other capabilities"
            return failed(reason, *evidence(before[0]), *evidence(request))
    return PASS if seen else skipped("the server offers no tools to list")


REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-META-001",
        "capability",
        "The server answers server/discover with its versions and its capabilities.",
        schema("/$defs/DiscoverResult/required", '"capabilities"', MODERN),
        results_are_shaped("server/discover"),
        applies=MODERN,
        violation='{"supportedVersions":["2026-07-28"]} without capabilities',
    ),
    Requirement(
        "MCP-S-META-002",
        "capability",
        "The server answers a request in a version that it does not know with -32022, and the versions that it knows.",
        prose("basic/versioning", "it **MUST** respond with an [`UnsupportedProtocolVersionError`]", MODERN),
        _unknown_version,
        scenario="version-unknown",
        applies=MODERN,
        violation='{"error":{"code":-32602,"message":"Unsupported version"}}',
    ),
    Requirement(
        "MCP-S-META-003",
        "capability",
        "The server refuses a request whose `_meta` has a version and no capabilities, with -32602.",
        prose("basic", _MALFORMED, MODERN),
        coded("partial-meta", _INVALID, instead_of_result=True),
        scenario="meta-partial",
        applies=MODERN,
        violation="the tools, listed",
    ),
    Requirement(
        "MCP-S-META-004",
        "advisory",
        "The server refuses a request that has neither a version nor a handshake before it.",
        prose("basic", _MALFORMED, MODERN),
        refused("no-meta"),
        scenario="meta-absent",
        applies=MODERN,
        violation="the tools, listed",
    ),
    Requirement(
        "MCP-S-META-005",
        "capability",
        "The server answers a first request that is not server/discover.",
        prose("basic", _STATELESS, MODERN),
        _inline,
        scenario="inline",
        applies=MODERN,
        violation='{"error":{"code":-32600,"message":"Discover first"}}',
    ),
    Requirement(
        "MCP-S-META-006",
        "capability",
        "The server answers each request by its own `_meta`, whatever the one before said.",
        prose("basic", _STATELESS, MODERN),
        _stateless,
        scenario="by-turns",
        applies=MODERN,
        violation="tools that appear once a client with elicitation has asked, and stay for one without",
    ),
)
