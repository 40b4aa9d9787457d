"""What a client may send, by the schema: each message whole, and with one thing changed at each of its places.

`reads` says whether a reader that follows the schema's marks gets a value, so that a test knows what must be answered
with an error. The marks are `x-deserialize-default-on-error` and `x-deserialize-default-on-null` of properties, and
`x-deserialize-skip-invalid-items` of lists.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

Value = Any
Node = dict[str, Any]

_WRONG: Final[tuple[Value, ...]] = (None, 7, -1, 0.5, "a text", True, [], {}, [7], [None], {"a": 1}, 1 << 70)
UNKNOWN: Final = "unknownToAll"
_UNIONS: Final = ("anyOf", "oneOf")
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}


@dataclass(frozen=True)
class Case:
    """Params of a method. `is_whole`: nothing was changed. `is_readable`: the schema lets a reader have them."""

    method: str
    params: Value
    change: str
    is_whole: bool
    is_readable: bool

    def __str__(self) -> str:
        return f"{self.method} {self.change}"


class Cases:
    """Makes cases from the definitions of a document.

    `known` are values by property name; properties that are `left_out` are in no case.
    """

    def __init__(self, document: Node, known: Mapping[str, Value], left_out: Collection[str] = ()) -> None:
        self._definitions: Node = document["$defs"]
        self._known = known
        self._left_out = {*left_out, "_meta"}

    def of(self, definition: str) -> list[Case]:
        """All cases of the params with this definition, without repetitions."""
        schema = cast("Node", self._definitions[definition])
        found: dict[str, Case] = {}
        for whole in self._wholes(schema):
            for change, value in (("", whole), *_changed(whole)):
                case = Case(schema["x-method"], value, change, not change, self.reads(schema, value))
                found.setdefault(json.dumps(value, sort_keys=True), case)
        return list(found.values())

    # --- whole values -------------------------------------------------------------------------------------------

    def _wholes(self, schema: Node, name: str = "") -> list[Value]:
        """Values with all properties, which together have each branch of each union."""
        if name in self._known:
            return [self._known[name]]
        schema = self._resolved(schema)
        if "const" in schema or "enum" in schema:
            return [schema["const"]] if "const" in schema else list(schema["enum"])[:2]
        branches = next((schema[key] for key in _UNIONS if key in schema), None)
        if branches is not None:
            rest = {key: value for key, value in schema.items() if key not in _UNIONS}
            kept = [branch for branch in branches if self._resolved(branch).get("type") != "null"]
            return [whole for branch in kept for whole in self._wholes(_joined(rest, self._resolved(branch)), name)]
        match schema.get("type"):
            case "array":
                return [[whole] for whole in self._wholes(schema.get("items", {}), name)]
            case "object":
                return self._objects(schema)
            case list():
                kinds: list[str] = schema["type"]
                return self._wholes({**schema, "type": next(kind for kind in kinds if kind != "null")}, name)
            case "boolean":
                return [True]
            case "integer" | "number":
                return [1]
            case _:
                return ["a text"]

    def _objects(self, schema: Node) -> list[Value]:
        properties: Node = schema.get("properties", {})
        each = {name: self._wholes(inner, name) for name, inner in properties.items() if name not in self._left_out}
        first = {name: values[0] for name, values in each.items()}
        others = [{**first, name: value} for name, values in each.items() for value in values[1:]]
        return [first, *others]

    def _resolved(self, schema: Node) -> Node:
        while "$ref" in schema or "allOf" in schema:
            rest = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
            parts: list[Node] = [*schema.get("allOf", ())]
            if "$ref" in schema:
                parts.append(self._definitions[schema["$ref"].rpartition("/")[2]])
            for part in parts:
                rest = _joined(self._resolved(part), rest)
            schema = rest
        return schema

    # --- reading ------------------------------------------------------------------------------------------------

    def reads(self, schema: Node, value: Value) -> bool:
        """Whether a reader gets a value."""
        schema = self._resolved(schema)
        if not all(
            any(self.reads(_joined({}, branch), value) for branch in schema[key]) for key in _UNIONS if key in schema
        ):
            return False
        if "not" in schema and self.reads(schema["not"], value):
            return False
        if ("const" in schema and value != schema["const"]) or ("enum" in schema and value not in schema["enum"]):
            return False
        if "type" in schema and not _has_type(schema["type"], value):
            return False
        if isinstance(value, bool | str | float | None):
            return True
        if isinstance(value, int):
            return schema.get("minimum", value) <= value <= schema.get("maximum", value)
        if isinstance(value, list):
            items: Node = schema.get("items", {})
            skips = bool(schema.get("x-deserialize-skip-invalid-items"))
            return skips or all(self.reads(items, item) for item in cast("list[Value]", value))
        return self._reads_object(schema, value)

    def _reads_object(self, schema: Node, value: Node) -> bool:
        properties: Node = schema.get("properties", {})
        if not set(schema.get("required", ())) <= value.keys():
            return False
        return all(self._reads_property(properties[name], value[name]) for name in properties.keys() & value.keys())

    def _reads_property(self, schema: Node, value: Value) -> bool:
        if schema.get("x-deserialize-default-on-error"):
            return True
        return (value is None and bool(schema.get("x-deserialize-default-on-null"))) or self.reads(schema, value)


def _joined(first: Node, second: Node) -> Node:
    """Both schemas; properties and required ones are added up."""
    joined = {**first, **second}
    if "properties" in first and "properties" in second:
        joined["properties"] = {**first["properties"], **second["properties"]}
    if "required" in first and "required" in second:
        joined["required"] = [*first["required"], *second["required"]]
    return joined


def _has_type(types: str | list[str], value: Value) -> bool:
    kinds = [types] if isinstance(types, str) else types
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _TYPES[kind]) for kind in kinds)


# --- changes ----------------------------------------------------------------------------------------------------------


def _changed(whole: Value) -> Iterator[tuple[str, Value]]:
    """The value with one change: a part left out, null or of another type, or something unknown added."""
    for path in _places(whole):
        holder, key = _at(whole, path[:-1]), path[-1] if path else None
        place = ".".join(map(str, path))
        if isinstance(_at(whole, path), dict):
            yield f"{place} +{UNKNOWN}", _with(whole, (*path, UNKNOWN), {"a": [1]})
            yield f"{place} +_meta", _with(whole, (*path, "_meta"), 7)
        if path and isinstance(holder, dict):
            left = copy.deepcopy(whole)
            del _at(left, path[:-1])[key]
            yield f"{place} left out", left
        for wrong in _WRONG:
            if path and type(wrong) is not type(_at(whole, path)):
                yield f"{place} {json.dumps(wrong)}", _with(whole, path, wrong)


def _places(value: Value, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(value, dict):
        for key, inner in cast("Node", value).items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[Value]", value)):
            yield from _places(inner, (*path, index))


def _at(value: Value, path: tuple[str | int, ...]) -> Value:
    for key in path:
        value = value[key]
    return value


def _with(whole: Value, path: tuple[str | int, ...], new: Value) -> Value:
    found = copy.deepcopy(whole)
    _at(found, path[:-1])[path[-1]] = new
    return found
