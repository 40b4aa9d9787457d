"""A defect for each requirement: the conforming client with one change that violates only that requirement."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import changes
from acp_client import Client, Message, RefusedError
from changes import Match, cut, put

Defect = type[Client]

changed = partial(changes.changed, Client)
preceded = partial(changes.preceded, Client)
rewrite = partial(changes.rewrite, Client)
followed = partial(changes.followed, Client)
refuse = partial(changes.refuse, Client)
grant = partial(changes.grant, Client)
ignore = partial(changes.ignore, Client)
dies = partial(changes.dies, Client)
deaf = partial(changes.deaf, Client)


# --- which message ----------------------------------------------------------------------------------------------------


def call(method: str) -> Match:
    """Match the client's requests."""
    return lambda _, m: m.get("method") == method


def asks(method: str, **fields: Any) -> Match:
    """Match the agent's requests with these params."""

    def match(_: Client, message: Message) -> bool:
        params = message.get("params")
        given = params if isinstance(params, dict) else {}
        return message["method"] == method and "id" in message and all(given.get(n) == fields[n] for n in fields)

    return match


def error(code: int) -> Match:
    """Match the client's errors with a code."""
    return lambda _, m: m.get("error", {}).get("code") == code


# --- what becomes of it -----------------------------------------------------------------------------------------------


def leaves_at(handler: str, when: Callable[[Message], object]) -> Defect:
    """Exit at such a result, which `handler` gets."""
    return changed(handler, lambda peer, usual, result, error: peer.leave(1) if when(result) else usual(result, error))


def stays_after_error_of(method: str) -> Defect:
    """Hang after an error for a method."""

    class Staying(Client):
        def take_answer(self, message: Message) -> None:
            if "error" in message and self.asked.get(message.get("id")) == method:
                self.is_stuck = True
            super().take_answer(message)

        def leave(self, code: int) -> None:
            if not getattr(self, "is_stuck", False):
                super().leave(code)

    return Staying


def also_calls(method: str, **fields: Any) -> Defect:
    """Also call a method once a session is open."""

    class Calling(Client):
        def adjust(self) -> None:
            super().adjust()
            self.request(method, {"sessionId": self.session, **fields} if fields else {})

    return Calling


def says(data: Callable[[Client], bytes]) -> Defect:
    """Write some bytes before the prompt."""

    class Saying(Client):
        def prompt(self) -> None:
            self.world.write(data(self))
            super().prompt()

    return Saying


# --- defects of their own ---------------------------------------------------------------------------------------------


class TakesWholeWritesAlone(Client):
    def receive(self, data: bytes) -> None:
        if data.endswith(b"\n"):
            super().receive(data)


class TakesTwoLinesOfAWrite(Client):
    def receive(self, data: bytes) -> None:
        super().receive(b"".join(data.splitlines(keepends=True)[:2]))


class AnswersNotifications(Client):
    def take_notification(self, message: Message) -> None:
        if message["method"] == "_rewindow_conformance/bare":
            self.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Method not found"}})
        super().take_notification(message)


class RepeatsAnId(Client):
    """Sends a request with the id of its pending prompt."""

    has_asked = False

    def updated(self, update: Any) -> None:
        super().updated(update)
        if not self.has_asked and self.prompting:
            self.has_asked = True
            self.send({"jsonrpc": "2.0", "id": self.next_id, "method": "_reference/ping", "params": {}})

    def take_answer(self, message: Message) -> None:
        # The answer to the ping must not end the turn.
        if (message.get("error") or {}).get("code") != -32601:
            super().take_answer(message)


class ListsFirst(Client):
    def begin(self) -> None:
        self.request("session/list", {})
        super().begin()


class OpensImpatiently(Client):
    """Opens its session a second after initialize, answered or not."""

    is_open = False

    def begin(self) -> None:
        super().begin()
        self.world.later(1.0, self.open)

    def open(self) -> None:
        if not self.is_open:
            self.is_open = True
            super().open()


class PromptsImpatiently(Client):
    """Prompts a second after session/new, in the session that it expects."""

    def open(self) -> None:
        super().open()
        self.world.later(1.0, self.guess)

    def guess(self) -> None:
        if not self.session:
            self.session = "session-1"
            self.prompt()

    def made_session(self, result: Message, error: Message) -> None:
        if not self.prompting:
            super().made_session(result, error)


class PromptsWithoutASession(Client):
    def made_session(self, result: Message, error: Message) -> None:
        if error and error.get("code") != -32000:
            self.session = "none"
            self.prompt()
        else:
            super().made_session(result, error)


class GivesUp(Client):
    """Exits if its turn has not ended after two and a half seconds."""

    def prompt(self) -> None:
        super().prompt()
        self.world.later(2.5, lambda: self.leave(1))


class StaysWithoutItsAgent(Client):
    def input_ended(self) -> None:
        pass


# --- permissions and cancels ------------------------------------------------------------------------------------------


class EndsAfterItsCancel(Client):
    has_cancelled = False

    def cancel(self) -> None:
        self.has_cancelled = True
        super().cancel()

    def take_notification(self, message: Message) -> None:
        if self.has_cancelled:
            self.leave(1)
        super().take_notification(message)


# --- files ------------------------------------------------------------------------------------------------------------


class ReadsNothing(Client):
    def content(self, params: Message) -> str:
        is_whole = set(params) == {"sessionId", "path"} and params["path"].endswith("lines.txt")
        return "" if is_whole and params["path"].startswith("/") else super().content(params)


class WritesWhatIsThere(Client):
    def store(self, path: str, text: str) -> None:
        self.text(path)
        super().store(path, text)


class WritesWithoutCutting(Client):
    def store(self, path: str, text: str) -> None:
        try:
            super().store(path, text + self.text(path)[len(text) :])
        except RefusedError:
            super().store(path, text)


class SaysTrue(Client):
    def write(self, request: Message, params: Message) -> None:
        self.store(self.path(params), params["content"])
        self.answer(request, True)


# --- terminals --------------------------------------------------------------------------------------------------------

_THREE = "line 1\nline 2\nline 3\n"


class CreatesWhenAllIsDone(Client):
    def answer(self, request: Message, result: Any) -> None:
        if isinstance(result, dict) and "terminalId" in result:
            self.hold(request, result)
        else:
            super().answer(request, result)

    def hold(self, request: Message, result: Message) -> None:
        if self.terminals[result["terminalId"]].process.code() is None:
            self.world.later(0.1, lambda: self.hold(request, result))
        else:
            super().answer(request, result)


class CutsCharacters(Client):
    def kept(self, data: bytes, limit: int | None) -> bytes:
        return super().kept(data, None if limit is None else limit - 2)

    def decoded(self, data: bytes) -> str:
        return data.decode(errors="replace")


class WaitsForCodesAlone(Client):
    """Never answers terminal/wait_for_exit of a killed command."""

    def poll(self, request: Message, terminal: Any) -> None:
        if terminal.process.code() is None:
            self.world.later(0.02, lambda: self.poll_on(request, terminal))
        else:
            super().poll(request, terminal)

    def poll_on(self, request: Message, terminal: Any) -> None:
        if (terminal.process.code() or 0) >= 0:
            self.poll(request, terminal)


def forgets_killed(method: str) -> Defect:
    """Refuse a method for terminals whose command was killed."""

    def forget(peer: Client, usual: Callable[..., None], request: Message, params: Message) -> None:
        if (peer.terminal(params).process.code() or 0) < 0:
            raise RefusedError(-32002, "There is no such terminal")
        usual(request, params)

    return changed(method, forget)


class KeepsReleasedIds(Client):
    def release(self, request: Message, params: Message) -> None:
        kept = self.terminal(params)
        super().release(request, params)
        self.terminals[params["terminalId"]] = kept


class ReleasesWithoutAnEnd(Client):
    def release(self, request: Message, params: Message) -> None:
        self.terminal(params)
        del self.terminals[params["terminalId"]]
        self.answer(request, {})


class ReleasesInSilence(Client):
    def release(self, request: Message, params: Message) -> None:
        self.terminal(params).process.kill()
        del self.terminals[params["terminalId"]]


class NamesAllTheSame(Client):
    def name_terminal(self) -> str:
        return "terminal"

    def release(self, request: Message, params: Message) -> None:
        if params["terminalId"] in self.terminals or "no-such" in params["terminalId"]:
            super().release(request, params)
        else:
            self.answer(request, {})


class DropsWhatIsCancelled(Client):
    dropped: Any = None

    def take_notification(self, message: Message) -> None:
        if message["method"] == "$/cancel_request":
            self.dropped = message["params"]["requestId"]
        super().take_notification(message)

    def poll(self, request: Message, terminal: Any) -> None:
        if request["id"] != self.dropped:
            super().poll(request, terminal)


def _result(*fields: str, **values: Any) -> Match:
    """Match results with these fields and values."""

    def match(_: Client, message: Message) -> bool:
        found = message.get("result")
        given = found if isinstance(found, dict) else {}
        return all(n in given for n in fields) and all(n in given and given[n] == values[n] for n in values)

    return match


def _is_chosen(_: Client, message: Message) -> bool:
    found = message.get("result")
    outcome = found.get("outcome") if isinstance(found, dict) else None
    return isinstance(outcome, dict) and outcome.get("outcome") == "selected"


def _said(*parts: bytes) -> Callable[[bytes], bool]:
    return lambda line: all(part in line for part in parts)


def _categories(result: Message) -> list[Any]:
    options = result.get("configOptions")
    return [one.get("category") for one in options if isinstance(one, dict)] if isinstance(options, list) else []


def _note(text: str, **how: Any) -> Callable[[Client], bytes]:
    message = {"jsonrpc": "2.0", "method": "_reference/note", "params": {"text": text}}
    return lambda _: json.dumps(message, **how).encode("latin-1") + b"\n"


DEFECTS: dict[str, Defect] = {
    "ACP1-C-FRAME-001": says(lambda _: b"Connecting ...\n"),
    "ACP1-C-FRAME-002": says(_note("caf\u00e9", ensure_ascii=False)),
    "ACP1-C-FRAME-003": preceded(
        "leave", lambda peer: peer.world.write(b'{"jsonrpc":"2.0","method":"_reference/bye"}')
    ),
    "ACP1-C-FRAME-004": says(_note("\ud83d")),
    "ACP1-C-FRAME-005": TakesWholeWritesAlone,
    "ACP1-C-FRAME-006": TakesTwoLinesOfAWrite,
    "ACP1-C-FRAME-007": deaf(lambda line: "\u2028".encode() in line),
    "ACP1-C-FRAME-008": deaf(lambda line: line.endswith(b"}\r")),
    "ACP1-C-FRAME-009": dies(lambda line: line == b"[]"),
    "ACP1-C-FRAME-010": dies(lambda line: not line.strip()),
    "ACP1-C-FRAME-011": dies(lambda line: b"\xff\xfe" in line),
    "ACP1-C-FRAME-012": dies(lambda line: b"987654" in line),
    "ACP1-C-FRAME-013": dies(lambda line: 1_000_000 < len(line) < 1_500_000),
    "ACP1-C-FRAME-014": dies(lambda line: len(line) > 1_500_000),
    "ACP1-C-FRAME-015": preceded("leave", changes.leave_process),
    "ACP1-C-RPC-001": rewrite(call("session/set_mode"), cut("jsonrpc")),
    "ACP1-C-RPC-002": rewrite(error(-32700), put("result", None)),
    "ACP1-C-RPC-003": rewrite(error(-32600), put("error", "no message")),
    "ACP1-C-RPC-004": followed(error(-32601), lambda _, m: [m]),
    "ACP1-C-RPC-005": AnswersNotifications,
    "ACP1-C-RPC-006": rewrite(lambda _, m: m.get("id") == "7", put("id", 7)),
    "ACP1-C-RPC-007": RepeatsAnId,
    "ACP1-C-RPC-008": also_calls("session/telemetry"),
    "ACP1-C-RPC-009": rewrite(call("session/new"), put("params.theme", "dark")),
    "ACP1-C-RPC-010": ignore(asks("session/rewindow_conformance")),
    "ACP1-C-RPC-011": refuse(asks("session/rewindow_conformance")),
    "ACP1-C-RPC-012": ignore(asks("_rewindow_conformance/unknown")),
    "ACP1-C-RPC-013": grant(asks("_rewindow_conformance/unknown"), None),
    "ACP1-C-RPC-014": dies(lambda line: b"_rewindow_conformance/note" in line),
    "ACP1-C-RPC-015": grant(asks("elicitation/create", mode="url"), {"action": "accept"}),
    "ACP1-C-RPC-016": ReleasesInSilence,
    "ACP1-C-RPC-017": rewrite(call("session/set_config_option"), cut("params.sessionId")),
    "ACP1-C-RPC-018": refuse(asks("session/request_permission", _meta=7)),
    "ACP1-C-INIT-001": ListsFirst,
    "ACP1-C-INIT-002": rewrite(call("initialize"), put("params.clientInfo.title", 5)),
    "ACP1-C-INIT-003": OpensImpatiently,
    "ACP1-C-INIT-004": rewrite(call("initialize"), cut("params.clientInfo")),
    "ACP1-C-INIT-005": changed("speaks", lambda _, __, ___: True),
    "ACP1-C-INIT-006": changed(
        "initialized", lambda peer, usual, result, error: peer.open() if error else usual(result, error)
    ),
    "ACP1-C-INIT-007": leaves_at("initialized", lambda result: set(result) == {"protocolVersion"}),
    "ACP1-C-INIT-008": leaves_at("initialized", lambda result: result.get("agentInfo", {}) is None),
    "ACP1-C-INIT-009": leaves_at("initialized", lambda result: result.get("agentInfo") == 7),
    "ACP1-C-INIT-010": leaves_at("initialized", lambda result: isinstance(result.get("_meta"), dict)),
    "ACP1-C-INIT-011": leaves_at("initialized", lambda result: "telepathy" in str(result.get("agentCapabilities"))),
    "ACP1-C-INIT-012": stays_after_error_of("initialize"),
    "ACP1-C-INIT-013": refuse(asks("elicitation/create", mode="form"), -32601),
    "ACP1-C-AUTH-001": changed("methods", lambda _, usual: [{"id": "api-key"}] if usual() else []),
    "ACP1-C-AUTH-002": also_calls("logout"),
    "ACP1-C-NEW-001": rewrite(call("session/new"), cut("params.mcpServers")),
    "ACP1-C-NEW-002": rewrite(call("session/new"), put("params.cwd", ".")),
    "ACP1-C-NEW-003": changed(
        "servers", lambda _, __: [{"type": "sse", "name": "sse", "url": "http://127.0.0.1:9/", "headers": []}]
    ),
    "ACP1-C-NEW-004": rewrite(call("session/new"), lambda m: m["params"]["mcpServers"][0].update(command="npx")),
    "ACP1-C-NEW-005": changed("directories", lambda _, __: {"additionalDirectories": ["/usr/lib"]}),
    "ACP1-C-NEW-006": changed("directories", lambda _, usual: {"additionalDirectories": ["../lib"]} if usual() else {}),
    "ACP1-C-NEW-007": leaves_at("made_session", lambda result: result.get("modes", {}) is None),
    "ACP1-C-NEW-008": leaves_at("made_session", lambda result: result.get("modes") == 7),
    "ACP1-C-NEW-009": leaves_at("made_session", lambda result: "_rewindow_conformance" in _categories(result)),
    "ACP1-C-NEW-010": leaves_at("made_session", lambda result: isinstance(result.get("_meta"), dict)),
    "ACP1-C-NEW-011": dies(_said(b"available_commands_update", b'"hint"')),
    "ACP1-C-NEW-012": stays_after_error_of("session/new"),
    "ACP1-C-LOAD-001": also_calls("session/load", cwd="/project", mcpServers=[]),
    "ACP1-C-RESUME-001": also_calls("session/resume", cwd="/project"),
    "ACP1-C-CLOSE-001": also_calls("session/close", _meta=None),
    "ACP1-C-MODE-001": rewrite(call("session/set_mode"), put("params.modeId", "yolo")),
    "ACP1-C-CONFIG-001": rewrite(call("session/set_config_option"), put("params.value", "enormous")),
    "ACP1-C-PROMPT-001": rewrite(call("session/prompt"), put("params.prompt", "Hello.")),
    "ACP1-C-PROMPT-002": rewrite(call("session/prompt"), put("params.sessionId", "default")),
    "ACP1-C-PROMPT-003": changed(
        "blocks", lambda _, usual: [*usual(), {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]
    ),
    "ACP1-C-PROMPT-004": PromptsImpatiently,
    "ACP1-C-PROMPT-005": PromptsWithoutASession,
    "ACP1-C-UPDATE-001": dies(lambda line: b'"amount"' in line and b"_meta" not in line),
    "ACP1-C-UPDATE-002": dies(_said(b"session/update", b"example.org/nested")),
    "ACP1-C-UPDATE-003": dies(_said(b"tool_call_update", b'"title":null')),
    "ACP1-C-UPDATE-004": dies(_said(b'"locations":7')),
    "ACP1-C-UPDATE-005": dies(_said(b"in_flight")),
    "ACP1-C-UPDATE-006": dies(_said(b"a_kind_of_later")),
    "ACP1-C-UPDATE-007": dies(_said(b"never-reported")),
    "ACP1-C-UPDATE-008": dies(_said(b'"severity":"_mine"')),
    "ACP1-C-UPDATE-009": dies(_said(b"a_status_of_later")),
    "ACP1-C-END-001": GivesUp,
    "ACP1-C-END-002": stays_after_error_of("session/prompt"),
    "ACP1-C-END-003": StaysWithoutItsAgent,
    "ACP1-C-PERM-001": rewrite(_is_chosen, put("result.outcome", "allow")),
    "ACP1-C-PERM-002": rewrite(_is_chosen, put("result.outcome.optionId", "allow")),
    "ACP1-C-PERM-003": changed("drop_permissions", lambda peer, __: peer.permissions.clear()),
    "ACP1-C-PERM-004": refuse(asks("session/request_permission"), -32601),
    "ACP1-C-PERM-005": changed(
        "permission", lambda peer, usual, request, params: usual(request, params) if not peer.permissions else None
    ),
    "ACP1-C-PERM-006": changed(
        "choose", lambda _, usual, options: usual(options) if len(options) > 1 else {"outcome": "cancelled"}
    ),
    "ACP1-C-CANCEL-001": rewrite(call("session/cancel"), put("params._meta", 5)),
    "ACP1-C-CANCEL-002": rewrite(call("session/cancel"), put("params.sessionId", "default")),
    "ACP1-C-CANCEL-003": rewrite(call("session/cancel"), put("id", 99)),
    "ACP1-C-CANCEL-004": EndsAfterItsCancel,
    "ACP1-C-ELICIT-001": rewrite(_result(action="decline"), put("result", {"outcome": "decline"})),
    "ACP1-C-FS-001": rewrite(_result("content"), put("result._meta", 5)),
    "ACP1-C-FS-002": ReadsNothing,
    "ACP1-C-FS-003": refuse(
        lambda _, m: "limit" in str(m.get("params")) and m["params"].get("limit", 0) is None, -32602
    ),
    "ACP1-C-FS-004": changed("first", lambda _, usual, params: usual(params) + (params.get("line") == 4)),
    "ACP1-C-FS-005": changed("limit", lambda _, usual, params: usual(params) if "line" in params else None),
    "ACP1-C-FS-006": changed("limit", lambda _, usual, params: 1 if params.get("line") == 2 else usual(params)),
    "ACP1-C-FS-007": changed("text", lambda _, usual, path: usual(path).replace("\r\n", "\n")),
    "ACP1-C-FS-008": changed("text", lambda _, usual, path: "" if path.endswith("missing.txt") else usual(path)),
    "ACP1-C-FS-009": ignore(asks("fs/read_text_file", line=50)),
    "ACP1-C-FS-010": changed(
        "content", lambda _, usual, params: usual(params) if params["path"].startswith("/") else "anything"
    ),
    "ACP1-C-FS-011": changed("text", lambda _, usual, path: usual(path.replace("/1.txt", "/0.txt"))),
    "ACP1-C-FS-012": WritesWhatIsThere,
    "ACP1-C-FS-013": WritesWithoutCutting,
    "ACP1-C-FS-014": SaysTrue,
    "ACP1-C-TERM-001": rewrite(_result("terminalId"), put("result._meta", 5)),
    "ACP1-C-TERM-002": rewrite(_result("output"), put("result._meta", 5)),
    "ACP1-C-TERM-003": rewrite(_result("exitCode"), put("result._meta", 5)),
    "ACP1-C-TERM-004": CreatesWhenAllIsDone,
    "ACP1-C-TERM-005": rewrite(_result(output=_THREE), put("result.output", "")),
    "ACP1-C-TERM-006": rewrite(_result(output=_THREE), put("result.exitStatus", None)),
    "ACP1-C-TERM-007": rewrite(_result(output="holding\n", exitStatus=None), put("result.exitStatus", {"exitCode": 0})),
    "ACP1-C-TERM-008": rewrite(_result(exitCode=7), put("result.exitCode", 0)),
    "ACP1-C-TERM-009": rewrite(_result(output=_THREE), put("result.truncated", True)),
    "ACP1-C-TERM-010": rewrite(_result(truncated=True), put("result.truncated", False)),
    "ACP1-C-TERM-011": changed("kept", lambda _, usual, data, limit: usual(data, None if limit is None else 2 * limit)),
    "ACP1-C-TERM-012": changed(
        "kept", lambda _, usual, data, limit: data[:limit] if data.startswith(b"line") else usual(data, limit)
    ),
    "ACP1-C-TERM-013": CutsCharacters,
    "ACP1-C-TERM-014": changed(
        "create",
        lambda _, usual, request, params: usual(
            request, {**params, "args": " ".join(params.get("args") or []).split()}
        ),
    ),
    "ACP1-C-TERM-015": changed("create", lambda _, usual, request, params: usual(request, {**params, "env": []})),
    "ACP1-C-TERM-016": changed("create", lambda _, usual, request, params: usual(request, {**params, "cwd": None})),
    "ACP1-C-TERM-017": WaitsForCodesAlone,
    "ACP1-C-TERM-018": forgets_killed("output"),
    "ACP1-C-TERM-019": forgets_killed("wait"),
    "ACP1-C-TERM-020": KeepsReleasedIds,
    "ACP1-C-TERM-021": ReleasesWithoutAnEnd,
    "ACP1-C-TERM-022": NamesAllTheSame,
    "ACP1-C-TERM-023": grant(asks("terminal/release", terminalId="rewindow-conformance-no-such-terminal"), {}),
    "ACP1-C-TERM-024": ignore(asks("terminal/create", command="/rewindow-conformance/no/such/command")),
    "ACP1-C-TERM-025": DropsWhatIsCancelled,
}
