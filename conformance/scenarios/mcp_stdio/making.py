"""Makes a small value that a JSON Schema allows, so that a tool can be called that nobody described further.

Takes what a schema offers first: a constant, a default, an example, the first of an enumeration. Of objects it makes
the required properties. What it cannot be sure of (patterns, conditions) it does not make.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final, TypeGuard

from conformance.documents import resolve
from conformance.values import Object, as_list, as_object, is_list

_DEPTH: Final = 12
_LENGTH: Final = 10_000
_PATH: Final = re.compile(r"(path|dir|directory|folder|root|cwd)$", re.IGNORECASE)
"""Names of properties that want a directory."""
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
    """Raised for a schema that no value is made for; its text says why."""


def made(schema: object, directory: str) -> Any:
    """A value. `directory` is what properties are given that want a path. Raises CannotMakeError."""
    return _Maker(schema, directory).make(schema, "", 0)


class _Maker:
    """One root schema, within which references are looked up."""

    def __init__(self, root: object, directory: str) -> None:
        self._root = root
        self._directory = directory

    def make(self, schema: object, name: str, depth: int) -> Any:
        if depth > _DEPTH:
            raise CannotMakeError("the schema holds itself")
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
        raise CannotMakeError("no branch of a union can be made")

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
            raise CannotMakeError("the schema wants a long array")
        return [self.make(node.get("items", True), name, depth + 1) for _ in range(least)]

    def _string(self, node: Object, name: str) -> str:
        if "pattern" in node:
            raise CannotMakeError("the schema has a pattern")
        if _PATH.search(name):
            return self._directory
        text = _FORMATS.get(str(node.get("format")), "a")
        least = node.get("minLength", 0)
        if not isinstance(least, int) or least > _LENGTH:
            raise CannotMakeError("the schema wants a long string")
        return text.ljust(least, "a")


def _low(node: Object) -> float | int:
    """The smallest number that is allowed, of those that are not below zero if there is a choice."""
    for key, step in (("minimum", 0), ("exclusiveMinimum", 1)):
        bound = node.get(key)
        if _is_number(bound):
            return max(bound + step, 0) if _fits(node, max(bound + step, 0)) else bound + step
    return 0 if _fits(node, 0) else _number(node.get("maximum", node.get("exclusiveMaximum"))) - 1


def _fits(node: Object, value: float) -> bool:
    top, below = node.get("maximum"), node.get("exclusiveMaximum")
    return (not _is_number(top) or value <= top) and (not _is_number(below) or value < below)


def _number(value: object) -> float | int:
    return value if _is_number(value) else 0


def _is_number(value: object) -> TypeGuard[float | int]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
