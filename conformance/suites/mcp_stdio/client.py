"""The client that scenarios play for MCP servers in both versions, and what judges read about versions and results.

HANDSHAKE connections begin with `initialize`, which fixes the version for the connection. In MODERN, every request
states its version and the client's capabilities in `_meta`. Scenarios about neither use the version that the opening
found (`open_any`). The client offers no sampling, elicitation or roots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from conformance.documents import Source, json_document
from conformance.driver import Answer, Driver, StoppedError
from conformance.judging import Judge, Verdict, every, skipped
from conformance.schema import Check, Schema
from conformance.suite import Scenario
from conformance.suites.mcp_stdio.tool_schemas import CannotMakeError, made
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, at, is_object

HANDSHAKE: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
VERSIONS: Final = (HANDSHAKE, MODERN)
META: Final = "io.modelcontextprotocol/"
INFO: Final[Object] = {"name": "rewindow-conformance", "version": "1"}
LISTS: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""Methods with paged results, and the field of their items."""
_PAGES: Final = 50
"""A list with more pages counts as endless."""
_MOST_CALLS: Final = 6
"""How many tools to try until one answers."""
_SLOW: Final = 1000.0
"""Milliseconds. A call that takes longer is slow enough to be cancelled."""


@dataclass(slots=True)
class Client:
    """An open connection. `server` is the answer to its first request."""

    driver: Driver
    version: str
    server: Object = field(default_factory=dict[str, Any])

    def params(self, /, **fields: Any) -> Object:
        """Return params, with the `_meta` that MODERN requires."""
        if self.version == HANDSHAKE:
            return fields
        return {**fields, "_meta": {**meta(), **as_object(fields.get("_meta"))}}

    def ask(self, method: str, /, *, label: str = "", **fields: Any) -> Any:
        """Send a request without waiting, and return its id."""
        return self.driver.request(method, self.params(**fields), label=label)

    def asked(self, method: str, /, *, label: str = "", **fields: Any) -> Object | None:
        """Send a request and return its response, or None on timeout."""
        return self.driver.response(self.ask(method, label=label, **fields))

    def call(self, method: str, /, **fields: Any) -> Object:
        """Send a request and return its result. Raises StoppedError."""
        return self.driver.call(method, self.params(**fields))

    def offers(self, path: str) -> bool:
        """Whether the server advertises a capability: true, or an object."""
        value = at(self.server.get("capabilities"), path)
        return value is True or is_object(value)

    def need(self, path: str) -> None:
        """Raise StoppedError if the server does not advertise a capability."""
        if not self.offers(path):
            raise StoppedError(f"{path} is not advertised")

    def listed(self, method: str) -> list[Object]:
        """Return all items of all pages. Raises StoppedError for an error or an endless list."""
        items: list[Object] = []
        cursor: Object = {}
        for _ in range(_PAGES):
            page = self.call(method, **cursor)
            items += [as_object(item) for item in as_list(page.get(LISTS[method]))]
            if not isinstance(page.get("nextCursor"), str):
                return items
            cursor = {"cursor": page["nextCursor"]}
        raise StoppedError(f"{method} did not end after {_PAGES} pages")

    def probe(self) -> tuple[str, Object]:
        """Return the method and params of a request that every server of this version answers."""
        return ("ping" if self.version == HANDSHAKE else "server/discover"), self.params()

    def alive(self) -> None:
        """End a scenario: the server still answers."""
        method, params = self.probe()
        self.driver.response(self.driver.request(method, params, label="alive"))

    def cancel(self, request_id: Any) -> None:
        self.driver.notify("notifications/cancelled", {"requestId": request_id, "reason": "no longer wanted"})


def meta(version: str = MODERN, capabilities: Object | None = None) -> Object:
    """Return the `_meta` of a MODERN request."""
    return {
        f"{META}protocolVersion": version,
        f"{META}clientInfo": INFO,
        f"{META}clientCapabilities": capabilities or {},
    }


def initialize_params(version: str = HANDSHAKE, capabilities: Object | None = None) -> Object:
    return {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": INFO}


def open_as(driver: Driver, version: str) -> Client:
    """Open a connection. Raises StoppedError if the server does not support the version."""
    driver.answerers["ping"] = lambda _: Answer(result={})
    if version == HANDSHAKE:
        server = driver.call("initialize", initialize_params())
        if server.get("protocolVersion") != HANDSHAKE:
            raise StoppedError(f"the server speaks version {server.get('protocolVersion')}, not {HANDSHAKE}")
        driver.notify("notifications/initialized")
        return Client(driver, version, server)
    client = Client(driver, version)
    client.server = as_object(at(client.asked("server/discover"), "result"))
    if MODERN not in as_list(client.server.get("supportedVersions")):
        raise StoppedError(f"the server does not speak version {MODERN}")
    return client


def first_request(driver: Driver) -> tuple[str, Object]:
    """Return the first request of a connection in the opening's version: method and params."""
    if at(driver.facts.get("calibration"), "version") == MODERN:
        return "server/discover", {"_meta": meta()}
    return "initialize", initialize_params()


def start_seconds(driver: Driver) -> float:
    """Return how long the server's first answer took in the opening."""
    found = at(driver.facts.get("calibration"), "start_ms")
    return found / 1000 if isinstance(found, int | float) else 1.0


def open_any(driver: Driver) -> Client:
    """Open a connection in the opening's version, or in either."""
    found = at(driver.facts.get("calibration"), "version")
    versions = [found] if found in VERSIONS else list(VERSIONS)
    while True:
        version = versions.pop(0)
        try:
            return open_as(driver, version)
        except StoppedError:
            if not versions:
                raise


# --- tools that may be called -----------------------------------------------------------------------------------------


def is_safe(driver: Driver, tool: Object) -> bool:
    """Whether a tool may be called: it is read-only, named by the user, or all are allowed."""
    named = (driver.options.tool, driver.options.slow_tool)
    return (
        driver.options.allow_destructive
        or as_text(tool.get("name")) in named
        or at(tool.get("annotations"), "readOnlyHint") is True
    )


def arguments_of(driver: Driver, tool: Object) -> Object:
    """Return the arguments for a tool, from the user or from its schema. Raises CannotMakeError."""
    options = driver.options
    for name, given in ((options.tool, options.arguments), (options.slow_tool, options.slow_arguments)):
        if tool.get("name") == name and given is not None:
            return given
    value = made(tool.get("inputSchema"), options.cwd)
    if not is_object(value):
        raise CannotMakeError("the schema does not describe an object")
    return value


def candidates(driver: Driver, tools: list[Object]) -> list[Object]:
    """Return calls to try, as params of `tools/call`: the user's tool, else the safe ones."""
    named = driver.options.tool
    if named is not None:
        tools = [tool for tool in tools if tool.get("name") == named]
        if not tools:
            raise StoppedError(f"the server has no tool {named}")
    calls: list[Object] = []
    for tool in tools:
        name = tool.get("name")
        if isinstance(name, str) and is_safe(driver, tool) and (named or name != driver.options.slow_tool):
            try:
                calls.append({"name": name, "arguments": arguments_of(driver, tool)})
            except CannotMakeError:
                continue
    return calls[:_MOST_CALLS]


def known_calls(driver: Driver) -> list[Object]:
    """Return calls that the opening saw answered, those without an error first. Raises StoppedError for none."""
    calls = [as_object(call) for call in as_list(at(driver.facts.get("calibration"), "calls"))]
    if not calls:
        raise StoppedError("no read-only tool may be called: name a tool with --tool")
    return [{"name": call.get("name"), "arguments": call.get("arguments")} for call in calls]


def slow_call(client: Client) -> Object:
    """Return a call that takes at least a second. Raises StoppedError if none is known."""
    driver = client.driver
    name = driver.options.slow_tool
    if name is not None:
        tool = next((tool for tool in client.listed("tools/list") if tool.get("name") == name), None)
        if tool is None:
            raise StoppedError(f"the server has no tool {name}")
        try:
            return {"name": name, "arguments": arguments_of(driver, tool)}
        except CannotMakeError as error:
            raise StoppedError(f"cannot make arguments for {name}: {error}") from None
    for call in map(as_object, as_list(at(driver.facts.get("calibration"), "calls"))):
        if isinstance(call.get("ms"), int | float) and call["ms"] >= _SLOW:
            return {"name": call.get("name"), "arguments": call.get("arguments")}
    raise StoppedError("no slow tool is known: name one with --slow-tool")


# --- scenarios in both versions ---------------------------------------------------------------------------------------


def in_both(name: str, text: str, run: Callable[[Client], None], *, alone: bool = False) -> tuple[Scenario, ...]:
    """Return a scenario for each version, with the version at the end of its name.

    Requirements do not name them. They apply to both versions and judge by marks.
    """

    def in_one(version: str) -> Scenario:
        def opened(driver: Driver) -> None:
            run(open_as(driver, version))

        return Scenario(f"{name}-{version}", f"{text} (Version {version}.)", opened, alone=alone, passive=True)

    return tuple(in_one(version) for version in VERSIONS)


# --- what judges read -------------------------------------------------------------------------------------------------


_RESULTS: Final = {
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "ping": "EmptyResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "completion/complete": "CompleteResult",
    "logging/setLevel": "EmptyResult",
    "subscriptions/listen": "SubscriptionsListenResult",
}


def schema(place: str, quote: str, version: str = HANDSHAKE) -> Source:
    return Source(f"mcp.{version}.schema", place, quote)


def prose(page: str, quote: str, version: str = HANDSHAKE) -> Source:
    return Source(f"mcp.{version}.prose", page, quote)


@cache
def definition(name: str, version: str = HANDSHAKE) -> Check:
    """Return the compiled check of a definition in a version's schema."""
    return _schema(version).definition(name)


@cache
def _schema(version: str) -> Schema:
    return Schema(json_document(f"mcp.{version}.schema"))


# --- versions and capabilities ----------------------------------------------------------------------------------------


def meta_of(message: Message) -> Object:
    return as_object(message.params.get("_meta"))


def version_of(request: Message) -> str:
    """Return a request's version: from its `_meta`, else that of the handshake."""
    return as_text(meta_of(request).get(f"{META}protocolVersion")) or HANDSHAKE


def handshakes(traffic: Traffic) -> list[Message]:
    """Return the results of initialize that agreed on HANDSHAKE."""
    return [
        request.answer
        for request in traffic.requests("client", "initialize")
        if request.answer is not None and request.answer.result.get("protocolVersion") == HANDSHAKE
    ]


def discoveries(traffic: Traffic) -> list[Message]:
    """Return the results of server/discover that include MODERN."""
    return [
        request.answer
        for request in traffic.requests("client", "server/discover")
        if request.answer is not None and MODERN in as_list(request.answer.result.get("supportedVersions"))
    ]


def capability(traffic: Traffic, wanted: str) -> bool | None:
    """Whether the server advertises all of these words: a version, or a dotted path of its capabilities.

    With a version, a path is looked up in the answer for that version, else in any. None if unknown. Whether the server
    supports the handshake follows from the opening, because scenarios try versions that it refuses.
    """
    found = {HANDSHAKE: handshakes(traffic), MODERN: discoveries(traffic)}
    words = wanted.split()
    if wanted == HANDSHAKE and "calibration" in traffic.transcript.facts:
        return at(traffic.transcript.facts, "calibration.version") == HANDSHAKE
    versions = [word for word in words if word in found]
    answers = [answer for version in versions or found for answer in found[version]]
    if not answers:
        asked = traffic.requests("client", "initialize", "server/discover")
        return False if any(request.answer is not None for request in asked) else None
    capabilities = as_object(answers[0].result.get("capabilities"))
    return all(_is_on(at(capabilities, word)) for word in words if word not in found)


def offers(traffic: Traffic, name: str) -> bool:
    """Whether any answer in this traffic advertises a capability."""
    return any(
        _is_on(at(answer.result.get("capabilities"), name)) for answer in (*handshakes(traffic), *discoveries(traffic))
    )


def _is_on(value: object) -> bool:
    return value is True or is_object(value)


def is_modern(traffic: Traffic) -> bool:
    """Whether only MODERN was agreed on, so that the server's own messages have that version."""
    return bool(discoveries(traffic)) and not handshakes(traffic)


# --- results and notifications ----------------------------------------------------------------------------------------


def answered_requests(traffic: Traffic, *methods: str) -> list[Message]:
    """Return requests with these methods that have a result, in order."""
    return [request for request in traffic.requests("client", *methods) if request.succeeded]


def answers_to(traffic: Traffic, *methods: str) -> list[Message]:
    """Return the results of these methods, in the order of their requests."""
    return [request.answer for request in answered_requests(traffic, *methods) if request.answer is not None]


def result_problem(answer: Message) -> str:
    """Describe how a result violates the schema of its request's version; empty if it does not.

    Fields that MODERN adds to every result belong to other requirements.
    """
    request = answer.answers
    value = answer.object.get("result")
    if request is None or version_of(request) not in (HANDSHAKE, MODERN):
        return ""
    name = _RESULTS[request.method]
    if version_of(request) == MODERN and is_object(value):
        if value.get("resultType") == "input_required":
            name = "InputRequiredResult"
        value = {**value, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    try:
        check = definition(name, version_of(request))
    except LookupError:
        return ""  # a method of another version, which another requirement reports
    wrong = check(value)
    return f"the result of {request.method}: {wrong}" if wrong else ""


def results_fit_schema(*methods: str) -> Judge:
    """Results of these methods have the shape in the schema of their version."""
    return every(
        lambda traffic: answers_to(traffic, *methods),
        result_problem,
        lambda: skipped(f"{' and '.join(methods)} had no result"),
    )


def when(label: str, judge: Judge) -> Judge:
    """Judge transcripts with a mark; skip others."""

    def judged(traffic: Traffic) -> Verdict:
        if traffic.marks(label):
            return judge(traffic)
        stopped = traffic.marks("stopped")
        return skipped(str(stopped[0].value) if stopped else "no message of this kind was sent")

    return judged


def notifications_fit_schema(shapes: dict[str, str]) -> Judge:
    """Notifications with these methods have params of these definitions."""

    def found(traffic: Traffic) -> list[Message]:
        return [m for m in traffic.sent("server") if m.is_notification and m.method in shapes]

    def problem(message: Message) -> str:
        checks = [definition(shapes[message.method], version) for version in _defining(shapes[message.method])]
        problems = [check(message.object.get("params", {})) for check in checks]
        return f"the params of {message.method}: {problems[-1]}" if all(problems) else ""

    return every(found, problem, lambda: skipped("the server sent no notification of this kind"))


@cache
def _defining(name: str) -> tuple[str, ...]:
    versions = [v for v in (HANDSHAKE, MODERN) if name in as_object(json_document(f"mcp.{v}.schema")["$defs"])]
    return tuple(versions)


def listed(traffic: Traffic, method: str, field: str) -> list[tuple[Message, list[Object]]]:
    """Return every page of a list with its items, in the order of the answers."""
    return [
        (request, [as_object(item) for item in as_list(request.answer.result.get(field))])
        for request in answered_requests(traffic, method)
        if request.answer is not None
    ]


def subscription_of(message: Message) -> Any:
    """Return the stream id in a notification, or None."""
    return meta_of(message).get(f"{META}subscriptionId")
