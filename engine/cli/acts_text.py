"""What a statement did through tools that change something, as text: files as diffs, commands with how they ended.

Must not know any command. Called by `show`. What a command printed is in the session's log (`--events`), and most often
in the statement's result, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from ..core.ids import ExecutionId, ToolCallId
from ..core.text import more
from ..core.toolbox import ROUTED, call_title
from ..log.events import Event
from ..log.events.conversation import ToolCall
from ..log.events.execution import CommandEnded, EffectRequested, FileWritten
from .calls import WIDTH
from .output.printing import shown_line
from .terminal.changes import diff

SHOWN_LINES: Final = 60
"""Of one diff."""


class Acts:
    """The acts of a log by the executions that they belong to."""

    def __init__(self, log: Iterable[Event], cwd: str) -> None:
        calls: dict[ToolCallId, ToolCall] = {}
        self._blocks: dict[ExecutionId, list[str]] = {}
        unshown: dict[ExecutionId, int] = {}
        for event in log:
            match event:
                case ToolCall():
                    calls[event.tool_call_id] = event
                case EffectRequested(operation=name, tool_call_id=call) if call is not None and name in ROUTED:
                    title = call_title(name, calls[call].arguments) if call in calls else name
                    self._blocks.setdefault(event.execution_id, []).append(shown_line(title, WIDTH))
                case FileWritten(unshown=True, tool_call_id=call) if call in calls and calls[call].tool in ROUTED:
                    pass  # its call says it
                case FileWritten(unshown=True):
                    unshown[event.execution_id] = unshown.get(event.execution_id, 0) + 1
                case FileWritten():
                    self._blocks.setdefault(event.execution_id, []).append(_written(event, cwd))
                case CommandEnded():
                    line = _command(event, calls.get(event.tool_call_id), cwd)
                    self._blocks.setdefault(event.execution_id, []).append(line)
                case _:
                    pass
        for execution, count in unshown.items():
            self._blocks.setdefault(execution, []).append(more(count, "changed file"))

    def of(self, execution: ExecutionId) -> str:
        """What the execution did, in order; empty where it did nothing of the kind."""
        return "\n".join(self._blocks.get(execution, ()))


def _written(event: FileWritten, cwd: str) -> str:
    lines = "".join(text for _, text in diff(_named(event.path, cwd), event.changes, event.note)).splitlines()
    if len(lines) > SHOWN_LINES:
        lines[SHOWN_LINES:] = [more(len(lines) - SHOWN_LINES, "line")]
    return "\n".join(lines)


def _command(event: CommandEnded, call: ToolCall | None, cwd: str) -> str:
    command = "?" if call is None else str(call.arguments.get("command", "?"))
    place = "" if event.cwd == cwd else f" in {shown_line(_named(event.cwd, cwd), WIDTH)}"
    return f"$ {shown_line(command, WIDTH)}{place}  [{_end(event)}]"


def _end(event: CommandEnded) -> str:
    if event.timed_out:
        return "timed out"
    if event.signal is not None:
        return f"signal {event.signal}"
    return event.reason or f"exit code {event.code}"


def _named(path: str, cwd: str) -> str:
    return os.path.relpath(path, cwd) if path.startswith(os.path.join(cwd, "")) else path
