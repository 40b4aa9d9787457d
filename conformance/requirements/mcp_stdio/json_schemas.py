"""Whether something is a JSON Schema: what a tool says of its arguments and results.

The rules are those of the metaschema of 2020-12 for the keywords that tools use; draft-07 differs in none of them but
`definitions`, and in arrays under `items`. Unknown keywords are annotations, as JSON Schema has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from conformance.values import is_list, is_object

_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_ONE: Final = (
    "additionalProperties", "contains", "else", "if", "not", "propertyNames", "then", "unevaluatedItems",
    "unevaluatedProperties",
)  # fmt: skip
_MANY: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED: Final = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_NUMBERS: Final = ("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf")
_COUNTS: Final = (
    "maxContains", "maxItems", "maxLength", "maxProperties", "minContains", "minItems", "minLength", "minProperties",
)  # fmt: skip
_TEXTS: Final = ("$anchor", "$comment", "$id", "$ref", "$schema", "description", "format", "pattern", "title")
_FLAGS: Final = ("deprecated", "readOnly", "uniqueItems", "writeOnly")


def schema_problem(schema: object, path: str = "") -> str:
    """Where and why it is no JSON Schema; empty where it is one."""
    if isinstance(schema, bool):
        return ""
    if not is_object(schema):
        return f"{path or 'it'} is neither an object nor a boolean"
    for key, value in schema.items():
        rule = _RULES.get(key)
        problem = rule(value, f"{path}/{key}") if rule is not None else ""
        if problem:
            return problem
    return ""


def _many(value: Any, path: str) -> str:
    if not is_list(value) or not value:
        return f"{path} is no array of schemas"
    return next((p for i, one in enumerate(value) if (p := schema_problem(one, f"{path}/{i}"))), "")


def _named(value: Any, path: str) -> str:
    if not is_object(value):
        return f"{path} is no object of schemas"
    return next((p for name, one in value.items() if (p := schema_problem(one, f"{path}/{name}"))), "")


def _items(value: Any, path: str) -> str:
    return _many(value, path) if is_list(value) and value else schema_problem(value, path) if value != [] else ""


def _type(value: Any, path: str) -> str:
    names = value if is_list(value) else [value]
    wrong = [name for name in names if name not in _TYPES]
    return f"{path} is {wrong[0]!r}, which is no type" if wrong else "" if names else f"{path} names no type"


def _is(fits: Callable[[Any], bool], what: str) -> Callable[[Any, str], str]:
    return lambda value, path: "" if fits(value) else f"{path} is no {what}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and float(value).is_integer()


def _is_names(value: Any) -> bool:
    return is_list(value) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


_RULES: Final[dict[str, Callable[[Any, str], str]]] = {
    **dict.fromkeys(_ONE, schema_problem),
    **dict.fromkeys(_MANY, _many),
    **dict.fromkeys(_NAMED, _named),
    **dict.fromkeys(_NUMBERS, _is(_is_number, "number")),
    **dict.fromkeys(_COUNTS, _is(_is_count, "count")),
    **dict.fromkeys(_TEXTS, _is(lambda value: isinstance(value, str), "string")),
    **dict.fromkeys(_FLAGS, _is(lambda value: isinstance(value, bool), "boolean")),
    "enum": _is(is_list, "array"),
    "examples": _is(is_list, "array"),
    "items": _items,
    "required": _is(_is_names, "array of names, each once"),
    "type": _type,
}
