"""Which forms of MCP servers are shown, and as what."""

from __future__ import annotations

from typing import Any

import pytest

from engine.log.forms import Choice, Field
from engine.session.tools.mcp_forms import LONGEST_TEXT, MOST_CHOICES, MOST_FIELDS, fields_of, wire_values


def fields(required: Any = (), **properties: Any) -> tuple[Field, ...]:
    return fields_of("Well?", {"type": "object", "properties": properties, "required": list(required)})


def test_every_flat_field_is_read() -> None:
    titled = [{"const": "a", "title": "A"}, {"const": "b"}]
    read = fields(
        ["name"],
        name={"type": "string", "title": "Name", "description": "Yours", "minLength": 1, "maxLength": 9},
        mail={"type": "string", "format": "email", "default": "a@b.c"},
        age={"type": "integer", "minimum": 0, "maximum": 200, "default": 7},
        share={"type": "number", "default": "much"},
        sure={"type": "boolean", "default": True},
        plain={"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"], "default": "b"},
        titled={"type": "string", "oneOf": titled, "default": "c"},
        many={"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1},
        more={"type": "array", "items": {"anyOf": titled}, "x-unknown": {}},
    )
    choices = (Choice("a", "A"), Choice("b", "B"))
    assert read == (
        Field(name="name", title="Name", description="Yours", is_required=True, least=1, most=9),
        Field(name="mail", format="email", default="a@b.c"),
        Field(name="age", type="integer", least=0, most=200, default=7),
        Field(name="share", type="number"),
        Field(name="sure", type="boolean", default=True),
        Field(name="plain", choices=choices, default="b"),
        Field(name="titled", choices=(Choice("a", "A"), Choice("b", "b"))),
        Field(name="many", type="array", choices=(Choice("a", "a"),), least=1),
        Field(name="more", type="array", choices=(Choice("a", "A"), Choice("b", "b"))),
    )
    assert fields() == ()


def test_default_that_no_program_can_hold_is_left_out() -> None:
    assert fields(age={"type": "integer", "default": 10**400}) == (Field(name="age", type="integer"),)


@pytest.mark.parametrize(
    "shape",
    [
        None,
        {},
        {"type": "object", "properties": {"x": {"type": "string"}}},
        {"type": ["string", "null"]},
        {"type": "array", "items": {"type": "object"}},
        {"type": "array", "items": {"type": "string"}},
        {"type": "array"},
        {"$ref": "#/properties/other"},
        {"type": "string", "title": 7},
        {"type": "string", "description": "x" * (LONGEST_TEXT + 1)},
        {"type": "string", "minLength": "1"},
        {"type": "number", "minimum": True},
        {"type": "number", "minimum": float("nan")},
        {"type": "number", "minimum": 10**400},
        {"type": "string", "enum": [1]},
        {"type": "string", "enum": "ab"},
        {"type": "string", "enum": [str(number) for number in range(MOST_CHOICES + 1)]},
        {"type": "string", "oneOf": [7]},
        {"type": "string", "oneOf": [{"title": "A"}]},
        {"type": "string", "enum": ["x" * (LONGEST_TEXT + 1)]},
    ],
)
def test_field_that_is_not_flat_is_refused(shape: Any) -> None:
    with pytest.raises(ValueError, match="'it'"):
        fields(it=shape)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"properties": []},
        {"properties": {}, "required": "all"},
        {"properties": {}, "required": ["it"]},
        {"properties": {}, "required": [{}]},
        {"properties": {f"f{number}": {"type": "string"} for number in range(MOST_FIELDS + 1)}},
    ],
)
def test_schema_that_is_not_a_flat_object_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        fields_of("Well?", schema)


def test_long_message_is_refused() -> None:
    with pytest.raises(ValueError, match="message"):
        fields_of("x" * (LONGEST_TEXT + 1), {})


def test_server_gets_whole_numbers_as_integers() -> None:
    given = wire_values([Field(name="n", type="integer"), Field(name="x", type="number")], {"n": 3.0, "x": 3.0})
    assert (given, type(given["n"]), type(given["x"])) == ({"n": 3, "x": 3.0}, int, float)
