"""What each protocol is sent. A further protocol is a row of TARGETS.

Commands and addresses in messages lead nowhere, and what logs out is left out, because a program does what it is told.
In params `$SESSION` stands for the newest session of the run, `$CWD` for the directory to work in, `$TOOL5` for a tool
that says it changes nothing, and `{"$ARGUMENTS": "5"}` for arguments of that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from conformance.documents import json_document, resolve
from conformance.fuzzing.instances import Instances
from conformance.fuzzing.killers import LINES, cancelled, without_objects
from conformance.fuzzing.values import boundary, changed
from conformance.values import Object, as_list, as_object, as_text, is_object

SESSION: Final = "$SESSION"
CWD: Final = "$CWD"
TOOL: Final = "$TOOL"
ARGUMENTS: Final = "$ARGUMENTS"
_LEGACY: Final = "2025-11-25"
_NOWHERE: Final = "/nonexistent/rewindow-conformance"
_CHANGED: Final = 0.6
_STRAY: Final = 0.04
_TOOLS: Final = 1000
_BURST: Final = 6
_KINDS: Final = {"Request": "request", "Notification": "notification"}
"""By the ending of a definition's name."""


@dataclass(frozen=True, slots=True)
class Step:
    """One message. `stray` ones are responses that nobody asked for."""

    method: str
    params: Any = None
    kind: str = "request"
    """`request`, `notification`, `stray`, or `line`: then `params` is the text of a line that is no message."""
    waits: bool = False
    """Whether everything is answered before the next one is sent."""


def _lines(texts: Iterable[str]) -> tuple[Step, ...]:
    return tuple(Step("", text, "line", waits=True) for text in texts)


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
    cancelling: str = ""
    """The notification after which what is under way need not be answered."""
    open_ended: frozenset[str] = frozenset()
    """Methods whose answer comes when the client wants no more."""
    killers: tuple[Step, ...] = ()
    """What is sent first of all, behind the opening: known programs have died of it."""

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
        if call.method == "tools/call" and is_object(params):
            number = random.randrange(_TOOLS)
            params |= {"name": f"{TOOL}{number}", "arguments": {ARGUMENTS: str(number)}}
        if random.random() < _CHANGED:
            for _ in range(random.choice((1, 1, 2, 3))):
                params = changed(params, random)
        return Step(call.method, params, call.kind, waits)


def _acp() -> tuple[Target, ...]:
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
    opening = (
        Step("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, waits=True),
        Step("session/new", {"cwd": CWD, "mcpServers": []}, waits=True),
    )
    cancel = Step("session/cancel", {"sessionId": SESSION}, "notification")
    killers = _lines((*LINES, *without_objects(("session/new", "session/prompt"))))
    return (Target("acp1.schema", tuple(calls), opening, fixed, (cancel,), killers=killers),)


def _mcp() -> tuple[Target, ...]:
    return _mcp_of("2025-11-25"), _mcp_of("2026-07-28")


def _mcp_of(version: str) -> Target:
    name = f"mcp.{version}.schema"
    definitions = as_object(json_document(name)["$defs"])
    weights = {"tools/call": 6, "notifications/cancelled": 2}
    calls: list[Call] = []
    for union, kind in (("ClientRequest", "request"), ("ClientNotification", "notification")):
        alone = {"$ref": f"#/$defs/{union}"}  # where there is but one message, there is no union
        for branch in as_list(as_object(definitions.get(union)).get("anyOf")) or [alone]:
            shapes = as_object(resolve(json_document(name), branch["$ref"].removeprefix("#")))["properties"]
            method = as_text(shapes["method"]["const"])
            calls.append(Call(method, shapes.get("params", {"type": "object"}), kind, weights.get(method, 1)))
    client = {"name": "rewindow-conformance", "version": "1"}
    if version == _LEGACY:
        meta: Object = {"progressToken": "p"}
        hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        opening = (
            Step("initialize", hello, waits=True),
            Step("notifications/initialized", {}, "notification"),
            Step("tools/list", {}, waits=True),
        )
    else:
        said = {"protocolVersion": version, "clientInfo": client, "clientCapabilities": {}}
        meta = {f"io.modelcontextprotocol/{key}": value for key, value in said.items()}
        opening = (Step("tools/list", {"_meta": meta}, waits=True),)
    listen: Object = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    stream: tuple[str, Object] = ("ping", {}) if version == _LEGACY else ("subscriptions/listen", listen)
    fixed: Object = {"_meta": meta, "uri": f"file://{_NOWHERE}", "protocolVersion": version, "wait": 0, "seconds": 1}
    return Target(
        name,
        tuple(calls),
        opening,
        fixed,
        cancelling="notifications/cancelled",
        open_ended=frozenset({"subscriptions/listen", "tasks/result"}),
        killers=_lines(
            (
                *LINES,
                *without_objects(("tools/list", "tools/call")),
                *cancelled(*stream),
            )
        ),
    )


TARGETS: Final[dict[str, Callable[[], tuple[Target, ...]]]] = {"acp": _acp, "mcp": _mcp}
"""By the protocol's name, as commands have it: a target for each version, which take turns."""
