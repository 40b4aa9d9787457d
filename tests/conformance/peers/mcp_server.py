"""A conforming MCP server of both versions, which defects change. Standard library only."""

from __future__ import annotations

import base64
import json
from typing import Any

from line_peer import LinePeer, Message

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
INFO = {"name": "reference", "version": "1"}
SLOW_STEP = 0.1
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
READS = {"readOnlyHint": True}
SECONDS = {"type": "object", "properties": {"seconds": {"type": "number", "default": 3}}}
TOOLS: list[Message] = [
    {"name": "write", "description": "Writes.", "inputSchema": TEXT},
    {"name": "echo", "description": "Says it again.", "inputSchema": TEXT, "outputSchema": TEXT, "annotations": READS},
    {"name": "slow", "inputSchema": SECONDS, "annotations": READS},
    {"name": "image", "inputSchema": {"type": "object"}, "annotations": READS},
]
RESOURCES: list[Message] = [
    {"uri": "memo://one", "name": "one"},
    {"uri": "memo://two", "name": "two"},
    {"uri": "memo://three", "name": "three"},
]
TEMPLATES: list[Message] = [{"uriTemplate": "memo://{name}", "name": "memo"}]
PROMPTS: list[Message] = [
    {"name": "plain"},
    {"name": "about", "arguments": [{"name": "topic", "required": True}]},
]
CACHEABLE = (
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
    "resources/read",
)
PAGE = 2


class RefusedError(Exception):
    """Ends a request with an error."""

    def __init__(self, code: int, text: str, data: Any = None) -> None:
        super().__init__(code, text, data)


class Call:
    """A running slow call."""

    def __init__(self, request: Message, seconds: float) -> None:
        self.request = request
        self.left = round(seconds / SLOW_STEP)
        self.done = 0
        self.ended = False


class Server(LinePeer):
    """A conforming server. Its methods are small, so that a defect can replace one."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self.calls: list[Call] = []
        self.asked: dict[str, Message] = {}
        self.streams: dict[Any, Message] = {}
        self.subscribed: set[str] = set()
        self.level = "info"
        self.is_open = False

    def take_call(self, message: Message) -> None:
        if "id" in message:
            self.take(message)
        else:
            self.take_notification(message["method"], params_of(message))

    def request(self, method: str) -> None:
        self.next_id += 1
        self.send({"jsonrpc": "2.0", "id": f"server-{self.next_id}", "method": method})

    def answer(self, request: Message, result: Message) -> None:
        if version_of(request) == MODERN:
            result = {"resultType": "complete", **result, "_meta": {f"{META}serverInfo": INFO}}
            if request["method"] in CACHEABLE:
                result = {"ttlMs": 0, "cacheScope": "private", **result}
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def refuse(self, request: Message, code: int, text: str, data: Any = None) -> None:
        error: Message = {"code": code, "message": text} | ({} if data is None else {"data": data})
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    # --- requests -----------------------------------------------------------------------------------------------------

    def take(self, request: Message) -> None:
        self.asked[repr(request["id"])] = request
        try:
            self.check(request)
            handler = self.handlers(version_of(request)).get(request["method"])
            if handler is None:
                raise RefusedError(-32601, "Method not found")
            result = handler(request, params_of(request))
            if result is not None:
                self.answer(request, result)
        except RefusedError as refused:
            self.refuse(request, *refused.args)
        except (AttributeError, LookupError, TypeError):
            self.refuse(request, -32602, "Invalid params")

    def check(self, request: Message) -> None:
        """Check that a request has what its version requires."""
        version, meta = version_of(request), meta_of(request)
        if version == MODERN and not isinstance(meta.get(f"{META}clientCapabilities"), dict):
            raise RefusedError(-32602, "clientCapabilities are required")
        if version not in (MODERN, HANDSHAKE):
            supported = {"supported": [MODERN], "requested": version}
            raise RefusedError(-32022, "Unsupported protocol version", supported)
        if version == HANDSHAKE and not self.is_open and request["method"] not in ("initialize", "ping"):
            raise RefusedError(-32602, "Neither initialized nor a version in _meta")

    def handlers(self, version: str) -> Message:
        both = {
            "tools/list": self.list_tools,
            "tools/call": self.call,
            "resources/list": self.list_resources,
            "resources/templates/list": self.list_templates,
            "resources/read": self.read,
            "prompts/list": self.list_prompts,
            "prompts/get": self.get,
            "completion/complete": self.complete,
        }
        if version == MODERN:
            return {**both, "server/discover": self.discover, "subscriptions/listen": self.listen}
        return {
            **both,
            "initialize": self.initialize,
            "ping": lambda *_: {},
            "logging/setLevel": self.set_level,
            "resources/subscribe": self.subscribe,
            "resources/unsubscribe": self.unsubscribe,
        }

    def take_notification(self, method: str, params: Message) -> None:
        if method == "notifications/cancelled":
            self.cancel(params.get("requestId"))
        elif method == "notifications/initialized":
            self.request("ping")

    # --- connections --------------------------------------------------------------------------------------------------

    def capabilities(self) -> Message:
        return {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {},
            "completions": {},
            "logging": {},
        }

    def initialize(self, request: Message, params: Message) -> Message:
        self.is_open = True
        asked = params.get("protocolVersion")
        version = asked if asked in ("2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE) else HANDSHAKE
        return {"protocolVersion": version, "capabilities": self.capabilities(), "serverInfo": INFO}

    def discover(self, request: Message, params: Message) -> Message:
        capabilities = {name: value for name, value in self.capabilities().items() if name != "logging"}
        return {"supportedVersions": [MODERN], "capabilities": capabilities}

    # --- lists --------------------------------------------------------------------------------------------------------

    def page(self, field: str, items: list[Message], params: Message) -> Message:
        cursor = params.get("cursor", "0")
        if not isinstance(cursor, str) or not cursor.isdigit() or int(cursor) > len(items):
            raise RefusedError(-32602, "Invalid cursor")
        begin = int(cursor)
        more = {"nextCursor": str(begin + PAGE)} if begin + PAGE < len(items) else {}
        return {field: items[begin : begin + PAGE], **more}

    def list_tools(self, request: Message, params: Message) -> Message:
        return self.page("tools", TOOLS, params)

    def list_resources(self, request: Message, params: Message) -> Message:
        return self.page("resources", RESOURCES, params)

    def list_templates(self, request: Message, params: Message) -> Message:
        return self.page("resourceTemplates", TEMPLATES, params)

    def list_prompts(self, request: Message, params: Message) -> Message:
        return self.page("prompts", PROMPTS, params)

    # --- tools --------------------------------------------------------------------------------------------------------

    def call(self, request: Message, params: Message) -> Message | None:
        tool = next((tool for tool in TOOLS if tool["name"] == params.get("name")), None)
        if tool is None:
            raise RefusedError(-32602, "Unknown tool")
        arguments = params.get("arguments") or {}
        problem = self.problem(tool, arguments)
        if problem:
            return {"content": [text(problem)], "isError": True}
        self.log(request, f"{tool['name']} was called")
        if tool["name"] == "slow":
            self.calls.append(Call(request, float(arguments.get("seconds", 3))))
            self.step(self.calls[-1])
            return None
        return self.result(tool["name"], arguments)

    def problem(self, tool: Message, arguments: Message) -> str:
        for name, shape in tool["inputSchema"].get("properties", {}).items():
            if name not in arguments and name in tool["inputSchema"].get("required", []):
                return f"{name} is missing"
            if name in arguments and not isinstance(
                arguments[name], str if shape["type"] == "string" else (int, float)
            ):
                return f"{name} is of another type"
        return ""

    def result(self, name: str, arguments: Message) -> Message:
        self.changed("memo://one")
        if name == "image":
            data = base64.b64encode(b"\x89PNG").decode()
            return {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
        structured = {"text": arguments["text"]}
        return {"content": [text(json.dumps(structured))], "structuredContent": structured}

    def step(self, call: Call) -> None:
        if call.ended:
            return
        self.progress(call)
        if call.left == 0:
            self.end(call)
            self.answer(call.request, {"content": [text("done")]})
            return
        call.left -= 1
        call.done += 1
        self.world.later(SLOW_STEP, lambda: self.step(call))

    def progress(self, call: Call) -> None:
        token = meta_of(call.request).get("progressToken")
        if token is not None:
            self.notify("notifications/progress", {"progressToken": token, "progress": call.done})

    def end(self, call: Call) -> None:
        call.ended = True
        self.calls.remove(call)

    def cancel(self, request_id: Any) -> None:
        for call in [call for call in self.calls if call.request["id"] == request_id]:
            self.end(call)
        if isinstance(request_id, int | str):
            self.streams.pop(request_id, None)

    def log(self, request: Message, said: str) -> None:
        level = meta_of(request).get(f"{META}logLevel") if version_of(request) == MODERN else self.level
        if level in LEVELS and LEVELS.index(level) <= LEVELS.index("info"):
            self.notify("notifications/message", {"level": "info", "data": said})

    # --- resources, prompts, completions, levels ----------------------------------------------------------------------

    def read(self, request: Message, params: Message) -> Message:
        uri = params.get("uri")
        if uri not in [resource["uri"] for resource in RESOURCES]:
            code = -32602 if version_of(request) == MODERN else -32002
            raise RefusedError(code, "Resource not found", {"uri": uri})
        if uri == "memo://two":
            return {"contents": [{"uri": uri, "blob": base64.b64encode(b"\x00\x01").decode()}]}
        return {"contents": [{"uri": uri, "text": "a memo"}]}

    def subscribe(self, request: Message, params: Message) -> Message:
        self.subscribed.add(str(params.get("uri")))
        return {}

    def unsubscribe(self, request: Message, params: Message) -> Message:
        self.subscribed.discard(str(params.get("uri")))
        return {}

    def listen(self, request: Message, params: Message) -> None:
        wanted = params.get("notifications", {})
        self.streams[request["id"]] = wanted
        self.on_stream(request["id"], "notifications/subscriptions/acknowledged", {"notifications": wanted})

    def on_stream(self, name: Any, method: str, params: Message) -> None:
        self.notify(method, {**params, "_meta": {f"{META}subscriptionId": name}})

    def changed(self, uri: str) -> None:
        """Notify subscribers of a changed resource, and listeners of changed tools."""
        if uri in self.subscribed:
            self.notify("notifications/resources/updated", {"uri": uri})
        for name, wanted in self.streams.items():
            if uri in wanted.get("resourceSubscriptions", []):
                self.on_stream(name, "notifications/resources/updated", {"uri": uri})
            if wanted.get("toolsListChanged") is True:
                self.on_stream(name, "notifications/tools/list_changed", {})

    def get(self, request: Message, params: Message) -> Message:
        prompt = next((prompt for prompt in PROMPTS if prompt["name"] == params.get("name")), None)
        if prompt is None:
            raise RefusedError(-32602, "Unknown prompt")
        if any(argument["name"] not in params.get("arguments", {}) for argument in prompt.get("arguments", [])):
            raise RefusedError(-32602, "An argument is missing")
        return {"messages": [{"role": "user", "content": text("Go on.")}]}

    def complete(self, request: Message, params: Message) -> Message:
        if params["ref"].get("type") == "ref/prompt" and params["ref"].get("name") not in [p["name"] for p in PROMPTS]:
            raise RefusedError(-32602, "Unknown prompt")
        return {"completion": {"values": self.values()}}

    def values(self) -> list[str]:
        return [f"topic {number}" for number in range(3)]

    def set_level(self, request: Message, params: Message) -> Message:
        if params.get("level") not in LEVELS:
            raise RefusedError(-32602, "Unknown level")
        self.level = params["level"]
        return {}


def text(value: str) -> Message:
    return {"type": "text", "text": value}


def params_of(message: Message) -> Message:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def meta_of(message: Message) -> Message:
    meta = params_of(message).get("_meta")
    return meta if isinstance(meta, dict) else {}


def version_of(request: Message) -> str:
    version = meta_of(request).get(f"{META}protocolVersion")
    return version if isinstance(version, str) else HANDSHAKE
