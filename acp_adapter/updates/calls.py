"""Updates for tool calls inside statements (helpers), and for tool calls of other programs.

A model's call is announced by its statement (`statements`), so nothing is sent before that is recorded. A call of
another program has no statement; it is announced with its result. A call that could not be run is no act, so it is a
thought of the model. A helper's call is announced when it starts, and
shows its effect as soon as that is done: a changed file, or a command that ended. If it is all that its statement does,
the statement's card becomes its card. Beside a statement's card it repeats nothing of that.

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

from acp_adapter.content import TextContent, contents_in
from acp_adapter.shown import EndedCall, Facts, RunningCall, RunningStatement, Shown
from acp_adapter.updates import shapes
from acp_adapter.updates.blocks import (
    SOURCE_CHARS,
    Step,
    announcement,
    change_content,
    change_locations,
    change_title,
    command_block,
    command_input,
    command_title,
    content_text,
    end_status,
    ended_statement,
    is_whole_in_title,
    location,
    relative,
    source_block,
    source_input,
    source_title,
    text_block,
    title_line,
)
from acp_adapter.updates.shapes import ToolCallContent, ToolCallStatus, ToolCallUpdate
from acp_adapter.wire import WireModel, given
from engine.context.tail.results import STATEMENT_TOOL, printed_text
from engine.core.execution import TextChange
from engine.core.ids import ToolCallId
from engine.core.text import as_printed, cut_middle, fenced, more
from engine.core.toolbox import EDIT, PLAN, RENAME, ROUTED, TOOLS, WRITE, call_title, tool_named
from engine.log.events.conversation import ToolCall, ToolResult
from engine.log.events.execution import CommandEnded, FileWritten
from engine.log.events.session import PermissionAnswered

TERMINAL_CHARS: Final = 16_384
"""Limit of new terminal output in one update; nobody can read faster than it scrolls."""
NOT_RUN: Final = "A call could not be run:"
"""Heads the thought about a refused call."""
CANCELLED: Final = "Cancelled"
TERMINAL_INFO: Final = "terminal_info"
TERMINAL_OUTPUT: Final = "terminal_output"
TERMINAL_EXIT: Final = "terminal_exit"
"""Keys in the `_meta` of a call that describe its terminal."""
_MOST_OUTPUTS: Final = 20
"""Texts of acts' cards that are remembered for one statement."""
_NONE: Final = "None"
"""The result that older logs have for a function on the file tree."""


# --- calls ------------------------------------------------------------------------------------------------------------


def started(event: ToolCall, shown: Shown, facts: Facts) -> Step:
    """A model's call waits for its statement; a helper's call is announced."""
    if event.parent_id is None:
        return replace(shown, unannounced={**shown.unannounced, event.tool_call_id: event}), []
    statement = shown.statement_of(event.parent_id)
    if event.tool != PLAN and statement is not None and statement.is_answered:
        return shown, []
    if event.tool != PLAN and statement is not None and statement.tool == event.tool and statement.act is None:
        return _only_act(event, statement, shown, facts)
    before: Sequence[WireModel] = []
    is_due = statement is not None and statement.due[:1] == (event.tool,)
    if statement is not None and is_due:
        statement = replace(statement, due=statement.due[1:])
    if event.tool == PLAN:  # the user sees the plan, and no card for it; an error is that of the statement
        return shown if statement is None else shown.with_statement(replace(statement, has_planned=True)), before
    if statement is not None:
        shown = shown.with_statement(replace(statement, has_acts=True))
        if statement.is_held and not is_due:
            shown, before = announcement(statement.call, shown, facts, "in_progress")
    helper = RunningCall(event, event.tool_call_id)
    return shown.with_helper(helper), [*before, _begun(helper, shown, facts)]


def _only_act(event: ToolCall, statement: RunningStatement, shown: Shown, facts: Facts) -> Step:
    """Show the call as its statement's card, which is announced now or changes its looks."""
    helper = RunningCall(event, statement.call, is_late=not statement.is_held)
    shown = shown.with_statement(replace(statement, act=event.tool_call_id, is_held=False)).with_helper(helper)
    call = _begun(helper, shown, facts)
    call = call.model_copy(update={"raw_input": {**call.raw_input, "statement": statement.number}})
    if statement.is_held:
        return shown, [call]
    looks = {name: getattr(call, name) for name in call.model_fields_set - call.tags}
    return shown, [ToolCallUpdate(**looks)]


def _begun(helper: RunningCall, shown: Shown, facts: Facts) -> shapes.ToolCall:
    command = _command_of(helper, shown)
    if command is not None:
        return command.announced(facts)
    return _announced(helper.call, facts, "in_progress").model_copy(update={"tool_call_id": helper.card})


def permitted(event: PermissionAnswered, shown: Shown) -> Step:
    """An allowed helper continues, and shows its content again, which the question had replaced."""
    helper = shown.helpers.get(event.tool_call_id)
    if helper is None or event.outcome != "allowed":
        return shown, []
    command = _command_of(helper, shown)
    content = None if command is None else command.content()
    update = ToolCallUpdate(tool_call_id=helper.card, status="in_progress", **given(content=content))
    return shown, [update]


def file_written(event: FileWritten, shown: Shown, facts: Facts) -> Step:
    """Show the change of a file. A change marked `unshown` is one of very many: its call reports only their number."""
    event = replace(event, path=facts.spelled(event.path))
    helper = shown.helpers.get(event.tool_call_id)
    if helper is not None and not _is_of_files(helper.call):  # which shows them when it ends
        kept = {"more_files": helper.more_files + 1} if event.unshown else {"files": (*helper.files, event)}
        return shown.with_helper(replace(helper, **kept)), []
    if event.unshown:
        if helper is None or not event.changes or not _is_tree_function(helper.call):
            return shown, []
        if _is_same_file(helper.call, event, facts):
            event = replace(event, changes=())
        # The title already names the action, such as a rename, and the diff is only one half of it.
        content = change_content(event.path, event.changes, event.note)
        return _with_effect(event, shown), [ToolCallUpdate(tool_call_id=helper.card, content=content)]
    update = ToolCallUpdate(
        tool_call_id=shown.card_of(event.tool_call_id),
        title=change_title(event.path, event.changes, facts.cwd, removed=not event.after_digest),
        content=change_content(event.path, event.changes, event.note, removed=not event.after_digest),
        locations=change_locations(event.path, event.changes),
    )
    return _with_effect(event, shown), [update]


def _is_same_file(call: ToolCall, event: FileWritten, facts: Facts) -> bool:
    """Whether the call renamed a file of the session's directory to a free name, so that no text is new in it."""
    source = call.arguments.get("source")
    is_rename = call.tool == RENAME and isinstance(source, str)
    inside = is_rename and os.path.normpath(os.path.join(facts.cwd, str(source))).startswith(f"{facts.cwd}/")
    return inside and all(change.old is None for change in event.changes)


def command_ended(event: CommandEnded, shown: Shown, is_live: bool) -> Step:
    """Show the output and the exit status of a command."""
    helper = shown.helpers.get(event.tool_call_id)
    command = None if helper is None else _command_of(helper, shown)
    if helper is None or command is None:
        return shown, []
    text = printed_text(event.output.text, event.errors.text)
    update = command.ended(event, _changed_files(helper), is_live=is_live)
    if helper.files:
        update = update.model_copy(
            update={
                "locations": [place for each in helper.files for place in change_locations(each.path, each.changes)]
            }
        )
    return _with_text(command.call, text, _with_effect(event, shown)), [update]


def command_output(helper: RunningCall, new: str, text: str, shown: Shown) -> ToolCallUpdate | None:
    """Show the output of a running command; None if the call is no command, or the command has ended.

    `new` is the output since the previous update, `text` all output.
    """
    command = _command_of(helper, shown)
    return None if command is None or helper.effect is not None else command.printed(new, text)


def ended(event: ToolResult, shown: Shown, facts: Facts) -> Step:
    """Show the end of a helper, of another program's call, or of a statement that never started."""
    status = end_status(event.status)
    call = shown.unannounced.get(event.tool_call_id)
    if call is not None:
        shown = replace(shown, unannounced=_without(shown, event.tool_call_id))
        return shown, [_without_statement(call, event, facts, status)]
    if event.parent_id is not None:
        return _helper_ended(event, shown, facts, status)
    for statement, running in shown.statements.items():
        if running.call == event.tool_call_id:
            shown, before = announcement(running.call, shown, facts)
            return shown.without(statement), [*before, ended_statement(running, status, event.text)]
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
    if TERMINAL_INFO not in meta or len(meta) == 1:
        return [call]
    later = {key: value for key, value in meta.items() if key != TERMINAL_INFO}
    update = ToolCallUpdate(tool_call_id=call.tool_call_id, status=call.status, meta=later)
    return [call.model_copy(update={"status": "in_progress", "meta": {TERMINAL_INFO: meta[TERMINAL_INFO]}}), update]


def _with_effect(event: FileWritten | CommandEnded, shown: Shown) -> Shown:
    helper = shown.helpers.get(event.tool_call_id)
    return shown if helper is None else shown.with_helper(replace(helper, effect=event))


def _without(shown: Shown, call_id: ToolCallId) -> dict[ToolCallId, ToolCall]:
    return {other: call for other, call in shown.unannounced.items() if other != call_id}


def _announced(event: ToolCall, facts: Facts, status: ToolCallStatus, output: str | None = None) -> shapes.ToolCall:
    tool = tool_named(event.tool)
    kind = tool.kind if tool else "other"
    path, line = event.arguments.get("path"), event.arguments.get("start_line")
    paths = {name: event.arguments.get(name) for name in ("path", "source")}
    named = {name: relative(each, facts.cwd) for name, each in paths.items() if isinstance(each, str)}
    title = call_title(event.tool, {**event.arguments, **named})
    return shapes.ToolCall(
        tool_call_id=event.tool_call_id,
        title=title_line(title if tool else f"Call {title}"),
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


def _helper_ended(event: ToolResult, shown: Shown, facts: Facts, status: ToolCallStatus) -> Step:
    """End the card of a helper, unless it is its statement's."""
    helper = shown.helpers.get(event.tool_call_id)
    statement = shown.statement_of(event.parent_id)
    after = shown.without_helper(event.tool_call_id)
    if helper is None:
        return after, []  # its statement was interrupted, and its card has ended
    if statement is not None and statement.act == event.tool_call_id:
        return after.with_statement(replace(statement, ended=EndedCall(helper, event))), []
    if statement is not None and event.status != "ok":
        is_no = event.status == "rejected"
        refused = replace(statement, rejection=event.text) if is_no else replace(statement, failure=event.text)
        after = after.with_statement(refused)
    effect, result = _effect(helper, shown), _result(helper, event, shown, facts)
    is_held = statement is not None and statement.is_held
    if _tells_only_the_statement(helper, event) and not is_held:
        result = []  # because it returns what the statement works with, and shows if it wants to
    elif event.status == "ok" and (result or (statement is not None and not statement.is_typed)):
        after = _with_text(helper.call, event.text, after)
    if blocks := contents(event, facts):
        result += blocks
        current = after.statement_of(event.parent_id)
        after = after if current is None else after.with_statement(replace(current, has_contents=True))
    locations = [location(each.path, each.line) for each in event.locations]
    update = ToolCallUpdate(
        tool_call_id=helper.card,
        status=status,
        **given(
            content=[*effect, *result] if result else None,
            locations=locations or None,
            meta=closed_terminal(helper, shown),
        ),
    )
    return after, [update]


def _result(helper: RunningCall, event: ToolResult, shown: Shown, facts: Facts) -> list[ToolCallContent]:
    """The result of a helper, unless its effect is already shown; an error message in any case.

    A rejected change stays, because the question showed it.
    """
    if event.status == "cancelled":
        return [*_proposed(helper.call, facts), shapes.Content(content=TextContent(text=CANCELLED))]
    if event.status == "rejected":
        return [*_proposed(helper.call, facts), text_block(event.text)]
    if event.status != "ok":
        return [text_block(event.text)]
    if _is_tree_function(helper.call) and (helper.effect is None or _is_unshown(helper.effect)):
        return [text_block(event.text)] if event.text not in ("", _NONE) else []
    if _effect(helper, shown):
        return []
    return [text_block(event.text), *_changed_files(helper)]


def _proposed(call: ToolCall, facts: Facts) -> list[ToolCallContent]:
    """Return the change of a file that was not made, as its call describes it."""
    text = call.arguments.get("text")
    if call.tool == WRITE and isinstance(text, str):  # the call does not say what it would have replaced
        return [text_block(text)]
    path, old, new = (call.arguments.get(name) for name in ("path", "old", "new"))
    if call.tool != EDIT or not (isinstance(path, str) and isinstance(old, str) and isinstance(new, str)):
        return []
    if max(len(old), len(new)) > SOURCE_CHARS:
        return []
    change = TextChange(line=1, old=old, new=new)
    return change_content(os.path.normpath(os.path.join(facts.cwd, path)), [change], "")


def _tells_only_the_statement(helper: RunningCall, event: ToolResult) -> bool:
    tool = tool_named(helper.call.tool)
    return event.status == "ok" and tool is not None and tool.kind in ("read", "search")


def contents(event: ToolResult, facts: Facts) -> list[ToolCallContent]:
    """Return what the answer of an MCP server has beside text, as it came."""
    blocks = () if event.answer is None else facts.answer_blocks(event.answer)
    return [shapes.Content(content=block) for block in contents_in(blocks)]


def act_content(act: EndedCall, shown: Shown, facts: Facts, *, with_result: bool) -> list[ToolCallContent]:
    """Return the content of an act that has its statement's card: its effect, and its result if that is wanted."""
    effect = act_effect(act, shown)
    return (
        [*effect, *_result(act.call, act.result, shown, facts)] if with_result or act.result.status != "ok" else effect
    )


def act_effect(act: EndedCall, shown: Shown) -> list[ToolCallContent]:
    """Return the part of the content that was shown as soon as the act was done."""
    return list(_effect(act.call, shown))


def is_command(act: EndedCall, shown: Shown) -> bool:
    """Whether the act runs a shell command, which has shown its output."""
    return _command_of(act.call, shown) is not None


def _with_text(call: ToolCall, text: str, shown: Shown) -> Shown:
    """Remember what an act's card shows, so that its statement's card does not."""
    statement = shown.statement_of(call.parent_id)
    if statement is None:
        return shown
    return shown.with_statement(replace(statement, outputs=(*statement.outputs, text)[-_MOST_OUTPUTS:]))


def _is_of_files(call: ToolCall) -> bool:
    """Whether the call changes the files that it names, and nothing else."""
    tool = tool_named(call.tool)
    return call.tool in ROUTED or (tool is not None and tool.kind in ("edit", "delete", "move"))


def _changed_files(helper: RunningCall) -> list[ToolCallContent]:
    """The content for the files that a command or a server changed."""
    blocks = [block for each in helper.files for block in change_content(each.path, each.changes, each.note)]
    if helper.more_files:
        text = more(helper.more_files, "file" if helper.files else "changed file or directory", "that changed")
        blocks.append(shapes.Content(content=TextContent(text=text)))
    return blocks


def _is_tree_function(call: ToolCall) -> bool:
    """Whether the call is one of Python's own functions on the file tree, which return nothing."""
    return call.tool not in TOOLS and tool_named(call.tool) is not None


def _is_unshown(effect: FileWritten | CommandEnded) -> bool:
    return isinstance(effect, FileWritten) and effect.unshown


def closed_terminal(helper: RunningCall | None, shown: Shown) -> dict[str, Any] | None:
    """The `_meta` that closes the terminal of a command without an end, such as a cancelled one."""
    if helper is None or helper.effect is not None:
        return None
    command = _command_of(helper, shown)
    return None if command is None or not command.terminals else command.exit_meta(None, None)


def _effect(helper: RunningCall | None, shown: Shown) -> Sequence[ToolCallContent]:
    """The content for the effect of a helper's call; a terminal that was shown stays."""
    if helper is None:
        return []
    command = _command_of(helper, shown)
    match helper.effect:
        case FileWritten(path=path, changes=changes, note=note, after_digest=after):
            return change_content(path, changes, note, removed=not after)
        case CommandEnded() as event if command is not None:
            return [*command.ended_content(event), *_changed_files(helper)]
        case _ if command is not None:
            return [*command.content(), *_changed_files(helper)]
        case _:
            return []


# --- commands ---------------------------------------------------------------------------------------------------------


def _command_of(helper: RunningCall, shown: Shown) -> _Command | None:
    """The command of a helper's call; None for a call that runs no shell."""
    command = helper.call.arguments.get("command")
    if helper.call.parent_id is None or not isinstance(command, str):
        return None
    # An editor makes a terminal when a card is announced, and not when it changes.
    return _Command(helper.call, helper.card, command, shown.terminals and not helper.is_late)


class _Command(NamedTuple):
    """A helper's call that runs a shell command, and its card. `terminals`: the editor draws a terminal."""

    call: ToolCall
    card: ToolCallId
    command: str
    terminals: bool

    def announced(self, facts: Facts) -> shapes.ToolCall:
        requested = self.call.arguments.get("cwd")
        cwd = os.path.normpath(os.path.join(facts.cwd, requested if isinstance(requested, str) else ""))
        tool = TOOLS.get(self.call.tool)
        info = {TERMINAL_INFO: {"terminal_id": self.call.tool_call_id, "cwd": cwd}}
        return shapes.ToolCall(
            tool_call_id=self.card,
            title=command_title(self.command),
            name=self.call.tool,
            kind=tool.kind if tool else "execute",
            status="in_progress",
            content=self.content(),
            raw_input={**self.call.arguments, **command_input(self.command)},
            **given(meta=info if self.terminals else None),
        )

    def content(self, output: str = "") -> list[ToolCallContent]:
        """The command, unless the title shows it whole, and its output so far, which a terminal has."""
        command = [] if is_whole_in_title(self.command) else [command_block(self.command, SOURCE_CHARS)]
        if not self.terminals:
            return [*command, *([text_block(output)] if output else ())]
        return [*command, shapes.Terminal(terminal_id=self.call.tool_call_id)]

    def printed(self, new: str, text: str) -> ToolCallUpdate:
        """The output of the running command: all of it, or only the new output for a terminal."""
        if self.terminals:
            return ToolCallUpdate(tool_call_id=self.card, meta=self._output_meta(cut_middle(new, TERMINAL_CHARS)))
        return ToolCallUpdate(tool_call_id=self.card, content=self.content(text))

    def ended(self, event: CommandEnded, files: list[ToolCallContent], *, is_live: bool) -> ToolCallUpdate:
        """Output, exit status and changed files. `is_live`: a terminal already has the output."""
        content = [*self.ended_content(event), *files]
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
            return ToolCallUpdate(tool_call_id=self.card, content=content, raw_output=raw)
        meta = {**({} if is_live else self._output_meta(text)), **self.exit_meta(event.code, _signal_name(event))}
        return ToolCallUpdate(
            tool_call_id=self.card, raw_output=raw, meta=meta, **given(content=content if files else None)
        )

    def ended_content(self, event: CommandEnded) -> list[ToolCallContent]:
        """The content of the call after the command ended."""
        if self.terminals:
            return self.content()
        text = cut_middle(printed_text(event.output.text, event.errors.text), SOURCE_CHARS)
        if event.reason == CommandEnded.CANCELLED:  # the result says so
            return self.content(text)
        end = shapes.Content(content=TextContent(text=_end_sentence(event)))
        return [*self.content(), text_block(text), end]

    def exit_meta(self, code: int | None, signal: str | None) -> dict[str, Any]:
        return {TERMINAL_EXIT: {"terminal_id": self.call.tool_call_id, "exit_code": code, "signal": signal}}

    def _output_meta(self, text: str) -> dict[str, Any]:
        return {TERMINAL_OUTPUT: {"terminal_id": self.call.tool_call_id, "data": text}}


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
