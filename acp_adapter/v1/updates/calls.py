"""Updates for tool calls inside statements (helpers), and for tool calls of other programs.

A model's call is announced by its statement (`statements`), so nothing is sent before that is recorded. A call of
another program has no statement; it is announced with its result. A call that could not be run is no act, so it is a
thought of the model. A helper's call is announced when it starts, and
shows its effect as soon as that is done: a changed file, or a command that ended.

Commands: most editors show output as text, which is sent from its beginning each time. Some draw terminals for an
agent's commands, and say so in `initialize` (`terminal_output`, a custom of Zed that others follow). For them the call
has a terminal in its content, and updates carry new output and the exit status in `_meta`. Such an editor makes the
terminal when it reads the call, and fills it when it reads an update. So a call that is sent again takes two messages
(`replayed_call`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from signal import Signals
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from acp_adapter.shown import Facts, RunningCall, Shown
from acp_adapter.v1.content import TextContent
from acp_adapter.v1.updates import shapes
from acp_adapter.v1.updates.blocks import (
    SOURCE_CHARS,
    Step,
    change_content,
    change_locations,
    change_title,
    command_block,
    command_input,
    command_title,
    content_text,
    ended_statement,
    location,
    relative,
    source_block,
    source_input,
    source_title,
    text_block,
    title_line,
)
from acp_adapter.v1.updates.shapes import ToolCallContent, ToolCallStatus, ToolCallUpdate
from acp_adapter.wire import WireModel, given
from engine.context.tail.results import STATEMENT_TOOL, printed_text
from engine.core.ids import ToolCallId
from engine.core.text import as_printed, cut_middle, fenced
from engine.core.toolbox import TOOLS, call_title, tool_named
from engine.log.events.conversation import ToolCall, ToolResult
from engine.log.events.execution import CommandEnded, FileWritten
from engine.log.events.session import PermissionAnswered

TERMINAL_CHARS: Final = 16_384
"""Limit of new terminal output in one update; nobody can read faster than it scrolls."""
NOT_RUN: Final = "A call could not be run:"
"""Heads the thought about a refused call."""
CANCELLED: Final = "Cancelled"
_INFO: Final = "terminal_info"
_OUTPUT: Final = "terminal_output"
_EXIT: Final = "terminal_exit"
_NONE: Final = "None"
"""The result that older logs have for a function on the file tree."""


# --- calls ------------------------------------------------------------------------------------------------------------


def started(event: ToolCall, shown: Shown, facts: Facts) -> Step:
    """A model's call waits for its statement; a helper's call is announced."""
    if event.parent_id is None:
        return replace(shown, unannounced={**shown.unannounced, event.tool_call_id: event}), []
    command = _command_of(event, shown)
    call = command.announced(facts) if command is not None else _announced(event, facts, "in_progress")
    return shown.with_helper(RunningCall(event)), [call]


def permitted(event: PermissionAnswered, shown: Shown) -> Step:
    """An allowed helper continues, and shows its content again, which the question had replaced."""
    helper = shown.helpers.get(event.tool_call_id)
    if helper is None or event.outcome != "allowed":
        return shown, []
    command = _command_of(helper.call, shown)
    content = None if command is None else command.content()
    update = ToolCallUpdate(tool_call_id=event.tool_call_id, status="in_progress", **given(content=content))
    return shown, [update]


def file_written(event: FileWritten, shown: Shown, facts: Facts) -> Step:
    """Show the change of a file. A change marked `unshown` is one of very many: its call reports only their number."""
    event = replace(event, path=facts.spelled(event.path))
    if event.unshown:
        helper = shown.helpers.get(event.tool_call_id)
        if helper is None or not event.changes or not _is_tree_function(helper.call):
            return shown, []
        # The title already names the action, such as a rename, and the diff is only one half of it.
        content = change_content(event.path, event.changes, event.note)
        return _with_effect(event, shown), [ToolCallUpdate(tool_call_id=event.tool_call_id, content=content)]
    update = ToolCallUpdate(
        tool_call_id=event.tool_call_id,
        title=change_title(event.path, event.changes, facts.cwd, removed=not event.after_digest),
        content=change_content(event.path, event.changes, event.note),
        locations=change_locations(event.path, event.changes),
    )
    return _with_effect(event, shown), [update]


def command_ended(event: CommandEnded, shown: Shown, is_live: bool) -> Step:
    """Show the output and the exit status of a command."""
    helper = shown.helpers.get(event.tool_call_id)
    command = None if helper is None else _command_of(helper.call, shown)
    if command is None:
        return shown, []
    return _with_effect(event, shown), [command.ended(event, is_live=is_live)]


def command_output(helper: RunningCall, new: str, text: str, shown: Shown) -> ToolCallUpdate | None:
    """Show the output of a running command; None if the call is no command, or the command has ended.

    `new` is the output since the previous update, `text` all output.
    """
    command = _command_of(helper.call, shown)
    return None if command is None or helper.effect is not None else command.printed(new, text)


def ended(event: ToolResult, shown: Shown, facts: Facts) -> Step:
    """Show the end of a helper, of another program's call, or of a statement that never started."""
    status: ToolCallStatus = "completed" if event.status == "ok" else "failed"
    call = shown.unannounced.get(event.tool_call_id)
    if call is not None:
        shown = replace(shown, unannounced=_without(shown, event.tool_call_id))
        return shown, [_without_statement(call, event, facts, status)]
    if event.parent_id is not None:
        after = shown.without_helper(event.tool_call_id)
        after = after.with_rejection(event.parent_id, event.text) if event.status == "rejected" else after
        return after, [_helper_ended(event, shown, status)]
    for statement, running in shown.statements.items():
        if running.call == event.tool_call_id and not running.is_held:
            return shown.without(statement), [ended_statement(running, status, event.text)]
    return shown, []  # because ExecutionFinished ends the call of a statement that ran


def _without_statement(call: ToolCall, event: ToolResult, facts: Facts, status: ToolCallStatus) -> WireModel:
    """Return the end of a call that no statement announced: refused, cancelled before, or of another program."""
    source = call.arguments.get("source")
    if call.refused:
        text = f"{NOT_RUN}\n\n{fenced(as_printed(event.text))}"
        return shapes.AgentThoughtChunk(content=TextContent(text=text), message_id=call.tool_call_id)
    if call.tool == STATEMENT_TOOL and isinstance(source, str):
        return shapes.ToolCall(
            tool_call_id=call.tool_call_id,
            title=source_title(source),
            name=STATEMENT_TOOL,
            kind="execute",
            status=status,
            content=[source_block(source), text_block(event.text)],
            raw_input=source_input(source),
        )
    return _announced(call, facts, status, event.text)


def replayed_call(call: shapes.ToolCall) -> Sequence[WireModel]:
    """Return the messages that draw the current state of a call: two if it has a terminal with output."""
    meta = call.meta or {}
    if _INFO not in meta or len(meta) == 1:
        return [call]
    later = {key: value for key, value in meta.items() if key != _INFO}
    update = ToolCallUpdate(tool_call_id=call.tool_call_id, status=call.status, meta=later)
    return [call.model_copy(update={"status": "in_progress", "meta": {_INFO: meta[_INFO]}}), update]


def _with_effect(event: FileWritten | CommandEnded, shown: Shown) -> Shown:
    helper = shown.helpers.get(event.tool_call_id)
    return shown if helper is None else shown.with_helper(replace(helper, effect=event))


def _without(shown: Shown, call_id: ToolCallId) -> dict[ToolCallId, ToolCall]:
    return {other: call for other, call in shown.unannounced.items() if other != call_id}


def _announced(event: ToolCall, facts: Facts, status: ToolCallStatus, output: str | None = None) -> shapes.ToolCall:
    tool = tool_named(event.tool)
    kind = tool.kind if tool else "other"
    path, line = event.arguments.get("path"), event.arguments.get("start_line")
    named = {"path": relative(path, facts.cwd)} if isinstance(path, str) else {}
    return shapes.ToolCall(
        tool_call_id=event.tool_call_id,
        title=title_line(call_title(event.tool, {**event.arguments, **named})),
        name=event.tool,
        kind=kind,
        status=status,
        content=[] if output is None else [text_block(output)],
        # The result of a search names the places that it found.
        locations=[] if kind == "search" and event.parent_id else _locations(path, line, facts.cwd),
        raw_input=event.arguments,
    )


def _locations(path: object, line: object, cwd: str) -> list[shapes.ToolCallLocation]:
    if not isinstance(path, str):
        return []
    file = os.path.normpath(os.path.join(cwd, path))
    return [location(file, line) if type(line) is int else shapes.ToolCallLocation(path=file)]


# --- the end of a helper ----------------------------------------------------------------------------------------------


def _helper_ended(event: ToolResult, shown: Shown, status: ToolCallStatus) -> ToolCallUpdate:
    """The result of a helper, unless its effect is already shown; an error message in any case."""
    helper = shown.helpers.get(event.tool_call_id)
    effect = _effect(helper, shown)
    if event.status == "cancelled":
        result = [shapes.Content(content=TextContent(text=CANCELLED))]
    elif event.status != "ok":
        result = [text_block(event.text)]
    elif (
        helper is not None and _is_tree_function(helper.call) and (helper.effect is None or _is_unshown(helper.effect))
    ):
        result = [text_block(event.text)] if event.text not in ("", _NONE) else []
    else:
        result = [] if effect else [text_block(event.text)]
    content = [*effect, *result] if result else None
    locations = [location(each.path, each.line) for each in event.locations]
    return ToolCallUpdate(
        tool_call_id=event.tool_call_id,
        status=status,
        **given(content=content, locations=locations or None, meta=_closed_terminal(helper, shown)),
    )


def _is_tree_function(call: ToolCall) -> bool:
    """Whether the call is one of Python's own functions on the file tree, which return nothing."""
    return call.tool not in TOOLS and tool_named(call.tool) is not None


def _is_unshown(effect: FileWritten | CommandEnded) -> bool:
    return isinstance(effect, FileWritten) and effect.unshown


def _closed_terminal(helper: RunningCall | None, shown: Shown) -> dict[str, Any] | None:
    """The `_meta` that closes the terminal of a command without an end, such as a cancelled one."""
    if helper is None or helper.effect is not None:
        return None
    command = _command_of(helper.call, shown)
    return None if command is None or not command.terminals else command.exit_meta(None, None)


def _effect(helper: RunningCall | None, shown: Shown) -> Sequence[ToolCallContent]:
    """The content for the effect of a helper's call; a terminal that was shown stays."""
    if helper is None:
        return []
    command = _command_of(helper.call, shown)
    match helper.effect:
        case FileWritten(path=path, changes=changes, note=note):
            return change_content(path, changes, note)
        case CommandEnded() as event if command is not None:
            return command.ended_content(event)
        case _ if command is not None:
            return command.content()
        case _:
            return []


# --- commands ---------------------------------------------------------------------------------------------------------


def _command_of(call: ToolCall, shown: Shown) -> _Command | None:
    """The command of a helper's call; None for a call that runs no shell."""
    command = call.arguments.get("command")
    if call.parent_id is None or not isinstance(command, str):
        return None
    return _Command(call, command, shown.terminals)


class _Command(NamedTuple):
    """A helper's call that runs a shell command. `terminals`: the editor draws terminals."""

    call: ToolCall
    command: str
    terminals: bool

    def announced(self, facts: Facts) -> shapes.ToolCall:
        requested = self.call.arguments.get("cwd")
        cwd = os.path.normpath(os.path.join(facts.cwd, requested if isinstance(requested, str) else ""))
        tool = TOOLS.get(self.call.tool)
        info = {_INFO: {"terminal_id": self.call.tool_call_id, "cwd": cwd}}
        return shapes.ToolCall(
            tool_call_id=self.call.tool_call_id,
            title=command_title(self.command),
            name=self.call.tool,
            kind=tool.kind if tool else "execute",
            status="in_progress",
            content=self.content(),
            raw_input={**self.call.arguments, **command_input(self.command)},
            **given(meta=info if self.terminals else None),
        )

    def content(self, output: str = "") -> list[ToolCallContent]:
        """The command and its output so far; a terminal has the output, and shows a short command in its title."""
        if not self.terminals:
            return [command_block(self.command, SOURCE_CHARS), *([text_block(output)] if output else ())]
        is_whole = command_title(self.command) == self.command
        command = [] if is_whole else [command_block(self.command, SOURCE_CHARS)]
        return [*command, shapes.Terminal(terminal_id=self.call.tool_call_id)]

    def printed(self, new: str, text: str) -> ToolCallUpdate:
        """The output of the running command: all of it, or only the new output for a terminal."""
        call = self.call.tool_call_id
        if self.terminals:
            return ToolCallUpdate(tool_call_id=call, meta=self._output_meta(cut_middle(new, TERMINAL_CHARS)))
        return ToolCallUpdate(tool_call_id=call, content=self.content(text))

    def ended(self, event: CommandEnded, *, is_live: bool) -> ToolCallUpdate:
        """Output and exit status. `is_live`: a terminal already has the output."""
        content = self.ended_content(event)
        text = printed_text(event.output.text, event.errors.text)
        raw = {
            "exitCode": event.code,
            "signal": _signal_name(event),
            "timedOut": event.timed_out,
            "timeMs": round(event.time_ms, 3),
            # The same text as the content, because clients that show both then detect the repetition.
            "output": cut_middle(text, SOURCE_CHARS) if self.terminals else content_text(content),
            "outputBytes": event.output.total_bytes + event.errors.total_bytes,
        }
        if not self.terminals:
            return ToolCallUpdate(tool_call_id=self.call.tool_call_id, content=content, raw_output=raw)
        meta = {**({} if is_live else self._output_meta(text)), **self.exit_meta(event.code, _signal_name(event))}
        return ToolCallUpdate(tool_call_id=self.call.tool_call_id, raw_output=raw, meta=meta)

    def ended_content(self, event: CommandEnded) -> list[ToolCallContent]:
        """The content of the call after the command ended."""
        if self.terminals:
            return self.content()
        text = cut_middle(printed_text(event.output.text, event.errors.text), SOURCE_CHARS)
        end = shapes.Content(content=TextContent(text=_end_sentence(event)))
        return [command_block(self.command, SOURCE_CHARS), text_block(text), end]

    def exit_meta(self, code: int | None, signal: str | None) -> dict[str, Any]:
        return {_EXIT: {"terminal_id": self.call.tool_call_id, "exit_code": code, "signal": signal}}

    def _output_meta(self, text: str) -> dict[str, Any]:
        return {_OUTPUT: {"terminal_id": self.call.tool_call_id, "data": text}}


def _signal_name(event: CommandEnded) -> str | None:
    if event.signal is None:
        return None
    try:
        return Signals(event.signal).name
    except ValueError:
        return f"signal {event.signal}"


def _end_sentence(event: CommandEnded) -> str:
    if event.timed_out:
        return f"ended at its time limit, after {event.time_ms / 1000:,.1f} s"
    if event.signal is not None:
        return f"ended by {_signal_name(event)}"
    return f"ended: {event.reason}" if event.reason else f"exit code {event.code}"
