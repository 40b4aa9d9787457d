"""Scenarios send messages that the schema allows, except scenarios about malformed messages."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from conformance.documents import json_document
from conformance.suites.acp1 import definition, shape_of
from conformance.suites.mcp_stdio.client import HANDSHAKE, MODERN, version_of
from conformance.traffic import Message, Traffic
from conformance.values import as_list, as_object, at
from tests.conformance.suite_runs import suite, transcript_of

MALFORMED = {
    "acp": {
        "new-without-cwd",
        "client-methods",
        "wrong-params",
        "initialize-malformed",
        "prompt-malformed",
        "requests-malformed",
        "answers-malformed",
        "malformed-lines",
        "not-utf8",
        "unknown-methods",
    },
    "acp-client": {
        "unknown-values",
        "unknown-updates",
        "initialize-malformed",
        "session-malformed",
        "updates-malformed",
        "requests-malformed",
        "malformed-lines",
        "blank-lines",
        "not-utf8",
        "unknown-notifications",
        "unknown-methods",
    },
}
"""Scenarios about messages that the schema forbids."""
SCENARIOS = [(of, scenario.name) for of in MALFORMED for scenario in suite(of).every_scenario()]


def problems(of: str, name: str) -> list[str]:
    """Describe how a scenario's messages violate the schema."""
    sent = list(Traffic(transcript_of(name, of=of)).sent("client" if of == "acp" else "server"))
    found = [(shape, definition(shape)(value)) for shape, value in map(shape_of, sent) if shape]
    return [*filter(None, map(envelope, sent)), *(f"{shape}: {problem}" for shape, problem in found if problem)]


def envelope(message: Message) -> str:
    """Describe how a message violates JSON-RPC or uses an unknown method."""
    if form := message_problem(message):
        return f"{form}: {message.line[:200]!r}"
    is_known = not message.method or message.method.startswith("_") or shape_of(message)[0] is not None
    return "" if is_known else f"no method of the protocol: {message.method}"


def message_problem(message: Message) -> str:
    if not message.object:
        return "no object"
    if message.object.get("jsonrpc") != "2.0" or not (message.method or message.is_response):
        return "no message"
    given = message.object.get("id")
    return "" if given is None or type(given) in (str, int, float) else "no id"


@pytest.mark.parametrize(("of", "name"), [each for each in SCENARIOS if each[1] not in MALFORMED[each[0]]])
def test_messages_follow_the_schema(of: str, name: str) -> None:
    assert problems(of, name) == []


@pytest.mark.parametrize(("of", "name"), [(of, name) for of, names in MALFORMED.items() for name in sorted(names)])
def test_malformed_scenarios_violate_the_schema(of: str, name: str) -> None:
    assert problems(of, name) != []


MCP_SCENARIOS = [scenario.name for scenario in suite("mcp").every_scenario()]
IN_BOTH = ("wrong-calls", "cancel-malformed")
MCP_MALFORMED = {
    *(f"{name}-{version}" for name in IN_BOTH for version in (HANDSHAKE, MODERN)),
    *("meta-partial", "meta-absent", "version-unknown", "levels", "malformed-lines", "not-utf8", "batch"),
    *("unknown-methods", "unknown-notifications"),
}
"""Scenarios about messages that the schema forbids."""


@cache
def definitions(version: str) -> dict[tuple[str, str], str]:
    """Return the definitions of client messages, by union and method."""
    document = json_document(f"mcp.{version}.schema")["$defs"]
    found: dict[tuple[str, str], str] = {}
    for union in ("ClientRequest", "ClientNotification"):
        alone = union if "properties" in document[union] else document[union].get("$ref", "")
        branches = [branch["$ref"] for branch in as_list(as_object(document[union]).get("anyOf"))] or [alone]
        for name in (branch.rpartition("/")[2] for branch in branches):
            found[union, at(document[name], "properties.method.const")] = name
    return found


@cache
def validator(version: str, name: str) -> Draft202012Validator:
    document = json_document(f"mcp.{version}.schema")
    return Draft202012Validator({"$defs": document["$defs"], "$ref": f"#/$defs/{name}"})


def mcp_shape(message: Message, version: str) -> str | None:
    """Return the definition of a client message, or None."""
    if not message.object:
        return None
    if message.is_response:
        return "JSONRPCErrorResponse" if message.error else "JSONRPCResultResponse"
    union = "ClientRequest" if message.is_request else "ClientNotification"
    return definitions(version).get((union, message.method))


def mcp_problems(name: str) -> list[str]:
    """Describe how a scenario's messages violate the schema."""
    found: list[str] = []
    version = HANDSHAKE
    for message in Traffic(transcript_of(name, of="mcp")).sent("client"):
        version = version_of(message) if message.is_request else version
        definition = mcp_shape(message, version) if version in (HANDSHAKE, MODERN) else None
        if definition is None:
            found.append(f"no message of a client: {message.line[:200]!r}")
            continue
        errors: list[Any] = sorted(validator(version, definition).iter_errors(message.object), key=str)  # pyright: ignore -- it has no types
        found += [f"{definition}: {error.message[:200]}" for error in errors]
    return found


@pytest.mark.parametrize("name", [name for name in MCP_SCENARIOS if name not in MCP_MALFORMED])
def test_mcp_messages_follow_the_schema(name: str) -> None:
    assert mcp_problems(name) == []


@pytest.mark.parametrize("name", sorted(MCP_MALFORMED))
def test_malformed_mcp_scenarios_violate_the_schema(name: str) -> None:
    assert mcp_problems(name) != []
