"""A conforming ACP client, version 1, which defects change. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from line_peer import LinePeer, Message

THINKING = 0.5
"""Seconds until the user decides."""
POLL = 0.02


class RefusedError(Exception):
    """Raised by a handler that answers with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Terminal:
    """A command, and the limit of its output."""

    def __init__(self, process: Any, limit: int | None) -> None:
        self.process = process
        self.limit = limit


def objects(value: Any) -> list[Message]:
    """Return the objects in a list; none for another value."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


class Client(LinePeer):
    """A conforming client. Its methods are small, so that a defect can replace one."""

    def __init__(self, world: Any, start: Callable[..., Any]) -> None:
        super().__init__(world)
        self.start = start
        self.agent: Message = {}
        self.opened: Message = {}
        self.session = ""
        self.asked: dict[Any, str] = {}
        self.permissions: dict[Any, Message] = {}
        self.terminals: dict[str, Terminal] = {}
        self.made = 0
        self.prompting = False
        world.later(0, self.begin)

    def input_ended(self) -> None:
        self.leave(1)

    def interrupted(self) -> None:
        if self.prompting:
            self.cancel()
        else:
            self.leave(130)

    def leave(self, code: int) -> None:
        for terminal in self.terminals.values():
            terminal.process.kill()
        self.world.exit(code)

    def request(self, method: str, params: Message) -> None:
        self.next_id += 1
        self.asked[self.next_id] = method
        self.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})

    # --- the way to a turn --------------------------------------------------------------------------------------------

    def capabilities(self) -> Message:
        return {
            "fs": {"readTextFile": True, "writeTextFile": True},
            "terminal": True,
            "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
            "elicitation": {"form": {}},
        }

    def begin(self) -> None:
        info = {"name": "reference", "version": "1"}
        params = {"protocolVersion": 1, "clientCapabilities": self.capabilities(), "clientInfo": info}
        self.request("initialize", params)

    def take_answer(self, message: Message) -> None:
        name = message.get("id")
        method = self.asked.pop(name, None) if isinstance(name, int | str) else None
        if method is None:
            return
        result, error = message.get("result"), message.get("error")
        handler = {
            "initialize": self.initialized,
            "authenticate": self.authenticated,
            "session/new": self.made_session,
            "session/prompt": self.prompted,
        }.get(method)
        if handler is not None:
            handler(result if isinstance(result, dict) else {}, error if isinstance(error, dict) else {})

    def initialized(self, result: Message, error: Message) -> None:
        if error or not self.speaks(result.get("protocolVersion")):
            self.leave(1)
            return
        self.agent = result
        self.open()

    def speaks(self, version: Any) -> bool:
        return version == 1

    def open(self) -> None:
        self.request("session/new", {"cwd": os.getcwd(), "mcpServers": self.servers(), **self.directories()})

    def offered(self, *path: str) -> bool:
        value: Any = self.agent.get("agentCapabilities")
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value is True or isinstance(value, dict)

    def servers(self) -> list[Message]:
        local = {"name": "tools", "command": "/usr/bin/true", "args": [], "env": []}
        kinds = [kind for kind in ("http", "sse") if self.offered("mcpCapabilities", kind)]
        return [local, *({"type": one, "name": one, "url": "http://127.0.0.1:9/", "headers": []} for one in kinds)]

    def directories(self) -> Message:
        offered = self.offered("sessionCapabilities", "additionalDirectories")
        return {"additionalDirectories": ["/usr/lib"]} if offered else {}

    def authenticated(self, _result: Message, error: Message) -> None:
        if error:
            self.leave(1)
        else:
            self.open()

    def made_session(self, result: Message, error: Message) -> None:
        if error.get("code") == -32000 and not self.session and self.methods():
            self.request("authenticate", {"methodId": self.methods()[0]["id"]})
        elif error or not isinstance(result.get("sessionId"), str):
            self.leave(1)
        else:
            self.opened = result
            self.session = result["sessionId"]
            self.has_session()

    def methods(self) -> list[Message]:
        return objects(self.agent.get("authMethods"))

    def has_session(self) -> None:
        self.adjust()
        self.prompt()

    def adjust(self) -> None:
        """Use the agent's modes and options, as editors do on request."""
        modes = self.opened.get("modes")
        if modes := objects(modes.get("availableModes") if isinstance(modes, dict) else None):
            self.request("session/set_mode", {"sessionId": self.session, "modeId": modes[-1]["id"]})
        for option in objects(self.opened.get("configOptions")):
            if option["id"] == "model" and any(one["value"] == "large" for one in objects(option["options"])):
                chosen = {"configId": "model", "value": "large"}
                self.request("session/set_config_option", {"sessionId": self.session, **chosen})

    def blocks(self) -> list[Message]:
        return [{"type": "text", "text": os.environ.get("REFERENCE_PROMPT", "Hello.")}]

    def prompt(self) -> None:
        self.prompting = True
        self.request("session/prompt", {"sessionId": self.session, "prompt": self.blocks()})

    def prompted(self, _result: Message, _error: Message) -> None:
        self.prompting = False
        self.leave(0)

    # --- what the agent asks ------------------------------------------------------------------------------------------

    def take_call(self, message: Message) -> None:
        self.take(message)

    def take(self, message: Message) -> None:
        if "id" not in message:
            self.take_notification(message)
            return
        handler = {
            "session/request_permission": self.permission,
            "elicitation/create": self.elicit,
            "fs/read_text_file": self.read,
            "fs/write_text_file": self.write,
            "terminal/create": self.create,
            "terminal/output": self.output,
            "terminal/wait_for_exit": self.wait,
            "terminal/kill": self.kill,
            "terminal/release": self.release,
        }.get(message["method"])
        params = message.get("params")
        if handler is None:
            self.refuse(message, -32601, "Method not found")
        elif not isinstance(params, dict):
            self.refuse(message, -32602, "Invalid params")
        else:
            try:
                handler(message, params)
            except RefusedError as refused:
                self.refuse(message, refused.code, str(refused))

    def take_notification(self, message: Message) -> None:
        params = message.get("params")
        if message["method"] == "session/update" and isinstance(params, dict):
            self.updated(params.get("update"))

    def updated(self, update: Any) -> None:
        if isinstance(update, dict) and isinstance(update.get("content"), dict):
            text = update["content"].get("text")
            self.world.log(f"{text}\n".encode() if isinstance(text, str) and len(text) < 100_000 else b"...\n")

    # --- permissions --------------------------------------------------------------------------------------------------

    def permission(self, request: Message, params: Message) -> None:
        self.permissions[request["id"]] = request
        self.world.later(THINKING, lambda: self.decide(request, params))

    def choose(self, options: list[Message]) -> Message:
        return {"outcome": "selected", "optionId": options[0]["optionId"]}

    def decide(self, request: Message, params: Message) -> None:
        if self.permissions.pop(request["id"], None) is not None:
            self.answer(request, {"outcome": self.choose(params["options"])})

    def cancel(self) -> None:
        self.notify("session/cancel", {"sessionId": self.session})
        self.drop_permissions()

    def drop_permissions(self) -> None:
        pending = list(self.permissions.values())
        self.permissions.clear()
        for request in pending:
            self.answer(request, {"outcome": {"outcome": "cancelled"}})

    def elicit(self, request: Message, params: Message) -> None:
        if params.get("mode") == "form":
            self.answer(request, {"action": "decline"})
        else:
            self.refuse(request, -32602, "There is no such mode")

    # --- files --------------------------------------------------------------------------------------------------------

    def read(self, request: Message, params: Message) -> None:
        self.answer(request, {"content": self.content(params)})

    def content(self, params: Message) -> str:
        lines = self.text(self.path(params)).splitlines(keepends=True)
        first = max(1, self.first(params)) - 1
        limit = self.limit(params)
        return "".join(lines[first : None if limit is None else first + limit])

    def path(self, params: Message) -> str:
        path = params.get("path")
        if not isinstance(path, str) or not path.startswith("/"):
            raise RefusedError(-32602, "The path must be absolute")
        return path

    def text(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8", newline="") as file:
                return file.read()
        except OSError:
            raise RefusedError(-32002, "There is no such file") from None

    def first(self, params: Message) -> int:
        return params.get("line") or 1

    def limit(self, params: Message) -> int | None:
        return params.get("limit")

    def write(self, request: Message, params: Message) -> None:
        self.store(self.path(params), params["content"])
        self.answer(request, {})

    def store(self, path: str, text: str) -> None:
        try:
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text)
        except OSError:
            raise RefusedError(-32603, "The file cannot be written") from None

    # --- terminals ----------------------------------------------------------------------------------------------------

    def create(self, request: Message, params: Message) -> None:
        variables = {pair["name"]: pair["value"] for pair in params.get("env") or []}
        try:
            process = self.start([params["command"], *(params.get("args") or [])], variables, params.get("cwd"))
        except OSError:
            raise RefusedError(-32603, "The command cannot be started") from None
        self.made += 1
        name = self.name_terminal()
        self.terminals[name] = Terminal(process, params.get("outputByteLimit"))
        self.answer(request, {"terminalId": name})

    def name_terminal(self) -> str:
        return f"terminal-{self.made}"

    def terminal(self, params: Message) -> Terminal:
        found = self.terminals.get(str(params.get("terminalId")))
        if found is None:
            raise RefusedError(-32002, "There is no such terminal")
        return found

    def exit_status(self, terminal: Terminal) -> Message | None:
        code = terminal.process.code()
        if code is None:
            return None
        return {"exitCode": None, "signal": f"SIG{-code}"} if code < 0 else {"exitCode": code, "signal": None}

    def output(self, request: Message, params: Message) -> None:
        terminal = self.terminal(params)
        data = terminal.process.output()
        kept = self.kept(data, terminal.limit)
        result = {"output": self.decoded(kept), "truncated": len(kept) < len(data)}
        self.answer(request, {**result, "exitStatus": self.exit_status(terminal)})

    def kept(self, data: bytes, limit: int | None) -> bytes:
        return data if limit is None else data[max(0, len(data) - limit) :]

    def decoded(self, data: bytes) -> str:
        """Decode text from the first whole character."""
        while data and data[0] & 0xC0 == 0x80:
            data = data[1:]
        return data.decode(errors="replace")

    def wait(self, request: Message, params: Message) -> None:
        self.poll(request, self.terminal(params))

    def poll(self, request: Message, terminal: Terminal) -> None:
        status = self.exit_status(terminal)
        if status is None:
            self.world.later(POLL, lambda: self.poll(request, terminal))
        else:
            self.answer(request, status)

    def kill(self, request: Message, params: Message) -> None:
        self.terminal(params).process.kill()
        self.answer(request, {})

    def release(self, request: Message, params: Message) -> None:
        self.terminal(params).process.kill()
        del self.terminals[params["terminalId"]]
        self.answer(request, {})
