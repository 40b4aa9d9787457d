"""Updates for statements: each is one call, from pending to in progress to its end, with its source and its record."""

from __future__ import annotations

from typing import Any, assert_never

from msgspec.structs import replace

from acp_adapter.wire.shown import Shown
from acp_adapter.wire.v1.shapes.tools import ToolCall, ToolCallUpdate
from acp_adapter.wire.v1.updates.parts import Step, location, text_block
from engine import result_text
from engine.events import ExecutionEvent
from engine.events.execution import (
    EffectAnswered,
    EffectRequested,
    ExecutionFinished,
    ExecutionStarted,
    NamesRebound,
    StatementRecorded,
)


def step(event: ExecutionEvent, shown: Shown) -> Step:
    """What an event of the timeline is to an editor."""
    match event:
        case StatementRecorded():
            return _recorded(event, shown)
        case ExecutionStarted():
            return _started(event, shown)
        case ExecutionFinished():
            return _finished(event, shown)
        case EffectRequested() | EffectAnswered() | NamesRebound():
            return shown, []
        case _:
            assert_never(event)


def _recorded(event: StatementRecorded, shown: Shown) -> Step:
    call = ToolCall(
        tool_call_id=event.tool_call_id,
        title=event.title,
        name="python",
        kind="execute",
        status="pending",
        raw_input={"source": event.source, "statement": event.index},
    )
    shown = replace(
        shown,
        calls={**shown.calls, event.statement_id: event.tool_call_id},
        unannounced={other: call for other, call in shown.unannounced.items() if other != event.tool_call_id},
    )
    return shown, [call]


def _started(event: ExecutionStarted, shown: Shown) -> Step:
    call = shown.calls.get(event.statement_id)
    if call is None:
        return shown, []
    return shown, [ToolCallUpdate(tool_call_id=call, status="in_progress")]


def _finished(event: ExecutionFinished, shown: Shown) -> Step:
    call = shown.calls.get(event.statement_id)
    if call is None:
        return shown, []
    output = result_text(event)
    update = ToolCallUpdate(
        tool_call_id=call,
        status="completed" if event.status == "ok" else "failed",
        content=[text_block(output)] if output else [],
        locations=[location(each.path, each.line) for each in event.locations],
        raw_output=_record(event),
    )
    calls = {other: id_ for other, id_ in shown.calls.items() if other != event.statement_id}
    return replace(shown, calls=calls), [update]


def _record(event: ExecutionFinished) -> dict[str, Any]:
    return {
        "status": event.status,
        "value": event.value,
        "exception": event.exception and {"type": event.exception.type, "message": event.exception.message},
        "stdoutBytes": event.stdout.total_bytes,
        "stderrBytes": event.stderr.total_bytes,
        "timeMs": round(event.time_ms, 3),
        "names": {
            "added": list(event.diff.added),
            "changed": list(event.diff.changed),
            "deleted": list(event.diff.deleted),
        },
    }
