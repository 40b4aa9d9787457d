"""The agent that scenarios play for clients, and what judges read about a client's reactions and capabilities.

A client connects, opens one session and sends one prompt without a person. Scenarios act before that or within the
turn. Those within a turn also run in an editor's chat.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from conformance import judging
from conformance.driver import WITHHELD, Answer, Driver, StoppedError
from conformance.judging import PASS, Judge, Verdict, failed, not_tested, skipped
from conformance.suites.default_fields import Attempt
from conformance.traffic import Message, Sender, Traffic
from conformance.values import Object, as_object, as_text, at, is_object, truncate

VERSION: Final = 1
QUIET: Final = 0.3
"""Seconds for a client to notice the end of its turn."""
PROBE: Final = "_rewindow_conformance/alive"
"""A request unknown to clients, which every client answers."""
EVERYTHING: Final[Object] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
    "auth": {"logout": {}},
}


def initialized(**more: Any) -> Object:
    """Return a normal answer to initialize, without capabilities."""
    info = {"name": "rewindow-conformance", "title": "Conformance", "version": "1"}
    return {"protocolVersion": VERSION, "agentCapabilities": {}, "agentInfo": info, "authMethods": [], **more}


@dataclass(slots=True)
class Agent:
    """The agent's answers until a turn begins. Scenarios replace the fields that they test."""

    initialize: Answer = field(default_factory=lambda: Answer(result=initialized()))
    session: Object = field(default_factory=dict[str, Any])
    """More fields of the answer to session/new."""
    made: int = 0
    directories: dict[str, str] = field(default_factory=dict[str, str])
    """Working directories, by session."""

    def serve(self, driver: Driver) -> None:
        """Answer the client's requests from now on."""
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
    "session/load": lambda _: Answer.failing(-32002, "The session does not exist"),
    "session/resume": lambda _: Answer.failing(-32002, "The session does not exist"),
    "session/list": lambda _: Answer(result={"sessions": []}),
    "session/delete": lambda _: Answer(result={}),
    "session/close": lambda _: Answer(result={}),
    "logout": lambda _: Answer(result={}),
}


@dataclass(slots=True)
class Turn:
    """A pending prompt of the client."""

    driver: Driver
    prompt: Object
    cwd: str
    is_over: bool = False

    @property
    def session(self) -> str:
        return as_text(at(self.prompt, "params.sessionId"))

    def update(self, kind: str, /, **fields: Any) -> None:
        """Send an update."""
        self.driver.notify("session/update", {"sessionId": self.session, "update": {"sessionUpdate": kind, **fields}})

    def ask(self, method: str, label: str = "", /, **params: Any) -> Any:
        """Send a request about this session and return its id."""
        return self.driver.request(method, {"sessionId": self.session, **params}, label=label)

    def call(self, method: str, label: str = "", /, **params: Any) -> Object | None:
        """Send a request and return the response, or None on timeout."""
        return self.driver.response(self.ask(method, label, **params))

    def end(self, reason: str = "end_turn") -> None:
        """Answer the prompt. Idempotent."""
        if not self.is_over:
            self.is_over = True
            self.driver.answer(self.prompt, Answer(result={"stopReason": reason}))

    def offers(self, path: str) -> bool:
        """Whether the client advertises a capability."""
        asked = next((m for m in self.driver.received if m.get("method") == "initialize"), None)
        value = at(asked, f"params.clientCapabilities.{path}")
        return value is True or is_object(value)

    def need(self, path: str) -> None:
        """Raise StoppedError if the client does not advertise a capability."""
        if not self.offers(path):
            raise StoppedError(f"{path} is not advertised")

    def probe(self, label: str) -> bool:
        """Check whether the client still answers."""
        return self.driver.response(self.driver.request(PROBE, {}, label=label)) is not None


def wait_for(driver: Driver, method: str) -> Object:
    """Return the client's request. Raises StoppedError."""
    found = driver.wait(lambda message: message.get("method") == method)
    if found is None:
        raise StoppedError(f"the client did not call {method}")
    return found


def open_turn(driver: Driver, agent: Agent | None = None) -> Turn:
    """Return the client's first turn. Raises StoppedError if the client does not start one."""
    (agent or Agent()).serve(driver)
    wait_for(driver, "initialize")
    opened = wait_for(driver, "session/new")
    return Turn(driver, wait_for(driver, "session/prompt"), as_text(at(opened, "params.cwd")))


def finish(turn: Turn, reason: str = "end_turn") -> None:
    """End the turn normally."""
    turn.end(reason)
    turn.driver.pause(QUIET)


@dataclass(frozen=True, slots=True)
class InTurn:
    """A scenario's `run` that only acts within one turn."""

    act: Callable[[Turn], None]
    ends_turn: bool = False
    """Whether the turn ends with it, so that nothing can follow."""

    def __call__(self, driver: Driver) -> None:
        turn = open_turn(driver)
        self.act(turn)
        finish(turn)


def then_probe(act: Callable[[Turn], None]) -> InTurn:
    """Act, and probe the client before and after."""

    def run(turn: Turn) -> None:
        if not turn.probe("before"):
            raise StoppedError("the client does not answer an unknown request")
        act(turn)
        turn.probe("alive")

    return InTurn(run)


# --- what judges read -------------------------------------------------------------------------------------------------


SIDE: Final[Sender] = "client"
_POLICY: Final = re.compile(
    r"permission|denied|not (?:allowed|permitted)|disallow|refus|reject|declin|approv|polic|forbid|unauthori", re.I
)
"""Words of a client that understood a request and denied it by policy."""
_OF_FORM: Final = (-32700, -32600, -32601, -32602)
"""Error codes about the message itself."""
_SHOWN: Final = 80
marked = partial(judging.marked_requests, by="server")
"""Return the agent's requests under these marks."""
answered = partial(judging.answered, by="server")
"""Every request of the agent under these marks has a response."""


def granted(*labels: str) -> Judge:
    """Every request under these marks has a result. A refusal by the client's own policy is skipped."""

    def judge(traffic: Traffic) -> Verdict:
        for request in marked(traffic, *labels):
            if request.answer is not None and (reason := _refusal(request.answer.error)):
                return skipped(
                    f"the client refused {request.method} because of its own policy ({reason}); allow "
                    "this in the client, and judge it again"
                )
        return answered(*labels, expect="result")(traffic)

    return judge


def _refusal(error: Object) -> str:
    """Return the message of a policy refusal; empty for another error."""
    message = as_text(error.get("message"))
    is_about_form = error.get("code") in _OF_FORM
    return f"{truncate(message, _SHOWN)!r}" if _POLICY.search(message) and not is_about_form else ""


def if_probed(judge: Judge) -> Judge:
    """Judge only if the client answered an unknown request before the act."""

    def guarded(traffic: Traffic) -> Verdict:
        before = marked(traffic, "before")
        if not before:
            return not_tested("the client did not reach this step")
        if before[0].answer is None:
            return skipped(
                "the client does not answer unknown requests, so the suite cannot tell whether it keeps working"
            )
        return judge(traffic)

    return guarded


def _still_answers(traffic: Traffic) -> Verdict:
    after = marked(traffic, "alive")
    if after and after[0].answer is not None:
        return PASS
    last = [message.index for message in after]
    if traffic.marks("output-closed"):
        return failed("the client ended the connection", *last)
    return failed("the client no longer answers", *last)


keeps_working: Final = if_probed(_still_answers)
"""The client answers after the act as it did before."""


def tolerates_early_messages(traffic: Traffic) -> Verdict:
    """The client prompts and answers after messages that came together with the session."""
    if not traffic.requests(SIDE, "session/new"):
        return not_tested("the client did not open a session")
    after = marked(traffic, "alive")
    if after and after[0].answer is not None:
        return PASS
    if after and not traffic.marks("output-closed"):
        return skipped("the client does not answer unknown requests, so the suite cannot tell whether it keeps working")
    return failed("the client ended the connection" if traffic.marks("output-closed") else "the client sent no prompt")


def reaches_prompt(traffic: Traffic) -> Verdict:
    """The client reaches a prompt after an unusual answer."""
    if not traffic.requests(SIDE, "initialize"):
        return not_tested("the client did not call initialize")
    if traffic.requests(SIDE, "session/prompt"):
        return PASS
    answers = [r.answer for r in traffic.requests(SIDE, "initialize", "session/new") if r.answer is not None]
    return failed("the client sent no prompt afterwards", *(answer.index for answer in answers[-1:]))


def no_prompt(traffic: Traffic, attempt: Attempt) -> str:
    """The client stops before its prompt after broken fields."""
    sent = traffic.requests(SIDE, "session/prompt")
    return "" if any(attempt.begin < prompt.index < attempt.end for prompt in sent) else "the client sent no prompt"


def never_sends(mark: str, *methods: str) -> Judge:
    """The client calls none of these methods after the mark."""

    def judge(traffic: Traffic) -> Verdict:
        since = next((i for i, e in enumerate(traffic.transcript.entries) if e.label == mark), None)
        if since is None:
            return not_tested("the client did not reach this step")
        for request in traffic.requests(SIDE, *methods):
            if request.index > since:
                return failed(f"the client still called {request.method}", request.index)
        return PASS

    return judge


def exits_as_after_a_turn(traffic: Traffic) -> Verdict:
    """A client that exits after a normal turn also exits here."""
    if not at(traffic.transcript.facts, "calibration.ends_by_itself"):
        return skipped("the client does not exit after a turn")
    if not traffic.requests(SIDE, "initialize"):
        return not_tested("the client did not call initialize")
    for entry in traffic.marks("ended"):
        if at(entry.value, "by") in ("SIGTERM", "SIGKILL"):
            return failed("the client kept running and had to be killed")
        return PASS
    return skipped("the transcript does not record how the client ended")


def capability(traffic: Traffic, path: str) -> bool | None:
    """Whether the client's initialize advertises a capability; None without initialize."""
    for request in traffic.requests(SIDE, "initialize"):
        value = at(request.params, f"clientCapabilities.{path}")
        return value is True or is_object(value)
    return None


def agent_capability(traffic: Traffic, path: str) -> Any:
    """Return the value at a path in the agent's answer to initialize, or None."""
    for request in traffic.requests(SIDE, "initialize"):
        if request.answer is not None and request.succeeded:
            return at(request.answer.result, path)
    return None


def agent_advertises(traffic: Traffic, path: str) -> bool:
    """Whether the agent advertises a capability: true, or an object."""
    value = agent_capability(traffic, f"agentCapabilities.{path}")
    return value is True or is_object(value)


def only_if_advertised(method: str, path: str) -> Judge:
    """The client calls a method only if the agent advertises its capability."""

    def judge(traffic: Traffic) -> Verdict:
        requests = traffic.requests(SIDE, method)
        for request in requests:
            if not agent_advertises(traffic, path):
                return failed(f"{method} was called, but {path} is not advertised", request.index)
        # Every turn of an agent without capabilities shows that the client does not use them.
        return PASS if requests or traffic.requests(SIDE, "session/prompt") else not_tested("the client sent no prompt")

    return judge


def sessions(traffic: Traffic) -> list[Message]:
    """Return the client's requests that opened a session, with their answers."""
    found = traffic.requests(SIDE, "session/new", "session/load", "session/resume", "session/fork")
    return [request for request in found if request.succeeded]


def session_ids(traffic: Traffic) -> dict[str, Message]:
    """Return the opened sessions by id."""
    opened: dict[str, Message] = {}
    for request in sessions(traffic):
        given = request.answer.result.get("sessionId") if request.answer else None
        opened[as_text(given) or as_text(request.params.get("sessionId"))] = request
    return opened
