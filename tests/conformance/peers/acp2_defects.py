"""A defect for each requirement of version 2: the conforming agent with one change that violates only that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import changes
from acp2_agent import Agent, Message

Match = Callable[[Agent, Message], bool]
Defect = type[Agent]


def result(method: str) -> Match:
    """Match results of a method."""
    return lambda agent, m: "result" in m and agent.asked.get(repr(m["id"]), {}).get("method") == method


def update(kind: str, **fields: Any) -> Match:
    """Match updates of a kind with these fields."""

    def match(_: Agent, message: Message) -> bool:
        given = message["params"]["update"] if message.get("method") == "session/update" else {}
        return given.get("sessionUpdate") == kind and all(given.get(name) == value for name, value in fields.items())

    return match


def call(method: str) -> Match:
    """Match requests to the client."""
    return lambda _, m: m.get("method") == method and "id" in m


rewrite = partial(changes.rewrite, Agent)
drop = partial(changes.drop, Agent)
changed = partial(changes.changed, Agent)


def put(*path: str, value: Any) -> Callable[[Message], None]:
    """Set a field."""

    def edit(message: Message) -> None:
        place: Any = message
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return edit


def cut(*path: str) -> Callable[[Message], None]:
    """Remove a field."""

    def edit(message: Message) -> None:
        place: Any = message
        for key in path[:-1]:
            place = place[key]
        place.pop(path[-1], None)

    return edit


def echo_version(agent: Agent, usual: Callable[..., object], request: Message, params: Message) -> None:
    if params["protocolVersion"] == 2:
        usual(request, params)
    else:
        info = {"name": "reference", "version": "1"}
        agent.answer(request, {"protocolVersion": params["protocolVersion"], "info": info})


def no_login(agent: Agent, usual: Callable[..., object], request: Message, params: Message) -> None:
    if params.get("methodId") == "login":
        usual(request, params)
    else:
        agent.refuse(request, -32601, "Method not found")


def close_first(agent: Agent, usual: Callable[..., object], request: Message, params: Message) -> None:
    """Answer, and end the turn with the next message of the client."""
    del usual
    agent.answer(request, {})
    session = agent.sessions.get(params["sessionId"])
    if session is not None:
        session["is_busy"] = False


def talk_after_close(agent: Agent, usual: Callable[..., object], request: Message, params: Message) -> None:
    usual(request, params)
    session = agent.sessions.get(params["sessionId"])
    if session is not None and session["turn"]:
        agent.update(session, "usage_update", used=1, size=2)


def refuse_unknown(agent: Agent, usual: Callable[..., object], request: Message, params: Message) -> None:
    if params["sessionId"] in agent.sessions:
        usual(request, params)
    else:
        agent.refuse(request, -32002, "There is no such session")


def resume_anywhere(_: Agent, usual: Callable[..., object], request: Message, params: Message) -> None:
    usual(request, {**params, "replayFrom": {"type": "start"}})


def set_anything(agent: Agent, usual: Callable[..., object], request: Message, params: Message) -> None:
    del usual, params
    agent.answer(request, {"configOptions": agent.options()})


def replay_renamed(agent: Agent, usual: Callable[..., object], request: Message, params: Message) -> None:
    session = agent.sessions[params["sessionId"]]
    session["said"] = [(f"again-{name}", content) for name, content in session["said"]]
    usual(request, params)


def resume_without_state(agent: Agent, usual: Callable[..., object], request: Message, params: Message) -> None:
    if (params.get("replayFrom") or {}).get("type") == "start":
        agent.answer(request, {"configOptions": agent.options(), "availableCommands": []})
    else:
        usual(request, params)


def never_running(agent: Agent, usual: Callable[..., object], session: Message, state: str, **fields: Any) -> None:
    del agent
    if state != "running":
        usual(session, state, **fields)


def cancel_with_error(agent: Agent, usual: Callable[..., object], message: Message) -> None:
    """End a cancelled turn with another reason."""
    if message.get("method") != "session/cancel":
        usual(message)
        return
    session = agent.sessions[message["params"]["sessionId"]]
    if session["is_busy"]:
        agent.end(session, "_stopped")


DEFECTS: dict[str, Defect] = {
    "ACP2-A-INIT-001": rewrite(result("initialize"), cut("result", "info")),
    "ACP2-A-INIT-002": changed("initialize", echo_version),
    "ACP2-A-AUTH-001": changed("login", no_login),
    "ACP2-A-NEW-001": rewrite(result("session/new"), put("result", "availableCommands", value="none")),
    "ACP2-A-LIST-001": rewrite(result("session/list"), cut("result", "sessions")),
    "ACP2-A-PROMPT-001": rewrite(result("session/prompt"), cut("result", "messageId")),
    "ACP2-A-PROMPT-002": drop(update("user_message")),
    "ACP2-A-UPDATE-001": rewrite(update("agent_message_chunk"), cut("params", "update", "messageId")),
    "ACP2-A-STATE-001": changed("state", never_running),
    "ACP2-A-STATE-002": rewrite(
        update("state_update", state="idle", stopReason="end_turn"), cut("params", "update", "stopReason")
    ),
    "ACP2-A-PERM-001": rewrite(call("session/request_permission"), cut("params", "title")),
    "ACP2-A-CANCEL-001": changed("take", cancel_with_error),
    "ACP2-A-CLOSE-001": changed("close", close_first),
    "ACP2-A-CLOSE-002": changed("close", talk_after_close),
    "ACP2-A-CLOSE-003": changed("close", refuse_unknown),
    "ACP2-A-RESUME-001": changed("resume", resume_without_state),
    "ACP2-A-RESUME-002": changed("resume", replay_renamed),
    "ACP2-A-RESUME-003": changed("resume", resume_anywhere),
    "ACP2-A-CONFIG-001": rewrite(result("session/set_config_option"), cut("result", "configOptions")),
    "ACP2-A-CONFIG-002": changed("set_option", set_anything),
}
