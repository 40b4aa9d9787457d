"""Updates for tool calls beside statements: helpers called inside of one, and calls of another program.

The call of a model is announced by its statement (`execution`), so nothing is said of one until its statement is
recorded. One of another program's has no statement; it is announced with its result. A helper's is announced when it is
called, and shows what it does as soon as that is done: a changed file (`changes`), a command that ends (`commands`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from acp_adapter.facts import Facts
from acp_adapter.wire.legible import title_line
from acp_adapter.wire.model import given
from acp_adapter.wire.shown import BegunCall, Shown
from acp_adapter.wire.v1.shapes.tools import ToolCall as ShownCall
from acp_adapter.wire.v1.shapes.tools import ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate
from acp_adapter.wire.v1.updates import commands
from acp_adapter.wire.v1.updates.changes import change_content, change_locations, change_title
from acp_adapter.wire.v1.updates.parts import Step, ended_statement, location, relative, text_block
from engine import TOOLS, ToolCallId, call_title, tool_named
from engine.log.events.conversation import ToolCall, ToolResult
from engine.log.events.execution import CommandEnded, FileWritten
from engine.log.events.session import PermissionAnswered

_NONE: Final = "None"
"""What older logs have as the result of an act on the file tree."""


def called(event: ToolCall, shown: Shown, facts: Facts) -> Step:
    """A call of the model waits for its statement; a helper's is shown at once."""
    if event.parent_id is None:
        return replace(shown, unannounced={**shown.unannounced, event.tool_call_id: event}), []
    command = commands.command_of(event)
    if command is not None:
        call = commands.begun(event, command, facts, terminals=shown.terminals)
    else:
        call = _shown_call(event, facts, "in_progress")
    return shown.with_helper(BegunCall(event)), [call]


def permitted(event: PermissionAnswered, shown: Shown) -> Step:
    """A helper that was asked about goes on, and shows again what it showed before the question took its place."""
    helper = shown.helpers.get(event.tool_call_id)
    if helper is None or event.outcome != "allowed":
        return shown, []
    command = commands.command_of(helper.call)
    content = None if command is None else commands.content(helper.call, command, terminals=shown.terminals)
    update = ToolCallUpdate(tool_call_id=event.tool_call_id, status="in_progress", **given(content=content))
    return shown, [update]


def written(event: FileWritten, shown: Shown, facts: Facts) -> Step:
    """What was made of a file; of one that is one of very many nothing is said but their number, by their call."""
    event = replace(event, path=facts.spelled(event.path))
    if event.unshown:
        helper = shown.helpers.get(event.tool_call_id)
        if helper is None or not event.changes or not _is_tree_act(helper.call):
            return shown, []
        # Its title says the act already, such as a rename, of which the diff is but one half.
        content = change_content(event.path, event.changes, event.note)
        return _after(event, shown), [ToolCallUpdate(tool_call_id=event.tool_call_id, content=content)]
    update = ToolCallUpdate(
        tool_call_id=event.tool_call_id,
        title=change_title(event.path, event.changes, facts.cwd, removed=not event.after_digest),
        content=change_content(event.path, event.changes, event.note),
        locations=change_locations(event.path, event.changes),
    )
    return _after(event, shown), [update]


def command_ended(event: CommandEnded, shown: Shown, is_live: bool) -> Step:
    """How a command ended."""
    helper = shown.helpers.get(event.tool_call_id)
    command = None if helper is None else commands.command_of(helper.call)
    if helper is None or command is None:
        return shown, []
    update = commands.ended(helper.call, command, event, terminals=shown.terminals, is_live=is_live)
    return _after(event, shown), [update]


def answered(event: ToolResult, shown: Shown, facts: Facts) -> Step:
    """The end of a helper, of another program's call, or of a statement that was never begun."""
    status: ToolCallStatus = "completed" if event.status == "ok" else "failed"
    call = shown.unannounced.get(event.tool_call_id)
    if call is not None:
        shown = replace(shown, unannounced=_without(shown, event.tool_call_id))
        return shown, [_shown_call(call, facts, status, event.text)]
    if event.parent_id is not None:
        return shown.without_helper(event.tool_call_id), [_ended(event, shown, status)]
    for statement, begun in shown.statements.items():
        if begun.call == event.tool_call_id:
            return shown.without(statement), [ended_statement(begun, status, event.text)]
    return shown, []  # because the end of what was run is announced by ExecutionFinished


def _after(event: FileWritten | CommandEnded, shown: Shown) -> Shown:
    helper = shown.helpers.get(event.tool_call_id)
    return shown if helper is None else shown.with_helper(replace(helper, done=event))


def _ended(event: ToolResult, shown: Shown, status: ToolCallStatus) -> ToolCallUpdate:
    """The end of a helper: what it gave, unless it shows already what it has done; why it failed in any case."""
    helper = shown.helpers.get(event.tool_call_id)
    done = _done(helper, shown)
    if event.status != "ok":
        said = [text_block(event.text)]
    elif helper is not None and _is_tree_act(helper.call) and (helper.done is None or _is_unshown(helper.done)):
        said = [text_block(event.text)] if event.text not in ("", _NONE) else []
    else:
        said = [] if done else [text_block(event.text)]
    content = [*done, *said] if said else None
    places = [location(each.path, each.line) for each in event.locations]
    return ToolCallUpdate(
        tool_call_id=event.tool_call_id,
        status=status,
        **given(content=content, locations=places or None, meta=_given_up(helper, shown)),
    )


def _is_tree_act(call: ToolCall) -> bool:
    """Whether it is one of Python's own functions on the file tree, which give nothing."""
    return call.tool not in TOOLS and tool_named(call.tool) is not None


def _is_unshown(done: FileWritten | CommandEnded) -> bool:
    return isinstance(done, FileWritten) and done.unshown


def _given_up(helper: BegunCall | None, shown: Shown) -> dict[str, Any] | None:
    """What ends the terminal of a command that has no end of its own."""
    is_open = shown.terminals and helper is not None and helper.done is None and commands.command_of(helper.call)
    return commands.given_up(helper.call) if helper is not None and is_open else None


def _done(helper: BegunCall | None, shown: Shown) -> Sequence[ToolCallContent]:
    """What a helper's call shows of what it has done; a terminal that was shown stays."""
    if helper is None:
        return []
    command = commands.command_of(helper.call)
    match helper.done:
        case FileWritten(path=path, changes=changes, note=note):
            return change_content(path, changes, note)
        case CommandEnded() as ended if command is not None:
            return commands.ended_content(helper.call, command, ended, terminals=shown.terminals)
        case _ if command is not None:
            return commands.content(helper.call, command, terminals=shown.terminals)
        case _:
            return []


def _without(shown: Shown, call_id: ToolCallId) -> dict[ToolCallId, ToolCall]:
    return {other: call for other, call in shown.unannounced.items() if other != call_id}


def _shown_call(event: ToolCall, facts: Facts, status: ToolCallStatus, output: str | None = None) -> ShownCall:
    tool = tool_named(event.tool)
    kind = tool.kind if tool else "other"
    path, line = event.arguments.get("path"), event.arguments.get("start_line")
    named = {"path": relative(path, facts.cwd)} if isinstance(path, str) else {}
    return ShownCall(
        tool_call_id=event.tool_call_id,
        title=title_line(call_title(event.tool, {**event.arguments, **named})),
        name=event.tool,
        kind=kind,
        status=status,
        content=[] if output is None else [text_block(output)],
        # A helper that searches says with its result where it found something.
        locations=[] if kind == "search" and event.parent_id else _places(path, line, facts.cwd),
        raw_input=event.arguments,
    )


def _places(path: object, line: object, cwd: str) -> list[ToolCallLocation]:
    """The file that a call is about."""
    if not isinstance(path, str):
        return []
    file = os.path.normpath(os.path.join(cwd, path))
    return [location(file, line) if type(line) is int else ToolCallLocation(path=file)]
