"""The screen's changing lines, and what a turn waits for."""

from __future__ import annotations

import sys
from unittest import mock

import pyte
import pytest

from engine.cli.terminal.rendering import Fragment, painted
from engine.cli.terminal.screen import PATIENCE_SECONDS, Screen, Waiting
from engine.core.ids import ExecutionId, MessageId, StatementId, ToolCallId
from engine.log.events.conversation import RunStop, ToolCall, ToolResult
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.session.journal import FilesPutBack, Item, ModelDelayed, ModelRetried, StatementRerun, TextStreamed


class Emulated:
    """Standard output that is a terminal."""

    def __init__(self) -> None:
        self.screen = pyte.Screen(20, 8)
        self._stream = pyte.Stream(self.screen)
        self.written: list[str] = []

    def write(self, text: str) -> None:
        self.written.append(text)
        self._stream.feed(text.replace("\n", "\r\n"))

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display if line.strip()]


def on_terminal(*, moves: bool = True) -> tuple[Screen, Emulated]:
    emulated = Emulated()
    with mock.patch.object(sys, "stdout", emulated):
        return Screen(in_colour=False, moves=moves), emulated


def test_lines_below_are_redrawn_and_removed_at_the_end() -> None:
    screen, emulated = on_terminal()
    below: list[list[Fragment]] = [[("", "tail")], [("quiet", "spinner 1")]]
    screen.write([("", "first\n")])
    with screen.below(lambda: below):
        assert emulated.lines == ["first", "tail", "spinner 1"]
        screen.write([("", "second\n")])
        assert emulated.lines == ["first", "second", "tail", "spinner 1"]
        below[:] = [[("", "spinner 2")]]
        screen.refresh()
        assert emulated.lines == ["first", "second", "spinner 2"]
        count = len(emulated.written)
        screen.refresh()
        assert len(emulated.written) == count
    assert emulated.lines == ["first", "second"]
    screen.write([("", "third\n")])
    assert emulated.lines == ["first", "second", "third"]


def test_nothing_is_drawn_inside_a_line_or_without_cursor_movement() -> None:
    screen, emulated = on_terminal()
    with screen.below(lambda: [[("", "spinner")]]):
        screen.write([("", "half")])
        assert emulated.lines == ["half"]
        screen.write([("", " whole\n")])
        assert emulated.lines == ["half whole", "spinner"]
    screen, emulated = on_terminal(moves=False)
    with screen.below(lambda: [[("", "spinner")]]):
        screen.write([("", "text\n")])
    assert emulated.written == ["text\n"]


CALL, HELPER = ToolCallId("call_1"), ToolCallId("call_2")
RUNNING = StatementRecorded(statement_id=StatementId("s"), index=3, source="x", tool_call_id=CALL)


def line(*items: Item, seconds: float = 1.0, width: int | None = 80) -> str:
    waiting = Waiting(lambda: "gpt")
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
        (ModelDelayed("loading the library for openai:gpt-5"), "loading the library for openai:gpt-5"),
        (ModelRetried(2, 5, 0.5, "gpt: busy."), "attempt 2 of 5: gpt: busy"),
        (ModelRetried(2, 2, 0.0, "gpt: no key", instead="claude"), "waiting for claude"),
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


def test_long_line_is_cut_without_the_cancel_hint() -> None:
    shown = line(ModelRetried(2, 5, 0.5, "x" * 300), width=60)
    assert len(shown) < 60
    assert shown.endswith("…, 1 s")
    assert "attempt 2 of 5" in shown
