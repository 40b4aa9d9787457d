"""Where a path ends that goes as far as a statement: what a branch shares that begins there.

A path may end anywhere, because nothing is taken out of its middle: the properties of the View judge it as it is, and
the beginning of a well-formed conversation is well-formed. So a statement's own end decides, whatever run it stands in.
Pure. Called by `sessions.head`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...core.ids import Seq, StatementId, ToolCallId
from ..events import ConversationEvent, Event
from ..events.branches import HeadMoved
from ..events.conversation import RunStop, ToolCall, ToolResult
from ..events.execution import ExecutionFinished, StatementRecorded
from ..events.session import PromptQueued

_WORK: Final = ConversationEvent | PromptQueued | StatementRecorded
"""What somebody asked for or what came of it; all else follows by itself, such as a call to which nothing was said."""


def end_after(path: Sequence[Event], statement: int) -> Seq | None:
    """The position before which the path holds the result of statement `statement`, and nothing that came of it.

    0 is before the first request. A run that stopped with the statement is held to its stop. None where no such
    statement has a result.
    """
    if statement == 0:
        return next((event.seq for event in path if isinstance(event, _WORK)), _behind(path))
    place = _result(path, statement)
    if place is None:
        return None
    for event in path[place + 1 :]:
        if isinstance(event, RunStop):
            return Seq(event.seq + 1)
        if isinstance(event, _WORK | HeadMoved):  # where a branch begins, the stop is of a later time
            break
    return Seq(path[place].seq + 1)


def end_before(path: Sequence[Event], statement: int) -> Seq | None:
    """The position before which the path has nothing of statement `statement`, neither its call nor its record.

    None where there is no such statement.
    """
    calls: dict[ToolCallId, Seq] = {}
    for event in path:
        match event:
            case ToolCall(tool_call_id=call, parent_id=None):
                calls[call] = event.seq
            case StatementRecorded(index=index, tool_call_id=call) if index == statement:
                return calls.get(call, event.seq)
            case _:
                pass
    return None


def _behind(path: Sequence[Event]) -> Seq:
    return Seq(path[-1].seq + 1 if path else 0)


def _result(path: Sequence[Event], statement: int) -> int | None:
    """The place on the path of the statement's result, or of its record where no model asked for it."""
    recorded: StatementId | None = None
    calls: set[ToolCallId] = set()
    call: ToolCallId | None = None
    for place, event in enumerate(path):
        match event:
            case ToolCall(tool_call_id=made, parent_id=None):
                calls.add(made)
            case StatementRecorded(index=index) if index == statement:
                recorded, call = event.statement_id, event.tool_call_id
            case ExecutionFinished(statement_id=found) if found == recorded and call not in calls:
                return place
            case ToolResult(tool_call_id=answered) if answered == call and recorded is not None:
                return place
            case _:
                pass
    return None
