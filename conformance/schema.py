"""Compiles the specifications' JSON Schemas into functions that describe an invalid value in one sentence.

A general validator needs a millisecond for one message of these schemas, because it tries every branch of a union. Here
a discriminator selects the branch first. Supports only the keywords of the vendored schemas and raises for any other,
so that no rule is skipped silently. The tests compare it with a general validator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.documents import resolve
from conformance.values import as_list, as_object, is_list, is_object

Check = Callable[[Any], "Problem | None"]


class Problem:
    """Where and why a value does not fit a schema."""

    __slots__ = ("path", "why")

    def __init__(self, why: str, path: str = "") -> None:
        self.why = why
        self.path = path

    def within(self, key: str | int) -> Problem:
        """Return the same problem, seen from the enclosing value."""
        self.path = f"/{key}{self.path}"
        return self

    def __str__(self) -> str:
        return f"{self.path or 'the value'} {self.why}"


_SHOWN: Final = 60
"""Characters of a value in a sentence."""
_NOTES: Final = frozenset(
    {
        "$schema",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "discriminator",
        "$defs",
        "definitions",
        "contentEncoding",
        "$comment",
        "$id",
    }
)
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}
_RANGES: Final = {
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


class UnknownKeywordError(ValueError):
    """Raised when a schema uses an unsupported keyword. Fields: keyword."""

    def __init__(self, keyword: str) -> None:
        super().__init__(f"the schema uses the unsupported keyword {keyword}")
        self.keyword = keyword


class Schema:
    """A schema document. Definitions are compiled on first use."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._compiled: dict[str, Check] = {}

    def definition(self, name: str) -> Check:
        """Return the check of a definition. Raises LookupError, UnknownKeywordError."""
        return self.reference(f"#/$defs/{name}")

    def reference(self, reference: str) -> Check:
        """Return the check of a `$ref`, such as `#/$defs/Role`, compiled once."""
        if reference not in self._compiled:
            self._compiled[reference] = self._later(reference)  # for recursive schemas
            self._compiled[reference] = self.compile(resolve(self.document, reference.removeprefix("#")))
        return self._compiled[reference]

    def _later(self, reference: str) -> Check:
        def check(value: Any) -> Problem | None:
            return self._compiled[reference](value)

        return check

    def compile(self, node: Any) -> Check:
        """Compile any schema of the document."""
        if node is True:
            return _accept
        if node is False:
            return lambda _: Problem("is not allowed")
        checks = [
            _KEYWORDS[key](self, as_object(node), value)
            for key, value in as_object(node).items()
            if key not in _NOTES and not key.startswith("x-") and _known(key)
        ]
        checks = [check for check in checks if check is not _accept]
        if len(checks) == 1:
            return checks[0]
        return _all(checks) if checks else _accept

    def consts(self, node: Any) -> dict[str, Any]:
        """Return the properties that a union branch fixes to one value, which tell branches apart."""
        node = as_object(node)
        if "$ref" in node:
            return self.consts(resolve(self.document, node["$ref"].removeprefix("#")))
        return {
            name: as_object(shape)["const"]
            for name, shape in as_object(node.get("properties")).items()
            if "const" in as_object(shape) and name in as_list(node.get("required"))
        }


def _known(key: str) -> bool:
    if key not in _KEYWORDS:
        raise UnknownKeywordError(key)
    return True


def _accept(_: Any) -> None:
    return None


def _all(checks: list[Check]) -> Check:
    def check(value: Any) -> Problem | None:
        for one in checks:
            if (problem := one(value)) is not None:
                return problem
        return None

    return check


def _is_a(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _type(_schema: Schema, _node: dict[str, Any], names: Any) -> Check:
    wanted = [names] if isinstance(names, str) else as_list(names)
    phrase = " or ".join(wanted)

    def check(value: Any) -> Problem | None:
        if any(_is_a(name, value) for name in wanted):
            return None
        return Problem(f"is {_short(value)}, not of type {phrase}")

    return check


def _properties(schema: Schema, _node: dict[str, Any], shapes: Any) -> Check:
    compiled = {name: schema.compile(shape) for name, shape in as_object(shapes).items()}

    def check(value: Any) -> Problem | None:
        if is_object(value):
            for name, item in value.items():
                one = compiled.get(name)
                if one is not None and (problem := one(item)) is not None:
                    return problem.within(name)
        return None

    return check


def _required(_schema: Schema, _node: dict[str, Any], names: Any) -> Check:
    wanted = as_list(names)

    def check(value: Any) -> Problem | None:
        if is_object(value):
            for name in wanted:
                if name not in value:
                    return Problem(f"has no {name}")
        return None

    return check


def _items(schema: Schema, _node: dict[str, Any], shape: Any) -> Check:
    one = schema.compile(shape)

    def check(value: Any) -> Problem | None:
        for index, item in enumerate(as_list(value)):
            if (problem := one(item)) is not None:
                return problem.within(index)
        return None

    return check


def _additional(schema: Schema, node: dict[str, Any], shape: Any) -> Check:
    one = schema.compile(shape)
    if one is _accept:
        return _accept
    named = as_object(node.get("properties"))

    def check(value: Any) -> Problem | None:
        if is_object(value):
            for name, item in value.items():
                if name not in named and (problem := one(item)) is not None:
                    return problem.within(name)
        return None

    return check


def _const(_schema: Schema, _node: dict[str, Any], wanted: Any) -> Check:
    def check(value: Any) -> Problem | None:
        if value == wanted and isinstance(value, bool) == isinstance(wanted, bool):
            return None
        return Problem(f"is {_short(value)}, not {_short(wanted)}")

    return check


def _enum(_schema: Schema, _node: dict[str, Any], wanted: Any) -> Check:
    phrase = ", ".join(_short(item) for item in as_list(wanted))
    return lambda value: None if value in wanted else Problem(f"is {_short(value)}, not one of {phrase}")


def _format(_schema: Schema, _node: dict[str, Any], name: Any) -> Check:
    if name not in _RANGES:
        return _accept
    low, high = _RANGES[name]

    def check(value: Any) -> Problem | None:
        if isinstance(value, int | float) and not isinstance(value, bool) and not low <= value <= high:
            return Problem(f"is {_short(value)}, not within {low} and {high}")
        return None

    return check


def _bound(holds: Callable[[Any, Any], bool], kinds: type | tuple[type, ...], phrase: str) -> Callable[..., Check]:
    def compile_bound(_schema: Schema, _node: dict[str, Any], bound: Any) -> Check:
        def check(value: Any) -> Problem | None:
            if isinstance(value, kinds) and not isinstance(value, bool) and not holds(value, bound):
                return Problem(f"is {_short(value)}, {phrase} {bound}")
            return None

        return check

    return compile_bound


def _reference(schema: Schema, _node: dict[str, Any], reference: Any) -> Check:
    return schema.reference(reference)


def _every(schema: Schema, _node: dict[str, Any], nodes: Any) -> Check:
    return _all([schema.compile(node) for node in as_list(nodes)])


def _union(schema: Schema, _node: dict[str, Any], nodes: Any, *, exactly: bool) -> Check:
    branches = [(schema.consts(branch), schema.compile(branch)) for branch in as_list(nodes)]
    tag = _tag([consts for consts, _ in branches])
    if tag is not None:
        return _tagged(tag, {consts[tag]: check for consts, check in branches})
    checks = [check for _, check in branches]
    scalars = ", ".join(_short(branch["const"]) for branch in as_list(nodes) if "const" in branch)

    def check(value: Any) -> Problem | None:
        candidates = [one for consts, one in branches if _may_be(consts, value)]
        problems = [one(value) for one in candidates or checks]
        passed = problems.count(None)
        if passed == 1 or (passed and not exactly):
            return None
        if passed:
            return Problem("fits more than one branch of a union that allows only one")
        if len(problems) > 1 and not is_object(value):
            return Problem(f"is {_short(value)}, " + (f"not one of {scalars}" if scalars else "which no branch allows"))
        return problems[-1]

    return check


def _tag(branches: list[dict[str, Any]]) -> str | None:
    """Return the property with a distinct string in each branch, which identifies the branch."""
    for name in branches[0] if branches else ():
        values = [consts.get(name) for consts in branches]
        if all(isinstance(value, str) for value in values) and len(set(values)) == len(values):
            return name
    return None


def _tagged(tag: str, branches: dict[str, Check]) -> Check:
    known = ", ".join(map(_short, branches))

    def check(value: Any) -> Problem | None:
        if not is_object(value):
            return Problem(f"is {_short(value)}, not an object")
        name = as_object(value).get(tag)
        one = branches.get(name) if isinstance(name, str) else None
        if one is not None:
            return one(value)
        return Problem(f"has {tag} {_short(name)}, not one of {known}" if tag in value else f"has no {tag}")

    return check


def _may_be(consts: dict[str, Any], value: Any) -> bool:
    return not is_object(value) or all(as_object(value).get(name) == const for name, const in consts.items())


def _branches(tag: str, branches: dict[str, dict[str, Any]], value: Any) -> Iterable[dict[str, Any]]:
    """Return the branches that a value may have."""
    if not is_object(value):
        return branches.values()
    name = as_object(value).get(tag)
    return (branches[name],) if isinstance(name, str) and name in branches else ()


def _not(schema: Schema, _node: dict[str, Any], shape: Any) -> Check:
    one = schema.compile(shape)
    return lambda value: Problem("is excluded by the schema") if one(value) is None else None


def _pattern(_schema: Schema, _node: dict[str, Any], pattern: Any) -> Check:
    found = re.compile(pattern).search
    return lambda value: (
        Problem(f"does not match {pattern}") if isinstance(value, str) and found(value) is None else None
    )


def _ignored(_schema: Schema, _node: dict[str, Any], _value: Any) -> Check:
    return _accept


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


_KEYWORDS: Final[dict[str, Callable[[Schema, dict[str, Any], Any], Check]]] = {
    "type": _type,
    "required": _required,
    "const": _const,
    "enum": _enum,
    "format": _format,
    "minimum": _bound(lambda value, bound: value >= bound, (int, float), "below"),
    "maximum": _bound(lambda value, bound: value <= bound, (int, float), "above"),
    "minLength": _bound(lambda value, bound: len(value) >= bound, str, "shorter than"),
    "maxLength": _bound(lambda value, bound: len(value) <= bound, str, "longer than"),
    "minItems": _bound(lambda value, bound: len(value) >= bound, list, "with fewer items than"),
    "maxItems": _bound(lambda value, bound: len(value) <= bound, list, "with more items than"),
    "pattern": _pattern,
    "$ref": _reference,
    "allOf": _every,
    "anyOf": lambda schema, node, nodes: _union(schema, node, nodes, exactly=False),
    "oneOf": lambda schema, node, nodes: _union(schema, node, nodes, exactly=True),
    "not": _not,
    "items": _items,
    "properties": _properties,
    "additionalProperties": _additional,
    "unevaluatedProperties": _ignored,  # only at the root of one document, which is never compiled as a whole
}


Node = dict[str, Any]


@dataclass(slots=True)
class _Shape:
    """What a schema says about fields without a value, and the unions that depend on the value."""

    properties: list[Node] = field(default_factory=list[Node])
    items: list[Node] = field(default_factory=list[Node])
    tagged: list[tuple[str, dict[str, Node]]] = field(default_factory=list[tuple[str, dict[str, Node]]])
    """Unions with a discriminator, by its value."""
    unions: list[list[tuple[Callable[[object], bool], Node]]] = field(
        default_factory=list[list[tuple[Callable[[object], bool], Node]]]
    )
    """Other unions: a predicate for each branch."""
    is_open: bool = False


class FieldNames:
    """Finds fields that a schema does not define.

    Does not look into objects that the schema leaves open, such as `_meta`. Of a union, only possible branches count.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._shapes: dict[int, _Shape] = {}

    def unknown(self, name: str, value: object) -> frozenset[str]:
        """Return JSON pointers to undefined fields of a value; to the whole value if the definition does not exist."""
        definition = as_object(self._schema.document["$defs"]).get(name)
        return frozenset({""} if definition is None else self._unknown([definition], value, ""))

    def _unknown(self, nodes: list[Node], value: object, path: str) -> Iterator[str]:
        shapes = self._chosen(nodes, value)
        if is_list(value):
            items = [node for shape in shapes for node in shape.items]
            for index, item in enumerate(as_list(value) if items else ()):
                yield from self._unknown(items, item, f"{path}/{index}")
        elif is_object(value):
            named = [properties for shape in shapes for properties in shape.properties]
            is_open = not named or any(shape.is_open for shape in shapes)
            for key, item in as_object(value).items():
                known = [properties[key] for properties in named if key in properties]
                if known and (is_object(item) or is_list(item)):
                    yield from self._unknown(known, item, f"{path}/{key}")
                elif not known and not is_open:
                    yield f"{path}/{key}"

    def _chosen(self, nodes: list[Node], value: object) -> list[_Shape]:
        shapes: list[_Shape] = []
        rest = list(nodes)
        while rest:
            shape = self._shape(rest.pop())
            shapes.append(shape)
            for tag, branches in shape.tagged:
                rest += _branches(tag, branches, value)
            rest += [node for union in shape.unions for may_be, node in union if may_be(value)]
        return shapes

    def _shape(self, node: Node) -> _Shape:
        shape = self._shapes.get(id(node))  # nodes belong to the document, which lives as long as this object
        if shape is None:
            shape = self._shapes[id(node)] = _Shape()
            self._collect(node, shape)
        return shape

    def _collect(self, node: Node, shape: _Shape) -> None:
        if "$ref" in node:
            self._collect(resolve(self._schema.document, str(node["$ref"]).removeprefix("#")), shape)
        for part in as_list(node.get("allOf")):
            self._collect(part, shape)
        for keyword in ("anyOf", "oneOf"):
            if keyword in node:
                branches = as_list(node[keyword])
                consts = [self._schema.consts(branch) for branch in branches]
                if tag := _tag(consts):
                    shape.tagged.append((tag, {fixed[tag]: one for fixed, one in zip(consts, branches, strict=True)}))
                else:
                    may_be = [self._possible(fixed, branch) for fixed, branch in zip(consts, branches, strict=True)]
                    shape.unions.append(list(zip(may_be, branches, strict=True)))
        if "properties" in node:
            shape.properties.append(node["properties"])
        if "items" in node:
            shape.items.append(node["items"])
        shape.is_open = shape.is_open or node.get("additionalProperties") not in (None, False)

    def _possible(self, consts: dict[str, Any], branch: Node) -> Callable[[object], bool]:
        """Return whether a value may be a branch: it has the fixed properties, and is not excluded."""
        excluded = self._schema.compile(branch["not"]) if "not" in branch else None

        def may_be(value: object) -> bool:
            return _may_be(consts, value) and (excluded is None or excluded(value) is not None)

        return may_be
