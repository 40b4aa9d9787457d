"""Make a log whole again by appending what is missing, after a crash or for a log from elsewhere.

Owns the end of each thing that was interrupted. History is never rewritten. Called when a session is loaded, before it
takes a request, and when the head moved to a path that may end anywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ..context.view import EnforcementWarning
from ..core.execution import INTERRUPTED, ExceptionInfo
from ..core.ids import ExecutionId, MessageId
from ..log.event_log import EventLog
from ..log.events import Event
from ..log.events.conversation import (
    AgentReasoning,
    AgentText,
    Condensation,
    RunStop,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ..log.events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from ..log.events.going_back import HeadMoved, ReplayEnded
from ..log.events.session import ModelCallEnded, ProjectionSent, PromptQueued, PromptWithdrawn, ViewEnforced
from ..log.file_history import artifacts_of
from ..log.timeline import Timeline

logger = logging.getLogger(__name__)


_LOST: Final = RunStop(reason="error", cause="error", detail="interrupted")
"""The end of a run whose process died."""


def repair(log: EventLog, timeline: Timeline, stop: RunStop = _LOST) -> Sequence[Event]:
    """End everything that the active path leaves open, and a run with `stop`; return the events.

    A process died in the middle of it, or the head was moved to a path that ends there.
    """
    start, path = len(log), log.path
    call = _open_call(log.events)
    if call is not None:
        log.append(call)
    for cell in timeline.cells:
        if cell.started is None and not log.has_call(cell.statement.tool_call_id):
            # No model call would say that this statement ended.
            log.append(_never_begun(cell.statement))
        for execution in cell.executions:
            if execution.finished is None:
                log.append(_interrupted(execution.started, path))
    if timeline.replay is not None:
        log.append(ReplayEnded(outcome="interrupted", detail="the process ended before the replay"))
    for call in log.open_calls:
        log.append(
            ToolResult(tool_call_id=call.tool_call_id, status="error", text="[interrupted]", parent_id=call.parent_id)
        )
    for waiting in _queued(path):
        log.append(PromptWithdrawn(message_id=waiting))
    if _run_is_open(path):
        log.append(stop)
    return log.since(start)


def enforce_view(log: EventLog, warning: EnforcementWarning | None) -> Sequence[Event]:
    """Announce once what the View leaves out of a log from elsewhere, and remove it for good.

    Otherwise an unanswered call would keep everything after it from ever being condensed.
    """
    start = len(log)
    if warning is not None:
        announced: dict[str, int] = {}
        for event in log.path:
            if isinstance(event, ViewEnforced):
                announced[event.property_name] = announced.get(event.property_name, 0) + event.count
        fresh = [
            ViewEnforced(property_name=correction.property_name, count=correction.count - announced_before)
            for correction in warning.corrections
            if correction.count > (announced_before := announced.get(correction.property_name, 0))
        ]
        if fresh:
            logger.warning("%s", warning)
            log.append(Condensation(forgotten=()))
            for event in fresh:
                log.append(event)
    return log.since(start)


def _open_call(events: Sequence[Event]) -> ModelCallEnded | None:
    """Return the end of the interrupted model call, or None.

    Whether the model read the prompt is known only if it began to answer.
    """
    is_answered = False
    for event in reversed(events):
        match event:
            case ProjectionSent(answered=None):
                return ModelCallEnded(
                    round_id=event.round_id, used=event.used, size=event.size, answered=is_answered or None
                )
            case ProjectionSent() | ModelCallEnded():
                return None
            case AgentText(aside=False) | AgentReasoning() | ToolCall(parent_id=None):
                is_answered = True
            case _:
                pass
    return None


def _queued(events: Sequence[Event]) -> list[MessageId]:
    waiting: dict[MessageId, None] = {}
    for event in events:
        match event:
            case PromptQueued(message_id=message_id):
                waiting[message_id] = None
            case UserMessage(message_id=message_id) | PromptWithdrawn(message_id=message_id):
                waiting.pop(message_id, None)
            case HeadMoved():
                waiting.clear()  # what still waited was announced again
            case _:
                pass
    return list(waiting)


def _never_begun(statement: StatementRecorded) -> ExecutionStarted:
    return ExecutionStarted(
        execution_id=ExecutionId(f"{statement.statement_id}-never"), statement_id=statement.statement_id
    )


def _interrupted(started: ExecutionStarted, events: Sequence[Event]) -> ExecutionFinished:
    return ExecutionFinished(
        execution_id=started.execution_id,
        statement_id=started.statement_id,
        status="cancelled",
        started_at=started.at,
        ended_at=started.at,
        artifacts=artifacts_of(events, started.execution_id),
        exception=ExceptionInfo(type=INTERRUPTED, message="the process ended while this statement was running"),
        mode=started.mode,
    )


def _run_is_open(events: Sequence[Event]) -> bool:
    for event in reversed(events):
        if isinstance(event, RunStop):
            return False
        if isinstance(event, UserMessage):
            return True
    return False
