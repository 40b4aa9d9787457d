"""What each protocol is sent. A further protocol is a row of TARGETS.

Commands and addresses in messages lead nowhere, and what logs out is left out, because a program does what it is told.
In params `$SESSION` stands for the newest session of the run and `$CWD` for the directory to work in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from conformance.documents import json_document
from conformance.fuzzing.instances import Instances
from conformance.fuzzing.values import boundary, changed
from conformance.values import Object, as_object, as_text

SESSION: Final = "$SESSION"
CWD: Final = "$CWD"
_NOWHERE: Final = "/nonexistent/rewindow-conformance"
_CHANGED: Final = 0.6
_STRAY: Final = 0.04
_BURST: Final = 6
_KINDS: Final = {"Request": "request", "Notification": "notification"}
"""By the ending of a definition's name."""


@dataclass(frozen=True, slots=True)
class Step:
    """One message. `stray` ones are responses that nobody asked for."""

    method: str
    params: Any = None
    kind: str = "request"
    """`request`, `notification` or `stray`."""
    waits: bool = False
    """Whether everything is answered before the next one is sent."""


@dataclass(frozen=True, slots=True)
class Call:
    """A method, the schema of its params, and how often it is chosen beside the others."""

    method: str
    schema: Any
    kind: str = "request"
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Target:
    """A protocol as fuzz sees it."""

    document: str
    calls: tuple[Call, ...]
    opening: tuple[Step, ...]
    """Sent as they are, at the beginning of each run."""
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    unblocking: tuple[Step, ...] = ()
    """What ends something that may rightly take long."""

    def steps(self, random: Random, count: int) -> list[Step]:
        """The opening and so many random messages, in bursts."""
        found = list(self.opening)
        instances = Instances(json_document(self.document), random, self.fixed)
        calls = random.choices(self.calls, [call.weight for call in self.calls], k=count)
        left = random.randint(1, _BURST)
        for call in calls:
            left -= 1
            found.append(self._step(call, instances, random, waits=left == 0))
            left = left or random.randint(1, _BURST)
        return found

    def _step(self, call: Call, instances: Instances, random: Random, *, waits: bool) -> Step:
        if random.random() < _STRAY:
            return Step(random.choice(("", "unknown/method", "$/unknown", "_unknown")), boundary(random), waits=waits)
        if random.random() < _STRAY:
            return Step("", boundary(random), "stray", waits)
        params = instances.of(call.schema)
        if random.random() < _CHANGED:
            for _ in range(random.choice((1, 1, 2, 3))):
                params = changed(params, random)
        return Step(call.method, params, call.kind, waits)


def _acp() -> Target:
    document = json_document("acp1.schema")
    left_out = {"logout", "authenticate"}
    weights = {"session/prompt": 4, "session/cancel": 3, "$/cancel_request": 2}
    calls: list[Call] = []
    for name, schema in as_object(document["$defs"]).items():
        method = as_text(as_object(schema).get("x-method"))
        kind = next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), "")
        if kind and as_object(schema).get("x-side") in ("agent", "protocol") and method not in left_out:
            calls.append(Call(method, {"$ref": f"#/$defs/{name}"}, kind, weights.get(method, 1)))
    fixed: Object = {
        "sessionId": SESSION,
        "cwd": CWD,
        "command": _NOWHERE,
        "url": "http://127.0.0.1:9/",
        "additionalDirectories": [],
        "protocolVersion": 1,
        "_meta": {"a": 1},
        "text": "hello",
    }
    return Target(
        "acp1.schema",
        tuple(calls),
        (
            Step("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, waits=True),
            Step("session/new", {"cwd": CWD, "mcpServers": []}, waits=True),
        ),
        fixed,
        (Step("session/cancel", {"sessionId": SESSION}, "notification"),),
    )


TARGETS: Final = {"acp": _acp}
"""By the protocol's name, as commands have it."""
