"""Updates for statements: each is one call, from pending to in progress to its end, with its source and its record."""

from __future__ import annotations

from typing import Any, Final, assert_never

from msgspec.structs import replace

from acp_adapter.facts import Facts
from acp_adapter.wire.legible import answer_text, source_title
from acp_adapter.wire.model import given
from acp_adapter.wire.shown import BegunStatement, Shown
from acp_adapter.wire.v1.shapes.content import TextContent
from acp_adapter.wire.v1.shapes.tools import ToolCall, ToolCallUpdate
from acp_adapter.wire.v1.shapes.updates import AgentMessageChunk
from acp_adapter.wire.v1.updates import calls, replays
from acp_adapter.wire.v1.updates.parts import (
    Step,
    asked_content,
    beside_source,
    content_text,
    location,
    source_input,
)
from engine import cut_line, given_text, output_text, result_text
from engine.log.events import ExecutionEvent
from engine.log.events.execution import (
    CheckpointDropped,
    CheckpointTaken,
    CommandEnded,
    EffectAnswered,
    EffectRequested,
    ExecutionFinished,
    ExecutionStarted,
    FileTouched,
    FileWritten,
    NamesRebound,
    StatementOmitted,
    StatementRecorded,
    ValuesDropped,
    ValuesKept,
)

_REASON_CHARS: Final = 200
_OPENING_CHARS: Final = 400
"""Of a statement that opens what was attached, and may hold the whole text of it."""


def step(event: ExecutionEvent, shown: Shown, facts: Facts, is_live: bool) -> Step:
    """What an event of the timeline is to an editor."""
    match event:
        case StatementRecorded():
            return _recorded(event, shown)
        case ExecutionStarted():
            return _started(event, shown, facts)
        case ExecutionFinished():
            return _finished(event, shown)
        case FileWritten():
            return calls.written(event, shown, facts)
        case CommandEnded():
            return calls.command_ended(event, shown, is_live)
        case EffectRequested() | EffectAnswered() | FileTouched():
            return shown, []
        case ValuesKept() | ValuesDropped() | StatementOmitted() | NamesRebound():
            return shown, []
        case CheckpointTaken() | CheckpointDropped():
            return shown, []
        case _:
            assert_never(event)


def _recorded(event: StatementRecorded, shown: Shown) -> Step:
    asked = shown.unannounced.get(event.tool_call_id)
    is_typed = asked is not None and asked.typed
    is_opening = event.statement_kind == "meta"
    # What the user typed or attached stands above.
    source = None if is_typed or is_opening else event.source
    begun = BegunStatement(event.tool_call_id, source, is_typed, asked is not None and asked.rest_left_out)
    given_input = source_input(event.source, _OPENING_CHARS) if is_opening else source_input(event.source)
    title, shown = replays.recorded(source_title(event.source), shown)
    call = ToolCall(
        tool_call_id=event.tool_call_id,
        title=title,
        name="python",
        kind="execute",
        status="pending",
        content=asked_content(begun),
        raw_input={**given_input, "statement": event.index},
    )
    shown = replace(
        shown,
        statements={**shown.statements, event.statement_id: begun},
        unannounced={other: call for other, call in shown.unannounced.items() if other != event.tool_call_id},
    )
    return shown, [call]


def _started(event: ExecutionStarted, shown: Shown, facts: Facts) -> Step:
    statement = None if event.mode is None else facts.statement(event.statement_id)
    if statement is not None:
        return replays.started(event, statement, shown)
    begun = shown.statements.get(event.statement_id)
    if begun is None:
        return shown, []
    return shown, [ToolCallUpdate(tool_call_id=begun.call, status="in_progress")]


def _finished(event: ExecutionFinished, shown: Shown) -> Step:
    begun = shown.statements.get(event.statement_id)
    if begun is None:
        return shown, []
    output, answer = _divided(event) if begun.is_typed else (result_text(event), "")
    content = [*beside_source(begun, output), *replays.differences(begun)] if output or not answer else []
    update = ToolCallUpdate(
        tool_call_id=begun.call,
        status="completed" if event.status == "ok" else "failed",
        content=content,
        locations=[location(each.path, each.line) for each in event.locations],
        **given(raw_output=content_text(content) or None),
        meta={"rewindow": {"execution": _record(event)}},
    )
    return shown.without(event.statement_id), [update, *([_answer(event, answer)] if answer else ())]


def _divided(event: ExecutionFinished) -> tuple[str, str]:
    """What came of a statement that the user typed, as its call and as the answer, so that nothing appears twice.

    What it printed stays in its call, where it was shown as it came; what it gives is the answer, because some editors
    show no content of calls. Why it failed is in its call, too, so the answer is the last word of it; a turn that was
    cancelled is not answered any more.
    """
    if event.status == "ok":
        return output_text(event), given_text(event)
    reason = event.exception
    last = "" if reason is None else cut_line(f"{reason.type}: {reason.message}".partition("\n")[0], _REASON_CHARS)
    return result_text(event), "" if event.status == "cancelled" else last


def _answer(event: ExecutionFinished, text: str) -> AgentMessageChunk:
    return AgentMessageChunk(content=TextContent(text=answer_text(text)), message_id=f"answer_{event.execution_id}")


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
            **({"unknown": event.diff.unknown} if event.diff.unknown else {}),
        },
    }
