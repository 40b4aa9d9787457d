"""What a turn waits for, in one line with a spinner: the model, a statement, a command, another attempt.

Pure but for what it remembers. Told of every item that is shown; drawn by `interaction` below all that is written.
"""

from __future__ import annotations

from typing import Final

from ...core.text import cut_line
from ...core.toolbox import call_title, tool_named
from ...log.events.conversation import CondensationRequest, RunStop, ToolCall, ToolResult
from ...log.events.execution import CommandEnded, ExecutionFinished, StatementRecorded
from ...log.events.session import ProjectionSent
from ...session.publishing.signals import (
    FilesPutBack,
    Item,
    ModelRetried,
    ReasoningStreamed,
    StatementRerun,
    TextStreamed,
)
from ..output.printing import shown, shown_line
from .fragments import Fragment

FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_SECONDS: Final = 0.1
PATIENCE_SECONDS: Final = 0.3
"""What is over sooner is not said."""
_COMMAND_CHARS: Final = 40
_HINT: Final = " (Ctrl-C cancels)"
"""Left out where it would take the room of what is said."""
_AROUND: Final = 4
"""Cells for the spinner, its space, and the end of the line, which stays free."""


class Waiting:
    """What one turn after the other waits for. `model`: what the model is called."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._what = ""
        self._since = 0.0
        self._statement = ""

    def begin(self, now: float) -> None:
        """A turn has begun."""
        self._wait("starting", now)

    def see(self, item: Item, now: float) -> None:
        """Something happened."""
        what = self._after(item)
        if what is not None and what != self._what:
            # Another attempt is news at once.
            self._wait(what, now - PATIENCE_SECONDS if isinstance(item, ModelRetried) else now)

    def line(self, now: float, width: int | None) -> list[Fragment]:
        """The line with its spinner; empty where nothing takes long."""
        seconds = now - self._since
        if not self._what or seconds < PATIENCE_SECONDS:
            return []
        frame = FRAMES[int(now / FRAME_SECONDS) % len(FRAMES)]
        passed = f", {seconds:.0f} s"
        is_short = width is None or len(self._what) + len(passed) + len(_HINT) + _AROUND <= width
        rest = passed + _HINT if is_short else passed
        what = self._what if width is None else cut_line(self._what, max(width - len(rest) - _AROUND, 1))
        return [("place", frame), ("quiet", f" {what}{rest}")]

    def _wait(self, what: str, now: float) -> None:
        self._what, self._since = what, now

    def _after(self, item: Item) -> str | None:
        """What is waited for from this item on; empty for nothing, None where that does not change."""
        match item:
            case TextStreamed(aside=False):
                return f"{self._model} is writing"
            case ReasoningStreamed():
                return f"{self._model} is thinking"
            case ProjectionSent() | ToolResult(parent_id=None):
                return f"waiting for {self._model}"
            case ModelRetried(attempt=attempt, attempts=attempts, reason=reason):
                return f"attempt {attempt} of {attempts}: {shown(reason).rstrip('.')}"
            case CondensationRequest():
                return "summarizing the conversation"
            case _:
                return self._after_act(item)

    def _after_act(self, item: Item) -> str | None:
        match item:
            case StatementRecorded(index=index):
                self._statement = f"running statement {index}"
                return self._statement
            case ToolCall(parent_id=str()):
                return self._running(item)
            case CommandEnded():
                return self._statement
            case StatementRerun(place=place, total=total, state="begun" | "running"):
                return f"rebuilding names, statement {place} of {total}"
            case FilesPutBack(done=done, total=total):
                return f"restoring files, {done} of {total}"
            case ExecutionFinished() | RunStop() | StatementRerun():
                return ""
            case _:
                return None

    def _running(self, call: ToolCall) -> str | None:
        tool = tool_named(call.tool)
        if tool is None or tool.kind != "execute":
            return None
        return f"running {shown_line(call_title(call.tool, call.arguments), _COMMAND_CHARS)}"
