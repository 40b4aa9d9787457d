"""A conforming ACP agent, version 1, which defects change. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any

from line_peer import LinePeer, Message

Steps = Generator[tuple[str, Any, Any], tuple[Any, Any], str]

SLOW_STEPS = 30
SLOW_STEP = 0.1
MODES = [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]
_SHOWN = ("type", "text", "uri", "name", "data", "mimeType", "resource")
MODELS = [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}]


class CancelledError(Exception):
    """Thrown into a turn that the client cancels."""


class Turn:
    """A running prompt."""

    def __init__(self, session: Message, request_id: Any, steps: Steps) -> None:
        self.session = session
        self.id = request_id
        self.steps = steps
        self.waits_for: Any = None
        self.asked = ""
        self.ended = False


class Agent(LinePeer):
    """A conforming agent. Its methods are small, so that a defect can replace one."""

    kept: Any = {}  # noqa: RUF012 -- as long as the test's process, for agents that are started again
    """Conversations by directory and session, for the agent's next process."""
    prefix = ""
    """A prefix of session ids, so that those of two processes differ."""

    def __init__(self, world: Any, start_server: Callable[[Message], bool] = lambda _: True) -> None:
        super().__init__(world)
        self.start_server = start_server
        self.client: Message = {}
        self.sessions: dict[str, Message] = {}
        self.turns: list[Turn] = []
        self.calls: dict[Any, Turn] = {}
        self.asked: dict[str, Message] = {}
        self.made = 0

    def update(self, session: Message, kind: str, /, **fields: Any) -> None:
        self.notify("session/update", {"sessionId": session["id"], "update": {"sessionUpdate": kind, **fields}})

    def request(self, method: str, params: Message) -> int:
        self.next_id += 1
        self.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})
        return self.next_id

    # --- dispatch -----------------------------------------------------------------------------------------------------

    def take_call(self, message: Message) -> None:
        self.take(message)

    def take(self, message: Message) -> None:
        if "id" in message:
            self.asked[repr(message["id"])] = message
        method = message["method"]
        handler = {
            "initialize": self.initialize,
            "authenticate": self.authenticate,
            "logout": self.logout,
            "session/new": self.new,
            "session/load": self.load,
            "session/resume": self.resume,
            "session/list": self.list,
            "session/delete": self.delete,
            "session/close": self.close,
            "session/prompt": self.prompt,
            "session/set_mode": self.set_mode,
            "session/set_config_option": self.set_option,
        }.get(method)
        if "id" not in message:
            self.take_notification(method, message.get("params"))
        elif handler is None:
            self.refuse(message, -32601, "Method not found")
        elif not isinstance(message.get("params"), dict):
            self.refuse(message, -32602, "Invalid params")
        else:
            try:
                handler(message, message["params"])
            except (AttributeError, LookupError, TypeError):
                self.refuse(message, -32602, "Invalid params")

    def take_notification(self, method: str, params: Any) -> None:
        if method == "session/cancel" and isinstance(params, dict):
            self.cancel(params.get("sessionId"))
        if method == "$/cancel_request" and isinstance(params, dict):
            for turn in [turn for turn in self.turns if turn.id == params.get("requestId")]:
                self.throw(turn)

    # --- connection and sessions --------------------------------------------------------------------------------------

    def initialize(self, request: Message, params: Message) -> None:
        capabilities = params.get("clientCapabilities")
        self.client = capabilities if isinstance(capabilities, dict) else {}
        session = {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}}
        agent = {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
            "mcpCapabilities": {"http": False, "sse": False},
            "sessionCapabilities": session,
            "auth": {"logout": {}},
        }
        info = {"name": "reference", "version": "1"}
        methods = [{"id": "login", "name": "Log in"}]
        self.answer(
            request, {"protocolVersion": 1, "agentCapabilities": agent, "agentInfo": info, "authMethods": methods}
        )

    def authenticate(self, request: Message, params: Message) -> None:
        if params.get("methodId") == "login":
            self.answer(request, {})
        else:
            self.refuse(request, -32602, "There is no such method of authentication")

    def logout(self, request: Message, params: Message) -> None:
        del params
        self.answer(request, {})

    def offers(self, *path: str) -> bool:
        value: Any = self.client
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value is True or isinstance(value, dict)

    def new_id(self) -> str:
        self.made += 1
        return f"{self.prefix}session-{self.made}"

    def new(self, request: Message, params: Message) -> None:
        cwd = params.get("cwd")
        if not isinstance(cwd, str) or not cwd.startswith("/"):
            self.refuse(request, -32602, "cwd must be an absolute path")
            return
        name = self.new_id()
        session: Message = {
            "id": name,
            "cwd": cwd,
            "mode": "ask",
            "model": "small",
            "brave": False,
            "history": [],
            "calls": 0,
        }
        self.sessions[name] = session
        for server in params.get("mcpServers") or []:
            if not self.start_server(server):
                self.world.log(b"an MCP server cannot be started\n")
        self.answer(request, {"sessionId": name, **self.state(session)})
        command = {"name": "help", "description": "Says what there is", "input": {"hint": "a topic"}}
        self.update(session, "available_commands_update", availableCommands=[command])

    def state(self, session: Message) -> Message:
        return {
            "modes": {"currentModeId": session["mode"], "availableModes": MODES},
            "configOptions": self.options(session),
        }

    def options(self, session: Message) -> list[Message]:
        modes = [{"value": mode["id"], "name": mode["name"]} for mode in MODES]
        groups = [{"group": "all", "name": "All", "options": MODELS}]
        found: list[Message] = [
            {
                "id": "mode",
                "name": "Mode",
                "category": "mode",
                "type": "select",
                "currentValue": session["mode"],
                "options": modes,
            },
            {
                "id": "model",
                "name": "Model",
                "category": "model",
                "type": "select",
                "currentValue": session["model"],
                "options": groups,
            },
        ]
        if self.offers("session", "configOptions", "boolean"):
            found.append(
                {"id": "brave", "name": "Brave", "category": "_x", "type": "boolean", "currentValue": session["brave"]}
            )
        return found

    def known(self, request: Message, params: Message) -> Message | None:
        session = self.sessions.get(str(params.get("sessionId")))
        if session is None:
            self.refuse(request, -32002, "There is no such session")
        return session

    def load(self, request: Message, params: Message) -> None:
        self.restore(params)
        session = self.known(request, params)
        if session is not None:
            for kind, fields in session["history"]:
                if not kind.startswith("compaction") or self.offers("session", "compaction"):
                    self.update(session, kind, **fields)
            self.answer(request, self.state(session))

    def restore(self, params: Message) -> None:
        name = str(params.get("sessionId"))
        text = self.kept.get(f"{params.get('cwd')}/{name}") if name not in self.sessions else None
        if text is not None:
            self.sessions[name] = json.loads(text)

    def resume(self, request: Message, params: Message) -> None:
        session = self.known(request, params)
        if session is not None:
            self.answer(request, self.state(session))

    def list(self, request: Message, params: Message) -> None:
        cursor = params.get("cursor")
        if cursor is not None and not str(cursor).isdigit():
            self.refuse(request, -32602, "There is no such cursor")
            return
        wanted = [s for s in self.sessions.values() if params.get("cwd") in (None, s["cwd"])]
        first = int(cursor or 0)
        page = [
            {"sessionId": s["id"], "cwd": s["cwd"], "title": None, "updatedAt": "2026-01-01T00:00:00Z"}
            for s in wanted[first : first + 1]
        ]
        more = {"nextCursor": str(first + 1)} if first + 1 < len(wanted) else {}
        self.answer(request, {"sessions": page, **more})

    def delete(self, request: Message, params: Message) -> None:
        self.sessions.pop(str(params.get("sessionId")), None)
        self.answer(request, {})

    def close(self, request: Message, params: Message) -> None:
        if self.known(request, params) is not None:
            self.cancel(params.get("sessionId"))
            self.answer(request, {})

    def set_mode(self, request: Message, params: Message) -> None:
        session = self.known(request, params)
        if session is None:
            return
        if params.get("modeId") not in [mode["id"] for mode in MODES]:
            self.refuse(request, -32602, "There is no such mode")
            return
        session["mode"] = params["modeId"]
        self.answer(request, {})
        self.update(session, "current_mode_update", currentModeId=session["mode"])
        self.update(session, "config_option_update", configOptions=self.options(session))

    def set_option(self, request: Message, params: Message) -> None:
        session = self.known(request, params)
        if session is None:
            return
        allowed = {"mode": ["ask", "code"], "model": ["small", "large"], "brave": [True, False]}
        name = params.get("configId")
        if name not in allowed or params.get("value") not in allowed[name]:
            self.refuse(request, -32602, "There is no such option or value")
            return
        session[name] = params["value"]
        self.answer(request, {"configOptions": self.options(session)})

    # --- turns --------------------------------------------------------------------------------------------------------

    def prompt(self, request: Message, params: Message) -> None:
        session = self.known(request, params)
        if session is None:
            return
        blocks = params.get("prompt")
        texts = [b.get("text") for b in blocks if isinstance(b, dict)] if isinstance(blocks, list) else []
        text = " ".join(t for t in texts if isinstance(t, str)).encode(errors="replace").decode()
        for given in blocks if isinstance(blocks, list) else []:
            block = {name: given[name] for name in _SHOWN if name in given}
            if "text" in block:
                block["text"] = block["text"].encode(errors="replace").decode()
            session["history"].append(("user_message_chunk", {"content": block}))
        self.turns.append(Turn(session, request["id"], self.steps(session, text)))
        self.step(self.turns[-1], None, None)

    def steps(self, session: Message, text: str) -> Steps:
        self.show(session, "agent_thought_chunk", content={"type": "text", "text": "Thinking. "}, messageId="t1")
        self.say(session, "Here ")
        entry = {"content": "Answer", "priority": "high", "status": "in_progress"}
        self.update(session, "plan", entries=[entry])
        if self.offers("session", "notices"):
            self.update(session, "notice", severity="info", title="Working")
        if self.offers("session", "compaction"):
            self.compact(session)
        yield ("sleep", 0.01, None)
        if "count" in text:
            for number in range(SLOW_STEPS):
                self.say(session, f"{number} ")
                yield ("sleep", SLOW_STEP, None)
        if "tool" in text:
            yield from self.use_tools(session)
        self.say(session, "it is. ")
        self.update(session, "plan", entries=[{**entry, "status": "completed"}])
        self.update(session, "usage_update", used=10, size=1000, cost={"amount": 0.1, "currency": "USD"})
        self.update(session, "session_info_update", title="A session", updatedAt="2026-01-01T00:00:00Z")
        return "end_turn"

    def say(self, session: Message, text: str) -> None:
        self.show(session, "agent_message_chunk", content={"type": "text", "text": text}, messageId="m1")

    def show(self, session: Message, kind: str, /, **fields: Any) -> None:
        session["history"].append((kind, fields))
        self.update(session, kind, **fields)

    def compact(self, session: Message) -> None:
        session["calls"] += 1
        name = f"compaction-{session['calls']}"
        self.show(session, "compaction_update", compactionId=name, status="in_progress")
        self.show(session, "compaction_summary_chunk", compactionId=name, content={"type": "text", "text": "So far."})
        self.show(session, "compaction_update", compactionId=name, status="completed")

    def new_call(self, session: Message) -> str:
        session["calls"] += 1
        return f"call-{session['calls']}"

    def use_tools(self, session: Message) -> Steps:
        call = self.new_call(session)
        path = f"{session['cwd']}/file.txt"
        where = [{"path": path, "line": 1}]
        self.show(
            session, "tool_call", toolCallId=call, title="Write a file", kind="edit", status="pending", locations=where
        )
        chosen, _ = yield ("call", "session/request_permission", self.permission(session, call))
        outcome = chosen.get("outcome", {}) if isinstance(chosen, dict) else {}
        if not self.is_allowed(outcome):
            self.show(session, "tool_call_update", toolCallId=call, status="failed")
            return "end_turn"
        self.show(session, "tool_call_update", toolCallId=call, status="in_progress")
        if self.offers("fs", "readTextFile"):
            yield ("call", "fs/read_text_file", {"sessionId": session["id"], "path": path, "line": 1, "limit": 10})
        if self.offers("fs", "writeTextFile"):
            yield ("call", "fs/write_text_file", {"sessionId": session["id"], "path": path, "content": "ok\n"})
        diff = {"type": "diff", "path": path, "oldText": None, "newText": "ok\n"}
        self.show(session, "tool_call_update", toolCallId=call, content=[diff])
        if self.offers("terminal"):
            yield from self.run(session, call, diff, kill=False)
            yield from self.run(session, call, diff, kill=True)
        self.show(session, "tool_call_update", toolCallId=call, status="completed")
        return "end_turn"

    def is_allowed(self, outcome: Message) -> bool:
        return outcome.get("outcome") == "selected" and outcome.get("optionId") in ("yes", "always")

    def permission(self, session: Message, call: str) -> Message:
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "always", "name": "Always", "kind": "allow_always"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
            {"optionId": "never", "name": "Never", "kind": "reject_always"},
        ]
        return {
            "sessionId": session["id"],
            "toolCall": {"toolCallId": call, "title": "Write a file"},
            "options": options,
        }

    def run(self, session: Message, call: str, diff: Message, *, kill: bool) -> Steps:
        command = {"sessionId": session["id"], "command": "true", "args": [], "cwd": session["cwd"]}
        created, error, cancelled = yield from self.create(command)
        if error is not None or not isinstance(created, dict):
            return "cancelled" if cancelled else "end_turn"
        terminal = {"sessionId": session["id"], "terminalId": created.get("terminalId")}
        content = [diff, {"type": "terminal", "terminalId": created.get("terminalId")}]
        self.show(session, "tool_call_update", toolCallId=call, content=content)
        try:
            if cancelled:
                raise CancelledError
            if kill:
                yield ("call", "terminal/kill", terminal)
            else:
                yield ("call", "terminal/wait_for_exit", terminal)
            yield ("call", "terminal/output", terminal)
        finally:
            self.request("terminal/release", terminal)
        return "end_turn"

    def create(self, command: Message) -> Generator[tuple[str, Any, Any], Any, tuple[Any, Any, bool]]:
        """Create a terminal, and return whether the turn was cancelled meanwhile. It must be released in any case."""
        asked: tuple[str, Any, Any] = ("call", "terminal/create", command)
        cancelled = False
        while True:
            try:
                created, error = yield asked
            except CancelledError:
                asked, cancelled = ("await", None, None), True
            else:
                return created, error, cancelled

    # --- how turns go on ----------------------------------------------------------------------------------------------

    def step(self, turn: Turn, result: Any, error: Any) -> None:
        if not turn.ended:
            self.proceed(turn, lambda: turn.steps.send((result, error)) if turn.waits_for else next(turn.steps))

    def proceed(self, turn: Turn, advance: Callable[[], tuple[str, Any, Any]]) -> None:
        try:
            what, first, second = advance()
        except StopIteration as stop:
            self.end(turn, stop.value)
        except CancelledError:
            self.end(turn, "cancelled")
        else:
            turn.waits_for = token = object()
            if what == "await":
                return
            if what == "sleep":
                self.world.later(first, lambda: self.step(turn, None, None) if turn.waits_for is token else None)
            else:
                turn.asked = first
                self.calls[self.request(first, second)] = turn

    def take_answer(self, message: Message) -> None:
        name = message.get("id")
        turn = self.calls.pop(name, None) if isinstance(name, int | str) else None
        if turn is not None and not turn.ended:
            self.step(turn, message.get("result"), message.get("error"))

    def cancel(self, session_id: Any) -> None:
        for turn in [turn for turn in self.turns if turn.session["id"] == session_id]:
            self.throw(turn)

    def throw(self, turn: Turn) -> None:
        self.proceed(turn, lambda: turn.steps.throw(CancelledError()))

    def end(self, turn: Turn, reason: str) -> None:
        turn.ended = True
        self.turns.remove(turn)
        self.kept[f"{turn.session['cwd']}/{turn.session['id']}"] = json.dumps(turn.session)
        self.answer({"id": turn.id}, {"stopReason": reason})
