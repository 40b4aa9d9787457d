"""What each protocol is sent. Another protocol is a row of TARGETS.

Known killers come before random messages: malformed lines, unusual messages, and unexpected responses and cancels. Each
once killed a real program. Commands and addresses in messages do not exist, and messages that log out are left out,
because a program does what it is told. In params, `$SESSION` is the newest session, `$CWD` the working directory,
`$TOOL5` a read-only tool, and `{"$ARGUMENTS": "5"}` arguments for that tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from conformance.documents import json_document, resolve
from conformance.fuzzing.values import Instances, boundary_value, mutate
from conformance.values import Object, as_list, as_object, as_text, is_object

_LONG_LINE: Final = 2 * 1024 * 1024
"""Characters of the longest line, above the default limits of line readers."""

KILLER_LINES: Final = (
    *("[]", "42", '"x"', "null", "true", "{}", "5", "[42]", "{", "}", "nonsense", '{"jsonrpc":"2.0"}'),
    *('{"jsonrpc":"2.0","id":null}', '{"jsonrpc":"2.0","method":null}', '{"jsonrpc":"2.0","id":{},"result":null}'),
    *('{"jsonrpc":"2.0","method":"x","params":1e999}', "[" * 500 + "]" * 500, '"\\ud800"', '"\\ud83d"', "\ufeff{}"),
    *("", "   ", "\r"),
    '{"jsonrpc":"2.0","method":"\udcff\udcfe"}',  # invalid UTF-8, as Python represents it in text
    '{"jsonrpc":"2.0","id":987654,"result":{}}',
    '{"jsonrpc":"2.0","id":"987655","error":{"code":-32603,"message":"Internal error"}}',
    '{"jsonrpc":"2.0","method":"_rewindow_conformance/note","params":{"text":"nothing"}}',
    '{"jsonrpc":"2.0","method":"notifications/rewindow_conformance","params":{"text":"nothing"}}',
    json.dumps({"jsonrpc": "2.0", "method": "_rewindow_conformance/long", "params": {"text": "x" * _LONG_LINE}}),
)
"""For any JSON-RPC protocol. Programs often assume that a line is an object, or is short."""


def wrong_params(methods: Iterable[str]) -> list[str]:
    """Return requests whose params are missing or not an object."""
    values: tuple[object, ...] = ([], 5, "text", None, True)
    params: list[dict[str, object]] = [{}, *({"params": value} for value in values)]
    return [
        json.dumps({"jsonrpc": "2.0", "id": f"killer-{method}-{number}", "method": method, **given})
        for method in methods
        for number, given in enumerate(params)
    ]


def killer_cancels(method: str, params: object) -> list[str]:
    """Return a slow request with two cancels in MCP, then cancels of unknown requests."""
    ids = ("killer", "killer", "never-sent", 987_654)
    cancels = [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": name}} for name in ids]
    return [
        json.dumps({"jsonrpc": "2.0", "id": "killer", "method": method, "params": params}),
        *map(json.dumps, cancels),
    ]


# --- targets ----------------------------------------------------------------------------------------------------------


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
"""By the suffix of a definition's name."""


@dataclass(frozen=True, slots=True)
class Step:
    """One message. A `stray` is a response to no request."""

    method: str
    params: Any = None
    kind: str = "request"
    """`request`, `notification`, `stray`, or `line`, whose `params` is the text of a malformed line."""
    waits: bool = False
    """Whether to wait for all answers before the next step."""


def _line_steps(texts: Iterable[str]) -> tuple[Step, ...]:
    return tuple(Step("", text, "line", waits=True) for text in texts)


@dataclass(frozen=True, slots=True)
class Call:
    """A method, the schema of its params, and its relative frequency."""

    method: str
    schema: Any
    kind: str = "request"
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Target:
    """A protocol to fuzz."""

    document: str
    calls: tuple[Call, ...]
    opening: tuple[Step, ...]
    """Sent unchanged at the start of each run."""
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    unblocking: tuple[Step, ...] = ()
    """Steps that end a request which may legitimately take long."""
    cancelling: str = ""
    """The notification after which pending requests need no answer."""
    open_ended: frozenset[str] = frozenset()
    """Methods that are answered only when the client stops them."""
    killers: tuple[Step, ...] = ()
    """Sent first, after the opening: known programs died of these."""

    def steps(self, random: Random, count: int) -> list[Step]:
        """Return the opening and `count` random messages, in bursts."""
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
            return Step(
                random.choice(("", "unknown/method", "$/unknown", "_unknown")), boundary_value(random), waits=waits
            )
        if random.random() < _STRAY:
            return Step("", boundary_value(random), "stray", waits)
        params = instances.of(call.schema)
        if call.method == "tools/call" and is_object(params):
            number = random.randrange(_TOOLS)
            params |= {"name": f"{TOOL}{number}", "arguments": {ARGUMENTS: str(number)}}
        if random.random() < _CHANGED:
            for _ in range(random.choice((1, 1, 2, 3))):
                params = mutate(params, random)
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
    killers = _line_steps((*KILLER_LINES, *wrong_params(("session/new", "session/prompt"))))
    return (Target("acp1.schema", tuple(calls), opening, fixed, (cancel,), killers=killers),)


def _mcp() -> tuple[Target, ...]:
    return _mcp_of("2025-11-25"), _mcp_of("2026-07-28")


def _mcp_of(version: str) -> Target:
    name = f"mcp.{version}.schema"
    definitions = as_object(json_document(name)["$defs"])
    weights = {"tools/call": 6, "notifications/cancelled": 2}
    calls: list[Call] = []
    for union, kind in (("ClientRequest", "request"), ("ClientNotification", "notification")):
        alone = {"$ref": f"#/$defs/{union}"}  # a single message is not a union
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
        killers=_line_steps(
            (
                *KILLER_LINES,
                *wrong_params(("tools/list", "tools/call")),
                *killer_cancels(*stream),
            )
        ),
    )


TARGETS: Final[dict[str, Callable[[], tuple[Target, ...]]]] = {"acp": _acp, "mcp": _mcp}
"""By protocol. Each returns a target for each version; runs alternate between them."""
