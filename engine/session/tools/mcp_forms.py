"""The forms of MCP servers (`elicitation/create`): their requested schemas as fields. Pure.

MCP allows flat objects of text, numbers, booleans and choices. Keywords that a field does not know are left
out, as JSON Schema has it. Used by `servers`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, get_args

from msgspec.structs import replace

from ...core.text import cut_line
from ...log.forms import LIMITS, Choice, Field, FieldType, Value, problem_of_value

MOST_FIELDS: Final = 50
MOST_CHOICES: Final = 500
LONGEST_TEXT: Final = 10_000
"""Characters of the message, and of each text of a field."""
_SHOWN: Final = 60
_TYPES: Final[tuple[FieldType, ...]] = get_args(FieldType)


def fields_of(message: str, schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """Return the fields of a form. Raises ValueError, with the reason for the server."""
    if len(message) > LONGEST_TEXT:
        raise ValueError(f"the message has {len(message):,} characters; the limit is {LONGEST_TEXT:,}")
    if schema.get("type", "object") != "object":
        raise ValueError("the schema must be an object")
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        raise ValueError("the schema needs `properties`, and a list `required`")
    shapes, names = cast("Mapping[str, object]", properties), cast("list[object]", required)
    if len(shapes) > MOST_FIELDS:
        raise ValueError(f"the form has {len(shapes):,} fields; the limit is {MOST_FIELDS}")
    if unknown := [name for name in names if not isinstance(name, str) or name not in shapes]:
        raise ValueError(f"the required field {_shown(unknown[0])} is not among the properties")
    return tuple(_field(name, shape, is_required=name in names) for name, shape in shapes.items())


def _field(name: str, given: object, *, is_required: bool) -> Field:
    if not isinstance(given, Mapping):
        raise ValueError(f"the field {_shown(name)} has no schema")
    shape = cast("Mapping[str, Any]", given)
    if shape.get("type") not in _TYPES:
        found = _shown(shape.get("type"))
        raise ValueError(f"the field {_shown(name)} has the type {found}; use a flat type: {', '.join(_TYPES)}")
    kind = cast("FieldType", shape["type"])
    least, most = (_limit(name, key, shape.get(key)) for key in LIMITS.get(kind, ("", "")))
    choices = _choices(name, _items(name, shape) if kind == "array" else shape if kind == "string" else {})
    if kind == "array" and not choices:
        raise ValueError(f"the items of the field {_shown(name)} must be choices")
    field = Field(
        name=name,
        type=kind,
        title=_text(name, shape.get("title")),
        description=_text(name, shape.get("description")),
        format=_text(name, shape.get("format")),
        is_required=is_required,
        choices=choices,
        least=least,
        most=most,
    )
    return _with_default(field, shape.get("default"))


def _items(name: str, shape: Mapping[str, Any]) -> Mapping[str, Any]:
    items = shape.get("items")
    if not isinstance(items, Mapping):
        raise ValueError(f"the field {_shown(name)} has no items")
    return cast("Mapping[str, Any]", items)


def _choices(name: str, shape: Mapping[str, Any]) -> tuple[Choice, ...]:
    titled = shape.get("oneOf", shape.get("anyOf"))
    values = shape.get("enum")
    pairs: list[tuple[object, object]] = []
    if isinstance(titled, list):
        for each in cast("list[object]", titled):
            row = cast("Mapping[str, object]", each if isinstance(each, Mapping) else {})
            pairs.append((row.get("const"), row.get("title", row.get("const"))))
    elif isinstance(values, list):
        listed, names = cast("list[object]", values), cast("object", shape.get("enumNames"))
        titles = cast("list[object]", names) if isinstance(names, list) else []
        pairs = list(zip(listed, titles if len(titles) == len(listed) else listed, strict=True))
    elif titled is not None or values is not None:
        raise ValueError(f"the choices of the field {_shown(name)} are not a list")
    if len(pairs) > MOST_CHOICES:
        raise ValueError(f"the field {_shown(name)} has {len(pairs):,} choices; the limit is {MOST_CHOICES}")
    return tuple(_choice(name, *pair) for pair in pairs)


def _choice(name: str, value: object, title: object) -> Choice:
    if not isinstance(value, str) or not isinstance(title, str):
        raise ValueError(f"a choice of the field {_shown(name)} is not a text")
    if max(len(value), len(title)) > LONGEST_TEXT:
        raise ValueError(f"a choice of the field {_shown(name)} is too long")
    return Choice(value, title or value)


def _text(name: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise ValueError(f"a text of the field {_shown(name)} is too long, or not a text")
    return value


def _limit(name: str, limit: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"`{limit}` of the field {_shown(name)} is not a number")
    return value


def _with_default(field: Field, default: object) -> Field:
    """Return the field with its default, unless that is not a value of the field."""
    if default is None or problem_of_value(field, default):
        return field
    return replace(field, default=cast("Value", default))


def _shown(value: object) -> str:
    return cut_line(repr(value), _SHOWN)


def wire_values(fields: Sequence[Field], values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values as the server gets them: whole numbers as integers."""
    kinds = {field.name: field.type for field in fields}
    return {
        name: int(value) if kinds.get(name) == "integer" and isinstance(value, float) else value
        for name, value in values.items()
    }
