"""JSON Schemas of tools: checks that they are valid, and makes small values for them.

The checks follow the 2020-12 metaschema for the keywords that tools use. Draft-07 differs only in `definitions` and in
arrays under `items`. Unknown keywords are annotations.

Values allow calling a tool that is not described further. They prefer a constant, a default, an example, or the first
enum member. Objects get only required properties. No value is made for patterns and conditions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final, TypeGuard

from conformance.documents import resolve
from conformance.values import Object, as_list, as_object, is_list, is_object

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
    """Describe where and why a schema is invalid; empty if it is valid."""
    if isinstance(schema, bool):
        return ""
    if not is_object(schema):
        return f"{path or 'the schema'} is neither an object nor a boolean"
    for key, value in schema.items():
        rule = _RULES.get(key)
        problem = rule(value, f"{path}/{key}") if rule is not None else ""
        if problem:
            return problem
    return ""


def _many(value: Any, path: str) -> str:
    if not is_list(value) or not value:
        return f"{path} is not an array of schemas"
    return next((p for i, one in enumerate(value) if (p := schema_problem(one, f"{path}/{i}"))), "")


def _named(value: Any, path: str) -> str:
    if not is_object(value):
        return f"{path} is not an object of schemas"
    return next((p for name, one in value.items() if (p := schema_problem(one, f"{path}/{name}"))), "")


def _items(value: Any, path: str) -> str:
    return _many(value, path) if is_list(value) and value else schema_problem(value, path) if value != [] else ""


def _type(value: Any, path: str) -> str:
    names = value if is_list(value) else [value]
    wrong = [name for name in names if name not in _TYPES]
    return f"{path} is {wrong[0]!r}, which is not a type" if wrong else "" if names else f"{path} names no type"


def _is(fits: Callable[[Any], bool], what: str) -> Callable[[Any, str], str]:
    return lambda value, path: "" if fits(value) else f"{path} is not {what}"


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
    **dict.fromkeys(_NUMBERS, _is(_is_number, "a number")),
    **dict.fromkeys(_COUNTS, _is(_is_count, "a count")),
    **dict.fromkeys(_TEXTS, _is(lambda value: isinstance(value, str), "a string")),
    **dict.fromkeys(_FLAGS, _is(lambda value: isinstance(value, bool), "a boolean")),
    "enum": _is(is_list, "an array"),
    "examples": _is(is_list, "an array"),
    "items": _items,
    "required": _is(_is_names, "an array of distinct names"),
    "type": _type,
}


# --- values for a schema ----------------------------------------------------------------------------------------------


_DEPTH: Final = 12
_LENGTH: Final = 10_000
_PATH: Final = re.compile(r"(path|dir|directory|folder|root|cwd)$", re.IGNORECASE)
"""Property names that expect a directory."""
_FORMATS: Final = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "PT1S",
    "email": "someone@example.org",
    "hostname": "example.org",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


class CannotMakeError(Exception):
    """Raised for a schema without a value. The text says why."""


def made(schema: object, directory: str) -> Any:
    """Return a value for a schema. Path properties get `directory`. Raises CannotMakeError."""
    return _Maker(schema, directory).make(schema, "", 0)


class _Maker:
    """Makes values for one root schema, which resolves references."""

    def __init__(self, root: object, directory: str) -> None:
        self._root = root
        self._directory = directory

    def make(self, schema: object, name: str, depth: int) -> Any:
        if depth > _DEPTH:
            raise CannotMakeError("the schema is recursive")
        node = as_object(schema)
        offered = [node[key] for key in ("const", "default") if key in node]
        offered += [node[key][0] for key in ("examples", "enum") if as_list(node.get(key))]
        if schema is True or offered:
            return offered[0] if offered else {}
        return self._chosen(node, name, depth)

    def _chosen(self, node: Object, name: str, depth: int) -> Any:
        if isinstance(node.get("$ref"), str):
            return self.make(self._referred(node["$ref"]), name, depth + 1)
        branches = as_list(node.get("anyOf")) or as_list(node.get("oneOf"))
        if branches:
            return self._first(branches, name, depth)
        if any(key in node for key in ("allOf", "if", "not", "dependentRequired", "patternProperties")):
            raise CannotMakeError("the schema has conditions")
        kinds = as_list(node.get("type")) or [node.get("type") or ("object" if "properties" in node else "")]
        return self._of_type(str(kinds[0]), node, name, depth)

    def _referred(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise CannotMakeError("the schema refers to another document")
        try:
            return resolve(self._root, reference.removeprefix("#"))
        except (LookupError, ValueError, TypeError):
            raise CannotMakeError(f"{reference} leads nowhere") from None

    def _first(self, branches: list[Any], name: str, depth: int) -> Any:
        for branch in branches:
            try:
                return self.make(branch, name, depth + 1)
            except CannotMakeError:
                continue
        raise CannotMakeError("no branch of a union has a value")

    def _of_type(self, kind: str, node: Object, name: str, depth: int) -> Any:
        makers: dict[str, Callable[[], Any]] = {
            "object": lambda: self._object(node, depth),
            "array": lambda: self._array(node, name, depth),
            "string": lambda: self._string(node, name),
            "integer": lambda: math.ceil(_low(node)),
            "number": lambda: _low(node),
            "boolean": lambda: False,
            "null": lambda: None,
        }
        if kind not in makers:
            raise CannotMakeError("the schema has no type")
        return makers[kind]()

    def _object(self, node: Object, depth: int) -> Object:
        shapes = as_object(node.get("properties"))
        wanted = [key for key in as_list(node.get("required")) if isinstance(key, str)]
        return {key: self.make(shapes.get(key, True), key, depth + 1) for key in wanted}

    def _array(self, node: Object, name: str, depth: int) -> list[Any]:
        least = node.get("minItems", 0)
        if not isinstance(least, int) or least > _DEPTH or is_list(node.get("items")):
            raise CannotMakeError("the schema requires a long array")
        return [self.make(node.get("items", True), name, depth + 1) for _ in range(least)]

    def _string(self, node: Object, name: str) -> str:
        if "pattern" in node:
            raise CannotMakeError("the schema has a pattern")
        if _PATH.search(name):
            return self._directory
        text = _FORMATS.get(str(node.get("format")), "a")
        least = node.get("minLength", 0)
        if not isinstance(least, int) or least > _LENGTH:
            raise CannotMakeError("the schema requires a long string")
        return text.ljust(least, "a")


def _low(node: Object) -> float | int:
    """Return the smallest allowed number, not negative if possible."""
    for key, step in (("minimum", 0), ("exclusiveMinimum", 1)):
        bound = node.get(key)
        if _is_finite(bound):
            return max(bound + step, 0) if _fits(node, max(bound + step, 0)) else bound + step
    return 0 if _fits(node, 0) else _number(node.get("maximum", node.get("exclusiveMaximum"))) - 1


def _fits(node: Object, value: float) -> bool:
    top, below = node.get("maximum"), node.get("exclusiveMaximum")
    return (not _is_finite(top) or value <= top) and (not _is_finite(below) or value < below)


def _number(value: object) -> float | int:
    return value if _is_finite(value) else 0


def _is_finite(value: object) -> TypeGuard[float | int]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
