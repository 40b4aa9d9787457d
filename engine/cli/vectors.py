"""`rewindow vectors-adapter`: answers the requests of `rewindow-conformance vectors` with this engine.

Converts neutral events to ours, and our View and request cycles to neutral form. Reads and writes a JSON-RPC message
on each line. Called by the conformance suite and by tests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Final, cast

import typer
from msgspec.structs import replace

from ..context.view import BoundaryRule, View
from ..context.view.well_formed import indices_of
from ..core.ids import EventId, ExecutionId, LlmResponseId, MessageId, ObjId, Seq, ToolCallId
from ..core.installation import __version__
from ..log.cycles import cycles_of, to_plain
from ..log.events import Event
from ..log.events.conversation import (
    AgentReasoning,
    AgentText,
    Condensation,
    CondensationRequest,
    PromptKind,
    ResultStatus,
    RunStop,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ..log.events.execution import EffectRequested
from ..log.events.nodes import TickApplied
from ..log.events.session import (
    ConfigChanged,
    ModeChanged,
    PromptQueued,
    PromptWithdrawn,
    SessionOpened,
    TitleChanged,
    UsageReported,
)

_NAME: Final = f"rewindow {__version__}"
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_METHOD_NOT_FOUND: Final = -32601
_INVALID_PARAMS: Final = -32602

Rows = Sequence[dict[str, Any]]


def vectors_adapter(
    rule: Annotated[BoundaryRule, typer.Option(help="Where the View may be cut.")] = BoundaryRule.GAPS,
) -> None:
    """Answer the requests of `rewindow-conformance vectors` about this engine's View and request cycles."""
    for line in answers(sys.stdin, rule):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def answers(lines: Iterable[str], rule: BoundaryRule = BoundaryRule.GAPS) -> Iterator[str]:
    """Yield an answer for each line, even for one that cannot be parsed."""
    for line in lines:
        if line.strip():
            yield json.dumps(_respond(line, rule))


def _respond(line: str, rule: BoundaryRule) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError as error:
        return _refusal(None, _PARSE_ERROR, f"not JSON: {error}")
    if not isinstance(message, dict):
        return _refusal(None, _INVALID_REQUEST, "a request must be an object")
    request = cast("dict[str, Any]", message)
    number, operation = request.get("id"), request.get("method")
    if operation == "hello":
        return _result(number, {"name": _NAME, "operations": list(OPERATIONS), "rule": rule.value})
    if operation not in OPERATIONS:
        return _refusal(number, _METHOD_NOT_FOUND, f"unknown operation {operation!r}")
    try:
        return _result(number, OPERATIONS[operation](request["params"]["events"], rule))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return _refusal(number, _INVALID_PARAMS, f"these events cannot be read: {type(error).__name__}: {error}")


def _result(number: Any, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _refusal(number: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


# Request cycles. The rows are those of `cycles.json`, which describes them under `about`, as does
# docs/conformance-formats.md.

Plain = dict[str, Any]

PROMPT_KINDS: Final[dict[str, PromptKind]] = {"direct": "direct", "steer": "steer", "followUp": "follow_up"}
OTHERS: Final[tuple[Event, ...]] = (
    SessionOpened(cwd="/"),
    UsageReported(used=1, size=2),
    ModeChanged(mode="auto"),
    ConfigChanged(option="while_running", value="steer"),
    TitleChanged(title="t"),
    EffectRequested(execution_id=ExecutionId("x"), ordinal=0, operation="ls", argument_digest=""),
    TickApplied(obj_id=ObjId("v1"), tick_kind="sync", turn_id=0, delta=""),
    CondensationRequest(),
)
"""Events that cycles ignore; the vectors name some of them as `other`."""


def model_of(rows: Sequence[Plain]) -> Plain:
    """Return the request cycles of neutral events in neutral form.

    Raises:
        KeyError, TypeError: the rows are malformed.
    """
    return neutral(to_plain(cycles_of(stamped([event_of(row) for row in rows]))))


def stamped(events: Sequence[Event]) -> tuple[Event, ...]:
    """Number the events, as a log would."""
    return tuple(replace(event, seq=Seq(at), event_id=EventId(f"e{at}")) for at, event in enumerate(events))


def event_of(row: Plain) -> Event:
    """Return the event of one neutral row, without a number."""
    match row["event"]:
        case "user-message":
            kind = PROMPT_KINDS[row["kind"]]
            return UserMessage(message_id=MessageId(row["id"]), text=f"text of {row['id']}", prompt_kind=kind)
        case "agent-output":
            return _output(row)
        case "tool-result":
            return ToolResult(tool_call_id=ToolCallId(row["id"]), status=row["status"], text="")
        case "run-stop":
            return RunStop(reason=row["reason"], cause="end_turn")
        case "prompt-queued":
            return PromptQueued(message_id=MessageId(row["id"]), text=f"text of {row['id']}")
        case "prompt-withdrawn":
            return PromptWithdrawn(message_id=MessageId(row["id"]))
        case _:
            return next((event for event in OTHERS if event.kind == row.get("name")), OTHERS[0])


def _output(row: Plain) -> Event:
    response = LlmResponseId(row["response"]) if "response" in row else None
    if row["item"] == "tool-call":
        return ToolCall(
            tool_call_id=ToolCallId(row["id"]),
            tool=row["tool"],
            llm_response_id=response,
            parent_id=ToolCallId(row["parent"]) if "parent" in row else None,
        )
    cls = AgentText if row["item"] == "assistant" else AgentReasoning
    return cls(message_id=MessageId(row["id"]), text=f"text of {row['id']}", llm_response_id=response)


def neutral(model: Plain) -> Plain:
    """Convert the result of `to_plain` to neutral form."""
    return {
        "state": model["state"],
        "cycles": [_cycle(cycle) for cycle in model["cycles"]],
        "queue": [each["messageId"] for each in model["queue"]],
        "withdrawn": [each["messageId"] for each in model["withdrawn"]],
        "strays": [_id(each) for each in model["strays"]],
        "anomalies": [{"type": each["type"], "at": each["seq"]} for each in model["anomalies"]],
    }


def _cycle(cycle: Plain) -> Plain:
    return {
        "root": {"kind": cycle["root"]["kind"], "id": cycle["root"]["messageId"]},
        "stop": cycle["stop"] and cycle["stop"]["reason"],
        "steps": [_step(step) for step in cycle["steps"]],
        "rounds": [
            {"input": [_id(each) for each in round_["input"]], "output": [_id(each) for each in round_["output"]]}
            for round_ in cycle["rounds"]
        ],
        "unread": [_id(each) for each in cycle["unread"]],
    }


def _step(step: Plain) -> Plain:
    if step["type"] != "ai-block":
        return {"type": step["type"], "message": step["message"]["messageId"]}
    return {
        "type": "ai-block",
        "text": step["text"] and step["text"]["messageId"],
        "statements": [_call(call) for call in step["statements"]],
        "groups": [
            {"type": group["type"], "calls": [_call(call) for call in group["calls"]]} for group in step["groups"]
        ],
    }


def _call(call: Plain) -> list[str | None]:
    return [call["toolCallId"], call["result"] and call["result"]["status"]]


def _id(item: Plain) -> str:
    return item["messageId"] if "messageId" in item else item["toolCallId"]


# The View. The rows are those of `view.json`.
#
# message -> UserMessage; action -> ToolCall (`has_thinking` -> one thinking block); observation -> ToolResult (subtype
# reject -> rejected, error -> error, else ok); condensation and condensation_request -> the events of the same names.
# other -> RunStop: like the vectors' `other` it never enters the View, but ends a tool loop. Ids become event ids.

_STATUS: Final[dict[str | None, ResultStatus]] = {None: "ok", "reject": "rejected", "error": "error"}


def appended(rows: Rows, rule: BoundaryRule = BoundaryRule.GAPS) -> dict[str, Any]:
    """Return the View after appending the events: ids, indices, open request."""
    view = _view(rows, rule)
    return _view_fields(view, [event.event_id for event in view.events], view.indices)


def ready(rows: Rows, rule: BoundaryRule = BoundaryRule.GAPS) -> dict[str, Any]:
    """Return the same of the well-formed View that a model gets."""
    view = _view(rows, rule)
    events = view.ready()
    return _view_fields(view, [event.event_id for event in events], indices_of(events, rule))


def _view(rows: Rows, rule: BoundaryRule) -> View:
    return View.from_events([view_event_of(row, seq) for seq, row in enumerate(rows)], rule)


def _view_fields(view: View, ids: Sequence[str], indices: Sequence[int]) -> dict[str, Any]:
    return {
        "view_ids": list(ids),
        "manipulation_indices": list(indices),
        "unhandled_condensation_request": view.unhandled_condensation_request,
    }


def view_event_of(neutral: dict[str, Any], seq: int) -> Event:
    """Return the event of one neutral row, with `seq`."""
    stamp: dict[str, Any] = {"seq": Seq(seq), "event_id": EventId(neutral["id"])}
    match neutral["kind"]:
        case "message":
            return UserMessage(**stamp, message_id=MessageId(neutral["id"]), text=neutral["id"])
        case "action":
            return ToolCall(
                **stamp,
                tool_call_id=ToolCallId(neutral["tool_call_id"]),
                tool="python",
                llm_response_id=LlmResponseId(neutral["llm_response_id"]),
                thinking=(ThinkingBlock(text="hm"),) if neutral["has_thinking"] else (),
            )
        case "observation":
            status = _STATUS[neutral.get("subtype")]
            return ToolResult(**stamp, tool_call_id=ToolCallId(neutral["tool_call_id"]), status=status, text="")
        case "condensation":
            return Condensation(
                **stamp,
                forgotten=tuple(EventId(each) for each in neutral["forgotten"]),
                summary=neutral["summary"],
                summary_offset=neutral["summary_offset"],
            )
        case "condensation_request":
            return CondensationRequest(**stamp)
        case "other":
            return RunStop(**stamp, reason="completed", cause="end_turn")
        case kind:
            raise ValueError(f"no event for the neutral kind {kind!r}")


OPERATIONS: Final[dict[str, Callable[[Rows, BoundaryRule], dict[str, Any]]]] = {
    "view.append": appended,
    "view.ready": ready,
    "cycles": lambda rows, _rule: model_of(rows),
}
