"""Breaks the optional fields of a message that a receiver takes for absent where it cannot read them.

Schemas of the Agent Client Protocol mark such fields with `x-deserialize-default-on-error`. A field is broken in two
ways: by a value of a wrong type, and by null where the schema refuses that too. Of a message that has many, several are
broken at once, but never one within another, which nobody would look at. So a message needs as many versions as its
fields are nested deep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from conformance.documents import resolve
from conformance.schema import Schema
from conformance.values import Object, as_list, as_object, is_list, is_object

_MARK: Final = "x-deserialize-default-on-error"
_WRONG: Final[tuple[Any, ...]] = (7, "wrong", {}, [])
_UNBREAKABLE: Final = object()

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """A version of a message, and what is wrong in it: JSON pointers into the schema, such as
    `/$defs/TextContent/properties/annotations`."""

    value: Any
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    path: Path
    """In the message."""
    field: str
    wrong: Any


class Defaults:
    """The marked fields of one schema document."""

    def __init__(self, document: Object) -> None:
        self._document = document
        self._schema = Schema(document)

    def marked(self, *definitions: str) -> frozenset[str]:
        """The marked fields of these definitions, and of all that those refer to."""
        names = list(definitions)
        for name in names:
            names += sorted(set(_references(self._document["$defs"][name])) - set(names))
        return frozenset(
            f"/$defs/{name}/properties/{field}"
            for name in names
            for field, shape in as_object(self._document["$defs"][name].get("properties")).items()
            if shape.get(_MARK) is True
        )

    def sent(self, *sides: str) -> list[str]:
        """The definitions of what is sent to these sides (`agent`, `client`, `protocol`), and of how they are answered.

        The schema names the side that handles a request, so that its response goes to the other one.
        """
        answers = {"agent": "client", "client": "agent"}
        return [
            name
            for name, shape in self._document["$defs"].items()
            if "x-method" in shape
            and (
                answers.get(shape["x-side"]) in sides
                if name.endswith("Response")
                else shape["x-side"] in (*sides, "protocol")
            )
        ] + ["Error"]

    def readable(self, field: str) -> bool:
        """Whether every value that may stand in a field can be read, so that nothing breaks it."""
        return self._wrong(resolve(self._document, field)) is _UNBREAKABLE

    def together(self, definition: str, message: Object) -> list[Broken]:
        """Few versions of a message, in which every marked field that it has or may have is broken once in each way."""
        versions: list[list[_Place]] = []
        # Those deepest down first, because few others can be broken together with one that is high up.
        places = sorted(self._places(definition, message), key=lambda place: (place.wrong is None, -len(place.path)))
        for place in places:
            fitting = next((one for one in versions if not any(_within(place, other) for other in one)), None)
            if fitting is None:
                versions.append(fitting := [])
            fitting.append(place)
        return [_broken(message, places) for places in versions]

    def alone(self, definition: str, message: Object, fields: Iterable[str]) -> list[Broken]:
        """Versions in each of which one way is one of these fields broken, wherever it stands."""
        places = [place for place in self._places(definition, message) if place.field in set(fields)]
        groups: dict[tuple[str, bool], list[_Place]] = {}
        for place in places:
            groups.setdefault((place.field, place.wrong is None), []).append(place)
        return [_broken(message, group) for group in groups.values()]

    def _places(self, definition: str, message: Object) -> Iterator[_Place]:
        for path, field, shape in self._walk([(f"/$defs/{definition}", self._document["$defs"][definition])], message):
            for wrong in (self._wrong(shape), None):
                if wrong is not _UNBREAKABLE and self._schema.compile(shape)(wrong) is not None:
                    yield _Place(path, field, wrong)

    def _wrong(self, shape: Object) -> Any:
        check = self._schema.compile(shape)
        return next((value for value in _WRONG if check(value) is not None), _UNBREAKABLE)

    def _walk(self, nodes: list[tuple[str, Object]], value: Any, path: Path = ()) -> Iterator[tuple[Path, str, Object]]:
        """Each place of a marked field in a value that these parts of the schema describe; absent fields too."""
        shapes = [shape for pointer, node in nodes for shape in self._applying(pointer, node, value)]
        if is_list(value):
            items = [(f"{pointer}/items", node["items"]) for pointer, node in shapes if "items" in node]
            for index, item in enumerate(as_list(value)):
                yield from self._walk([one for one in items if self._may_be(one[1], item)], item, (*path, index))
        elif is_object(value):
            known: dict[str, list[tuple[str, Object]]] = {}
            for pointer, node in shapes:
                for name, shape in as_object(node.get("properties")).items():
                    known.setdefault(name, []).append((f"{pointer}/properties/{name}", shape))
            for name, found in known.items():
                for pointer, shape in found:
                    if shape.get(_MARK) is True:
                        yield (*path, name), pointer, shape
                if name in value:
                    yield from self._walk(found, as_object(value)[name], (*path, name))

    def _applying(self, pointer: str, node: Object, value: Any) -> Iterator[tuple[str, Object]]:
        """The parts of the schema that a value has to follow: of a union, the branches that it may be."""
        yield pointer, node
        if "$ref" in node:
            target = str(node["$ref"]).removeprefix("#")
            yield from self._applying(target, resolve(self._document, target), value)
        for keyword in ("allOf", "anyOf", "oneOf"):
            for index, branch in enumerate(as_list(node.get(keyword))):
                if keyword == "allOf" or self._may_be(branch, value):
                    yield from self._applying(f"{pointer}/{keyword}/{index}", branch, value)

    def _may_be(self, branch: Object, value: Any) -> bool:
        if not is_object(value):
            return True
        consts = self._schema.consts(branch)
        has_all = set(self._required(branch)) <= set(value)
        return has_all and all(as_object(value).get(name) == const for name, const in consts.items())

    def _required(self, node: Object) -> Iterator[str]:
        yield from as_list(node.get("required"))
        if "$ref" in node:
            yield from self._required(resolve(self._document, str(node["$ref"]).removeprefix("#")))
        for part in as_list(node.get("allOf")):
            yield from self._required(part)


def _references(node: Any) -> Iterator[str]:
    if is_object(node):
        if "$ref" in node:
            yield str(node["$ref"]).rpartition("/")[2]
        for item in node.values():
            yield from _references(item)
    for item in as_list(node):
        yield from _references(item)


def _within(one: _Place, other: _Place) -> bool:
    """Whether one of two places is the other, or inside of it."""
    return all(a == b for a, b in zip(one.path, other.path, strict=False))


def _broken(message: Object, places: Iterable[_Place]) -> Broken:
    value = deepcopy(message)
    fields: dict[str, None] = {}
    for place in places:
        around: Any = value
        for key in place.path[:-1]:
            around = around[key]
        around[place.path[-1]] = place.wrong
        fields[place.field] = None
    return Broken(value, tuple(fields))
