"""A defect for each requirement: the conforming agent with one change that violates only that requirement."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import changes
from acp_agent import Agent, Message, Steps, Turn
from changes import cut, put

Match = Callable[[Agent, Message], bool]
Defect = type[Agent]

NEVER = 10_000.0


# --- which message ----------------------------------------------------------------------------------------------------


def result(method: str) -> Match:
    """Match results of a method."""
    return lambda agent, m: "result" in m and agent.asked.get(repr(m["id"]), {}).get("method") == method


def update(kind: str) -> Match:
    """Match updates of a kind."""
    return lambda _, m: m.get("method") == "session/update" and m["params"]["update"]["sessionUpdate"] == kind


def call(method: str) -> Match:
    """Match requests to the client."""
    return lambda _, m: m.get("method") == method and "id" in m


def third(agent: Agent, message: Message) -> bool:
    """Match the result that opens the third session of a connection, which few scenarios do."""
    return result("session/new")(agent, message) and agent.made == 3


def _meta(message: Message) -> Message:
    """Return the `_meta` of params if it is an object."""
    params = message.get("params")
    given = params.get("_meta") if isinstance(params, dict) else None
    return given if isinstance(given, dict) else {}


def asks(method: str, **fields: Any) -> Match:
    """Match the client's requests with these params."""

    def match(_: Agent, message: Message) -> bool:
        params = message.get("params")
        given = params if isinstance(params, dict) else {}
        asked = message.get("method") == method and "id" in message
        return asked and all(name in given and given[name] == value for name, value in fields.items())

    return match


def holds(method: str, kind: str) -> Match:
    """Match prompts with a kind of content."""
    return lambda _, m: m.get("method") == method and any(b.get("type") == kind for b in _blocks(m))


def _blocks(message: Message) -> list[Message]:
    blocks = (message.get("params") or {}).get("prompt") if isinstance(message.get("params"), dict) else None
    return [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []


# --- what becomes of it -----------------------------------------------------------------------------------------------

changed = partial(changes.changed, Agent)
preceded = partial(changes.preceded, Agent)
rewrite = partial(changes.rewrite, Agent)
drop = partial(changes.drop, Agent)
followed = partial(changes.followed, Agent)
refuse = partial(changes.refuse, Agent)
grant = partial(changes.grant, Agent)
ignore = partial(changes.ignore, Agent)
dies = partial(changes.dies, Agent)
deaf = partial(changes.deaf, Agent)


def permits(outcome: Callable[[Message], bool]) -> Defect:
    """Accept an invalid outcome as a permission, in a connection with one session."""

    class Permitting(Agent):
        def is_allowed(self, given: Message) -> bool:
            return (len(self.sessions) == 1 and outcome(given)) or super().is_allowed(given)

    return Permitting


def hangs(method: str, at: Callable[[Any, Any], bool]) -> Defect:
    """Hang after a client's answer, in a connection with one session."""

    class Hanging(Agent):
        def use_tools(self, session: Message) -> Steps:
            steps = super().use_tools(session)
            asked = next(steps)
            while True:
                answer = yield asked
                if asked[:2] == ("call", method) and at(*answer) and len(self.sessions) == 1:
                    yield ("sleep", NEVER, None)
                try:
                    asked = steps.send(answer)
                except StopIteration as stop:
                    return stop.value

    return Hanging


def working(extra: Callable[[Agent, Message], None], when: Callable[[Agent], bool] = lambda _: True) -> Defect:
    """Do something more in each turn."""

    class Working(Agent):
        def steps(self, session: Message, text: str) -> Steps:
            if when(self):
                extra(self, session)
            return (yield from super().steps(session, text))

    return Working


def notification(method: str, params: Message) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def note(session: str, **fields: Any) -> Message:
    return notification("session/update", {"sessionId": session, "update": fields})


def thought(agent: Agent, message: Message) -> list[Message]:
    """Return a thought for the session of the answered request."""
    session = agent.asked[repr(message["id"])]["params"]["sessionId"]
    return [note(session, sessionUpdate="agent_thought_chunk", content={"type": "text", "text": "One more."})]


def ends(reason: str) -> Match:
    return lambda agent, m: result("session/prompt")(agent, m) and m["result"].get("stopReason") == reason


def outcome_is(option: str) -> Callable[[Any, Any], bool]:
    return lambda answer, _: isinstance(answer, dict) and answer.get("outcome", {}).get("optionId") == option


# --- bytes ------------------------------------------------------------------------------------------------------------


class RefusesBrokenPermissions(Agent):
    """Takes a permission for a refusal if its `_meta` is not an object."""

    def is_allowed(self, outcome: Message) -> bool:
        return super().is_allowed(outcome) and outcome.get("_meta") != 7


def titled(title: bytes) -> Defect:
    """Write a title as these bytes."""

    def encoded(_: Agent, usual: Callable[[Message], bytes], message: Message) -> bytes:
        data = usual(message)
        return data.replace(b"A session", title) if b"session_info_update" in data else data

    return changed("encode", encoded)


class TakesTwoLinesOfAWrite(Agent):
    def receive(self, data: bytes) -> None:
        lines = data.splitlines(keepends=True) if data.endswith(b"\n") else []
        super().receive(lines[0] + lines[-1] if len(lines) > 2 else data)


# --- JSON-RPC ---------------------------------------------------------------------------------------------------------


class AnswersNotifications(Agent):
    def take_notification(self, method: str, params: Any) -> None:
        if method == "_rewindow_conformance/note":
            self.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Method not found"}})
        super().take_notification(method, params)


class CountsInHalves(Agent):
    def request(self, method: str, params: Message) -> int:
        self.next_id += 1
        self.send({"jsonrpc": "2.0", "id": self.next_id + 0.5, "method": method, "params": params})
        return self.next_id

    def take_answer(self, message: Message) -> None:
        super().take_answer({**message, "id": int(message["id"])} if isinstance(message.get("id"), float) else message)


class IgnoresTheThirdSession(Agent):
    """Only for a request on its own line and with a numeric id, because others belong to other requirements."""

    alone = False

    def receive(self, data: bytes) -> None:
        self.alone = data.count(b"\n") == 1
        super().receive(data)

    def new(self, request: Message, params: Message) -> None:
        if self.made != 2 or not self.alone or isinstance(request["id"], str):
            super().new(request, params)


class DiesOfParams(Agent):
    def take(self, message: Message) -> None:
        super().take(message)
        if message.get("params") == 5:
            self.world.exit(1)


class MistakesAVersion(Agent):
    def answer(self, request: Message, result: Any) -> None:
        bare = request.get("method") == "initialize" and "clientCapabilities" not in request["params"]
        super().answer(request, {**result, "protocolVersion": 2} if bare else result)


class KeepsCapabilitiesBack(Agent):
    def answer(self, request: Message, result: Any) -> None:
        if request.get("method") == "initialize" and "clientCapabilities" not in request["params"]:
            result.pop("agentCapabilities")
        super().answer(request, result)


class ForgetsTheLogin(Agent):
    """Requires a login for the third session, unless several were requested at once."""

    joined = False

    def receive(self, data: bytes) -> None:
        self.joined = data.count(b"\n") > 1
        super().receive(data)

    def new(self, request: Message, params: Message) -> None:
        if self.made == 2 and not self.joined:
            self.refuse(request, -32000, "Authentication required")
        else:
            super().new(request, params)


class DemandsALogin(ForgetsTheLogin):
    """Requires a login without advertising a method."""

    def answer(self, request: Message, result: Any) -> None:
        if request.get("method") == "initialize":
            result["authMethods"] = []
        super().answer(request, result)


# --- sessions ---------------------------------------------------------------------------------------------------------


class NeverEndsItsList(Agent):
    def list(self, request: Message, params: Message) -> None:
        if params.get("cursor") == "99":
            self.answer(request, {"sessions": [], "nextCursor": "99"})
        else:
            super().list(request, params)

    def answer(self, request: Message, result: Any) -> None:
        if request.get("method") == "session/list" and "cwd" not in request["params"]:
            result.setdefault("nextCursor", "99")
        super().answer(request, result)


class RefusesTheSecondPage(NeverEndsItsList):
    def list(self, request: Message, params: Message) -> None:
        if params.get("cursor") == "99":
            self.refuse(request, -32603, "Internal error")
        else:
            super().list(request, params)


class ListsTwice(Agent):
    def answer(self, request: Message, result: Any) -> None:
        if request.get("method") == "session/list":
            result["sessions"] += result["sessions"]
        super().answer(request, result)


class ListsUnusedAlone(Agent):
    def list(self, request: Message, params: Message) -> None:
        kept = self.sessions
        self.sessions = {name: session for name, session in kept.items() if not session["history"]}
        super().list(request, params)
        self.sessions = kept


class TakesAnyCursor(Agent):
    def list(self, request: Message, params: Message) -> None:
        cursor = str(params.get("cursor") or "0")
        super().list(request, {**params, "cursor": cursor if cursor.isdigit() else "0"})


def replays(keep: Callable[[list[tuple[str, Message]]], list[tuple[str, Message]]]) -> Defect:
    """Replay something other than the conversation."""

    class Replaying(Agent):
        def load(self, request: Message, params: Message) -> None:
            session = self.sessions.get(str(params.get("sessionId")))
            if session is None:
                super().load(request, params)
                return
            whole, session["history"] = session["history"], keep(session["history"])
            super().load(request, params)
            session["history"] = whole

    return Replaying


def without_last_words(history: list[tuple[str, Message]]) -> list[tuple[str, Message]]:
    last = max(i for i, (kind, _) in enumerate(history) if kind == "agent_message_chunk")
    return history[:last] + history[last + 1 :]


def without(*kinds: str) -> Callable[[list[tuple[str, Message]]], list[tuple[str, Message]]]:
    return lambda history: [entry for entry in history if entry[0] not in kinds]


class ReplaysOnResume(Agent):
    def resume(self, request: Message, params: Message) -> None:
        session = self.sessions.get(str(params.get("sessionId")))
        for kind, fields in session["history"] if session else []:
            if kind == "agent_message_chunk" and session:
                self.update(session, kind, **fields)
        super().resume(request, params)


def forgets_after(method: str) -> Defect:
    """Refuse prompts in loaded or resumed sessions."""

    class Forgetting(Agent):
        def take(self, message: Message) -> None:
            params = message.get("params")
            session = self.sessions.get(str(params.get("sessionId"))) if isinstance(params, dict) else None
            if session is not None and message["method"] == method:
                session["forgotten"] = True
            if session is not None and message["method"] == "session/prompt" and session.get("forgotten"):
                self.refuse(message, -32002, "There is no such session")
            else:
                super().take(message)

    return Forgetting


# --- turns ------------------------------------------------------------------------------------------------------------


class TakesTwoPrompts(Agent):
    """Refuses the third of three equal prompts."""

    def prompt(self, request: Message, params: Message) -> None:
        session = self.sessions.get(str(params.get("sessionId")), {})
        said = [
            fields["content"].get("text") for kind, fields in session.get("history", []) if kind == "user_message_chunk"
        ]
        if len(said) == 2 and len({*said, params["prompt"][0].get("text")}) == 1 and len(self.sessions) == 1:
            self.refuse(request, -32600, "A prompt was sent already")
        else:
            super().prompt(request, params)


class SaysNothing(Agent):
    def steps(self, session: Message, text: str) -> Steps:
        if "tool" in text or "count" in text:
            return (yield from super().steps(session, text))
        yield ("sleep", 0.01, None)
        return "end_turn"


class KeepsCompacting(Agent):
    def compact(self, session: Message) -> None:
        session["calls"] += 1
        name = f"compaction-{session['calls']}"
        self.show(session, "compaction_update", compactionId=name, status="in_progress")
        self.show(session, "compaction_summary_chunk", compactionId=name, content={"type": "text", "text": "So far."})


class CompactsUnderOneId(Agent):
    def compact(self, session: Message) -> None:
        for _ in range(2):
            for status in ("in_progress", "completed"):
                self.show(session, "compaction_update", compactionId="compaction", status=status)


class CommandsBeforeTheSession(Agent):
    def send(self, message: Message) -> None:
        if result("session/new")(self, message):
            name = message["result"]["sessionId"]
            super().send(note(name, sessionUpdate="available_commands_update", availableCommands=[]))
        super().send(message)


# --- tool calls, files, terminals -------------------------------------------------------------------------------------


class EmbedsAfterRelease(Agent):
    def run(self, session: Message, call: str, diff: Message, *, kill: bool) -> Steps:
        created, error = yield ("call", "terminal/create", {"sessionId": session["id"], "command": "true"})
        if error is None:
            terminal = {"sessionId": session["id"], "terminalId": created["terminalId"]}
            try:
                yield ("call", "terminal/wait_for_exit", terminal)
            finally:
                self.request("terminal/release", terminal)
            content = [diff, {"type": "terminal", "terminalId": created["terminalId"]}]
            self.show(session, "tool_call_update", toolCallId=call, content=content)
        return "end_turn"


def afterwards(**more: Any) -> Defect:
    """Report another status for a completed tool call, and then completion again."""

    class Afterwards(Agent):
        def show(self, session: Message, kind: str, /, **fields: Any) -> None:
            super().show(session, kind, **fields)
            if kind == "tool_call_update" and fields.get("status") == "completed":
                super().show(session, kind, toolCallId=fields["toolCallId"], **more)
                super().show(session, kind, **fields)

    return Afterwards


class ForgetsAPermission(Agent):
    """Waits only for the answer to the last permission."""

    def request(self, method: str, params: Message) -> int:
        if method == "session/request_permission":
            for name in [name for name, turn in self.calls.items() if turn.asked == method]:
                self.calls.pop(name)
        return super().request(method, params)


class TakesAPermissionForAll(Agent):
    allowed = False

    def is_allowed(self, outcome: Message) -> bool:
        self.allowed = self.allowed or super().is_allowed(outcome)
        return self.allowed


class OffersOneIdTwice(Agent):
    def permission(self, session: Message, call: str) -> Message:
        asked = super().permission(session, call)
        asked["options"][1]["optionId"] = "yes"
        return asked


class OffersNothing(Agent):
    def permission(self, session: Message, call: str) -> Message:
        return {**super().permission(session, call), "options": []}


def calls(method: str, when: Callable[[Agent], bool], **params: Any) -> Defect:
    """Call a client method in each turn without waiting for the answer."""

    def extra(agent: Agent, session: Message) -> None:
        agent.request(method, {"sessionId": session["id"], **params})

    return working(extra, when)


class UsesAReleasedTerminal(Agent):
    released: Message | None = None

    def run(self, session: Message, call: str, diff: Message, *, kill: bool) -> Steps:
        yield from super().run(session, call, diff, kill=kill)
        if not kill and self.released:
            yield ("call", "terminal/output", self.released)
        return "end_turn"

    def request(self, method: str, params: Message) -> int:
        if method == "terminal/release":
            self.released = params
        return super().request(method, params)


class UsesATerminalOfItsOwn(Agent):
    def run(self, session: Message, call: str, diff: Message, *, kill: bool) -> Steps:
        yield ("call", "terminal/output", {"sessionId": session["id"], "terminalId": "mine"})
        return (yield from super().run(session, call, diff, kill=kill))


class StartsServersWithLess(Agent):
    def new(self, request: Message, params: Message) -> None:
        servers = [{**server, "args": server["args"][:-1]} for server in params.get("mcpServers", [])]
        super().new(request, {**params, "mcpServers": servers})


class BreaksWithAServer(Agent):
    broken = False

    def new(self, request: Message, params: Message) -> None:
        self.broken = self.broken or any("no/such" in server["command"] for server in params.get("mcpServers") or [])
        super().new(request, params)

    def prompt(self, request: Message, params: Message) -> None:
        if self.broken:
            self.refuse(request, -32603, "Broken")
        else:
            super().prompt(request, params)


# --- modes and options ------------------------------------------------------------------------------------------------


class OffersBooleansToAll(Agent):
    def options(self, session: Message) -> list[Message]:
        found = [option for option in super().options(session) if option["id"] != "brave"]
        return [*found, {"id": "brave", "name": "Brave", "type": "boolean", "currentValue": session["brave"]}]


class AnswersOneOption(Agent):
    def answer(self, request: Message, result: Any) -> None:
        if request.get("method") == "session/set_config_option":
            wanted = request["params"]["configId"]
            result = {"configOptions": [option for option in result["configOptions"] if option["id"] == wanted]}
        super().answer(request, result)


class SetsNothing(Agent):
    def set_option(self, request: Message, params: Message) -> None:
        session = self.sessions[params["sessionId"]]
        before = {name: session[name] for name in ("mode", "model", "brave")}
        super().set_option(request, params)
        session.update(before)

    def answer(self, request: Message, result: Any) -> None:
        if request.get("method") == "session/set_config_option" and request["params"]["configId"] == "model":
            result["configOptions"][1]["currentValue"] = "small"
        super().answer(request, result)


class TakesAnyOption(Agent):
    def take(self, message: Message) -> None:
        params = message.get("params")
        if message["method"] == "session/set_config_option" and "no such" in f"{params}":
            self.answer(message, {"configOptions": self.options(self.sessions[params["sessionId"]])})
        else:
            super().take(message)


# --- cancels ----------------------------------------------------------------------------------------------------------


def is_under_way(turn: Turn) -> bool:
    """Whether a slow turn has run for a while and does not wait for the client."""
    return getattr(turn, "steps_done", 0) >= 2


class Stepping(Agent):
    """Counts the steps of turns. Base of the defects below."""

    def step(self, turn: Turn, result: Any, error: Any) -> None:
        turn.steps_done = getattr(turn, "steps_done", 0) + 1  # type: ignore[attr-defined]
        super().step(turn, result, error)

    def waits_for_client(self, turn: Turn) -> bool:
        return turn in self.calls.values()

    def asks_permission(self, turn: Turn) -> bool:
        return self.waits_for_client(turn) and turn.asked == "session/request_permission"

    def stop(self, turn: Turn, reason: str) -> None:
        """End a turn with another reason."""
        if not turn.ended:
            turn.steps.close()
            self.end(turn, reason)

    def fail(self, turn: Turn, code: int) -> None:
        if not turn.ended:
            turn.steps.close()
            turn.ended = True
            self.turns.remove(turn)
            self.refuse({"id": turn.id}, code, "Aborted")


def counting(*, second: bool) -> Defect:
    """Answer one cancel, or a second one, with end_turn."""

    class Counting(Stepping):
        def cancel(self, session_id: Any) -> None:
            for turn in [turn for turn in self.turns if turn.session["id"] == session_id]:
                if not is_under_way(turn) or self.waits_for_client(turn):
                    self.throw(turn)
                    continue
                turn.cancels = getattr(turn, "cancels", 0) + 1  # type: ignore[attr-defined]
                if turn.cancels == 1:  # type: ignore[attr-defined]
                    self.world.later(0.05, lambda turn=turn: self.decide(turn))

        def decide(self, turn: Turn) -> None:
            twice = turn.cancels == 2  # type: ignore[attr-defined]
            self.stop(turn, "end_turn" if twice == second else "cancelled")

        def close(self, request: Message, params: Message) -> None:
            for turn in list(self.turns):
                self.throw(turn)
            super().close(request, params)

    return Counting


def breaks_when(cancelled: Callable[[Stepping, Turn], bool]) -> Defect:
    """Refuse prompts after some cancels."""

    class Breaking(Stepping):
        def cancel(self, session_id: Any) -> None:
            for turn in [turn for turn in self.turns if turn.session["id"] == session_id]:
                turn.session["broken"] = cancelled(self, turn)
            super().cancel(session_id)

        def prompt(self, request: Message, params: Message) -> None:
            if self.sessions.get(str(params.get("sessionId")), {}).get("broken"):
                self.refuse(request, -32603, "Broken")
            else:
                super().prompt(request, params)

    return Breaking


def remembers(*, after_a_cancel: bool) -> Defect:
    """Cancel the next turn after an idle cancel: after a cancelled turn, or after another one."""

    class Remembering(Agent):
        def end(self, turn: Turn, reason: str) -> None:
            if not turn.session.pop("hit", False):
                turn.session["last"] = reason
            super().end(turn, reason)

        def cancel(self, session_id: Any) -> None:
            session = self.sessions.get(str(session_id))
            if session is not None and not any(turn.session is session for turn in self.turns):
                session["stale"] = (session.get("last") == "cancelled") == after_a_cancel
            super().cancel(session_id)

        def prompt(self, request: Message, params: Message) -> None:
            session = self.sessions.get(str(params.get("sessionId")), {})
            super().prompt(request, params)
            if session.pop("stale", False):
                session["hit"] = True
                super().cancel(session["id"])

    return Remembering


class LosesEarlyCancels(Stepping):
    def cancel(self, session_id: Any) -> None:
        early = [turn for turn in self.turns if getattr(turn, "steps_done", 0) < 2 and "count" in self.text_of(turn)]
        if not early:
            super().cancel(session_id)

    def close(self, request: Message, params: Message) -> None:
        for turn in list(self.turns):
            self.throw(turn)
        super().close(request, params)

    def text_of(self, turn: Turn) -> str:
        return f"{self.asked.get(repr(turn.id))}"


class CancelsEverything(Agent):
    def cancel(self, session_id: Any) -> None:
        for turn in list(self.turns):
            self.throw(turn)


def mishandles(*, late: bool) -> Defect:
    """End a turn wrongly if it is cancelled during a permission request that is answered late or at once."""

    class Mishandling(Stepping):
        def throw(self, turn: Turn) -> None:
            if self.asks_permission(turn) and not getattr(turn, "cancelled", False):
                turn.cancelled = True  # type: ignore[attr-defined]
                self.world.later(0.2, lambda: self.fail(turn, -32603) if late else self.stop(turn, "cancelled"))
            elif not getattr(turn, "cancelled", False):
                super().throw(turn)

        def take_answer(self, message: Message) -> None:
            turn = self.calls.get(message.get("id")) if isinstance(message.get("id"), int) else None
            if turn is not None and getattr(turn, "cancelled", False):
                self.stop(turn, "cancelled" if late else "end_turn")
            else:
                super().take_answer(message)

    return Mishandling


class EndsTurnsWithTheirCommand(Stepping):
    def throw(self, turn: Turn) -> None:
        if self.waits_for_client(turn) and turn.asked == "terminal/wait_for_exit":
            self.stop(turn, "end_turn")
        else:
            super().throw(turn)


class FailsCancelledRequests(Stepping):
    def take_notification(self, method: str, params: Any) -> None:
        if method == "$/cancel_request":
            for turn in [turn for turn in self.turns if turn.id == params.get("requestId")]:
                self.fail(turn, -32603)
        else:
            super().take_notification(method, params)


class BreaksOnCancelledRequests(Agent):
    broken = False

    def take_notification(self, method: str, params: Any) -> None:
        self.broken = self.broken or method == "$/cancel_request"
        super().take_notification(method, params)

    def prompt(self, request: Message, params: Message) -> None:
        if self.broken:
            self.refuse(request, -32603, "Broken")
        else:
            super().prompt(request, params)


class EndsTurnsOnClose(Stepping):
    def close(self, request: Message, params: Message) -> None:
        for turn in [turn for turn in self.turns if turn.session["id"] == params.get("sessionId")]:
            self.stop(turn, "end_turn")
        super().close(request, params)


class RefusesToCloseMeanwhile(Agent):
    def close(self, request: Message, params: Message) -> None:
        if self.turns:
            self.cancel(params.get("sessionId"))
            self.refuse(request, -32600, "A turn runs")
        else:
            super().close(request, params)


# --- the table --------------------------------------------------------------------------------------------------------


def _wrong(kind: str, field: str, value: Any) -> Defect:
    return rewrite(update(kind), put(f"params.update.{field}", value))


def _param(method: str, field: str, value: Any) -> Defect:
    return rewrite(call(method), put(f"params.{field}", value))


def _lacks(*path: str) -> Callable[[Agent], bool]:
    return lambda agent: not agent.offers(*path)


def _text_blocks(_: Agent, message: Message) -> bool:
    return message.get("method") == "session/prompt" and len([b for b in _blocks(message) if b["type"] == "text"]) == 2


DEFECTS: dict[str, Defect] = {
    "ACP1-A-FRAME-001": preceded("initialize", lambda peer: peer.world.write(b"Loading the model\n")),
    "ACP1-A-FRAME-002": titled(b"S\xe9ance"),
    "ACP1-A-FRAME-003": preceded(
        "input_ended", lambda peer: peer.world.write(b'{"jsonrpc":"2.0","method":"_reference/bye","params":{}}')
    ),
    "ACP1-A-FRAME-004": titled(b"A \\ud83d"),
    "ACP1-A-FRAME-005": changed("receive", changes.take_whole_writes),
    "ACP1-A-FRAME-006": TakesTwoLinesOfAWrite,
    "ACP1-A-FRAME-007": deaf(lambda line: "\u2028".encode() in line),
    "ACP1-A-FRAME-008": dies(lambda line: b"\\ud83d" in line),
    "ACP1-A-FRAME-009": dies(lambda line: line == b"[]"),
    "ACP1-A-FRAME-010": changed(
        "send", lambda _, usual, message: usual(message) if not ("error" in message and message["id"] is None) else None
    ),
    "ACP1-A-FRAME-011": dies(lambda line: b"\xff\xfe" in line),
    "ACP1-A-FRAME-012": dies(lambda line: not line.strip()),
    "ACP1-A-FRAME-013": deaf(lambda line: line.endswith(b"}\r")),
    "ACP1-A-FRAME-014": deaf(lambda line: line.startswith(b"\xef\xbb\xbf")),
    "ACP1-A-FRAME-015": dies(lambda line: len(line) > 1_000_000),
    "ACP1-A-FRAME-016": dies(lambda line: b"987654" in line),
    "ACP1-A-FRAME-017": changed(
        "input_ended", lambda peer, usual: usual() if not peer.sessions or peer.turns else None
    ),
    "ACP1-A-FRAME-018": changed("input_ended", lambda peer, usual: usual() if not peer.turns else None),
    "ACP1-A-FRAME-019": changes.delayed(Agent, "initialize"),
    "ACP1-A-FRAME-020": preceded("input_ended", changes.leave_process),
    "ACP1-A-FRAME-021": preceded("initialize", lambda peer: peer.world.log(b"Loading the model\n" * 5_000)),
    "ACP1-A-FRAME-022": changed(
        "take",
        lambda peer, usual, message: (
            usual(message) if not (message["method"] == "_rewindow_conformance/meanwhile" and peer.turns) else None
        ),
    ),
    "ACP1-A-AUTH-001": ForgetsTheLogin,
    "ACP1-A-AUTH-002": refuse(asks("logout")),
    "ACP1-A-AUTH-003": DemandsALogin,
    "ACP1-A-INIT-014": refuse(lambda _, m: m["method"] == "session/prompt" and bool(_meta(m))),
    "ACP1-A-NEW-005": refuse(
        lambda _, m: m["method"] == "session/new" and "additionalDirectories" in f"{m.get('params')}"
    ),
    "ACP1-A-RPC-021": rewrite(lambda _, m: "error" in m, put("error.message", "Traceback:\n  File")),
    "ACP1-A-RPC-022": refuse(asks("session/list", _meta=7)),
    "ACP1-A-RPC-023": RefusesBrokenPermissions,
    "ACP1-A-RPC-001": rewrite(result("session/list"), cut("jsonrpc")),
    "ACP1-A-RPC-002": rewrite(result("session/delete"), put("error", {"code": 1, "message": "both"})),
    "ACP1-A-RPC-003": rewrite(
        lambda agent, m: "error" in m and agent.asked.get(repr(m["id"]), {}).get("method") == "session/set_mode",
        put("error", "no such mode"),
    ),
    "ACP1-A-RPC-004": followed(result("session/list"), lambda _, m: [m]),
    "ACP1-A-RPC-005": AnswersNotifications,
    "ACP1-A-RPC-006": rewrite(lambda _, m: m.get("id") == "7", put("id", 7)),
    "ACP1-A-RPC-007": CountsInHalves,
    "ACP1-A-RPC-008": followed(result("session/new"), lambda _, __: [notification("status/changed", {})]),
    "ACP1-A-RPC-009": rewrite(ends("end_turn"), put("result.durationMs", 120)),
    "ACP1-A-RPC-010": ignore(asks("session/rewindow_conformance")),
    "ACP1-A-RPC-011": refuse(asks("session/rewindow_conformance")),
    "ACP1-A-RPC-012": ignore(asks("_rewindow_conformance/unknown")),
    "ACP1-A-RPC-013": grant(asks("_rewindow_conformance/unknown"), None),
    "ACP1-A-RPC-014": dies(lambda line: b"_rewindow_conformance/note" in line),
    "ACP1-A-RPC-015": ignore(asks("terminal/create")),
    "ACP1-A-RPC-016": grant(
        lambda _, m: m["method"] == "session/prompt" and "params" not in m, {"stopReason": "end_turn"}
    ),
    "ACP1-A-RPC-017": rewrite(lambda _, m: m.get("error", {}).get("code") == -32602, put("error.code", -32603)),
    "ACP1-A-RPC-018": DiesOfParams,
    "ACP1-A-RPC-019": IgnoresTheThirdSession,
    "ACP1-A-RPC-020": rewrite(result("session/close"), put("result", None)),
    "ACP1-A-INIT-001": rewrite(result("initialize"), put("result.agentInfo.name", 5)),
    "ACP1-A-INIT-002": MistakesAVersion,
    "ACP1-A-INIT-003": refuse(asks("initialize", protocolVersion=65535)),
    "ACP1-A-INIT-004": rewrite(
        lambda agent, m: (
            result("initialize")(agent, m) and agent.asked[repr(m["id"])]["params"]["protocolVersion"] == 0
        ),
        put("result.protocolVersion", 0),
    ),
    "ACP1-A-INIT-005": KeepsCapabilitiesBack,
    "ACP1-A-INIT-006": refuse(lambda _, m: m["method"] == "initialize" and set(m["params"]) == {"protocolVersion"}),
    "ACP1-A-INIT-007": refuse(asks("initialize", clientInfo=None)),
    "ACP1-A-INIT-008": refuse(asks("initialize", clientInfo=7)),
    "ACP1-A-INIT-009": refuse(lambda _, m: m["method"] == "initialize" and "example.org/number" in _meta(m)),
    "ACP1-A-INIT-010": rewrite(result("initialize"), cut("result.agentInfo")),
    "ACP1-A-INIT-011": rewrite(
        result("initialize"), put("result.authMethods", [{"id": "a", "name": "A"}, {"id": "a", "name": "B"}])
    ),
    "ACP1-A-INIT-012": rewrite(
        result("initialize"), put("result.authMethods", [{"type": "terminal", "id": "a", "name": "A"}])
    ),
    "ACP1-A-INIT-013": grant(asks("authenticate"), {}),
    "ACP1-A-NEW-001": rewrite(third, put("result.configOptions", 5)),
    "ACP1-A-NEW-002": changed("new_id", lambda _, usual: usual().replace("session-3", "session-2")),
    "ACP1-A-NEW-003": grant(asks("session/new", cwd=5), {"sessionId": "elsewhere"}),
    "ACP1-A-NEW-004": grant(asks("session/new", cwd="relative/path"), {"sessionId": "elsewhere"}),
    "ACP1-A-LIST-001": rewrite(
        result("session/list"), lambda m: [session.update(updatedAt=5) for session in m["result"]["sessions"]]
    ),
    "ACP1-A-LIST-002": RefusesTheSecondPage,
    "ACP1-A-LIST-010": NeverEndsItsList,
    "ACP1-A-LIST-003": ListsTwice,
    "ACP1-A-LIST-004": ListsUnusedAlone,
    "ACP1-A-LIST-005": changed(
        "list",
        lambda _, usual, request, params: usual(
            request, {name: value for name, value in params.items() if name != "cwd"}
        ),
    ),
    "ACP1-A-LIST-006": refuse(asks("session/list", cwd="/rewindow-conformance/no/such/directory")),
    "ACP1-A-LIST-007": rewrite(
        lambda agent, m: result("session/list")(agent, m) and "cwd" not in agent.asked[repr(m["id"])]["params"],
        lambda m: [session.update(cwd="project") for session in m["result"]["sessions"]],
    ),
    "ACP1-A-LIST-008": rewrite(
        result("session/list"), lambda m: [session.update(updatedAt="yesterday") for session in m["result"]["sessions"]]
    ),
    "ACP1-A-LIST-009": TakesAnyCursor,
    "ACP1-A-DELETE-001": changed(
        "delete",
        lambda peer, __, request, params: (
            peer.refuse(request, -32603, "Deleted")
            if peer.sessions.pop(str(params.get("sessionId")), None) is not None
            else peer.answer(request, {})
        ),
    ),
    "ACP1-A-DELETE-002": changed("delete", lambda peer, __, request, ___: peer.answer(request, {})),
    "ACP1-A-DELETE-003": changed(
        "delete",
        lambda peer, usual, request, params: (
            usual(request, params)
            if params.get("sessionId") in peer.sessions
            else peer.refuse(request, -32002, "There is no such session")
        ),
    ),
    "ACP1-A-CLOSE-001": changed(
        "close",
        lambda peer, usual, request, params: (
            usual(request, params) if peer.turns else peer.refuse(request, -32600, "Nothing runs")
        ),
    ),
    "ACP1-A-LOAD-001": rewrite(result("session/load"), put("result.modes", 5)),
    "ACP1-A-LOAD-002": refuse(
        lambda agent, m: m["method"] == "session/load" and m["params"]["sessionId"] in agent.sessions
    ),
    "ACP1-A-LOAD-003": replays(without_last_words),
    "ACP1-A-LOAD-004": replays(without("user_message_chunk")),
    "ACP1-A-LOAD-005": replays(without("tool_call", "tool_call_update")),
    "ACP1-A-LOAD-006": followed(result("session/load"), thought),
    "ACP1-A-LOAD-007": forgets_after("session/load"),
    "ACP1-A-LOAD-009": refuse(
        lambda agent, m: m["method"] == "session/load" and "session-1" in m["params"]["sessionId"] and not agent.made
    ),
    "ACP1-A-LOAD-008": grant(asks("session/load", sessionId="rewindow-conformance-unknown"), {}),
    "ACP1-A-RESUME-001": rewrite(result("session/resume"), put("result.modes", 5)),
    "ACP1-A-RESUME-002": refuse(asks("session/resume")),
    "ACP1-A-RESUME-003": ReplaysOnResume,
    "ACP1-A-RESUME-004": forgets_after("session/resume"),
    "ACP1-A-PROMPT-001": rewrite(
        lambda agent, m: (
            ends("end_turn")(agent, m)
            and any(block["type"] == "resource_link" for block in _blocks(agent.asked[repr(m["id"])]))
        ),
        put("result.stopReason", "done"),
    ),
    "ACP1-A-PROMPT-002": ignore(_text_blocks),
    "ACP1-A-PROMPT-003": TakesTwoPrompts,
    "ACP1-A-PROMPT-004": changed(
        "prompt", lambda peer, usual, request, params: usual(request, params) if not peer.turns else None
    ),
    "ACP1-A-PROMPT-005": refuse(holds("session/prompt", "resource_link")),
    "ACP1-A-PROMPT-006": refuse(holds("session/prompt", "image")),
    "ACP1-A-PROMPT-007": refuse(holds("session/prompt", "audio")),
    "ACP1-A-PROMPT-008": refuse(holds("session/prompt", "resource")),
    "ACP1-A-PROMPT-009": refuse(lambda _, m: any("_meta" in b and b["_meta"] is None for b in _blocks(m))),
    "ACP1-A-PROMPT-010": refuse(lambda _, m: any(block.get("annotations") == 7 for block in _blocks(m))),
    "ACP1-A-PROMPT-011": changed(
        "prompt",
        lambda peer, usual, request, params: (
            usual(request, params)
            if params.get("sessionId") in peer.sessions
            else peer.answer(request, {"stopReason": "end_turn"})
        ),
    ),
    "ACP1-A-PROMPT-012": SaysNothing,
    "ACP1-A-PROMPT-013": rewrite(
        lambda agent, m: (
            ends("end_turn")(agent, m)
            and any(block["type"] == "resource_link" for block in _blocks(agent.asked[repr(m["id"])]))
        ),
        put("result.stopReason", "cancelled"),
    ),
    "ACP1-A-PROMPT-014": working(
        lambda agent, _: agent.send(note("internal-7", sessionUpdate="session_info_update", title="Internal"))
    ),
    "ACP1-A-UPDATE-001": _wrong("user_message_chunk", "messageId", 5),
    "ACP1-A-UPDATE-002": _wrong("agent_message_chunk", "messageId", 5),
    "ACP1-A-UPDATE-003": _wrong("agent_thought_chunk", "messageId", 5),
    "ACP1-A-UPDATE-004": _wrong("tool_call", "title", 5),
    "ACP1-A-UPDATE-005": _wrong("tool_call_update", "kind", "zap"),
    "ACP1-A-UPDATE-006": _wrong("plan", "entries.0.priority", "urgent"),
    "ACP1-A-UPDATE-007": _wrong("available_commands_update", "availableCommands", [5]),
    "ACP1-A-UPDATE-008": _wrong("current_mode_update", "currentModeId", 5),
    "ACP1-A-UPDATE-009": _wrong("config_option_update", "configOptions", 5),
    "ACP1-A-UPDATE-010": _wrong("session_info_update", "title", 5),
    "ACP1-A-UPDATE-011": _wrong("usage_update", "used", -1),
    "ACP1-A-UPDATE-012": _wrong("notice", "title", ""),
    "ACP1-A-UPDATE-013": _wrong("compaction_update", "error", 5),
    "ACP1-A-UPDATE-014": _wrong("compaction_summary_chunk", "content", 5),
    "ACP1-A-UPDATE-015": working(lambda agent, session: agent.update(session, "token", text="x")),
    "ACP1-A-UPDATE-016": rewrite(update("session_info_update"), cut("params.sessionId")),
    "ACP1-A-UPDATE-017": rewrite(update("session_info_update"), put("id", "u1")),
    "ACP1-A-UPDATE-018": working(
        lambda agent, session: agent.update(session, "notice", severity="info", title="Hello"),
        _lacks("session", "notices"),
    ),
    "ACP1-A-UPDATE-019": working(lambda agent, session: agent.compact(session), _lacks("session", "compaction")),
    "ACP1-A-UPDATE-020": KeepsCompacting,
    "ACP1-A-UPDATE-021": CompactsUnderOneId,
    "ACP1-A-ORDER-001": followed(ends("cancelled"), thought),
    "ACP1-A-ORDER-002": followed(ends("end_turn"), thought),
    "ACP1-A-ORDER-003": CommandsBeforeTheSession,
    "ACP1-A-ORDER-004": preceded("initialize", lambda peer: peer.notify("_reference/hello", {})),
    "ACP1-A-TOOL-001": _wrong("tool_call", "locations", [{"path": "file.txt"}]),
    "ACP1-A-TOOL-002": rewrite(
        lambda agent, m: update("tool_call_update")(agent, m) and "content" in m["params"]["update"],
        put("params.update.content.0.path", "file.txt"),
    ),
    "ACP1-A-TOOL-003": rewrite(update("tool_call"), put("params.update.locations.0.line", 0)),
    "ACP1-A-TOOL-004": _wrong("tool_call", "content", [{"type": "terminal", "terminalId": "local-1"}]),
    "ACP1-A-TOOL-005": EmbedsAfterRelease,
    "ACP1-A-TOOL-006": working(
        lambda agent, session: agent.show(session, "tool_call_update", toolCallId="ghost", status="completed")
    ),
    "ACP1-A-TOOL-007": changed("new_call", lambda _, __, ___: "call"),
    "ACP1-A-TOOL-008": afterwards(status="in_progress"),
    "ACP1-A-TOOL-009": changed(
        "show",
        lambda _, usual, session, update, /, **fields: (
            usual(session, update, **fields)
            if not (update == "tool_call_update" and fields.get("status") == "completed")
            else None
        ),
    ),
    "ACP1-A-PERM-001": _param("session/request_permission", "toolCall.title", 5),
    "ACP1-A-PERM-002": OffersOneIdTwice,
    "ACP1-A-PERM-003": OffersNothing,
    "ACP1-A-PERM-004": _param("session/request_permission", "sessionId", "other"),
    "ACP1-A-PERM-005": hangs("session/request_permission", outcome_is("no")),
    "ACP1-A-PERM-006": permits(lambda outcome: outcome.get("optionId") == "no"),
    "ACP1-A-PERM-007": hangs("session/request_permission", outcome_is("never")),
    "ACP1-A-PERM-008": hangs("session/request_permission", outcome_is("always")),
    "ACP1-A-PERM-009": permits(lambda outcome: outcome.get("optionId") == "no such option"),
    "ACP1-A-PERM-010": hangs("session/request_permission", outcome_is("no such option")),
    "ACP1-A-PERM-011": permits(lambda outcome: outcome == {}),
    "ACP1-A-PERM-012": hangs("session/request_permission", lambda _, error: error is not None),
    "ACP1-A-PERM-013": ForgetsAPermission,
    "ACP1-A-PERM-014": TakesAPermissionForAll,
    "ACP1-A-FS-001": calls("fs/read_text_file", _lacks("fs", "readTextFile"), path="/project/a"),
    "ACP1-A-FS-002": calls("fs/write_text_file", _lacks("fs", "writeTextFile"), path="/project/a", content=""),
    "ACP1-A-FS-003": rewrite(call("fs/read_text_file"), cut("params.sessionId")),
    "ACP1-A-FS-004": _param("fs/write_text_file", "content", 5),
    "ACP1-A-FS-005": _param("fs/read_text_file", "path", "file.txt"),
    "ACP1-A-FS-006": _param("fs/write_text_file", "path", "file.txt"),
    "ACP1-A-FS-007": _param("fs/read_text_file", "line", 0),
    "ACP1-A-FS-008": hangs("fs/read_text_file", lambda _, error: (error or {}).get("code") == -32603),
    "ACP1-A-TERM-001": calls("terminal/create", _lacks("terminal"), command="true"),
    "ACP1-A-TERM-002": _param("terminal/create", "args", 5),
    "ACP1-A-TERM-003": _param("terminal/output", "sessionId", 5),
    "ACP1-A-TERM-004": _param("terminal/wait_for_exit", "sessionId", 5),
    "ACP1-A-TERM-005": _param("terminal/kill", "sessionId", 5),
    "ACP1-A-TERM-006": _param("terminal/release", "sessionId", 5),
    "ACP1-A-TERM-007": _param("terminal/create", "cwd", "."),
    "ACP1-A-TERM-008": drop(call("terminal/release")),
    "ACP1-A-TERM-009": UsesAReleasedTerminal,
    "ACP1-A-TERM-010": UsesATerminalOfItsOwn,
    "ACP1-A-TERM-011": hangs("terminal/create", lambda _, error: (error or {}).get("code") == -32603),
    "ACP1-A-TERM-012": hangs("terminal/wait_for_exit", lambda _, error: (error or {}).get("code") == -32603),
    "ACP1-A-ELICIT-001": calls(
        "elicitation/create",
        lambda _: True,
        mode="form",
        message="Who are you?",
        requestedSchema={"type": "object", "properties": {}},
    ),
    "ACP1-A-MCP-001": changed("new", lambda _, usual, request, params: usual(request, {**params, "mcpServers": []})),
    "ACP1-A-MCP-002": StartsServersWithLess,
    "ACP1-A-MCP-003": changed(
        "new",
        lambda _, usual, request, params: (
            usual(request, params)
            if not any("no/such" in server["command"] for server in params.get("mcpServers") or [])
            else None
        ),
    ),
    "ACP1-A-MCP-004": BreaksWithAServer,
    "ACP1-A-MODE-001": rewrite(third, put("result.modes.currentModeId", "none")),
    "ACP1-A-MODE-002": rewrite(third, put("result.modes.availableModes", [{"id": "ask", "name": "A"}] * 2)),
    "ACP1-A-MODE-003": rewrite(update("current_mode_update"), put("params.update.currentModeId", "secret")),
    "ACP1-A-MODE-004": refuse(
        lambda agent, m: m["method"] == "session/set_mode" and m["params"]["modeId"] == "code" and not agent.turns
    ),
    "ACP1-A-MODE-005": grant(asks("session/set_mode", modeId="no such mode"), {}),
    "ACP1-A-MODE-006": changed(
        "set_mode",
        lambda peer, usual, request, params: (
            peer.refuse(request, -32600, "A turn runs") if peer.turns else usual(request, params)
        ),
    ),
    "ACP1-A-MODE-007": rewrite(result("session/set_mode"), put("result", None)),
    "ACP1-A-CONFIG-001": rewrite(third, put("result.configOptions.1.currentValue", "unknown")),
    "ACP1-A-CONFIG-002": rewrite(third, put("result.configOptions.1.id", "mode")),
    "ACP1-A-CONFIG-003": OffersBooleansToAll,
    "ACP1-A-CONFIG-004": rewrite(third, put("result.configOptions.1.category", "persona")),
    "ACP1-A-CONFIG-005": refuse(asks("session/set_config_option", value="large")),
    "ACP1-A-CONFIG-006": AnswersOneOption,
    "ACP1-A-CONFIG-007": SetsNothing,
    "ACP1-A-CONFIG-008": TakesAnyOption,
    "ACP1-A-CONFIG-009": rewrite(result("session/set_config_option"), put("result.configOptions.0.name", 5)),
    "ACP1-A-CONFIG-010": rewrite(third, put("result.modes.currentModeId", "code")),
    "ACP1-A-CANCEL-001": counting(second=False),
    "ACP1-A-CANCEL-002": breaks_when(lambda agent, turn: is_under_way(turn) and not agent.waits_for_client(turn)),
    "ACP1-A-CANCEL-003": counting(second=True),
    "ACP1-A-CANCEL-004": remembers(after_a_cancel=True),
    "ACP1-A-CANCEL-005": LosesEarlyCancels,
    "ACP1-A-CANCEL-006": remembers(after_a_cancel=False),
    "ACP1-A-CANCEL-007": CancelsEverything,
    "ACP1-A-CANCEL-008": mishandles(late=False),
    "ACP1-A-CANCEL-009": mishandles(late=True),
    "ACP1-A-CANCEL-010": breaks_when(lambda agent, turn: agent.asks_permission(turn)),
    "ACP1-A-CANCEL-011": FailsCancelledRequests,
    "ACP1-A-CANCEL-012": BreaksOnCancelledRequests,
    "ACP1-A-CANCEL-013": EndsTurnsWithTheirCommand,
    "ACP1-A-CLOSE-002": EndsTurnsOnClose,
    "ACP1-A-CLOSE-003": RefusesToCloseMeanwhile,
}
