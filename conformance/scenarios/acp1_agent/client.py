"""What the scenarios' client does as editors do: opens connections and sessions, prompts, serves files and terminals.

Files and terminals are pretended, so that nothing of the user's machine is touched at an agent's word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.driver import Answer, Driver, StoppedError
from conformance.values import Object, as_list, as_object, as_text, at, is_object

VERSION: Final = 1
FULL: Final[Object] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
}
"""Everything of a client that agents may use, but elicitation, which asks people."""
NONE: Final[Object] = {}
QUIET: Final = 0.5
"""Seconds in which nothing may follow where a turn has ended."""


def initialize(driver: Driver, capabilities: Object = FULL, version: object = VERSION) -> Object:
    """Opens the connection; returns the result. Raises StoppedError."""
    params: Object = {"protocolVersion": version, "clientCapabilities": capabilities}
    return driver.call("initialize", {**params, "clientInfo": {"name": "rewindow-conformance", "version": "1"}})


def begin(driver: Driver, capabilities: Object = FULL, *, permit: str = "allow_once") -> Object:
    """Opens the connection as an editor that serves what it advertises; authenticates where the user said how."""
    Editor(permit=permit).serve(driver, capabilities)
    result = initialize(driver, capabilities)
    if driver.options.auth is not None:
        driver.call("authenticate", {"methodId": driver.options.auth})
    return result


def new_session_params(driver: Driver, **more: Any) -> Object:
    return {"cwd": driver.options.cwd, "mcpServers": [], **more}


def open_session(driver: Driver, **more: Any) -> str:
    """A new session's id. Raises StoppedError."""
    session = as_text(driver.call("session/new", new_session_params(driver, **more)).get("sessionId"))
    if not session:
        raise StoppedError("session/new was answered without a sessionId")
    return session


def text_block(text: str) -> Object:
    return {"type": "text", "text": text}


def prompt_params(session: str, *blocks: Object) -> Object:
    return {"sessionId": session, "prompt": list(blocks)}


def start_turn(driver: Driver, session: str, text: str, label: str = "") -> Any:
    """Prompts without waiting; returns the request's id."""
    return driver.request("session/prompt", prompt_params(session, text_block(text)), label=label)


def finish_turn(driver: Driver, request_id: Any) -> Object | None:
    """The response to a prompt, for which there is time as long as the scenario has."""
    return driver.response(request_id, driver.options.scenario_timeout)


def turn(driver: Driver, session: str, text: str) -> Object | None:
    """A whole turn; the response, or None where there is none in time."""
    return finish_turn(driver, start_turn(driver, session, text))


def update_of(message: Object, *kinds: str) -> bool:
    """Whether it is a session/update, of one of these kinds if any are named."""
    kind = at(message, "params.update.sessionUpdate")
    return message.get("method") == "session/update" and (not kinds or kind in kinds)


def is_working(message: Object) -> bool:
    """Whether an agent that sends this is in the middle of a turn."""
    return update_of(message, "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan")


def advertises(driver: Driver, path: str) -> bool:
    """Whether the agent's answer to initialize holds a capability: true, or an object."""
    first = next((m for m in driver.received if isinstance(at(m, "result.protocolVersion"), int)), None)
    value = at(first, f"result.agentCapabilities.{path}")
    return value is True or is_object(value)


def need(driver: Driver, path: str) -> None:
    """Raises StoppedError where the agent does not advertise a capability, since it must not be used then."""
    if not advertises(driver, path):
        raise StoppedError(f"{path} is not advertised")


def selected(option_id: str) -> Answer:
    return Answer(result={"outcome": {"outcome": "selected", "optionId": option_id}})


CANCELLED: Final = Answer(result={"outcome": {"outcome": "cancelled"}})


@dataclass(slots=True)
class Editor:
    """The client's side of an ordinary turn: permissions by kind, files in memory, terminals that end at once."""

    permit: str = "allow_once"
    files: dict[str, str] = field(default_factory=dict[str, str])
    _terminals: dict[str, bool] = field(default_factory=dict[str, bool])
    """Whether each was released."""

    def serve(self, driver: Driver, capabilities: Object) -> None:
        """Answers from now on what the capabilities advertise, and permissions."""
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
            return Answer.failing(-32002, f"there is no file {path}")
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
                return Answer.failing(-32002, f"there is no terminal {terminal}")
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
    """The first option of a kind; else of one that begins alike (allow, reject); else the first, or a cancellation."""
    options = [as_object(option) for option in as_list(params.get("options"))]
    alike = [option for option in options if as_text(option.get("kind")).startswith(kind.split("_", maxsplit=1)[0])]
    exact = [option for option in options if option.get("kind") == kind]
    for option in (*exact, *alike, *options):
        if isinstance(option.get("optionId"), str):
            return selected(option["optionId"])
    return CANCELLED
