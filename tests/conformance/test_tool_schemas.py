"""Values fit their schemas, and unsupported schemas get none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from conformance.suites.mcp_stdio.tool_schemas import CannotMakeError, made, schema_problem
from tests.support.examples import examples

NODES = st.deferred(
    lambda: st.one_of(
        st.just({"type": "string"}),
        st.builds(lambda n: {"type": "string", "minLength": n}, st.integers(0, 5)),
        st.builds(
            lambda low, high: {"type": "integer", "minimum": low, "maximum": low + high}, INTS, st.integers(0, 3)
        ),
        st.builds(lambda low: {"type": "number", "exclusiveMinimum": low}, INTS),
        st.builds(lambda high: {"type": "integer", "exclusiveMaximum": high}, INTS),
        st.builds(lambda values: {"enum": values}, st.lists(st.sampled_from(["a", 1, None]), min_size=1, max_size=2)),
        st.builds(lambda node, n: {"type": "array", "items": node, "minItems": n}, NODES, st.integers(0, 2)),
        st.builds(lambda nodes: {"anyOf": nodes}, st.lists(NODES, min_size=1, max_size=2)),
        st.builds(lambda a, b: {"type": "object", "properties": {"a": a, "b": b}, "required": ["a"]}, NODES, NODES),
        st.sampled_from([{"type": "boolean"}, {"type": ["null", "string"]}, {"$ref": "#/$defs/text"}]),
    )
)
INTS = st.integers(-3, 3)
DEFINITIONS = {"text": {"type": "string", "format": "uri"}}


@examples(3)
@given(NODES)
def test_values_fit_their_schema(node: dict[str, Any]) -> None:
    schema = {**node, "$defs": DEFINITIONS}
    Draft202012Validator(schema).validate(made(schema, "/d"))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}, {"path": "/d"}),
        (
            {"type": "object", "properties": {"repo_path": {"type": "string"}}, "required": ["repo_path"]},
            {"repo_path": "/d"},
        ),
        ({"type": "object", "properties": {"n": {"default": 7}}, "required": ["n"]}, {"n": 7}),
        ({"type": "object", "properties": {"n": {"examples": ["x", "y"]}}, "required": ["n"]}, {"n": "x"}),
        ({"type": "object", "properties": {"n": {"type": "string"}}}, {}),
        ({"properties": {}}, {}),
    ],
)
def test_offered_values_are_preferred(schema: Any, value: Any) -> None:
    assert made(schema, "/d") == value


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"type": "string", "pattern": "^x{3}$"},
        {"type": "string", "minLength": 10**9},
        {"type": "array", "minItems": 10**9, "items": {}},
        {"$ref": "https://example.org/schema"},
        {"$ref": "#/$defs/none"},
        {"$ref": "#"},
        {"allOf": [{"type": "string"}]},
        {"type": "thing"},
    ],
)
def test_unsupported_schema_has_no_value(schema: Any) -> None:
    with pytest.raises(CannotMakeError):
        made(schema, "/d")


WORDS = st.sampled_from([None, 0, -1, 1.5, True, "string", "text", [], ["a", "a"], ["string"], {}, {"type": "string"}])
KEYS = st.sampled_from(
    [
        *("type", "properties", "required", "items", "enum", "minimum", "minLength", "additionalProperties", "anyOf"),
        *("$ref", "title", "uniqueItems", "patternProperties", "const", "default", "x-anything", "prefixItems", "not"),
    ]
)


@examples(5)
@given(st.dictionaries(KEYS, WORDS | st.dictionaries(KEYS, WORDS, max_size=2), max_size=3))
def test_schema_check_agrees_with_metaschema(schema: dict[str, Any]) -> None:
    if schema.get("items") == [] or isinstance(schema.get("items"), list) or "anyOf" in str(schema):
        return  # arrays of `items` belong to draft 7
    assert (schema_problem(schema) == "") == _is_valid(schema), schema_problem(schema)


def _is_valid(schema: dict[str, Any]) -> bool:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError:
        return False
    return True
