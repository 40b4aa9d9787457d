"""The client that scenarios play for agents, and what judges read about sessions, turns and updates.

The client behaves like an editor: it opens sessions, prompts, and serves files and terminals. Both are fake, so that an
agent cannot touch the user's machine through it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.driver import Answer, Driver, StoppedError
from conformance.suites.acp1 import definition, prose, session_of
from conformance.suites.jsonrpc_rules import Subject
from conformance.suites.jsonrpc_scenarios import Probe
from conformance.traffic import Message, Traffic, id_key
from conformance.values import Object, as_list, as_object, as_text, at, is_object

VERSION: Final = 1
FULL: Final[Object] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
}
"""Every client capability except elicitation, which asks people."""
NONE: Final[Object] = {}
QUIET: Final = 0.5
"""Seconds of silence to expect after a turn."""
AGENT: Final = Subject(
    "agent",
    prose,
    definition,
    may_refuse=(
        *("authenticate", "logout", "relative-cwd", "without-cwd", "cwd-number", "again", "bad-cursor"),
        *("delete", "delete-again", "close", "prompt", "no-params"),
        *("set-mode", "unknown-mode", "set-option", "unknown-option", "unknown-value"),
    ),
)


def initialize(driver: Driver, capabilities: Object = FULL, version: object = VERSION) -> Object:
    """Initialize the connection and return the result. Raises StoppedError."""
    params: Object = {"protocolVersion": version, "clientCapabilities": capabilities}
    return driver.call("initialize", {**params, "clientInfo": {"name": "rewindow-conformance", "version": "1"}})


def begin(driver: Driver, capabilities: Object = FULL, *, permit: str = "allow_once") -> Object:
    """Initialize as an editor that serves its capabilities, and authenticate if the user chose a method."""
    Editor(permit=permit).serve(driver, capabilities)
    result = initialize(driver, capabilities)
    if driver.options.auth is not None:
        driver.call("authenticate", {"methodId": driver.options.auth})
    return result


def new_session_params(driver: Driver, **more: Any) -> Object:
    return {"cwd": driver.options.cwd, "mcpServers": [], **more}


def open_session(driver: Driver, **more: Any) -> str:
    """Open a session and return its id. Raises StoppedError."""
    session = as_text(driver.call("session/new", new_session_params(driver, **more)).get("sessionId"))
    if not session:
        raise StoppedError("session/new was answered without a sessionId")
    return session


def open_probe(driver: Driver) -> Probe:
    """Begin as a client without capabilities. Return the connection with session/new as its probe."""
    begin(driver, NONE)
    return Probe(driver, "session/new", new_session_params(driver))


def text_block(text: str) -> Object:
    return {"type": "text", "text": text}


def prompt_params(session: str, *blocks: Object) -> Object:
    return {"sessionId": session, "prompt": list(blocks)}


def start_turn(driver: Driver, session: str, text: str, label: str = "") -> Any:
    """Send a prompt without waiting and return its id."""
    return driver.request("session/prompt", prompt_params(session, text_block(text)), label=label)


def finish_turn(driver: Driver, request_id: Any) -> Object | None:
    """Return the response to a prompt, waiting until the scenario's limit."""
    return driver.response(request_id, driver.options.scenario_timeout)


def turn(driver: Driver, session: str, text: str) -> Object | None:
    """Run a turn and return the response, or None on timeout."""
    return finish_turn(driver, start_turn(driver, session, text))


def update_of(message: Object, *kinds: str) -> bool:
    """Return whether a message is a session/update, optionally of these kinds."""
    kind = at(message, "params.update.sessionUpdate")
    return message.get("method") == "session/update" and (not kinds or kind in kinds)


def is_working(message: Object) -> bool:
    """Whether an agent that sends this message is in the middle of a turn."""
    return update_of(message, "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan")


def advertises(driver: Driver, path: str) -> bool:
    """Whether the agent advertises a capability: true, or an object."""
    first = next((m for m in driver.received if isinstance(at(m, "result.protocolVersion"), int)), None)
    value = at(first, f"result.agentCapabilities.{path}")
    return value is True or is_object(value)


def need(driver: Driver, path: str) -> None:
    """Raise StoppedError if the agent does not advertise a capability."""
    if not advertises(driver, path):
        raise StoppedError(f"{path} is not advertised")


def selected(option_id: str) -> Answer:
    return Answer(result={"outcome": {"outcome": "selected", "optionId": option_id}})


CANCELLED: Final = Answer(result={"outcome": {"outcome": "cancelled"}})


@dataclass(slots=True)
class Editor:
    """The client's side of a normal turn: permissions by kind, files in memory, terminals that exit at once."""

    permit: str = "allow_once"
    files: dict[str, str] = field(default_factory=dict[str, str])
    _terminals: dict[str, bool] = field(default_factory=dict[str, bool])
    """Whether each terminal was released."""

    def serve(self, driver: Driver, capabilities: Object) -> None:
        """Answer permissions and the methods of these capabilities."""
        answerers: dict[str, Callable[[Object], Answer]] = {"session/request_permission": self._permission}
        if at(capabilities, "fs.readTextFile") is True:
            answerers["fs/read_text_file"] = self._read
        if at(capabilities, "fs.writeTextFile") is True:
            answerers["fs/write_text_file"] = self._write
        if capabilities.get("terminal") is True:
            answerers["terminal/create"] = self._create
            for name, result in _TERMINAL_RESULTS.items():
                answerers[f"terminal/{name}"] = self._on_terminal(name, result)
        driver.answerers.update(answerers)

    def _permission(self, params: Object) -> Answer:
        return choose(params, self.permit)

    def _read(self, params: Object) -> Answer:
        path = as_text(params.get("path"))
        if path not in self.files:
            return Answer.failing(-32002, f"the file {path} does not exist")
        lines = self.files[path].splitlines(keepends=True)
        first = params.get("line")
        limit = params.get("limit")
        begin = first - 1 if isinstance(first, int) and first > 0 else 0
        end = begin + limit if isinstance(limit, int) else None
        return Answer(result={"content": "".join(lines[begin:end])})

    def _write(self, params: Object) -> Answer:
        self.files[as_text(params.get("path"))] = as_text(params.get("content"))
        return Answer(result={})

    def _create(self, _params: Object) -> Answer:
        name = f"terminal-{len(self._terminals) + 1}"
        self._terminals[name] = False
        return Answer(result={"terminalId": name})

    def _on_terminal(self, name: str, result: Object) -> Callable[[Object], Answer]:
        def answer(params: Object) -> Answer:
            terminal = as_text(params.get("terminalId"))
            if self._terminals.get(terminal, True):
                return Answer.failing(-32002, f"the terminal {terminal} does not exist")
            self._terminals[terminal] = name == "release"
            return Answer(result=result)

        return answer


_TERMINAL_RESULTS: Final[dict[str, Object]] = {
    "output": {"output": "ok\n", "truncated": False, "exitStatus": {"exitCode": 0, "signal": None}},
    "wait_for_exit": {"exitCode": 0, "signal": None},
    "kill": {},
    "release": {},
}


def choose(params: Object, kind: str) -> Answer:
    """Return the first option of a kind, else of a similar kind (allow, reject), else the first; or cancel."""
    options = [as_object(option) for option in as_list(params.get("options"))]
    alike = [option for option in options if as_text(option.get("kind")).startswith(kind.split("_", maxsplit=1)[0])]
    exact = [option for option in options if option.get("kind") == kind]
    for option in (*exact, *alike, *options):
        if isinstance(option.get("optionId"), str):
            return selected(option["optionId"])
    return CANCELLED


# --- what judges read -------------------------------------------------------------------------------------------------


def updates(traffic: Traffic, *kinds: str) -> list[tuple[Message, Object]]:
    """Return every session/update with its content, optionally of these kinds."""
    return traffic.derived(("acp1.updates", kinds), lambda _: _updates(traffic, kinds))


def _updates(traffic: Traffic, kinds: tuple[str, ...]) -> list[tuple[Message, Object]]:
    if kinds:
        return [pair for pair in updates(traffic) if pair[1].get("sessionUpdate") in kinds]
    return [(m, as_object(m.params.get("update"))) for m in traffic.notifications("server", "session/update")]


def updates_between(
    traffic: Traffic, session: str, after: int, before: int, *kinds: str
) -> list[tuple[Message, Object]]:
    """Return a session's updates of these kinds between two positions (`Message.order`)."""
    found = traffic.derived(("acp1.updates of sessions", kinds), lambda _: _by_session(updates(traffic, *kinds)))
    of_session = found.get(session, [])
    first = bisect_right(of_session, after, key=_place)
    return of_session[first : bisect_left(of_session, before, lo=first, key=_place)]


def _by_session(found: Iterable[tuple[Message, Object]]) -> dict[str, list[tuple[Message, Object]]]:
    grouped: dict[str, list[tuple[Message, Object]]] = defaultdict(list)
    for message, update in found:
        grouped[session_of(message)].append((message, update))
    return grouped


def _place(pair: tuple[Message, Object]) -> int:
    return pair[0].order


def next_of(traffic: Traffic, message: Message, *methods: str) -> int:
    """Return the position of the client's next message with one of these methods in the same session.

    Without one, the position is beyond all messages.
    """
    places = traffic.derived(("acp1.places of sessions", methods), lambda _: _places(traffic, methods))
    of_session = places.get(session_of(message), [])
    later = bisect_right(of_session, message.order)
    return of_session[later] if later < len(of_session) else len(traffic.messages)


def _places(traffic: Traffic, methods: tuple[str, ...]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for message in traffic.sent("client"):
        if message.method in methods:
            grouped[session_of(message)].append(message.order)
    return grouped


def capability(traffic: Traffic, path: str) -> bool | None:
    """Whether the agent advertises a capability; None if initialize was not answered."""
    for request in traffic.requests("client", "initialize"):
        if request.answer is not None and request.succeeded:
            value = at(request.answer.result, f"agentCapabilities.{path}")
            return value is True or is_object(value)
    return None


def auth_methods(traffic: Traffic) -> list[Object] | None:
    """Return the agent's authentication methods; None if initialize has no result."""
    for request in traffic.requests("client", "initialize"):
        if request.answer is not None and request.succeeded:
            return [as_object(method) for method in as_list(request.answer.result.get("authMethods"))]
    return None


def client_advertises(traffic: Traffic, path: str) -> bool:
    """Whether the client advertises a capability: true, or an object."""
    for request in traffic.requests("client", "initialize"):
        value = at(request.params, f"clientCapabilities.{path}")
        return value is True or is_object(value)
    return False


def is_cancelled(traffic: Traffic, prompt: Message) -> bool:
    """Whether the client cancelled this prompt's turn in any way while it ran."""
    end = prompt.answer.order if prompt.answer else len(traffic.messages)
    requests = traffic.notifications("client", "$/cancel_request")
    of_request = (m for m in requests if id_key(m.params.get("requestId")) == id_key(prompt.id))
    return next_of(traffic, prompt, "session/cancel", "session/close") < end or any(
        prompt.order < m.order < end for m in of_request
    )


def paths(value: object) -> Iterator[tuple[str, str]]:
    """Yield each path in a tool call's locations and diffs, with its position."""
    call = as_object(value)
    for index, location in enumerate(as_list(call.get("locations"))):
        if isinstance(as_object(location).get("path"), str):
            yield f"locations/{index}", location["path"]
    for index, content in enumerate(as_list(call.get("content"))):
        if as_object(content).get("type") == "diff" and isinstance(content.get("path"), str):
            yield f"content/{index}", content["path"]


def text_of(update: Object) -> str:
    """Return the text of a chunk; empty for other content."""
    return as_text(as_object(update.get("content")).get("text"))


def tool_calls(traffic: Traffic) -> list[tuple[Message, Object]]:
    """Return every report about a tool call: new calls, changes, and permission requests."""
    return traffic.derived("acp1.tool_calls", _tool_calls)


def _tool_calls(traffic: Traffic) -> list[tuple[Message, Object]]:
    asked: list[tuple[Message, Any]] = [
        (m, as_object(m.params.get("toolCall"))) for m in traffic.requests("server", "session/request_permission")
    ]
    found = [*updates(traffic, "tool_call", "tool_call_update"), *asked]
    return sorted(found, key=lambda pair: pair[0].order)
