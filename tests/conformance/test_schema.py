"""The compiled schema agrees with a general validator, and finds unknown fields."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from conformance.documents import DOCUMENTS, json_document
from conformance.schema import FieldNames, Schema, UnknownKeywordError
from conformance.traffic import Traffic
from tests.conformance.suite_runs import transcript_of
from tests.support.examples import examples

ODD: list[Any] = [None, True, 0, -1, 1.5, 2**70, "", "x", [], {}, [None], {"a": 1}, [[1]]]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every place in a JSON value, as keys and indices."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from places(item, (*path, key))


def change(value: Any, place: tuple[Any, ...], given: Any, *, cut: bool) -> bool:
    """Change the value at a place; False if it does not exist."""
    node = value
    for key in place[:-1]:
        try:
            node = node[key]
        except (KeyError, IndexError, TypeError):
            return False
    known = place[-1] in node if isinstance(node, dict) else isinstance(node, list) and place[-1] < len(node)
    if known and cut and isinstance(node, dict):
        del node[place[-1]]
    elif known:
        node[place[-1]] = given
    return known


DOCUMENT = json_document("acp1.schema")


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("acp1.schema", "0d0b1ca83c4872e5473f68926a894c7a8203b59b118e2a79bfe43dd76fbcbc1a"),
        ("mcp.2025-11-25.schema", "4e01628360a2149892eab8f298ceee626d24a58862184eb8ec85d95b8f353e31"),
        ("mcp.2026-07-28.schema", "6293cdfe015c14bd36eda4b1331ce37bda377609e58ed6d09d16f28e7d3c7ad4"),
    ],
)
def test_schema_is_the_published_one(name: str, digest: str) -> None:
    assert hashlib.sha256(DOCUMENTS[name].path.read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("name", ["acp1.schema", "acp1.unstable", "mcp.2025-11-25.schema", "mcp.2026-07-28.schema"])
def test_every_definition_can_be_compiled(name: str) -> None:
    schema = Schema(json_document(name))
    for definition in json_document(name)["$defs"]:
        schema.definition(definition)


def test_unsupported_keyword_raises() -> None:
    with pytest.raises(UnknownKeywordError):
        Schema({"$defs": {"a": {"contains": {}}}}).definition("a")


@cache
def general(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": DOCUMENT["$defs"]})


@cache
def compiled() -> Schema:
    return Schema(DOCUMENT)


@cache
def samples() -> list[tuple[str, Any]]:
    """Return one message of the conforming agent for each definition."""
    found: dict[str, tuple[str, Any]] = {}
    for scenario in ("tool-turn", "list", "modes", "config-options", "load"):
        for message in Traffic(transcript_of(scenario)).sent("server"):
            if message.method == "session/update":
                name, value = "SessionNotification", message.params
            elif message.method:
                name, value = (
                    {"session/request_permission": "RequestPermissionRequest"}.get(message.method, ""),
                    message.params,
                )
            else:
                asked = message.answers.method if message.answers else ""
                shapes = {"initialize": "InitializeResponse", "session/new": "NewSessionResponse"}
                name, value = shapes.get(asked, ""), message.result
            if name:
                found.setdefault(name + str(message.params.get("update", {}).get("sessionUpdate")), (name, value))
    return list(found.values())


@pytest.mark.slow
@examples(20)
@given(st.data())
def test_changed_message_agrees_with_general_validator(data: st.DataObject) -> None:
    name, value = data.draw(st.sampled_from(samples()))
    value = json.loads(json.dumps(value))
    place = data.draw(st.sampled_from(list(places(value))))
    change(value, place, data.draw(st.sampled_from([*ODD, "_x"])), cut=data.draw(st.booleans()))
    expected = general(name).is_valid(value)
    problem = compiled().definition(name)(value)
    assert (problem is None) == expected or "not within" in str(problem), (str(problem), value)


def test_problem_names_place_and_value() -> None:
    update = {"sessionUpdate": "plan", "entries": [{"content": "x", "priority": "urgent", "status": "pending"}]}
    problem = compiled().definition("SessionUpdate")(update)
    assert str(problem) == '/entries/0/priority is "urgent", not one of "high", "medium", "low"'


def test_unknown_fields_are_found_outside_open_objects() -> None:
    names = FieldNames(compiled())
    assert names.unknown("PromptResponse", {"stopReason": "end_turn", "took": 1, "_meta": {"any": {"thing": 1}}}) == {
        "/took"
    }
    text = {"type": "text", "text": "x", "color": "red"}
    update = {"sessionUpdate": "agent_message_chunk", "content": text, "messageId": "m"}
    assert names.unknown("SessionNotification", {"sessionId": "s", "update": update}) == {"/update/content/color"}


def test_extension_variant_does_not_open_known_variants() -> None:
    unknown = FieldNames(compiled()).unknown
    assert unknown("CreateElicitationResponse", {"action": "decline", "mood": "bad"}) == {"/mood"}
    assert unknown("CreateElicitationResponse", {"action": "_later", "mood": "bad"}) == set()
