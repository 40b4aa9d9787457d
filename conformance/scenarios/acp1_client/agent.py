"""What the scenarios' agent does as agents do: answers initialize, opens sessions, waits for a prompt, ends its turn.

A client needs no person to come so far: it connects, opens one session and sends one prompt. What a scenario is about
happens before, or within that turn; what happens within a turn can also be done in an editor's chat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.driver import WITHHELD, Answer, Driver, StoppedError
from conformance.values import Object, as_object, as_text, at, is_object

VERSION: Final = 1
QUIET: Final = 0.3
"""Seconds in which a client takes note of the end of its turn."""
PROBE: Final = "_rewindow_conformance/alive"
"""A request that no client knows, and that every client answers."""
EVERYTHING: Final[Object] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
    "auth": {"logout": {}},
}


def initialized(**more: Any) -> Object:
    """An ordinary answer to initialize, of an agent that advertises nothing."""
    info = {"name": "rewindow-conformance", "title": "Conformance", "version": "1"}
    return {"protocolVersion": VERSION, "agentCapabilities": {}, "agentInfo": info, "authMethods": [], **more}


@dataclass(slots=True)
class Agent:
    """How the agent answers on the way to a turn. Fields are replaced where a scenario is about them."""

    initialize: Answer = field(default_factory=lambda: Answer(result=initialized()))
    session: Object = field(default_factory=dict[str, Any])
    """Fields of the answer to session/new, besides the id."""
    made: int = 0
    directories: dict[str, str] = field(default_factory=dict[str, str])
    """Of each session that was made, the working directory."""

    def serve(self, driver: Driver) -> None:
        """Answers from now on what clients ask of agents."""
        driver.answerers.update(
            {
                "initialize": lambda _: self.initialize,
                "authenticate": lambda _: Answer(result={}),
                "session/new": self._new,
                "session/set_mode": lambda _: Answer(result={}),
                "session/set_config_option": lambda _: Answer(
                    result={"configOptions": self.session.get("configOptions", [])}
                ),
                "session/prompt": lambda _: WITHHELD,
            }
        )
        if as_object(at(self.initialize.result, "agentCapabilities")):
            driver.answerers.update(_OFFERED)

    def _new(self, params: Object) -> Answer:
        self.made += 1
        name = f"session-{self.made}"
        self.directories[name] = as_text(params.get("cwd"))
        return Answer(result={"sessionId": name, **self.session})


_OFFERED: Final[dict[str, Callable[[Object], Answer]]] = {
    "session/load": lambda _: Answer.failing(-32002, "There is no such session"),
    "session/resume": lambda _: Answer.failing(-32002, "There is no such session"),
    "session/list": lambda _: Answer(result={"sessions": []}),
    "session/delete": lambda _: Answer(result={}),
    "session/close": lambda _: Answer(result={}),
    "logout": lambda _: Answer(result={}),
}


@dataclass(slots=True)
class Turn:
    """A prompt that the client has sent, and waits for."""

    driver: Driver
    prompt: Object
    cwd: str
    is_over: bool = False

    @property
    def session(self) -> str:
        return as_text(at(self.prompt, "params.sessionId"))

    def update(self, kind: str, /, **fields: Any) -> None:
        """Reports something to the client."""
        self.driver.notify("session/update", {"sessionId": self.session, "update": {"sessionUpdate": kind, **fields}})

    def ask(self, method: str, label: str = "", /, **params: Any) -> Any:
        """Sends the client a request about this session; returns its id."""
        return self.driver.request(method, {"sessionId": self.session, **params}, label=label)

    def call(self, method: str, label: str = "", /, **params: Any) -> Object | None:
        """Asks, and waits; the response, or None where there is none in time."""
        return self.driver.response(self.ask(method, label, **params))

    def end(self, reason: str = "end_turn") -> None:
        """Answers the prompt; twice is once."""
        if not self.is_over:
            self.is_over = True
            self.driver.answer(self.prompt, Answer(result={"stopReason": reason}))

    def offers(self, path: str) -> bool:
        """Whether the client advertises a capability."""
        asked = next((m for m in self.driver.received if m.get("method") == "initialize"), None)
        value = at(asked, f"params.clientCapabilities.{path}")
        return value is True or is_object(value)

    def need(self, path: str) -> None:
        """Raises StoppedError where the client does not advertise a capability, since it must not be used then."""
        if not self.offers(path):
            raise StoppedError(f"{path} is not advertised")

    def probe(self, label: str) -> bool:
        """Whether the client still answers."""
        return self.driver.response(self.driver.request(PROBE, {}, label=label)) is not None


def wait_for(driver: Driver, method: str) -> Object:
    """The client's request. Raises StoppedError."""
    found = driver.wait(lambda message: message.get("method") == method)
    if found is None:
        raise StoppedError(f"the client did not call {method}")
    return found


def open_turn(driver: Driver, agent: Agent | None = None) -> Turn:
    """The client's first turn. Raises StoppedError where the client does not come so far."""
    (agent or Agent()).serve(driver)
    wait_for(driver, "initialize")
    opened = wait_for(driver, "session/new")
    return Turn(driver, wait_for(driver, "session/prompt"), as_text(at(opened, "params.cwd")))


def finish(turn: Turn, reason: str = "end_turn") -> None:
    """Ends the turn as an agent does that has done its work."""
    turn.end(reason)
    turn.driver.pause(QUIET)


@dataclass(frozen=True, slots=True)
class InTurn:
    """A scenario's `run` that is nothing but what the agent does within one turn."""

    act: Callable[[Turn], None]
    ends_turn: bool = False
    """Whether nothing can follow in the same turn."""

    def __call__(self, driver: Driver) -> None:
        turn = open_turn(driver)
        self.act(turn)
        finish(turn)


def probed(act: Callable[[Turn], None]) -> InTurn:
    """Does something that a client is to bear, and asks before and after whether it answers."""

    def run(turn: Turn) -> None:
        if not turn.probe("before"):
            raise StoppedError("the client does not answer a request that it does not know")
        act(turn)
        turn.probe("alive")

    return InTurn(run)
