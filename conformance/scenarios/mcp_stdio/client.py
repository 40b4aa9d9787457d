"""What the scenarios' client does as MCP clients do, in both versions: it opens, asks, lists and calls.

HANDSHAKE connections begin with `initialize`, and what was agreed holds for the connection. In MODERN every request
says in `_meta` which version it speaks and what the client can do. Scenarios that are about neither take the version
that the opening found (`open_any`). Nothing is offered to servers: no sampling, no elicitation, no roots.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from conformance.driver import Answer, Driver, StoppedError
from conformance.scenarios.mcp_stdio.making import CannotMakeError, made
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
"""Methods that answer with pages, and the field of their items."""
_PAGES: Final = 50
"""After so many pages a list is taken to have no end."""
_MOST_CALLS: Final = 6
"""Tools that are tried until one answers."""
_SLOW: Final = 1000.0
"""Milliseconds from which a call is slow enough to be cancelled."""


@dataclass(slots=True)
class Client:
    """An open connection. `server` is what the server answered to its first request."""

    driver: Driver
    version: str
    server: Object = field(default_factory=dict[str, Any])

    def params(self, /, **fields: Any) -> Object:
        """The params of a request: with what MODERN wants in `_meta`, beside what is given there."""
        if self.version == HANDSHAKE:
            return fields
        return {**fields, "_meta": {**meta(), **as_object(fields.get("_meta"))}}

    def ask(self, method: str, /, *, label: str = "", **fields: Any) -> Any:
        """Sends a request without waiting; returns its id."""
        return self.driver.request(method, self.params(**fields), label=label)

    def asked(self, method: str, /, *, label: str = "", **fields: Any) -> Object | None:
        """Sends a request; its response, or None where there is none in time."""
        return self.driver.response(self.ask(method, label=label, **fields))

    def call(self, method: str, /, **fields: Any) -> Object:
        """Sends a request and returns its result. Raises StoppedError."""
        return self.driver.call(method, self.params(**fields))

    def offers(self, path: str) -> bool:
        """Whether the server advertises a capability: true, or an object."""
        value = at(self.server.get("capabilities"), path)
        return value is True or is_object(value)

    def need(self, path: str) -> None:
        """Raises StoppedError where the server does not advertise a capability."""
        if not self.offers(path):
            raise StoppedError(f"{path} is not advertised")

    def listed(self, method: str) -> list[Object]:
        """Every item of every page. Raises StoppedError where a page is no result, or there is no last one."""
        items: list[Object] = []
        cursor: Object = {}
        for _ in range(_PAGES):
            page = self.call(method, **cursor)
            items += [as_object(item) for item in as_list(page.get(LISTS[method]))]
            if not isinstance(page.get("nextCursor"), str):
                return items
            cursor = {"cursor": page["nextCursor"]}
        raise StoppedError(f"{method} had no last page after {_PAGES}")

    def probe(self) -> tuple[str, Object]:
        """A request that every server of this version answers: its method and params."""
        return ("ping" if self.version == HANDSHAKE else "server/discover"), self.params()

    def alive(self) -> None:
        """Ends a scenario: the server still answers."""
        method, params = self.probe()
        self.driver.response(self.driver.request(method, params, label="alive"))

    def cancel(self, request_id: Any) -> None:
        self.driver.notify("notifications/cancelled", {"requestId": request_id, "reason": "no longer wanted"})


def meta(version: str = MODERN, capabilities: Object | None = None) -> Object:
    """What every request of MODERN has in `_meta`."""
    return {
        f"{META}protocolVersion": version,
        f"{META}clientInfo": INFO,
        f"{META}clientCapabilities": capabilities or {},
    }


def initialize_params(version: str = HANDSHAKE, capabilities: Object | None = None) -> Object:
    return {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": INFO}


def open_as(driver: Driver, version: str) -> Client:
    """Opens a connection. Raises StoppedError where the server does not speak this version."""
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
    """What a connection begins with, in the version that the opening found: method and params."""
    if at(driver.facts.get("calibration"), "version") == MODERN:
        return "server/discover", {"_meta": meta()}
    return "initialize", initialize_params()


def start_seconds(driver: Driver) -> float:
    """How long the server took to answer for the first time, in the opening."""
    found = at(driver.facts.get("calibration"), "start_ms")
    return found / 1000 if isinstance(found, int | float) else 1.0


def open_any(driver: Driver) -> Client:
    """Opens a connection in the version that the opening found, or in either."""
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
    """Whether a tool may be called: it says that it changes nothing, or the user named it, or allows all."""
    named = (driver.options.tool, driver.options.slow_tool)
    return (
        driver.options.allow_destructive
        or as_text(tool.get("name")) in named
        or at(tool.get("annotations"), "readOnlyHint") is True
    )


def arguments_of(driver: Driver, tool: Object) -> Object:
    """What to call a tool with: what the user said, else made from its schema. Raises CannotMakeError."""
    options = driver.options
    for name, given in ((options.tool, options.arguments), (options.slow_tool, options.slow_arguments)):
        if tool.get("name") == name and given is not None:
            return given
    value = made(tool.get("inputSchema"), options.cwd)
    if not is_object(value):
        raise CannotMakeError("its schema is not for an object")
    return value


def candidates(driver: Driver, tools: list[Object]) -> list[Object]:
    """Calls to try, as params of `tools/call`: the tool that the user named, else the safe ones."""
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
    """Calls that the opening saw answered, those without an error first. Raises StoppedError where there is none."""
    calls = [as_object(call) for call in as_list(at(driver.facts.get("calibration"), "calls"))]
    if not calls:
        raise StoppedError("no tool may be called that says it changes nothing: name one with --tool")
    return [{"name": call.get("name"), "arguments": call.get("arguments")} for call in calls]


def slow_call(client: Client) -> Object:
    """A call that takes a second at least. Raises StoppedError where none is known."""
    driver = client.driver
    name = driver.options.slow_tool
    if name is not None:
        tool = next((tool for tool in client.listed("tools/list") if tool.get("name") == name), None)
        if tool is None:
            raise StoppedError(f"the server has no tool {name}")
        try:
            return {"name": name, "arguments": arguments_of(driver, tool)}
        except CannotMakeError as error:
            raise StoppedError(f"arguments of {name} cannot be made: {error}") from None
    for call in map(as_object, as_list(at(driver.facts.get("calibration"), "calls"))):
        if isinstance(call.get("ms"), int | float) and call["ms"] >= _SLOW:
            return {"name": call.get("name"), "arguments": call.get("arguments")}
    raise StoppedError("no tool is known whose call takes seconds: name one with --slow-tool")
