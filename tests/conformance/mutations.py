"""Random small changes of a conforming peer's messages, and whether a general validator rejects them.

A seed chooses a change from the messages that the conforming peer was seen to send. It then applies to every such
message.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from jsonschema import Draft202012Validator

from conformance.documents import DOCUMENTS, json_document
from conformance.runner import Plan, Run, run
from conformance.traffic import Traffic
from tests.conformance.suite_runs import SUBJECTS, Peer, conforming, in_memory, mcp_server, suite, transcript_of

JsonMessage = dict[str, Any]
Part = Literal["params", "result", "error"]
Send = Callable[[JsonMessage, JsonMessage], list[JsonMessage]]
"""Takes a message and the request it answers, if any (else empty). Returns the messages to send instead."""

ODD: list[Any] = [None, True, 0, -1, 1.5, 2**70, "", "x", [], {}, [None], {"a": 1}, [[1]]]
_VALUES = ("change", "change", "change", "remove", "add")


@dataclass(frozen=True)
class Kind:
    """A kind of message. `shape` is a JSON pointer to the schema of the part."""

    part: Part
    method: str
    variant: str
    document: str
    shape: str


def judged(peer: Peer, of: str) -> Run:
    """Run a whole suite on a peer in memory."""
    return run(Plan(suite(of), in_memory(peer, of), SUBJECTS[of].options, jobs=1))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every place in a JSON value, as keys and indices."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from places(item, (*path, key))


def change(value: Any, place: tuple[Any, ...], given: Any, *, cut: bool) -> bool:
    """Change the value at a place; False if it does not exist."""
    node = value
    for key in place[:-1]:
        try:
            node = node[key]
        except (KeyError, IndexError, TypeError):
            return False
    known = place[-1] in node if isinstance(node, dict) else isinstance(node, list) and place[-1] < len(node)
    if known and cut and isinstance(node, dict):
        del node[place[-1]]
    elif known:
        node[place[-1]] = given
    return known


def sending(base: Peer, send: Send) -> Peer:
    """Return the peer with replaced messages."""

    class Changing(base):
        def __init__(self, *given: Any) -> None:
            self.requests: dict[str, JsonMessage] = {}
            super().__init__(*given)

        def take(self, message: JsonMessage) -> None:
            if "id" in message:
                self.requests[repr(message["id"])] = message
            super().take(message)

        def send(self, message: JsonMessage) -> None:
            request = {} if "method" in message else self.requests.get(repr(message.get("id")), {})
            self.world.write(
                b"".join(map(self.encode, send(message, request)))
            )  # one write, so that nothing is answered in between

    return Changing


def kind_of(message: JsonMessage, request: JsonMessage, of: str) -> Kind | None:
    """Return the kind of a message; None without a definition."""
    part: Part = "params" if "method" in message else "error" if "error" in message else "result"
    method = message.get("method") or request.get("method")
    method = method if isinstance(method, str) else ""
    document = _document(request) if of == "mcp" else "acp1.schema"
    shape = "/$defs/Error" if part == "error" else _shapes(document).get((part, method))
    if shape is None or not method or not isinstance(message.get(part), dict):
        return None
    update = message[part].get("update") if part == "params" else None
    return Kind(part, method, update["sessionUpdate"] if update else "", document, shape)


def _document(request: JsonMessage) -> str:
    """Return the schema document of the version in a request."""
    named = f"mcp.{mcp_server.version_of(request)}.schema"
    return named if named in DOCUMENTS else f"mcp.{mcp_server.HANDSHAKE}.schema"


@cache
def _shapes(document: str) -> dict[tuple[Part, str], str]:
    """Return definitions by part and method, from their names."""
    found: dict[tuple[Part, str], str] = {}
    definitions = json_document(document)["$defs"]
    for name, schema in definitions.items():
        if "x-method" in schema:  # ACP style
            found["result" if name.endswith("Response") else "params", schema["x-method"]] = f"/$defs/{name}"
        method = schema.get("properties", {}).get("method", {}).get("const")
        result = name.removesuffix("Request") + "Result"
        if method and result in definitions:  # MCP style
            found["result", method] = f"/$defs/{result}"
    return found


def is_valid(kind: Kind, value: Any) -> bool:
    """Validate a part with a general validator."""
    schema = {"$ref": f"#{kind.shape}", "$defs": json_document(kind.document)["$defs"]}
    return Draft202012Validator(schema).is_valid(value)


@cache
def samples(of: str) -> list[tuple[Kind, JsonMessage]]:
    """Return the longest message of each kind that the conforming peer sends in the whole suite."""
    found: dict[Kind, JsonMessage] = {}
    for scenario in suite(of).every_scenario():
        for message in Traffic(transcript_of(scenario.name, of=of)).sent(suite(of).subject):
            request = message.answers.object if message.answers is not None else {}
            kind = kind_of(message.object, request, of)
            if kind is not None and len(str(message.object)) > len(str(found.get(kind, ""))):
                found[kind] = message.object
    return list(found.items())


def _acts(message: JsonMessage) -> tuple[str, ...]:
    if "id" not in message:
        return _VALUES
    return (*_VALUES, "repeat") if "method" in message else (*_VALUES, "repeat", "drop", "other_id", "both")


class Mutation:
    """A change chosen by a seed. `is_forbidden` tells whether it ever violated the specification."""

    def __init__(self, seed: int, of: str) -> None:
        chance = random.Random(seed)
        self.of = of
        self.kind, sample = chance.choice(samples(of))
        self.act = chance.choice(_acts(sample))
        self.place = chance.choice([(), *places(sample[self.kind.part])])
        self.given = chance.choice(ODD)
        self.is_forbidden = False

    def __repr__(self) -> str:
        where = "/".join(map(str, self.place))
        return f"{self.act} {where} {self.given!r} in {self.kind.part} of {self.kind.method} {self.kind.variant}"

    def peer(self) -> Peer:
        return sending(conforming(self.of), self._send)

    def _send(self, message: JsonMessage, request: JsonMessage) -> list[JsonMessage]:
        if kind_of(message, request, self.of) != self.kind:
            return [message]
        return getattr(self, f"_{self.act}")(copy.deepcopy(message))

    def _altered(self, message: JsonMessage, *, cut: bool) -> list[JsonMessage]:
        place = (self.kind.part, *self.place)
        changed = change(message, place, copy.deepcopy(self.given), cut=cut)
        part = message.get(self.kind.part)
        self.is_forbidden |= changed and not is_valid(self.kind, part)
        return [message]

    def _change(self, message: JsonMessage) -> list[JsonMessage]:
        return self._altered(message, cut=False)

    def _remove(self, message: JsonMessage) -> list[JsonMessage]:
        return self._altered(message, cut=True)

    def _add(self, message: JsonMessage) -> list[JsonMessage]:
        """Add an unknown field. ACP forbids it in its types, MCP does not."""
        message[self.kind.part]["unheardOf"] = self.given
        self.is_forbidden |= self.of != "mcp"
        return [message]

    def _repeat(self, message: JsonMessage) -> list[JsonMessage]:
        self.is_forbidden = True
        return [message, copy.deepcopy(message)]

    def _drop(self, _message: JsonMessage) -> list[JsonMessage]:
        self.is_forbidden |= self.kind.method != "elicitation/create"  # a user may take any time to answer
        return []

    def _other_id(self, message: JsonMessage) -> list[JsonMessage]:
        self.is_forbidden = True
        return [{**message, "id": 987654}]

    def _both(self, message: JsonMessage) -> list[JsonMessage]:
        self.is_forbidden = True
        return [{"result": {}, "error": {"code": -32603, "message": "Internal error"}, **message}]
