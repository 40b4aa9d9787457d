"""What files held around the recorded acts of an execution, for a statement that is given its answers again.

Pure. Such a statement finds a file as it was ahead of the first act on it which it has not repeated yet, whatever the
disk has by now. One that was itself given recorded answers has no acts: those of the execution in whose place it ran
stand for it. Used by `session.acts.recorded_answers`, made by `session.past.editing`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from ...core.ids import ExecutionId, Seq, ToolCallId
from ..events import Event
from ..events.execution import EffectRequested, ExecutionFinished, ExecutionStarted, FileWritten

Question = tuple[str, str]
"""An operation and the digest of its arguments."""


class ActOnFile(Struct, frozen=True):
    """What one act made of one file: the `turn`-th time, from 0, that its execution asked for the same."""

    question: Question
    turn: int
    written: FileWritten


def acts_of(at: Callable[[Seq], Event], started: ExecutionStarted, ended: Seq) -> Sequence[ActOnFile]:
    """The acts by which the execution that ended there changed files, or those that its answers are of, in order.

    Args:
        at: finds the events of the whole log.
    """
    while started.answered and started.against is not None:
        found = _start(at, started.against, started.seq)
        if found is None:
            return ()
        started, ended = found, _end(at, found, ended)
    acts: list[ActOnFile] = []
    asked: dict[ToolCallId, tuple[Question, int]] = {}
    turns: Counter[Question] = Counter()
    for place in range(started.seq, ended):
        match at(Seq(place)):
            case EffectRequested(execution_id=owner, tool_call_id=str() as call) as request:
                if owner == started.execution_id:
                    question = request.operation, request.argument_digest
                    asked[call] = question, turns[question]
                    turns[question] += 1
            case FileWritten(execution_id=owner, tool_call_id=call) as written:
                if owner == started.execution_id and call in asked:
                    acts.append(ActOnFile(*asked[call], written))
            case _:
                pass
    return acts


def _start(at: Callable[[Seq], Event], execution_id: ExecutionId, before: Seq) -> ExecutionStarted | None:
    for place in range(before - 1, -1, -1):
        event = at(Seq(place))
        if isinstance(event, ExecutionStarted) and event.execution_id == execution_id:
            return event
    return None


def _end(at: Callable[[Seq], Event], started: ExecutionStarted, before: Seq) -> Seq:
    for place in range(started.seq, before):
        event = at(Seq(place))
        if isinstance(event, ExecutionFinished) and event.execution_id == started.execution_id:
            return Seq(place)
    return before
