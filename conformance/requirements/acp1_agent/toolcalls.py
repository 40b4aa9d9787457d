"""Tool calls: ids, absolute paths, lines from 1, terminals that exist, and how a call goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.requirement import Requirement
from conformance.requirements.acp1 import is_absolute, prose, schema, session_of
from conformance.requirements.acp1_agent.reading import is_cancelled, paths, tool_calls, updates, updates_between
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text
from conformance.verdict import PASS, Verdict, failed, skipped

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
            return f"the diff at {place} of a tool call is of {path!r}, which is not absolute"
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
                return failed(f"the terminal {terminal!r} was embedded after it had been released", message.index)
        known.update(_embedded(call))
    return PASS if found else skipped(_NO_CALL)


def _embedded(call: Object) -> list[str]:
    """The terminals that a tool call shows."""
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
            return failed(f"tool_call_update for {name[1]!r}, of which there was no tool_call", message.index)
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
            ended.pop(name, None)  # announced anew: a replay
        status = update.get("status")
        if name in ended and update.get("sessionUpdate") == "tool_call_update" and status in ("pending", "in_progress"):
            return failed(
                f"the tool call {name[1]!r} had ended, and is {status} again", ended[name].index, message.index
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
                return failed(f"the turn ended, and its tool call {name!r} is still {last}", prompt.answer.index)
    return PASS if judged else skipped("no turn with tool calls ended by itself")


REQUIREMENTS: Final = (
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
        "The diffs of tool calls are of absolute paths.",
        prose("overview", "All file paths in the protocol **MUST** be absolute."),
        _each(_absolute_diffs),
        violation='{"type":"diff","path":"src/main.py",...}',
    ),
    Requirement(
        "ACP1-A-TOOL-003",
        "advisory",
        "The lines of locations begin at 1.",
        schema("/$defs/ToolCallLocation/properties/line", "Optional 1-based line number within the file."),
        _each(_lines_from_one),
        violation='"locations":[{"path":"/project/main.py","line":0}]',
    ),
    Requirement(
        "ACP1-A-TOOL-004",
        "advisory",
        "The terminals that tool calls embed were created by the client.",
        schema("/$defs/ToolCallContent/oneOf/2", "Embed a terminal created with `terminal/create` by its id."),
        _terminals_exist,
        violation='{"type":"terminal","terminalId":"local-1"}',
    ),
    Requirement(
        "ACP1-A-TOOL-005",
        "mandatory",
        "A terminal is embedded before it is released.",
        schema("/$defs/ToolCallContent/oneOf/2", "The terminal must be added before calling `terminal/release`."),
        _released_before,
        violation='terminal/release, and then {"type":"terminal",...}',
    ),
    Requirement(
        "ACP1-A-TOOL-006",
        "advisory",
        "A tool call is announced before it is changed.",
        prose(
            "tool-calls",
            "When the language model requests a tool invocation, the Agent **SHOULD** report it to the Client:",
        ),
        _announced,
        violation="tool_call_update for an id that nobody saw",
    ),
    Requirement(
        "ACP1-A-TOOL-007",
        "advisory",
        "Each tool call of a session has an id of its own.",
        schema("/$defs/ToolCall/properties/toolCallId", "Unique identifier for this tool call within the session."),
        _unique,
        violation='two tool_call updates with "toolCallId":"call_1"',
    ),
    Requirement(
        "ACP1-A-TOOL-008",
        "informational",
        "A tool call that has ended does not run again.",
        schema("/$defs/ToolCallStatus/oneOf/2", "The tool call completed successfully."),
        _final_stays,
        violation='"status":"completed", and then "status":"in_progress"',
    ),
    Requirement(
        "ACP1-A-TOOL-009",
        "advisory",
        "When a turn ends by itself, its tool calls have ended.",
        prose("prompt-turn", "If there are no pending tool calls, the turn ends"),
        _all_end,
        violation='{"stopReason":"end_turn"} with a call "in_progress"',
    ),
)
