"""What a turn waits for, in one line."""

from __future__ import annotations

import pytest

from engine.cli.terminal.rendering import painted
from engine.cli.terminal.screen import PATIENCE_SECONDS, Waiting
from engine.core.ids import ExecutionId, MessageId, StatementId, ToolCallId
from engine.log.events.conversation import RunStop, ToolCall, ToolResult
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.session.journal import FilesPutBack, Item, ModelRetried, StatementRerun, TextStreamed

CALL, HELPER = ToolCallId("call_1"), ToolCallId("call_2")
RUNNING = StatementRecorded(statement_id=StatementId("s"), index=3, source="x", tool_call_id=CALL)


def line(*items: Item, seconds: float = 1.0, width: int | None = 80) -> str:
    waiting = Waiting("gpt")
    waiting.begin(0.0)
    for item in items:
        waiting.see(item, 0.0)
    return painted(waiting.line(seconds, width), in_colour=False)


@pytest.mark.parametrize(
    ("item", "what"),
    [
        (TextStreamed(MessageId("m"), "x"), "gpt is writing"),
        (ToolResult(tool_call_id=CALL, status="ok", text=""), "waiting for gpt"),
        (RUNNING, "running statement 3"),
        (
            ToolCall(tool_call_id=HELPER, tool="bash", arguments={"command": "make -s"}, parent_id=CALL),
            "running make -s",
        ),
        (StatementRerun(CALL, 4, 2, 9, "running"), "rebuilding names, statement 2 of 9"),
        (FilesPutBack(1, 4), "restoring files, 1 of 4"),
        (ModelRetried(2, 5, 0.5, "gpt: busy."), "attempt 2 of 5: gpt: busy"),
    ],
)
def test_what_is_waited_for_is_said_with_its_seconds(item: Item, what: str) -> None:
    assert line(item)[2:] == f"{what}, 1 s (Ctrl-C cancels)"


def test_what_is_over_or_takes_no_time_is_not_said() -> None:
    finished = ExecutionFinished(
        execution_id=ExecutionId("e"), statement_id=StatementId("s"), status="ok", started_at=0.0, ended_at=1.0
    )
    assert line(RUNNING, finished) == ""
    assert line(RUNNING, RunStop(reason="completed", cause="end_turn")) == ""
    assert line(RUNNING, seconds=PATIENCE_SECONDS / 2) == ""
    assert line(ModelRetried(2, 5, 0.5, "busy"), seconds=0.0) != ""


def test_a_long_line_is_cut_and_leaves_out_how_to_cancel() -> None:
    shown = line(ModelRetried(2, 5, 0.5, "x" * 300), width=60)
    assert len(shown) < 60
    assert shown.endswith("…, 1 s")
    assert "attempt 2 of 5" in shown
