"""Updates for statements that run again: each is a call of its own, because that of its first run shows what came then.

The call has the id of the execution. It says which of how many statements it is, and shows the source, what came of it,
and in what that differs from the first run.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from acp_adapter.wire.legible import title_line
from acp_adapter.wire.shown import BegunReplay, BegunStatement, Shown
from acp_adapter.wire.v1.shapes.tools import ToolCall, ToolCallContent
from acp_adapter.wire.v1.updates.parts import SOURCE_CHARS, Step, asked_content, source_input, text_block
from engine import ToolCallId, divergence_phrase
from engine.log.events import ReplayEvent
from engine.log.events.execution import ExecutionStarted, StatementRecorded
from engine.log.events.going_back import Diverged, EditBegun, ReplayBegun, ReplayEnded


def step(event: ReplayEvent, shown: Shown) -> Step:
    """What an event of a replay is to an editor; its beginning and end are told by the command that asked for it."""
    match event:
        case ReplayBegun():
            return replace(shown, replay=BegunReplay(event.statements)), []
        case EditBegun():
            return replace(shown, replay=BegunReplay(event.statements, is_edit=True)), []
        case Diverged():
            return _diverged(event, shown), []
        case ReplayEnded():
            return replace(shown, replay=None), []
        case _:
            assert_never(event)


def started(event: ExecutionStarted, statement: StatementRecorded, shown: Shown) -> Step:
    """A statement begins to run again."""
    replay = (shown.replay or BegunReplay(1)).next()
    begun = BegunStatement(ToolCallId(event.execution_id), statement.source, is_typed=False)
    call = ToolCall(
        tool_call_id=event.execution_id,
        title=title_line(replay.numbered(f"Statement {statement.index} again")),
        name="python",
        kind="execute",
        status="in_progress",
        content=asked_content(begun, SOURCE_CHARS),
        raw_input={**source_input(statement.source), "statement": statement.index, "mode": event.mode},
    )
    shown = replace(shown, replay=replay, statements={**shown.statements, event.statement_id: begun})
    return shown, [call]


def recorded(title: str, shown: Shown) -> tuple[str, Shown]:
    """The title of a statement that was recorded; of one that an edit runs it says which of how many that is."""
    if shown.replay is None or not shown.replay.is_edit:
        return title, shown
    replay = shown.replay.next()
    return replay.numbered(title), replace(shown, replay=replay)


def differences(begun: BegunStatement) -> list[ToolCallContent]:
    """What the call shows below what came of the statement."""
    return [text_block("\n".join(("Came out differently.", *begun.divergences)))] if begun.divergences else []


def _diverged(event: Diverged, shown: Shown) -> Shown:
    """It is told with the record of the execution, which comes next."""
    statements = {
        statement: replace(begun, divergences=(*begun.divergences, divergence_phrase(event)))
        if begun.call == event.execution_id
        else begun
        for statement, begun in shown.statements.items()
    }
    return replace(shown, statements=statements)
