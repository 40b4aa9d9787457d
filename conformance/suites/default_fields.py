"""Optional fields with a default on error: breaks them in messages, sends those, and judges the reaction.

The Agent Client Protocol marks such fields with `x-deserialize-default-on-error`: a receiver ignores a value it cannot
read. A field is broken with a wrong type, and with null if the schema forbids null. One message breaks many fields at
once, but never one inside another, which the receiver would not reach. If the message is refused, its fields are broken
one by one. A scenario marks each attempt `broken`, with the id of the request that shows whether the message was
accepted. If the unbroken message is refused too, nothing can be learned, and that attempt is marked without fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from conformance.documents import json_document, resolve
from conformance.driver import Driver, StoppedError
from conformance.judging import PASS, Judge, Verdict, evidence, failed, skipped, unanswered_reason
from conformance.schema import Schema
from conformance.traffic import Message, Sender, Traffic, id_key
from conformance.values import Object, as_list, as_object, as_text, is_list, is_object

_DEFAULT_ON_ERROR: Final = "x-deserialize-default-on-error"
_WRONG: Final[tuple[Any, ...]] = (7, "wrong", {}, [])
_UNBREAKABLE: Final = object()

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class BrokenMessage:
    """A version of a message, and its broken fields as JSON pointers into the schema, such as
    `/$defs/TextContent/properties/annotations`."""

    value: Any
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    path: Path
    """In the message."""
    field: str
    wrong: Any


class DefaultFields:
    """The marked fields of one schema document."""

    def __init__(self, document: Object) -> None:
        self._document = document
        self._schema = Schema(document)

    def marked(self, *definitions: str) -> frozenset[str]:
        """Return the marked fields of these definitions and of all that they reference."""
        names = list(definitions)
        for name in names:
            names += sorted(set(_references(self._document["$defs"][name])) - set(names))
        return frozenset(
            f"/$defs/{name}/properties/{field}"
            for name in names
            for field, shape in as_object(self._document["$defs"][name].get("properties")).items()
            if shape.get(_DEFAULT_ON_ERROR) is True
        )

    def sent(self, *sides: str) -> list[str]:
        """Return the definitions of messages to these sides (`agent`, `client`, `protocol`), and of their responses.

        The schema names the side that handles a request; its response goes to the other side.
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

    def accepts_anything(self, field: str) -> bool:
        """Whether a field accepts every value, so that nothing can break it."""
        return self._wrong(resolve(self._document, field)) is _UNBREAKABLE

    def break_together(self, definition: str, message: Object) -> list[BrokenMessage]:
        """Return few versions of a message that together break every marked field once in each way."""
        versions: list[list[_Place]] = []
        # Deepest first, because few others can be broken together with a field high up.
        places = sorted(self._places(definition, message), key=lambda place: (place.wrong is None, -len(place.path)))
        for place in places:
            fitting = next((one for one in versions if not any(_overlaps(place, other) for other in one)), None)
            if fitting is None:
                versions.append(fitting := [])
            fitting.append(place)
        return [_break(message, places) for places in versions]

    def break_alone(self, definition: str, message: Object, fields: Iterable[str]) -> list[BrokenMessage]:
        """Return versions that each break one of these fields in one way, at all its places."""
        places = [place for place in self._places(definition, message) if place.field in set(fields)]
        groups: dict[tuple[str, bool], list[_Place]] = {}
        for place in places:
            groups.setdefault((place.field, place.wrong is None), []).append(place)
        return [_break(message, group) for group in groups.values()]

    def _places(self, definition: str, message: Object) -> Iterator[_Place]:
        for path, field, shape in self._walk([(f"/$defs/{definition}", self._document["$defs"][definition])], message):
            for wrong in (self._wrong(shape), None):
                if wrong is not _UNBREAKABLE and self._schema.compile(shape)(wrong) is not None:
                    yield _Place(path, field, wrong)

    def _wrong(self, shape: Object) -> Any:
        check = self._schema.compile(shape)
        return next((value for value in _WRONG if check(value) is not None), _UNBREAKABLE)

    def _walk(self, nodes: list[tuple[str, Object]], value: Any, path: Path = ()) -> Iterator[tuple[Path, str, Object]]:
        """Yield each place of a marked field in a value, including absent fields."""
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
                    if shape.get(_DEFAULT_ON_ERROR) is True:
                        yield (*path, name), pointer, shape
                if name in value:
                    yield from self._walk(found, as_object(value)[name], (*path, name))

    def _applying(self, pointer: str, node: Object, value: Any) -> Iterator[tuple[str, Object]]:
        """Yield the schema parts that apply to a value; of a union, the possible branches."""
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


def _overlaps(one: _Place, other: _Place) -> bool:
    """Whether one path equals the other or lies inside it."""
    return all(a == b for a, b in zip(one.path, other.path, strict=False))


def _break(message: Object, places: Iterable[_Place]) -> BrokenMessage:
    value = deepcopy(message)
    fields: dict[str, None] = {}
    for place in places:
        around: Any = value
        for key in place.path[:-1]:
            around = around[key]
        around[place.path[-1]] = place.wrong
        fields[place.field] = None
    return BrokenMessage(value, tuple(fields))


# --- scenarios --------------------------------------------------------------------------------------------------------


Send = Callable[[Object], tuple[Any, bool]]
"""Sends a message. Returns the id of the request that shows whether it was accepted, and whether it was."""


@cache
def default_fields() -> DefaultFields:
    """The marked fields of version 1."""
    return DefaultFields(json_document("acp1.schema"))


def break_fields(
    driver: Driver,
    definition: str,
    message: Object,
    send: Send,
    about: str = "",
    revive: Callable[[], None] | None = None,
) -> None:
    """Send broken versions of a message until it is known which fields are refused.

    `about` names the message if several share a definition. `revive` restarts a program that a message ended. Raises
    StoppedError if that is impossible.
    """

    def attempt(broken: BrokenMessage) -> bool:
        try:
            request, taken = send(broken.value)
        except StoppedError:
            if not driver.has_closed():
                raise
            request, taken = None, False
        driver.mark("broken", {"id": request, "message": about or definition, "fields": list(broken.fields)})
        if request is None and driver.has_closed():
            if revive is None:
                raise StoppedError("the program ended")
            revive()
        return taken

    for broken in default_fields().break_together(definition, message):
        if attempt(broken):
            continue
        if not attempt(BrokenMessage(message, ())):
            return
        for one in default_fields().break_alone(definition, message, broken.fields):
            attempt(one)


# --- judges -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sent message and its broken fields."""

    about: str
    """The definition, or another name of the message."""
    fields: tuple[str, ...]
    """JSON pointers into the schema; empty for the unbroken message."""
    request: Message | None
    """The request that shows whether the message was accepted, if there is one."""
    begin: int
    end: int
    """The attempt lies between these transcript entries."""


Problem = Callable[[Traffic, Attempt], str]
"""Describes what went wrong; empty if nothing did."""


def missing_answer(traffic: Traffic, attempt: Attempt) -> str:
    """There is no answer."""
    if attempt.request is None:
        return "the program ended"
    return unanswered_reason(traffic, attempt.request, attempt.request.method) if attempt.request.answer is None else ""


def missing_result(traffic: Traffic, attempt: Attempt) -> str:
    """There is no result."""
    if attempt.request is None or attempt.request.answer is None:
        return missing_answer(traffic, attempt)
    error = attempt.request.answer.error
    text = f"{attempt.request.method} was answered with the error {error.get('code')}: {error.get('message')}"
    return "" if attempt.request.succeeded else text


def tolerates_broken_fields(problem: Problem = missing_result, by: Sender = "client") -> Judge:
    """No attempt with broken fields has a problem. `by` is the sender."""

    def judge(traffic: Traffic) -> Verdict:
        tried = [(attempt, problem(traffic, attempt)) for attempt in _attempts(traffic, by)]
        plain = {attempt.about for attempt, wrong in tried if wrong and not attempt.fields}
        counting = [(attempt, wrong) for attempt, wrong in tried if attempt.fields and attempt.about not in plain]
        refused = sorted(((one, wrong) for one, wrong in counting if wrong), key=lambda pair: len(pair[0].fields))
        if refused:
            alone = [one for one, _ in refused if len(one.fields) == 1] or [refused[0][0]]
            fields = sorted({_short(field) for one in alone for field in one.fields})
            text = f"with wrong types in {', '.join(fields)}: {refused[0][1]}"
            return failed(text, *_evidence(traffic, alone[0], by))
        if counting:
            return PASS
        return skipped(
            f"{', '.join(sorted(plain))} is refused even with correct fields"
            if plain
            else "no message of this kind was sent"
        )

    return judge


def _attempts(traffic: Traffic, by: Sender) -> list[Attempt]:
    requests = {id_key(message.id): message for message in traffic.sent(by) if message.is_request}
    found: list[Attempt] = []
    begin = 0
    for index, entry in enumerate(traffic.transcript.entries):
        if entry.kind == "mark" and entry.label == "broken":
            value = as_object(entry.value)
            fields = tuple(as_text(field) for field in as_list(value.get("fields")))
            request = requests.get(id_key(value.get("id")))
            found.append(Attempt(as_text(value.get("message")), fields, request, begin, index))
            begin = index
    return found


def _evidence(traffic: Traffic, attempt: Attempt, by: Sender) -> tuple[int, ...]:
    """Return the request and its answer, or the last message sent."""
    if attempt.request is not None:
        return evidence(attempt.request)
    sent = [message.index for message in traffic.sent(by) if attempt.begin < message.index < attempt.end]
    return tuple(sent[-1:])


def _short(field: str) -> str:
    """Shorten a JSON pointer to `TextContent.annotations`."""
    return field.removeprefix("/$defs/").replace("/properties/", ".")
