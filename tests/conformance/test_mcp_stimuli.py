"""What the suite sends MCP servers is what the schema allows, but for the scenarios about messages that are not.

Checked with a general validator, because the suite's own one judges the servers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from conformance.documents import json_document
from conformance.requirements.mcp_stdio.reading import HANDSHAKE, MODERN, version_of
from conformance.traffic import Message, Traffic
from conformance.values import as_list, as_object, at
from tests.conformance.suite_runs import suite, transcript_of

SCENARIOS = [scenario.name for scenario in suite("mcp").every_scenario()]
IN_BOTH = ("wrong-calls", "cancel-malformed")
MALFORMED = {
    *(f"{name}-{version}" for name in IN_BOTH for version in (HANDSHAKE, MODERN)),
    *("meta-partial", "meta-absent", "version-unknown", "levels", "malformed-lines", "not-utf8", "batch"),
    *("unknown-methods", "unknown-notifications"),
}
"""The scenarios whose subject is what the schema does not allow."""


@cache
def definitions(version: str) -> dict[tuple[str, str], str]:
    """The definition of each message of a client, by its union and its method."""
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


def shape(message: Message, version: str) -> str | None:
    """The definition that a client's message has to follow; None where there is none."""
    if not message.object:
        return None
    if message.is_response:
        return "JSONRPCErrorResponse" if message.error else "JSONRPCResultResponse"
    union = "ClientRequest" if message.is_request else "ClientNotification"
    return definitions(version).get((union, message.method))


def problems(name: str) -> list[str]:
    """What the schema does not allow of the messages that the suite sends in a scenario."""
    found: list[str] = []
    version = HANDSHAKE
    for message in Traffic(transcript_of(name, of="mcp")).sent("client"):
        version = version_of(message) if message.is_request else version
        definition = shape(message, version) if version in (HANDSHAKE, MODERN) else None
        if definition is None:
            found.append(f"no message of a client: {message.line[:200]!r}")
            continue
        errors: list[Any] = sorted(validator(version, definition).iter_errors(message.object), key=str)  # pyright: ignore -- it has no types
        found += [f"{definition}: {error.message[:200]}" for error in errors]
    return found


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in MALFORMED])
def test_what_is_sent_is_what_the_schema_allows(name: str) -> None:
    assert problems(name) == []


@pytest.mark.parametrize("name", sorted(MALFORMED))
def test_a_scenario_about_malformed_messages_sends_one(name: str) -> None:
    assert problems(name) != []
