"""Fields with a default on error: their number, how they are broken, and that each one is."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.suites.acp1 import definition
from conformance.suites.default_fields import default_fields
from conformance.values import as_list, at, is_object
from docs.generator.default_fields import left_out, reachable
from tests.conformance.suite_runs import suite, transcript_of

PROMPT = {
    "sessionId": "s",
    "prompt": [
        {"type": "text", "text": "hello", "annotations": {}},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "a"}},
    ],
}
SCENARIOS = [(of, one.name) for of in ("acp", "acp-client") for one in suite(of).scenarios if "malformed" in one.name]


def broken(of: str) -> set[str]:
    """Return the fields that a suite's scenarios break for its conforming program."""
    found: set[str] = set()
    for scenario in [name for suite_of, name in SCENARIOS if suite_of == of]:
        for entry in transcript_of(scenario, of=of).entries:
            found.update(as_list(at(entry.value, "fields")) if entry.label == "broken" else ())
    return found


def test_number_of_marked_fields() -> None:
    assert len(reachable("agent") | reachable("client")) == 245


@pytest.mark.parametrize(("of", "side"), [("acp", "agent"), ("acp-client", "client")])
def test_each_marked_field_is_broken_or_explained(of: str, side: str) -> None:
    reasons = [field for fields in left_out(side).values() for field in fields]
    assert len(reasons) == len(set(reasons))
    assert broken(of) == reachable(side) - set(reasons)
    assert all(fields for fields in left_out(side).values())


def test_broken_message_violates_the_schema() -> None:
    check = definition("PromptRequest")
    versions = default_fields().break_together("PromptRequest", PROMPT)
    assert check(PROMPT) is None
    assert len(versions) == 2, "of fields one within another"
    assert all(check(version.value) is not None for version in versions)


def test_no_nested_fields_are_broken_together() -> None:
    for version in default_fields().break_together("PromptRequest", PROMPT):
        for block in version.value["prompt"]:
            assert "annotations" not in block or is_object(block["annotations"]) or block["annotations"] in (7, None)
        fields = set(version.fields)
        inner = {field for field in fields if field.startswith("/$defs/Annotations/")}
        assert not (inner and "/$defs/TextContent/properties/annotations" in fields)


def test_single_field_is_broken_at_all_places() -> None:
    field = "/$defs/TextContent/properties/_meta"
    twice: dict[str, Any] = {**PROMPT, "prompt": [PROMPT["prompt"][0], PROMPT["prompt"][0]]}
    versions = default_fields().break_alone("PromptRequest", twice, [field])
    assert [version.fields for version in versions] == [(field,)]
    assert [[block["_meta"] for block in version.value["prompt"]] for version in versions] == [[7, 7]]


def test_null_breaks_only_non_null_fields() -> None:
    fields = [f"/$defs/ClientCapabilities/properties/{name}" for name in ("fs", "session")]
    message: dict[str, Any] = {"protocolVersion": 1, "clientCapabilities": {"fs": {}, "session": {}}}
    broken_ones = [
        one.value["clientCapabilities"] for one in default_fields().break_alone("InitializeRequest", message, fields)
    ]
    assert broken_ones == [{"fs": 7, "session": {}}, {"fs": None, "session": {}}, {"fs": {}, "session": 7}]


def test_only_matching_union_branches_have_fields() -> None:
    fields = {field for version in default_fields().break_together("PromptRequest", PROMPT) for field in version.fields}
    assert "/$defs/TextResourceContents/properties/mimeType" in fields
    assert "/$defs/BlobResourceContents/properties/mimeType" not in fields
    assert not any("ImageContent" in field for field in fields)
