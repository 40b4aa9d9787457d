"""Instances of a JSON Schema: values that it allows, with any choice of what is optional.

Understands as much of JSON Schema as protocols and tools use, and gives a string for what it does not understand: what
comes of it is fuzz, so that a value which is not allowed after all does no harm.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from conformance.documents import resolve
from conformance.values import Object, as_list, as_object, as_text, is_list, is_object

_DEEPEST: Final = 6
_WORDS: Final = ("a", "word", "two words", "x" * 300)
_UNIONS: Final = ("anyOf", "oneOf")
_OPTIONAL: Final = 0.4
_AS_USUAL: Final = 0.1
"""How often a field that may be left out is there, and one that has a default has that."""


class Instances:
    """Makes instances. `fixed` are values by the name of the property, in place of any of the same type."""

    def __init__(self, document: Object, random: Random, fixed: Mapping[str, Any]) -> None:
        self._document = document
        self._random = random
        self._fixed = fixed

    def of(self, schema: Any, depth: int = 0) -> Any:
        """An instance of a schema of the document."""
        if not is_object(schema):
            return self._random.choice(_WORDS)
        if "$ref" in schema:
            schema = {**as_object(resolve(self._document, as_text(schema["$ref"]).removeprefix("#"))), **_rest(schema)}
        for key in ("const", "default"):
            if key in schema and (key == "const" or self._random.random() < _AS_USUAL):
                return copy.deepcopy(schema[key])
        if is_list(schema.get("enum")) and schema["enum"]:
            return copy.deepcopy(self._random.choice(schema["enum"]))
        for key in _UNIONS:
            branches = as_list(schema.get(key))
            if branches:
                chosen = self._random.choice(branches)
                return self._merged([{k: v for k, v in schema.items() if k != key}, chosen], depth)
        if schema.get("allOf"):
            return self._merged([{k: v for k, v in schema.items() if k != "allOf"}, *as_list(schema["allOf"])], depth)
        return self._typed(schema, depth)

    def _merged(self, schemas: list[Any], depth: int) -> Any:
        """An instance of all of them: objects are put together, and of anything else the last that says something."""
        values = [self.of(schema, depth) for schema in schemas if as_object(schema).keys() - {"description", "title"}]
        found: Any = {}
        for value in values:
            found = {**found, **value} if is_object(found) and is_object(value) else value
        return found

    def _typed(self, schema: Object, depth: int) -> Any:
        kinds = schema.get("type", "object" if "properties" in schema else "string")
        kind = self._random.choice(kinds) if is_list(kinds) and kinds else kinds
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                count = 0 if depth > _DEEPEST else self._random.choice((0, 1, 1, 2))
                return [self.of(schema.get("items", {}), depth + 1) for _ in range(count)]
            case "integer" | "number":
                low = schema.get("minimum", 0)
                return self._random.choice((low, low if isinstance(low, bool) else low + 1, schema.get("maximum", 7)))
            case "boolean":
                return self._random.choice((False, True))
            case "null":
                return None
            case _:
                return self._random.choice(_WORDS)

    def _object(self, schema: Object, depth: int) -> Object:
        wanted = set(map(str, as_list(schema.get("required"))))
        made: Object = {}
        for name, inner in as_object(schema.get("properties")).items():
            if name in wanted or (depth <= _DEEPEST and self._random.random() < _OPTIONAL):
                made[name] = self.of(inner, depth + 1)
                if name in self._fixed and type(made[name]) is type(self._fixed[name]):
                    made[name] = copy.deepcopy(self._fixed[name])
        return made


def _rest(schema: Object) -> Object:
    return {key: value for key, value in schema.items() if key != "$ref"}
