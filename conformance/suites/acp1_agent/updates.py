"""Session updates: their shapes, their order relative to answers, and the life of tool calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from conformance.documents import json_document
from conformance.judging import PASS, Judge, Requirement, Verdict, every, failed, not_tested, skipped
from conformance.suites.acp1 import definition, is_absolute, prose, schema, session_of
from conformance.suites.acp1_agent.client import (
    client_advertises,
    is_cancelled,
    next_of,
    paths,
    tool_calls,
    updates,
    updates_between,
)
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, is_object

_KINDS: Final[dict[str, str]] = {
    as_object(as_object(branch["properties"])["sessionUpdate"])["const"]: f"/$defs/SessionUpdate/oneOf/{index}"
    for index, branch in enumerate(json_document("acp1.schema")["$defs"]["SessionUpdate"]["oneOf"])
}


def _unstable_kinds() -> set[str]:
    union = json_document("acp1.unstable")["$defs"]["SessionUpdate"]
    branches: list[Any] = [*as_list(union.get("oneOf")), *as_list(union.get("anyOf"))]
    return {
        as_text(as_object(as_object(branch.get("properties")).get("sessionUpdate")).get("const")) for branch in branches
    }


def _update_fits(kind: str) -> Judge:
    def found(traffic: Traffic) -> list[Message]:
        return [message for message, _ in updates(traffic, kind)]

    def problem(message: Message) -> str:
        wrong = definition("SessionUpdate")(message.params.get("update"))
        return f"{kind}: {wrong}" if wrong else ""

    return every(found, problem, lambda: skipped(f"the agent sent no {kind}"))


def _known_kind(message: Message) -> str:
    update = message.params.get("update")
    if not is_object(update):
        return "the notification holds no update"
    kind = as_text(as_object(update).get("sessionUpdate"))
    known = kind in _KINDS or kind in _unstable_kinds()
    return "" if known else f"sessionUpdate is {kind!r}, which the schema does not define"


def _names_session(message: Message) -> str:
    return "" if isinstance(message.params.get("sessionId"), str) else "the notification has no sessionId"


def _all_updates(traffic: Traffic) -> list[Message]:
    return traffic.notifications("server", "session/update")


def _none() -> Verdict:
    return skipped("the agent sent no session/update")


def _only_if_advertised(path: str, *kinds: str) -> Judge:
    def judge(traffic: Traffic) -> Verdict:
        if client_advertises(traffic, path):
            return skipped(f"the client offers {path}")
        for message, update in updates(traffic, *kinds):
            return failed(f"{update.get('sessionUpdate')} was sent to a client without {path}", message.index)
        return PASS if traffic.requests("client", "session/prompt") else skipped("no turn was run")

    return judge


def _no_requests(traffic: Traffic) -> Verdict:
    for request in traffic.requests("server", "session/update"):
        return failed("session/update was sent as a request, with an id", request.index)
    return PASS if _all_updates(traffic) else _none()


def _compactions(traffic: Traffic) -> dict[tuple[str, str], list[tuple[Message, Object]]]:
    found: dict[tuple[str, str], list[tuple[Message, Object]]] = {}
    for message, update in updates(traffic, "compaction_update"):
        found.setdefault((session_of(message), as_text(update.get("compactionId"))), []).append((message, update))
    return found


def _compactions_end(traffic: Traffic) -> Verdict:
    for (session, name), reports in _compactions(traffic).items():
        if reports[-1][1].get("status") == "in_progress":
            ended = [r for r in traffic.requests("client", "session/prompt") if r.answer and session_of(r) == session]
            if ended and ended[-1].answer and ended[-1].answer.order > reports[-1][0].order:
                return failed(f"the compaction {name!r} never ends", reports[-1][0].index)
    return PASS if _compactions(traffic) else skipped("the agent reported no compaction")


def _compactions_differ(traffic: Traffic) -> Verdict:
    for (_, name), reports in _compactions(traffic).items():
        ended = False
        loads = [m.order for m in traffic.requests("client", "session/load")]
        for (before, _), (message, update) in zip((reports[0], *reports), reports, strict=False):
            ended = ended and not any(before.order < order < message.order for order in loads)
            if ended and update.get("status") == "in_progress":
                return failed(f"the id {name!r} of a finished compaction is used again", message.index)
            ended = ended or update.get("status") in ("completed", "failed", "cancelled")
    return PASS if _compactions(traffic) else skipped("the agent reported no compaction")


_EXAMPLES: Final = {
    "tool_call": '{"sessionUpdate":"tool_call","title":"no toolCallId"}',
    "plan": '{"sessionUpdate":"plan","entries":[{"content":"no priority and no status"}]}',
    "current_mode_update": '{"sessionUpdate":"current_mode_update","modeId":"code"}',
}


# --- order ------------------------------------------------------------------------------------------------------------


_OF_A_TURN: Final = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update")
_ASKED: Final = ("session/prompt", "session/load", "session/resume", "session/close")


def _late(traffic: Traffic, *, cancelled: bool) -> Verdict:
    judged = False
    for prompt in traffic.requests("client", "session/prompt"):
        if prompt.answer is None or is_cancelled(traffic, prompt) != cancelled:
            continue
        judged = True
        # Later messages about the session are excluded, because their updates could belong to either.
        until = next_of(traffic, prompt, *_ASKED)
        for late, _ in updates_between(traffic, session_of(prompt), prompt.answer.order, until, *_OF_A_TURN):
            return failed("an update of a turn came after the answer to its prompt", prompt.answer.index, late.index)
    return PASS if judged else skipped("no turn was cancelled" if cancelled else "no turn ended normally")


def _before_new(traffic: Traffic) -> Verdict:
    opened = [r for r in traffic.requests("client", "session/new") if r.answer is not None and r.succeeded]
    seen: set[str] = set()
    for request in opened:
        assert request.answer
        session = as_text(request.answer.result.get("sessionId"))
        if session in seen:
            continue  # one id for two sessions is another requirement
        seen.add(session)
        for early, _ in updates_between(traffic, session, -1, request.answer.order):
            return failed("an update came before the answer that names its session", early.index, request.answer.index)
    return PASS if opened else not_tested("no session was opened")


def _before_initialize(traffic: Traffic) -> Verdict:
    requests = traffic.requests("client", "initialize")
    if not requests or requests[0].answer is None:
        return not_tested("initialize was not answered")
    for message in traffic.sent("server"):
        if message.method and message.order < requests[0].answer.order and message.method != "$/cancel_request":
            return failed(f"{message.method} came before the answer to initialize", message.index)
    return PASS


# --- tool calls -------------------------------------------------------------------------------------------------------


_FINAL: Final = ("completed", "failed")
_NO_CALL: Final = "the agent reported no tool call"


def _each(problem: Callable[[Object], str]) -> Callable[[Traffic], Verdict]:
    def judge(traffic: Traffic) -> Verdict:
        found = tool_calls(traffic)
        for message, call in found:
            reason = problem(call)
            if reason:
                return failed(reason, message.index)
        return PASS if found else skipped(_NO_CALL)

    return judge


def _absolute_locations(call: Object) -> str:
    for place, path in paths(call):
        if place.startswith("locations") and not is_absolute(path):
            return f"{place} of a tool call is {path!r}, which is not absolute"
    return ""


def _absolute_diffs(call: Object) -> str:
    for place, path in paths(call):
        if place.startswith("content") and not is_absolute(path):
            return f"the diff at {place} of a tool call has the path {path!r}, which is not absolute"
    return ""


def _lines_from_one(call: Object) -> str:
    for location in as_list(call.get("locations")):
        if as_object(location).get("line") == 0:
            return "a location's line is 0, and lines begin at 1"
    return ""


def _terminals_exist(traffic: Traffic) -> Verdict:
    created: dict[str, int] = {}
    for request in traffic.requests("server", "terminal/create"):
        if request.answer is not None:
            created.setdefault(as_text(request.answer.result.get("terminalId")), request.answer.order)
    found = tool_calls(traffic)
    for message, call in found:
        for terminal in _embedded(call):
            if created.get(terminal, message.order) >= message.order:
                reason = f"a tool call embeds the terminal {terminal!r}, which the client did not create"
                return failed(reason, message.index)
    return PASS if found else skipped(_NO_CALL)


def _released_before(traffic: Traffic) -> Verdict:
    released: dict[str, int] = {}
    for request in traffic.requests("server", "terminal/release"):
        released.setdefault(as_text(request.params.get("terminalId")), request.order)
    known: set[str] = set()
    found = tool_calls(traffic)
    for message, call in found:
        for terminal in _embedded(call):
            if released.get(terminal, message.order) < message.order and terminal not in known:
                return failed(f"the terminal {terminal!r} was embedded after its release", message.index)
        known.update(_embedded(call))
    return PASS if found else skipped(_NO_CALL)


def _embedded(call: Object) -> list[str]:
    """Return the terminals in a tool call."""
    contents = [as_object(content) for content in as_list(call.get("content"))]
    return [as_text(content.get("terminalId")) for content in contents if content.get("type") == "terminal"]


def _announced(traffic: Traffic) -> Verdict:
    known: set[tuple[str, str]] = set()
    found = updates(traffic, "tool_call", "tool_call_update")
    asked = {
        (session_of(m), as_text(as_object(m.params.get("toolCall")).get("toolCallId")))
        for m in traffic.requests("server", "session/request_permission")
    }
    for message, update in found:
        name = session_of(message), as_text(update.get("toolCallId"))
        if update.get("sessionUpdate") == "tool_call_update" and name not in known | asked:
            return failed(f"tool_call_update for {name[1]!r}, which has no tool_call", message.index)
        known.add(name)
    return PASS if found else skipped(_NO_CALL)


def _unique(traffic: Traffic) -> Verdict:
    seen: dict[tuple[str, str], Message] = {}
    loads = [m.order for m in traffic.requests("client", "session/load")]
    found = updates(traffic, "tool_call")
    for message, update in found:
        name = session_of(message), as_text(update.get("toolCallId"))
        before = seen.get(name)
        replayed = before is not None and any(before.order < order < message.order for order in loads)
        if before is not None and not replayed:
            return failed(f"two tool calls have the id {name[1]!r}", before.index, message.index)
        seen[name] = message
    return PASS if found else skipped(_NO_CALL)


def _final_stays(traffic: Traffic) -> Verdict:
    ended: dict[tuple[str, str], Message] = {}
    found = updates(traffic, "tool_call", "tool_call_update")
    for message, update in found:
        name = session_of(message), as_text(update.get("toolCallId"))
        if update.get("sessionUpdate") == "tool_call":
            ended.pop(name, None)  # announced again: a replay
        status = update.get("status")
        if name in ended and update.get("sessionUpdate") == "tool_call_update" and status in ("pending", "in_progress"):
            return failed(
                f"the tool call {name[1]!r} had ended, but is {status} again", ended[name].index, message.index
            )
        if status in _FINAL:
            ended[name] = message
    return PASS if found else skipped(_NO_CALL)


def _all_end(traffic: Traffic) -> Verdict:
    judged = False
    for prompt in traffic.requests("client", "session/prompt"):
        if prompt.answer is None or not prompt.succeeded or is_cancelled(traffic, prompt):
            continue
        status: dict[str, object] = {}
        turn = session_of(prompt), prompt.order, prompt.answer.order
        for _, update in updates_between(traffic, *turn, "tool_call", "tool_call_update"):
            name = as_text(update.get("toolCallId"))
            status[name] = update.get("status", status.get(name, "pending"))
        judged = judged or bool(status)
        for name, last in status.items():
            if last not in _FINAL:
                return failed(f"the turn ended, but its tool call {name!r} is still {last}", prompt.answer.index)
    return PASS if judged else skipped("no turn with tool calls ended normally")


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    *(
        Requirement(
            f"ACP1-A-UPDATE-{number:03}",
            "mandatory",
            f"Updates of the kind {kind} have the schema's shape.",
            schema(place, f'"const": "{kind}"'),
            _update_fits(kind),
            violation=_EXAMPLES.get(kind, f'{{"sessionUpdate":"{kind}"}}'),
        )
        for number, (kind, place) in enumerate(_KINDS.items(), 1)
    ),
    Requirement(
        "ACP1-A-UPDATE-015",
        "mandatory",
        "Each update is of a kind in the stable or the unstable schema.",
        schema("/$defs/SessionUpdate", '"discriminator": {"propertyName": "sessionUpdate"}'),
        every(_all_updates, _known_kind, _none),
        violation='{"sessionUpdate":"token"}',
    ),
    Requirement(
        "ACP1-A-UPDATE-016",
        "mandatory",
        "Updates name their session.",
        schema("/$defs/SessionNotification/required", '["sessionId", "update"]'),
        every(_all_updates, _names_session, _none),
        violation='{"method":"session/update","params":{"update":{...}}}',
    ),
    Requirement(
        "ACP1-A-UPDATE-017",
        "advisory",
        "Updates are notifications: they have no id.",
        schema("/$defs/SessionNotification", "Notification containing a session update from the agent."),
        _no_requests,
        violation='{"id":5,"method":"session/update",...}',
    ),
    Requirement(
        "ACP1-A-UPDATE-018",
        "mandatory",
        "The agent sends notices only to clients that support them.",
        prose("prompt-turn", "The Agent **MUST NOT** send `notice` updates unless the Client advertised support"),
        _only_if_advertised("session.notices", "notice"),
        scenario="minimal-client",
        violation='{"sessionUpdate":"notice",...} to a client without session.notices',
    ),
    Requirement(
        "ACP1-A-UPDATE-019",
        "mandatory",
        "The agent reports compactions only to clients that support them.",
        prose(
            "prompt-turn",
            (
                "The Agent **MUST NOT** send `compaction_update` or `compaction_summary_chunk` "
                "unless the Client advertised support"
            ),
        ),
        _only_if_advertised("session.compaction", "compaction_update", "compaction_summary_chunk"),
        scenario="minimal-client",
        violation='{"sessionUpdate":"compaction_update",...} to a client without session.compaction',
    ),
    Requirement(
        "ACP1-A-UPDATE-020",
        "advisory",
        "A reported compaction ends.",
        prose("prompt-turn", "The Agent **MUST** report a terminal status when a reported compaction ends."),
        _compactions_end,
        violation='"status":"in_progress" and no later status',
    ),
    Requirement(
        "ACP1-A-UPDATE-021",
        "mandatory",
        "Each compaction has its own id.",
        prose(
            "prompt-turn",
            (
                "The ID is an opaque, Agent-owned string, unique within the session, and **MUST "
                "NOT** be reused for another compaction."
            ),
        ),
        _compactions_differ,
        violation='"status":"completed" and then "status":"in_progress" for the same id',
    ),
    Requirement(
        "ACP1-A-ORDER-001",
        "mandatory",
        "After a cancel, all updates of the turn precede the answer to its prompt.",
        prose(
            "prompt-turn", "but it **MUST** ensure that it does so before responding to the `session/prompt` request."
        ),
        lambda traffic: _late(traffic, cancelled=True),
        violation='{"stopReason":"cancelled"}, and then {"sessionUpdate":"tool_call_update",...}',
    ),
    Requirement(
        "ACP1-A-ORDER-002",
        "advisory",
        "All updates of a normal turn precede the answer to its prompt.",
        schema("/$defs/SessionNotification", "Used to stream real-time progress and results during prompt processing."),
        lambda traffic: _late(traffic, cancelled=False),
        violation='{"stopReason":"end_turn"}, and then {"sessionUpdate":"agent_message_chunk",...}',
    ),
    Requirement(
        "ACP1-A-ORDER-003",
        "informational",
        "No update for a session precedes the answer that names it.",
        schema(
            "/$defs/NewSessionResponse/properties/sessionId", "Used in all subsequent requests for this conversation."
        ),
        _before_new,
        violation='{"sessionUpdate":"available_commands_update",...}, and then {"sessionId":"s1"}',
    ),
    Requirement(
        "ACP1-A-ORDER-004",
        "informational",
        "The agent sends nothing before it has answered initialize.",
        prose(
            "initialization",
            (
                "Before a Session can be created, Clients **MUST** initialize the connection by "
                "calling the `initialize` method with:"
            ),
        ),
        _before_initialize,
        violation="a session/update before the first response",
    ),
    Requirement(
        "ACP1-A-TOOL-001",
        "mandatory",
        "The locations of tool calls are absolute paths.",
        prose("overview", "All file paths in the protocol **MUST** be absolute."),
        _each(_absolute_locations),
        violation='"locations":[{"path":"src/main.py"}]',
    ),
    Requirement(
        "ACP1-A-TOOL-002",
        "mandatory",
        "Diffs of tool calls have absolute paths.",
        prose("overview", "All file paths in the protocol **MUST** be absolute."),
        _each(_absolute_diffs),
        violation='{"type":"diff","path":"src/main.py",...}',
    ),
    Requirement(
        "ACP1-A-TOOL-003",
        "advisory",
        "Line numbers of locations begin at 1.",
        schema("/$defs/ToolCallLocation/properties/line", "Optional 1-based line number within the file."),
        _each(_lines_from_one),
        violation='"locations":[{"path":"/project/main.py","line":0}]',
    ),
    Requirement(
        "ACP1-A-TOOL-004",
        "advisory",
        "Tool calls embed only terminals that the client created.",
        schema("/$defs/ToolCallContent/oneOf/2", "Embed a terminal created with `terminal/create` by its id."),
        _terminals_exist,
        violation='{"type":"terminal","terminalId":"local-1"}',
    ),
    Requirement(
        "ACP1-A-TOOL-005",
        "mandatory",
        "The agent embeds a terminal in a tool call before it releases the terminal.",
        schema("/$defs/ToolCallContent/oneOf/2", "The terminal must be added before calling `terminal/release`."),
        _released_before,
        violation='terminal/release, and then {"type":"terminal",...}',
    ),
    Requirement(
        "ACP1-A-TOOL-006",
        "advisory",
        "A tool call is announced before it changes.",
        prose(
            "tool-calls",
            "When the language model requests a tool invocation, the Agent **SHOULD** report it to the Client:",
        ),
        _announced,
        violation="tool_call_update for an unannounced id",
    ),
    Requirement(
        "ACP1-A-TOOL-007",
        "advisory",
        "Each tool call of a session has its own id.",
        schema("/$defs/ToolCall/properties/toolCallId", "Unique identifier for this tool call within the session."),
        _unique,
        violation='two tool_call updates with "toolCallId":"call_1"',
    ),
    Requirement(
        "ACP1-A-TOOL-008",
        "informational",
        "A finished tool call does not run again.",
        schema("/$defs/ToolCallStatus/oneOf/2", "The tool call completed successfully."),
        _final_stays,
        violation='"status":"completed", and then "status":"in_progress"',
    ),
    Requirement(
        "ACP1-A-TOOL-009",
        "advisory",
        "When a turn ends normally, its tool calls have ended.",
        prose("prompt-turn", "If there are no pending tool calls, the turn ends"),
        _all_end,
        violation='{"stopReason":"end_turn"} with a call "in_progress"',
    ),
)
