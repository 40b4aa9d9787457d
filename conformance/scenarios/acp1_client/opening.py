"""How connections and sessions begin: answers that are bare, null, malformed, late or errors, and other versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from conformance.driver import WITHHELD, Answer, Driver, line, notification
from conformance.scenarios.acp1_client.agent import (
    EVERYTHING,
    QUIET,
    Agent,
    Turn,
    finish,
    initialized,
    open_turn,
    wait_for,
)
from conformance.suite import Scenario
from conformance.values import Object, as_text, at

NEWER: Final = 65535
"""The largest version that the schema allows."""
_LATE: Final = 2.0
_AFTER: Final = 2.0
"""Seconds in which a client may end, or do what it must not."""
META: Final[Object] = {
    "example.org/number": 1,
    "example.org/nested": {"list": [None, {"deep": True}]},
    "traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01",
    "sessionId": "spoofed",
    "protocolVersion": NEWER,
}
MODES: Final[Object] = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code", "description": "Writes"}],
}
OPTIONS: Final[list[Object]] = [
    {
        "id": "model",
        "name": "Model",
        "category": "model",
        "type": "select",
        "currentValue": "small",
        "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}],
    },
    {
        "id": "style",
        "name": "Style",
        "type": "select",
        "currentValue": "plain",
        "options": [{"group": "all", "name": "All", "options": [{"value": "plain", "name": "Plain"}]}],
    },
]


def _turn(**fields: Any) -> Callable[[Driver], None]:
    """A whole turn of an agent with these fields."""

    def run(driver: Driver) -> None:
        finish(open_turn(driver, Agent(**fields)))

    return run


def _answering(result: Object) -> Callable[[Driver], None]:
    return _turn(initialize=Answer(result=result))


def _opening(driver: Driver) -> None:
    turn = open_turn(driver)
    turn.update("agent_message_chunk", content={"type": "text", "text": "Hello."})
    driver.pause(QUIET)
    turn.end()
    driver.pause(_AFTER)


def _late(driver: Driver) -> None:
    agent = Agent()
    agent.serve(driver)
    driver.answerers["initialize"] = lambda _: WITHHELD
    asked = wait_for(driver, "initialize")
    driver.pause(_LATE)
    driver.answer(asked, agent.initialize)
    agent.serve(driver)
    driver.answerers["session/new"] = lambda _: WITHHELD
    opened = wait_for(driver, "session/new")
    driver.pause(_LATE)
    driver.answer(opened, Answer(result={"sessionId": "session-1"}))
    driver.pause(_AFTER)


def _refusing(agent: Agent, method: str) -> Callable[[Driver], None]:
    """Answers a method with an error, and lets the client end."""

    def run(driver: Driver) -> None:
        agent.serve(driver)
        driver.answerers[method] = lambda _: Answer.failing(-32603, "The agent failed")
        wait_for(driver, method)
        driver.mark("refused", method)
        driver.pause(_AFTER)

    return run


def _version(driver: Driver) -> None:
    Agent(initialize=Answer(result=initialized(protocolVersion=NEWER))).serve(driver)
    wait_for(driver, "initialize")
    driver.mark("other-version", NEWER)
    driver.pause(_AFTER)


def _authentication(driver: Driver) -> None:
    methods = [{"id": "login", "name": "Log in", "description": "Anyone may"}, {"id": "key", "name": "A key"}]
    agent = Agent(initialize=Answer(result=initialized(authMethods=methods)))
    agent.serve(driver)
    open_session = driver.answerers["session/new"]
    driver.answerers["session/new"] = lambda _: Answer.failing(-32000, "Authentication required")

    def authenticate(_: Object) -> Answer:
        driver.answerers["session/new"] = open_session
        return Answer(result={})

    driver.answerers["authenticate"] = authenticate
    wait_for(driver, "session/new")
    driver.pause(_AFTER)


def _updates_first(driver: Driver) -> None:
    Agent().serve(driver)
    driver.answerers["session/new"] = lambda _: WITHHELD
    opened = wait_for(driver, "session/new")
    commands = [{"name": "help", "description": "Says what there is", "input": {"hint": "a topic"}}]
    updates: tuple[Object, ...] = (
        {"sessionUpdate": "available_commands_update", "availableCommands": commands},
        {"sessionUpdate": "session_info_update", "title": "A session"},
        {"sessionUpdate": "usage_update", "used": 0, "size": 1000},
    )
    answer: Object = {"jsonrpc": "2.0", "id": opened.get("id"), "result": {"sessionId": "session-1"}}
    notes = [notification("session/update", {"sessionId": "session-1", "update": update}) for update in updates]
    # In one write, so that the client reads them before it can have sent its prompt.
    driver.raw(b"".join(line(message) for message in (answer, *notes)))
    turn = Turn(driver, wait_for(driver, "session/prompt"), as_text(at(opened, "params.cwd")))
    turn.probe("alive")
    finish(turn)


_NULLS: Final[Object] = {
    "protocolVersion": 1,
    "agentCapabilities": {
        "sessionCapabilities": {"list": None, "delete": None, "resume": None, "close": None, "_meta": None},
        "auth": {"logout": None},
        "_meta": None,
    },
    "agentInfo": None,
    "_meta": None,
}
_UNKNOWN: Final[Object] = {
    "loadSession": False,
    "telepathy": {"range": 5},
    "promptCapabilities": {"video": True, "image": False},
    "sessionCapabilities": {"rewind": {}},
}
_META_EVERYWHERE: Final[Object] = initialized(
    agentCapabilities={"promptCapabilities": {"_meta": META}, "_meta": META}, _meta=META
)
_UNKNOWN_CATEGORIES: Final[list[Object]] = [
    {**OPTIONS[0], "category": "_rewindow_conformance"},
    {**OPTIONS[1], "category": "a_category_of_later"},
]

OPENING: Final = Scenario(
    "opening", "Answers initialize, opens a session and ends its first turn.", _opening, alone=True, passive=True
)
SCENARIOS: Final = (
    Scenario("initialize-bare", "Answers initialize with nothing but the version.", _answering({"protocolVersion": 1})),
    Scenario("initialize-nulls", "Answers initialize with null wherever the schema allows it.", _answering(_NULLS)),
    Scenario("initialize-meta", "Answers initialize with `_meta` everywhere.", _answering(_META_EVERYWHERE)),
    Scenario(
        "initialize-unknown",
        "Advertises capabilities that do not exist.",
        _answering(initialized(agentCapabilities=_UNKNOWN)),
    ),
    Scenario(
        "everything-offered",
        "Advertises every capability, offers modes and options, and ends a turn.",
        _turn(
            initialize=Answer(result=initialized(agentCapabilities=EVERYTHING)),
            session={"modes": MODES, "configOptions": OPTIONS},
        ),
        passive=True,
    ),
    Scenario("late-answers", "Answers initialize and session/new after two seconds.", _late),
    Scenario("initialize-error", "Answers initialize with an error.", _refusing(Agent(), "initialize")),
    Scenario("version-newer", "Answers initialize with version 65535, which nobody speaks.", _version),
    Scenario("authentication", "Opens no session before the client has authenticated.", _authentication, passive=True),
    Scenario("session-error", "Answers session/new with an error.", _refusing(Agent(), "session/new")),
    Scenario(
        "session-nulls",
        "Opens a session with null wherever the schema allows it.",
        _turn(session={"modes": None, "configOptions": None, "_meta": None}),
    ),
    Scenario(
        "session-categories",
        "Opens a session with options of unknown categories.",
        _turn(session={"configOptions": _UNKNOWN_CATEGORIES}),
    ),
    Scenario("session-meta", "Opens a session with `_meta`.", _turn(session={"_meta": META})),
    Scenario("updates-before-prompt", "Sends updates between session/new and the prompt.", _updates_first),
)
