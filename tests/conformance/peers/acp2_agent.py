"""A conforming ACP agent, version 2, which defects change. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from line_peer import LinePeer, Message

SLOW_STEPS = 30
SLOW_STEP = 0.1
NAMING = ("session/prompt", "session/set_config_option", "session/resume")
OPTIONS = [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}]


class Agent(LinePeer):
    """A conforming agent. Its methods are small, so that a defect can replace one."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self.sessions: dict[str, Message] = {}
        self.asked: dict[str, Message] = {}
        self.calls: dict[Any, Callable[[Any], None]] = {}
        self.made = 0

    def update(self, session: Message, kind: str, /, **fields: Any) -> None:
        self.notify("session/update", {"sessionId": session["id"], "update": {"sessionUpdate": kind, **fields}})

    def state(self, session: Message, state: str, **fields: Any) -> None:
        self.update(session, "state_update", state=state, **fields)

    # --- dispatch -----------------------------------------------------------------------------------------------------

    def take_call(self, message: Message) -> None:
        self.take(message)

    def take(self, message: Message) -> None:
        params = message.get("params") or {}
        if "id" not in message:
            self.take_notification(message["method"], params)
            return
        self.asked[repr(message["id"])] = message
        named = params.get("sessionId")
        if message["method"] in NAMING and named not in self.sessions:
            self.refuse_unknown(message, named)
            return
        handler = {
            "initialize": self.initialize,
            "auth/login": self.login,
            "session/new": self.new,
            "session/resume": self.resume,
            "session/list": self.list,
            "session/close": self.close,
            "session/prompt": self.prompt,
            "session/set_config_option": self.set_option,
        }.get(message["method"])
        if handler is None:
            self.refuse(message, -32601, "Method not found")
        else:
            handler(message, params)

    def take_notification(self, method: str, params: Message) -> None:
        if method == "session/cancel":
            self.cancel(self.sessions[params["sessionId"]])

    def refuse_unknown(self, request: Message, session: Any) -> None:
        error = {"code": -32002, "message": "Resource not found", "data": {"sessionId": session}}
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def take_answer(self, message: Message) -> None:
        goes_on = self.calls.pop(message.get("id"), None)
        if goes_on is not None:
            goes_on(message.get("result"))

    # --- connection and sessions --------------------------------------------------------------------------------------

    def initialize(self, request: Message, params: Message) -> None:
        del params
        info = {"name": "reference", "version": "1"}
        methods = [{"type": "agent", "methodId": "login", "name": "Log in"}]
        answer = {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}, "authMethods": methods}
        self.answer(request, answer)

    def login(self, request: Message, params: Message) -> None:
        if params.get("methodId") == "login":
            self.answer(request, {})
        else:
            self.refuse(request, -32602, "There is no such method of authentication")

    def new(self, request: Message, params: Message) -> None:
        self.made += 1
        session = {"id": f"session-{self.made}", "cwd": params["cwd"], "said": [], "turn": 0, "is_busy": False}
        self.sessions[session["id"]] = session
        self.answer(request, {"sessionId": session["id"], "configOptions": self.options(), "availableCommands": []})

    def options(self) -> list[Message]:
        return [{"type": "select", "configId": "model", "name": "Model", "currentValue": "small", "options": OPTIONS}]

    def resume(self, request: Message, params: Message) -> None:
        session, replay = self.sessions[params["sessionId"]], params.get("replayFrom")
        if replay is not None and replay.get("type") != "start":
            self.refuse(request, -32602, "There is no such place to replay from")
            return
        for name, content in session["said"] if replay else ():
            self.update(session, "user_message", messageId=name, content=content)
        self.state(session, "idle")
        self.answer(request, {"configOptions": self.options(), "availableCommands": []})

    def list(self, request: Message, params: Message) -> None:
        del params
        rows = [{"sessionId": each["id"], "cwd": each["cwd"]} for each in self.sessions.values()]
        self.answer(request, {"sessions": rows})

    def close(self, request: Message, params: Message) -> None:
        session = self.sessions.get(params.get("sessionId"))
        if session is not None:
            self.cancel(session)
        self.answer(request, {})

    def set_option(self, request: Message, params: Message) -> None:
        if params.get("configId") == "model" and params.get("value") in ("small", "large"):
            self.answer(request, {"configOptions": self.options()})
        else:
            self.refuse(request, -32602, "There is no such option or value")

    # --- turns --------------------------------------------------------------------------------------------------------

    def prompt(self, request: Message, params: Message) -> None:
        session = self.sessions[params["sessionId"]]
        session["turn"] += 1
        session["is_busy"] = True
        name, text = f"{session['id']}-{session['turn']}", params["prompt"][0]["text"]
        session["said"].append((name, params["prompt"]))
        self.state(session, "running")
        self.update(session, "user_message", messageId=name, content=params["prompt"])
        self.answer(request, {"messageId": name})
        if "count" in text:
            self.count(session, session["turn"], 0)
        elif "tool" in text:
            self.use_tool(session)
        else:
            self.say(session, "Hello.")
            self.end(session, "end_turn")

    def say(self, session: Message, text: str) -> None:
        content = {"type": "text", "text": text}
        self.update(session, "agent_message_chunk", messageId=f"{session['id']}-{session['turn']}-a", content=content)

    def count(self, session: Message, turn: int, number: int) -> None:
        if not session["is_busy"] or session["turn"] != turn:
            return
        if number == SLOW_STEPS:
            self.end(session, "end_turn")
            return
        self.say(session, f"{number} ")
        self.world.later(SLOW_STEP, lambda: self.count(session, turn, number + 1))

    def use_tool(self, session: Message) -> None:
        self.update(session, "tool_call_update", toolCallId="call", title="Write", kind="edit", status="pending")
        self.state(session, "requires_action")
        self.next_id += 1
        self.calls[self.next_id] = lambda _: self.used_tool(session)
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        params = {"sessionId": session["id"], "title": "Write a file?", "options": options}
        self.send({
            "jsonrpc": "2.0", "id": self.next_id, "method": "session/request_permission", "params": params,
        })  # fmt: skip

    def used_tool(self, session: Message) -> None:
        self.state(session, "running")
        self.update(session, "tool_call_update", toolCallId="call", status="completed")
        self.end(session, "end_turn")

    def cancel(self, session: Message) -> None:
        if session["is_busy"]:
            self.end(session, "cancelled")

    def end(self, session: Message, reason: str) -> None:
        session["is_busy"] = False
        self.state(session, "idle", stopReason=reason)
