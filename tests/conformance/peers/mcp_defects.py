"""A defect for each requirement: the conforming server with one change that violates only that requirement."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import changes
from changes import cut, put
from mcp_server import (
    HANDSHAKE,
    META,
    MODERN,
    PROMPTS,
    TEMPLATES,
    TEXT,
    TOOLS,
    Call,
    Message,
    RefusedError,
    Server,
    meta_of,
    params_of,
    text,
    version_of,
)

Match = Callable[[Server, Message], bool]
UNKNOWN = "rewindow-conformance-no-such-name"
UNKNOWN_TOOL = "rewindow-conformance-no-such-tool"
UNKNOWN_URI = "rewindow-conformance://no/such/resource"

changed = partial(changes.changed, Server)
preceded = partial(changes.preceded, Server)
rewrite = partial(changes.rewrite, Server)
followed = partial(changes.followed, Server)
refuse = partial(changes.refuse, Server)
grant = partial(changes.grant, Server)
ignore = partial(changes.ignore, Server)
dies = partial(changes.dies, Server)
deaf = partial(changes.deaf, Server)
drop = partial(changes.drop, Server)


# --- which message ----------------------------------------------------------------------------------------------------


def answers(kind: str, method: str, version: str = "", **fields: Any) -> Match:
    """Match results or errors of requests with this method, version and params."""

    def match(server: Server, message: Message) -> bool:
        request = server.asked.get(repr(message.get("id")))
        return kind in message and request is not None and asks(method, version, **fields)(server, request)

    return match


result = partial(answers, "result")
error = partial(answers, "error")


def asks(method: str, version: str = "", **fields: Any) -> Match:
    """Match requests with this method, version and params."""

    def match(_: Server, message: Message) -> bool:
        given = params_of(message)
        asked = message.get("method") == method and version in ("", version_of(message))
        return asked and all(name in given and given[name] == value for name, value in fields.items())

    return match


def note(method: str) -> Match:
    """Match notifications."""
    return lambda _, m: m.get("method") == method and "id" not in m


def nameless(_: Server, message: Message) -> bool:
    """Match calls without a tool name."""
    return message.get("method") == "tools/call" and not isinstance(params_of(message).get("name"), str)


# --- bytes ------------------------------------------------------------------------------------------------------------


def writes(instead: bytes) -> type[Server]:
    """Corrupt the data of log messages."""

    class Writing(Server):
        def encode(self, message: Message) -> bytes:
            return super().encode(message).replace(b"was called", instead)

    return Writing


class TakesTwoLinesOfAWrite(Server):
    def receive(self, data: bytes) -> None:
        lines = data.splitlines(keepends=True) if data.endswith(b"\n") else []
        joined = len(lines) > 2 and b"tools/call" not in data
        super().receive(lines[0] + lines[-1] if joined else data)


class ReadsTheNextLine(Server):
    """Reads the next line, like a child process that inherits standard input."""

    def receive(self, data: bytes) -> None:
        lines = data.splitlines(keepends=True)
        stolen = len(lines) > 1 and b'"tools/call"' in lines[0]
        super().receive(lines[0] + b"".join(lines[2:]) if stolen else data)


# --- JSON-RPC ---------------------------------------------------------------------------------------------------------


class AnswersNotifications(Server):
    def take_notification(self, method: str, params: Message) -> None:
        if method == "notifications/rewindow_conformance":
            self.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Method not found"}})
        super().take_notification(method, params)


class CountsInHalves(Server):
    def request(self, method: str) -> None:
        self.send({"jsonrpc": "2.0", "id": 1.5, "method": method})


class RepeatsAnId(Server):
    """Repeats the first ping's id after its answer."""

    pings = 0

    def request(self, method: str) -> None:
        self.pings += 1
        self.send({"jsonrpc": "2.0", "id": "server-1", "method": method})

    def take_line(self, line: bytes) -> None:
        super().take_line(line)
        if b'"server-1"' in line and self.pings == 1:
            self.request("ping")


# --- the handshake ----------------------------------------------------------------------------------------------------


class KeepsPingsWaiting(Server):
    ready = False

    def take_notification(self, method: str, params: Message) -> None:
        self.ready = self.ready or method == "notifications/initialized"
        super().take_notification(method, params)

    def take(self, request: Message) -> None:
        if request["method"] != "ping" or self.ready:
            super().take(request)


class AsksForSampling(Server):
    def take_notification(self, method: str, params: Message) -> None:
        super().take_notification(method, params)
        if method == "notifications/initialized":
            self.request("sampling/createMessage")


class DiesOfDiscovery(Server):
    def check(self, request: Message) -> None:
        if version_of(request) == MODERN:
            self.world.exit(1)
        super().check(request)


# --- versions and _meta -----------------------------------------------------------------------------------------------


class WantsDiscovery(Server):
    discovered = False

    def discover(self, request: Message, params: Message) -> Message:
        self.discovered = True
        return super().discover(request, params)

    def check(self, request: Message) -> None:
        super().check(request)
        if version_of(request) == MODERN and request["method"] != "server/discover" and not self.discovered:
            raise RefusedError(-32600, "Discover first")


class RemembersClients(Server):
    able = False

    def list_tools(self, request: Message, params: Message) -> Message:
        capabilities = meta_of(request).get(f"{META}clientCapabilities", {})
        self.able = self.able or "elicitation" in capabilities
        more = [{"name": "ask", "inputSchema": {"type": "object"}}] if self.able else []
        return self.page("tools", more + TOOLS, params)


QUESTION = {
    "resultType": "input_required",
    "inputRequests": {
        "name": {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}},
        }
    },
}


# --- lists ------------------------------------------------------------------------------------------------------------


class NeverEndsItsList(Server):
    def list_templates(self, request: Message, params: Message) -> Message:
        if params.get("cursor") in (None, "1"):
            return {"resourceTemplates": TEMPLATES, "nextCursor": "1"}
        return super().list_templates(request, params)


class TakesAnyCursor(Server):
    def page(self, field: str, items: list[Message], params: Message) -> Message:
        known = str(params.get("cursor", "0")).isdigit()
        return super().page(field, items, params if known else {})


def lists(tools: Callable[[Server, list[Message]], list[Message]]) -> type[Server]:
    """List other tools. `called` tells whether one was already called."""

    class Listing(Server):
        called = False

        def result(self, name: str, arguments: Message) -> Message:
            self.called = True
            return super().result(name, arguments)

        def list_tools(self, request: Message, params: Message) -> Message:
            return self.page("tools", tools(self, list(TOOLS)), params)

    return Listing


def after_a_call(change: Callable[[list[Message]], list[Message]]) -> type[Server]:
    return lists(lambda server, tools: change(tools) if getattr(server, "called", False) else tools)


def conceals(capability: str) -> type[Server]:
    """Do not advertise a supported capability."""

    class Concealing(Server):
        def capabilities(self) -> Message:
            return {name: value for name, value in super().capabilities().items() if name != capability}

        def complete(self, request: Message, params: Message) -> Message:
            hidden = capability == "completions"
            return {"completion": {"values": self.values()}} if hidden else super().complete(request, params)

    return Concealing


class TellsOfPrompts(Server):
    """Announces prompt changes without advertising it."""

    def call(self, request: Message, params: Message) -> Message | None:
        if version_of(request) != MODERN:
            self.notify("notifications/prompts/list_changed", {})
        return super().call(request, params)


# --- tools ------------------------------------------------------------------------------------------------------------


def described(tool: str, **fields: Any) -> type[Server]:
    """Change a tool's description."""
    return lists(lambda _, tools: [{**one, **fields} if one["name"] == tool else one for one in tools])


class TakesTooLittle(Server):
    def problem(self, tool: Message, arguments: Message) -> str:
        if "text" in tool["inputSchema"].get("required", []):
            arguments.setdefault("text", "")
        return super().problem(tool, arguments)


class TakesAnyType(Server):
    def problem(self, tool: Message, arguments: Message) -> str:
        if "text" in arguments:
            arguments["text"] = str(arguments["text"])
        return super().problem(tool, arguments)


class AnswersWithANumber(Server):
    def result(self, name: str, arguments: Message) -> Message:
        given = super().result(name, arguments)
        if name == "echo":
            structured = {"text": 5}
            given = {"content": [text(json.dumps(structured))], "structuredContent": structured}
        return given


def without_uri(message: Message) -> None:
    message["result"]["contents"][0].pop("uri")


# --- prompts, completions ---------------------------------------------------------------------------------------------


class CompletesTooMuch(Server):
    def complete(self, request: Message, params: Message) -> Message:
        given = super().complete(request, params)
        if version_of(request) == HANDSHAKE:
            given["completion"]["values"] = [str(number) for number in range(101)]
        return given


# --- progress and cancels ---------------------------------------------------------------------------------------------


class TellsLate(Server):
    def step(self, call: Call) -> None:
        super().step(call)
        if call.ended and call.left == 0:
            call.done += 1
            self.progress(call)


def tells(progress: Any) -> type[Server]:
    """Send the same progress each time."""

    class Telling(Server):
        def progress(self, call: Call) -> None:
            token = meta_of(call.request).get("progressToken")
            if token is not None:
                self.notify("notifications/progress", {"progressToken": token, "progress": progress})

    return Telling


def answers_cancelled(version: str) -> type[Server]:
    class Answering(Server):
        def cancel(self, request_id: Any) -> None:
            for call in [call for call in self.calls if call.request["id"] == request_id]:
                if version_of(call.request) == version:
                    self.refuse(call.request, 0, "Request cancelled")
            super().cancel(request_id)

    return Answering


class FallsSilent(Server):
    silent = False

    def cancel(self, request_id: Any) -> None:
        self.silent = self.silent or any(call.request["id"] == request_id for call in self.calls)
        super().cancel(request_id)

    def take(self, request: Message) -> None:
        if not self.silent:
            super().take(request)


def dies_of_cancels(which: Callable[[Server, Any], bool]) -> type[Server]:
    class Dying(Server):
        def cancel(self, request_id: Any) -> None:
            if which(self, request_id):
                self.world.exit(1)
            super().cancel(request_id)

    return Dying


def is_stale(server: Server, request_id: Any) -> bool:
    known = isinstance(request_id, int | str)
    return known and request_id not in server.streams and not any(c.request["id"] == request_id for c in server.calls)


# --- subscriptions ----------------------------------------------------------------------------------------------------


class TellsWithoutSubscription(Server):
    def changed(self, uri: str) -> None:
        super().changed(uri)
        if self.is_open and uri not in self.subscribed:
            self.notify("notifications/resources/updated", {"uri": uri})


class AcknowledgesNothing(Server):
    def listen(self, request: Message, params: Message) -> None:
        self.streams[request["id"]] = params.get("notifications", {})


class AcknowledgesMore(Server):
    def on_stream(self, name: Any, method: str, params: Message) -> None:
        if "notifications" in params:
            params = {"notifications": {"toolsListChanged": True, **params["notifications"]}}
        super().on_stream(name, method, params)


class TellsEveryStream(Server):
    def changed(self, uri: str) -> None:
        super().changed(uri)
        for name in [name for name, wanted in self.streams.items() if not wanted]:
            self.on_stream(name, "notifications/tools/list_changed", {})


class KeepsStreams(Server):
    def cancel(self, request_id: Any) -> None:
        kept = dict(self.streams)
        super().cancel(request_id)
        self.streams = kept


# --- the end ----------------------------------------------------------------------------------------------------------


def stays(when: Callable[[Server], bool]) -> type[Server]:
    """Keep running after the end of input."""

    class Staying(Server):
        def input_ended(self) -> None:
            if not when(self):
                super().input_ended()

    return Staying


class AnswersLate(Server):
    def take(self, request: Message) -> None:
        if request["method"] == "initialize":
            self.world.later(0.01, lambda: super(AnswersLate, self).take(request))
        else:
            super().take(request)


DEFECTS: dict[str, type[Server]] = {
    "MCP-S-FRAME-001": preceded("initialize", lambda peer: peer.world.write(b"Server running on stdio\n")),
    "MCP-S-FRAME-002": writes(b"was c\xe9lled"),
    "MCP-S-FRAME-003": preceded(
        "input_ended", lambda peer: peer.world.write(b'{"jsonrpc":"2.0","method":"notifications/bye"}')
    ),
    "MCP-S-FRAME-004": writes(b"was \\ud83d"),
    "MCP-S-FRAME-005": changed("receive", changes.take_whole_writes),
    "MCP-S-FRAME-006": TakesTwoLinesOfAWrite,
    "MCP-S-FRAME-007": deaf(lambda line: "\u2028".encode() in line),
    "MCP-S-FRAME-008": dies(lambda line: b"\\ud83d" in line),
    "MCP-S-FRAME-009": dies(lambda line: line == b"5"),
    "MCP-S-FRAME-010": drop(lambda _, m: "error" in m and m["id"] is None),
    "MCP-S-FRAME-011": dies(lambda line: b"\xff" in line),
    "MCP-S-FRAME-012": dies(lambda line: not line.strip()),
    "MCP-S-FRAME-013": deaf(lambda line: line.endswith(b"\r")),
    "MCP-S-FRAME-014": deaf(lambda line: line.startswith(b"\xef\xbb\xbf")),
    "MCP-S-FRAME-015": dies(lambda line: len(line) > 1_000_000),
    "MCP-S-FRAME-016": dies(lambda line: b'"id":987654,"result"' in line),
    "MCP-S-FRAME-017": dies(lambda line: line.startswith(b"[")),
    "MCP-S-FRAME-018": ReadsTheNextLine,
    "MCP-S-RPC-001": rewrite(result("resources/templates/list"), cut("jsonrpc")),
    "MCP-S-RPC-002": rewrite(result("prompts/list"), put("error", {"code": -32603, "message": "Internal error"})),
    "MCP-S-RPC-003": rewrite(error("prompts/get", name=UNKNOWN), put("error", "There is no such prompt")),
    "MCP-S-RPC-004": followed(result("resources/templates/list"), lambda _, m: [m]),
    "MCP-S-RPC-005": AnswersNotifications,
    "MCP-S-RPC-006": rewrite(lambda _, m: "result" in m and m["id"] == "7", put("id", 7)),
    "MCP-S-RPC-007": CountsInHalves,
    "MCP-S-RPC-008": ignore(asks("tools/rewindow_conformance")),
    "MCP-S-RPC-009": rewrite(error("rewindow_conformance/unknown"), put("error.code", -32602)),
    "MCP-S-RPC-010": dies(lambda line: b'"notifications/rewindow_conformance"' in line and b'"nothing"' in line),
    "MCP-S-RPC-011": deaf(lambda line: b'"at-once-9"' in line),
    "MCP-S-RPC-012": ignore(asks("resources/templates/list")),
    "MCP-S-RPC-013": RepeatsAnId,
    "MCP-S-INIT-001": rewrite(result("initialize"), cut("result.serverInfo")),
    "MCP-S-INIT-002": rewrite(
        result("initialize", protocolVersion="2099-12-31"), put("result.protocolVersion", "2099-12-31")
    ),
    "MCP-S-INIT-003": refuse(asks("initialize", protocolVersion="2024-11-05")),
    "MCP-S-INIT-004": refuse(asks("initialize", further=1), -32602),
    "MCP-S-INIT-005": KeepsPingsWaiting,
    "MCP-S-INIT-006": preceded("initialize", lambda peer: peer.request("example/hello")),
    "MCP-S-INIT-007": AsksForSampling,
    "MCP-S-INIT-008": DiesOfDiscovery,
    "MCP-S-META-001": rewrite(result("server/discover"), put("result.instructions", 5)),
    "MCP-S-META-002": rewrite(
        lambda _, m: "error" in m and m["error"]["code"] == -32022, put("error", {"code": -32602, "message": "Which?"})
    ),
    "MCP-S-META-003": changed(
        "check", lambda _, usual, request: usual(request) if version_of(request) != MODERN else None
    ),
    "MCP-S-META-004": changed(
        "check", lambda _, usual, request: usual(request) if version_of(request) != HANDSHAKE else None
    ),
    "MCP-S-META-005": WantsDiscovery,
    "MCP-S-META-006": RemembersClients,
    "MCP-S-META-007": rewrite(result("tools/call", MODERN), cut("result.resultType")),
    "MCP-S-META-008": rewrite(result("resources/templates/list", MODERN), cut("result.ttlMs")),
    "MCP-S-META-009": rewrite(error("resources/read", MODERN), put("error.code", -32002)),
    "MCP-S-META-010": preceded("discover", lambda peer: peer.request("ping")),
    "MCP-S-META-011": rewrite(result("resources/templates/list", MODERN), cut("result._meta")),
    "MCP-S-META-012": grant(asks("tools/call", MODERN, name="image"), QUESTION),
    "MCP-S-META-013": changed(
        "log",
        lambda peer, usual, request, said: (
            peer.notify("notifications/message", {"level": "info", "data": said})
            if version_of(request) == MODERN
            else usual(request, said)
        ),
    ),
    "MCP-S-META-014": followed(
        result("tools/call", MODERN),
        lambda _, m: [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": m["id"]}}],
    ),
    "MCP-S-LIST-001": rewrite(result("tools/list"), put("result.tools.0.title", 5)),
    "MCP-S-LIST-002": rewrite(result("resources/list"), put("result.resources.0.name", 5)),
    "MCP-S-LIST-003": rewrite(result("resources/templates/list"), put("result.resourceTemplates.0.name", 5)),
    "MCP-S-LIST-004": rewrite(result("prompts/list"), put("result.prompts.0.title", 5)),
    "MCP-S-LIST-005": NeverEndsItsList,
    "MCP-S-LIST-006": TakesAnyCursor,
    "MCP-S-LIST-007": lists(lambda _, tools: [*tools, tools[0]]),
    "MCP-S-LIST-008": after_a_call(lambda tools: [*tools, {"name": "more", "inputSchema": {"type": "object"}}]),
    "MCP-S-LIST-009": after_a_call(lambda tools: tools[::-1]),
    "MCP-S-LIST-010": conceals("tools"),
    "MCP-S-LIST-011": conceals("resources"),
    "MCP-S-LIST-012": conceals("prompts"),
    "MCP-S-LIST-013": conceals("completions"),
    "MCP-S-LIST-014": conceals("logging"),
    "MCP-S-LIST-015": TellsOfPrompts,
    "MCP-S-TOOL-001": described("image", inputSchema={"type": "object", "properties": {"size": {"type": "int"}}}),
    "MCP-S-TOOL-002": described("echo", outputSchema={**TEXT, "properties": {"text": {"type": "str"}}}),
    "MCP-S-TOOL-003": lists(lambda _, tools: [*tools, {"name": "read file", "inputSchema": {"type": "object"}}]),
    "MCP-S-TOOL-004": grant(
        asks("tools/call", name=UNKNOWN_TOOL), {"content": [text("There is no such tool")], "isError": True}
    ),
    "MCP-S-TOOL-005": ignore(nameless),
    "MCP-S-TOOL-006": refuse(nameless),
    "MCP-S-TOOL-007": TakesTooLittle,
    "MCP-S-TOOL-008": TakesAnyType,
    "MCP-S-TOOL-009": ignore(asks("tools/call", name="image")),
    "MCP-S-CALL-001": rewrite(result("tools/call", name="image"), put("result.content", "done")),
    "MCP-S-CALL-002": AnswersWithANumber,
    "MCP-S-CALL-003": rewrite(result("tools/call", name="echo"), put("result.content", [text("done")])),
    "MCP-S-CALL-004": rewrite(result("resources/read", uri="memo://two"), put("result.contents.0.blob", "data:,x")),
    "MCP-S-RES-001": rewrite(result("resources/read"), without_uri),
    "MCP-S-RES-002": ignore(asks("resources/read", uri="memo://three")),
    "MCP-S-RES-003": grant(asks("resources/read", uri=UNKNOWN_URI), {"contents": []}),
    "MCP-S-PROMPT-001": rewrite(result("prompts/get"), put("result.messages.0.role", "system")),
    "MCP-S-PROMPT-002": ignore(asks("prompts/get", name=PROMPTS[0]["name"])),
    "MCP-S-PROMPT-003": refuse(asks("prompts/get", name=UNKNOWN)),
    "MCP-S-PROMPT-004": changed(
        "get",
        lambda _, usual, request, params: usual(
            request, {**params, "arguments": {"topic": "", **params.get("arguments", {})}}
        ),
    ),
    "MCP-S-COMPLETE-001": rewrite(result("completion/complete"), cut("result.completion.values")),
    "MCP-S-COMPLETE-002": CompletesTooMuch,
    "MCP-S-COMPLETE-003": grant(
        asks("completion/complete", ref={"type": "ref/prompt", "name": UNKNOWN}), {"completion": {"values": []}}
    ),
    "MCP-S-LOG-001": refuse(asks("logging/setLevel", level="debug"), -32601),
    "MCP-S-LOG-002": grant(asks("logging/setLevel", level="rewindow-conformance"), {}),
    "MCP-S-LOG-003": rewrite(note("notifications/message"), cut("params.level")),
    "MCP-S-EMPTY-001": rewrite(result("resources/unsubscribe"), put("result", None)),
    "MCP-S-PROG-001": TellsLate,
    "MCP-S-PROG-002": tells(50),
    "MCP-S-PROG-003": tells("50 %"),
    "MCP-S-PROG-004": ignore(lambda _, m: meta_of(m).get("progressToken") == 7),
    "MCP-S-CANCEL-001": answers_cancelled(HANDSHAKE),
    "MCP-S-CANCEL-002": FallsSilent,
    "MCP-S-CANCEL-003": dies_of_cancels(is_stale),
    "MCP-S-CANCEL-004": dies_of_cancels(lambda _, name: not isinstance(name, int | str)),
    "MCP-S-CANCEL-005": answers_cancelled(MODERN),
    "MCP-S-SUB-001": refuse(asks("resources/subscribe"), -32601),
    "MCP-S-SUB-002": refuse(asks("resources/unsubscribe"), -32601),
    "MCP-S-SUB-003": TellsWithoutSubscription,
    "MCP-S-SUB-004": rewrite(note("notifications/resources/updated"), cut("params.uri")),
    "MCP-S-SUB-005": AcknowledgesNothing,
    "MCP-S-SUB-006": AcknowledgesMore,
    "MCP-S-SUB-007": changed(
        "on_stream",
        lambda peer, usual, name, method, params: (
            peer.notify(method, params) if method == "notifications/tools/list_changed" else usual(name, method, params)
        ),
    ),
    "MCP-S-SUB-008": TellsEveryStream,
    "MCP-S-SUB-009": KeepsStreams,
    "MCP-S-SUB-010": dies_of_cancels(lambda server, name: isinstance(name, str) and name in server.streams),
    "MCP-S-END-001": stays(lambda server: server.is_open and not server.calls and not server.subscribed),
    "MCP-S-END-002": stays(lambda server: not server.asked),
    "MCP-S-END-003": stays(lambda server: bool(server.calls)),
    "MCP-S-END-004": stays(lambda server: bool(server.subscribed)),
    "MCP-S-END-005": AnswersLate,
    "MCP-S-END-006": preceded("input_ended", changes.leave_process),
}
