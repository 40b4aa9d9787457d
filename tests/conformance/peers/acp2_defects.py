"""A defect for each requirement of version 2: the conforming agent with one change that violates only that."""

from __future__ import annotations

import json
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
followed = partial(changes.followed, Agent)
refuse = partial(changes.refuse, Agent)
ignore = partial(changes.ignore, Agent)
dies = partial(changes.dies, Agent)
deaf = partial(changes.deaf, Agent)


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


def asks(method: str) -> Match:
    """Match requests of the client."""
    return lambda _, m: m.get("method") == method and "id" in m


def without_id(code: int) -> Match:
    """Match errors with this code and without an id."""
    return lambda _, m: m.get("id", 0) is None and m["error"]["code"] == code


def answer_notes(agent: Agent, usual: Callable[..., object], method: str, params: Message) -> None:
    if method == "_rewindow_conformance/note":
        agent.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Method not found"}})
    usual(method, params)


def take_batches(agent: Agent, usual: Callable[..., object], line: bytes) -> None:
    """Perform what is in an array, one by one."""
    requests = json.loads(line) if line.startswith(b"[") else []
    for each in requests:
        agent.take(each)
    if not requests:
        usual(line)


def answer_batches(agent: Agent, usual: Callable[..., object], line: bytes) -> None:
    """Answer an array with an array, and with the error."""
    usual(line)
    if line.startswith(b"[{"):
        agent.world.write(b"[]\n")


def count_in_halves(agent: Agent, usual: Callable[..., object], session: Message) -> None:
    agent.next_id += 0.5  # type: ignore[assignment]
    usual(session)


DEFECTS: dict[str, Defect] = {
    "ACP2-A-FRAME-001": changed("take_line", answer_batches),
    "ACP2-A-FRAME-002": dies(lambda line: line == b"5"),
    "ACP2-A-FRAME-003": drop(without_id(-32700)),
    "ACP2-A-FRAME-004": deaf(lambda line: line == b"{}"),
    "ACP2-A-FRAME-005": changed("take_line", take_batches),
    "ACP2-A-RPC-001": rewrite(result("session/list"), cut("jsonrpc")),
    "ACP2-A-RPC-002": rewrite(result("session/list"), put("error", value={"code": 1, "message": "both"})),
    "ACP2-A-RPC-003": rewrite(lambda _, m: m.get("error", {}).get("code") == -32602, cut("error", "message")),
    "ACP2-A-RPC-004": followed(result("session/list"), lambda _, m: [m]),
    "ACP2-A-RPC-005": changed("take_notification", answer_notes),
    "ACP2-A-RPC-006": rewrite(lambda _, m: m.get("id") == "7", put("id", value=7)),
    "ACP2-A-RPC-007": changed("use_tool", count_in_halves),
    "ACP2-A-RPC-008": ignore(asks("session/rewindow_conformance")),
    "ACP2-A-RPC-009": refuse(asks("_rewindow_conformance/unknown")),
    "ACP2-A-RPC-010": ignore(asks("session/list")),
    "ACP2-A-SESSION-001": refuse(lambda agent, m: m.get("method") == "session/prompt" and not agent.sessions),
    "ACP2-A-SESSION-002": rewrite(lambda _, m: m.get("error", {}).get("code") == -32002, cut("error", "data")),
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
