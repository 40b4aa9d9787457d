"""Building blocks of updates and permission requests: titles, content blocks, diffs and locations.

Editors differ in what they show of a tool call: some only its title on one line, some its content as Markdown, some
its raw input. Users decide by any one of these whether a statement may run. So each of them shows every line, or
counts what is missing, and no character in it hides, overwrites or reorders text beside it. A title is the first line
that is not blank. Invisible characters are replaced by escapes; the engine has the rules (`engine.source_text`).

Pure. Text that is cut here must be redacted before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from acp_adapter.content import TextContent
from acp_adapter.shown import Facts, RunningStatement, Shown
from acp_adapter.updates.shapes import (
    Content,
    Diff,
    PlanEntry,
    PlanUpdate,
    ToolCall,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
)
from acp_adapter.wire import WireModel
from engine.context.tail.results import REST_LEFT_OUT, STATEMENT_TOOL
from engine.core.diff import change_size, first_changed_line, unseen_changes
from engine.core.execution import ExecutionStatus, TextChange
from engine.core.ids import ToolCallId
from engine.core.text import as_printed, broken_word, fenced, legible_line, source_command, source_lines, source_text
from engine.log.events import session
from engine.log.events.conversation import ResultStatus
from engine.log.events.execution import StatementRecorded
from engine.log.permissions import ASKED_CHARS

TITLE_CHARS: Final = 80
"""Limit of a title; it counts what is missing."""
NO_OUTPUT: Final = "(no output)"
SOURCE_CHARS: Final = 20_000
"""Limit of a source above its output, which is sent often. The whole source was shown before it ran."""
_LARGEST_COUNT: Final = (1 << 64) - 1
_LARGEST_LINE: Final = (1 << 32) - 1
"""Limits of the schema."""
_INVISIBLE: Final = "Not visible in the diff:"
_PREPARING: Final = re.compile(r"#.*|import [\w., ]+|from [\w.]+ import [\w, *]+")
"""Lines that say nothing of what a source does."""
_PLAIN: Final = re.compile(r"""[\w (){}\[\]'"+=,.:;/%?@-]+""")
_MARKDOWN: Final = re.compile(r"^ |^[-+] |^\d+[.)] |_|\]\(|\]:| $")
"""Combinations of these characters that Markdown draws as a list, a link or emphasis, or drops."""

Step = tuple[Shown, Sequence[WireModel]]
"""The state after an event, and its updates."""


# --- titles -----------------------------------------------------------------------------------------------------------


def title_line(text: str) -> str:
    """Return a text as a title: one line, escapes for invisible characters, and a count of what is missing."""
    head, left_out = _head(text)
    return (head + _counted(left_out)).lstrip()


def source_title(source: str) -> str:
    """Return the first line of a source that acts, and the size of the rest: `os.remove("a.txt") … +2 lines`.

    Blank lines at both ends do not count. Comments and plain imports come first only if there is nothing else.
    """
    lines = source_lines(source)
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if not filled:
        return "(empty)"
    first = next((number for number in filled if not _PREPARING.fullmatch(lines[number])), filled[0])
    head, left_out = _head(lines[first])
    return (head + _counted(left_out, filled[-1] - filled[0])).lstrip()


def answer_text(text: str) -> str:
    """Return the value of a statement as a message: fenced, except for a line that Markdown does not change."""
    seen = as_printed(text)
    return seen if _PLAIN.fullmatch(seen) and not _MARKDOWN.search(seen) else fenced(seen)


def _head(text: str) -> tuple[str, int]:
    line = legible_line(text.strip()).replace("\t", " ")
    end = TITLE_CHARS - broken_word(line, TITLE_CHARS)[0] if len(line) > TITLE_CHARS else len(line)
    return line[:end].rstrip(), len(line) - end


def _counted(characters: int, lines: int = 0) -> str:
    counts = [
        f"+{count:,} {noun}{'s' * (count != 1)}"
        for count, noun in ((characters, "character"), (lines, "line"))
        if count
    ]
    return f" … {', '.join(counts)}" if counts else ""


# --- content and raw input --------------------------------------------------------------------------------------------


def text_block(text: str) -> Content:
    """Return a text as a terminal would draw it, fenced because clients render Markdown; "" is `NO_OUTPUT`."""
    return Content(content=TextContent(text=fenced(as_printed(text)) if text else NO_OUTPUT))


def markdown_text(markdown: str) -> str:
    """Return a statement's Markdown as clients may draw it: without HTML and pictures, which they could fetch."""
    return as_printed(markdown).replace("<", "&lt;").replace("![", "!\\[")


def source_block(source: str, limit: int = ASKED_CHARS) -> Content:
    """Return a source with all its lines, up to `limit` characters."""
    return Content(content=TextContent(text=fenced(source_text(source, limit), "python")))


def source_input(source: str, limit: int = ASKED_CHARS) -> dict[str, Any]:
    """Return a source as the raw input of its call, which some clients show."""
    return {"command": source_command(source, limit)}


def statement_content(statement: RunningStatement, limit: int = ASKED_CHARS) -> list[ToolCallContent]:
    """Return the content of a statement's call before it runs: its source, if shown, and a note."""
    source = [] if statement.source is None else [source_block(statement.source, limit)]
    return [*source, *([Content(content=TextContent(text=REST_LEFT_OUT))] if statement.rest_left_out else [])]


def result_content(statement: RunningStatement, text: str) -> list[ToolCallContent]:
    """Return the content of a statement's call: its source, if shown, and its output or result."""
    return [*statement_content(statement, SOURCE_CHARS), text_block(text)]


def content_text(content: Sequence[ToolCallContent]) -> str:
    """Return content as the raw output of its call. Clients that show both detect that they are equal."""
    blocks = [block.content for block in content if isinstance(block, Content)]
    return "\n\n".join(block.text for block in blocks if isinstance(block, TextContent))


def command_title(command: str) -> str:
    """Return a shell command as a title: `Run make test`."""
    return f"Run {source_title(_of_shell(command))}"


def is_whole_in_title(command: str) -> bool:
    """Return whether the title of a shell command shows all of it."""
    return source_title(_of_shell(command)) == command


def command_block(command: str, limit: int = ASKED_CHARS) -> Content:
    """Return a shell command with all its lines, up to `limit` characters."""
    return Content(content=TextContent(text=fenced(source_text(_of_shell(command), limit), "sh")))


def command_input(command: str) -> dict[str, Any]:
    """Return a shell command as the raw input of its call."""
    return source_input(_of_shell(command))


def _of_shell(command: str) -> str:
    """Escape carriage returns, which do not end a line in a shell."""
    return command.replace("\r", "\\r")


def arguments_block(arguments: str) -> Content:
    """Return the JSON arguments of a call with all their lines."""
    return Content(content=TextContent(text=fenced(source_text(arguments, ASKED_CHARS), "json")))


def directory_block(cwd: str) -> Content:
    """Return the directory in which a command would run."""
    return Content(content=TextContent(text=fenced(source_text(f"in {legible_line(cwd)}", ASKED_CHARS))))


# --- numbers and places -----------------------------------------------------------------------------------------------


def relative(path: str, cwd: str) -> str:
    """Return the path relative to `cwd`, or whole if outside. Adds `./` to a name that looks like a home or a root."""
    inside = path.removeprefix(cwd.rstrip("/") + "/")
    return f"./{inside}" if inside != path and inside.startswith(("~", "/")) else inside


def count(number: int) -> int:
    """Return the number, clamped to the schema's limits, because imported logs may contain any number."""
    return min(max(number, 0), _LARGEST_COUNT)


def location(path: str, line: int | None = None) -> ToolCallLocation:
    """Return a location. A line outside the schema's limits is omitted; imported logs may contain any."""
    return ToolCallLocation(path=path, line=line if line is not None and 0 <= line <= _LARGEST_LINE else None)


# --- statements -------------------------------------------------------------------------------------------------------

_OPENING_CHARS: Final = 400
"""Limit for a statement that opens an attachment, because it may hold the attachment's whole text."""


def announced_statement(
    event: StatementRecorded, running: RunningStatement, status: ToolCallStatus = "pending"
) -> ToolCall:
    """Return the call that announces a statement."""
    limit = _OPENING_CHARS if event.statement_kind == "meta" else ASKED_CHARS
    return ToolCall(
        tool_call_id=running.call,
        title=running.title or source_title(event.source),
        name=STATEMENT_TOOL,
        kind="execute",
        status=status,
        content=statement_content(running),
        raw_input={
            **source_input(event.source, limit),
            "statement": event.index,
            **({"mode": running.rerun} if running.rerun else {}),
        },
    )


def announcement(call: ToolCallId, shown: Shown, facts: Facts, status: ToolCallStatus = "pending") -> Step:
    """Announce the statement with that call, if no update has announced it so far."""
    for statement, running in shown.statements.items():
        recorded = facts.statement(statement) if running.call == call and running.is_held else None
        if recorded is not None:
            return shown.with_statement(replace(running, is_held=False)), [
                announced_statement(recorded, running, status)
            ]
    return shown, []


# --- the plan ---------------------------------------------------------------------------------------------------------


def plan_update(entries: Sequence[session.PlanEntry]) -> PlanUpdate:
    """Return the whole plan."""
    return PlanUpdate(
        entries=[PlanEntry(content=each.content, priority=each.priority, status=each.status) for each in entries]
    )


# --- ends of calls ----------------------------------------------------------------------------------------------------


def end_status(status: ResultStatus | ExecutionStatus) -> ToolCallStatus:
    """Return the status of a call that ended so."""
    if status == "cancelled":
        return "cancelled"
    return "completed" if status == "ok" else "failed"


def ended_call(call: str, status: ToolCallStatus, text: str) -> ToolCallUpdate:
    """Return the end of a call, with its result."""
    return ToolCallUpdate(tool_call_id=call, status=status, content=[text_block(text)])


def ended_statement(statement: RunningStatement, status: ToolCallStatus, text: str) -> ToolCallUpdate:
    """Return the end of a statement that never ran."""
    return ToolCallUpdate(tool_call_id=statement.call, status=status, content=result_content(statement, text))


# --- changes of files -------------------------------------------------------------------------------------------------


def change_title(path: str, changes: Sequence[TextChange], cwd: str, *, removed: bool = False) -> str:
    """Return a title with the action, the file, and the counts of added and removed lines.

    `removed`: the file was removed. A file that was emptied has the same `changes`.
    """
    action = "Remove" if removed else "Create" if any(change.old is None for change in changes) else "Edit"
    more, fewer = change_size(changes)
    counts = [f"+{more:,}"] * bool(more) + [f"-{fewer:,}"] * bool(fewer)
    size = f" ({' '.join(counts)})" if counts else ""
    return title_line(f"{action} {relative(path, cwd)}") + size


def change_content(
    path: str, changes: Sequence[TextChange], note: str, *, removed: bool = False
) -> list[ToolCallContent]:
    """Return each changed region as a diff, and a note on what diffs do not show.

    A question and the finished call show the same, so users recognize what they decided about. Editors draw the texts
    of a diff unchanged, so invisible characters in them are listed in words. `removed`: the file was removed.
    """
    diffs = [
        Diff(path=path, old_text=change.old, new_text=change.new, line=change.line, is_removal=removed)
        for change in changes
    ]
    hidden = [] if legible_line(path) == path else [f"the path: {legible_line(path)}"]
    hidden += filter(None, [unseen_changes(changes)])
    notes = [note] * bool(note) + ["\n".join((_INVISIBLE, *hidden))] * bool(hidden)
    blocks = [Content(content=TextContent(text=fenced(source_text(each, ASKED_CHARS)))) for each in notes]
    return [*diffs, *blocks]


def change_locations(path: str, changes: Sequence[TextChange]) -> list[ToolCallLocation]:
    """Return the first changed line, to which an editor may jump."""
    return [location(path, first_changed_line(changes))]
