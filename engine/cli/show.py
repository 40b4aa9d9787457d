"""`rewindow show SESSION`: what was asked, what ran, what came of it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence

import typer

from ..context.tail.feed import divergence_phrase, entered_sentence, moved_sentence
from ..context.tail.results import result_text
from ..core.ids import ToolCallId
from ..core.text import plural, visible
from ..log.branches import path_of
from ..log.cycles import cycles_of, to_json
from ..log.event_log import lookup_in
from ..log.events import Event
from ..log.events.codec import encode
from ..log.events.conversation import AgentText, ResultRerendered, RunStop, ToolCall, ToolResult, UserMessage
from ..log.events.execution import ExecutionFinished, StatementRecorded
from ..log.events.going_back import Diverged, HeadMoved, ReplayEnded
from ..log.events.nodes import FileChanged
from ..log.events.session import DomainEntered, EnvironmentRestored
from ..log.redaction import redact_event, write_json
from ..log.timeline import Timeline
from .acts_text import Acts
from .calls import call_line
from .cycles_text import cycles_text
from .output.opened import find, redactor, store
from .output.printing import shown, visible_json
from .projection_text import PastCall


def show(
    session: str = typer.Argument(metavar="SESSION", help="The session's id, or the start of it."),
    events: bool = typer.Option(False, "--events", help="Print the whole log, one JSON object per line."),
    cycles: bool = typer.Option(False, "--cycles", help="Print the request cycles with their steps."),
    projection: int | None = typer.Option(
        None, "--projection", metavar="N", help="Print what model call N was sent (counted from 1), and what it cost."
    ),
    as_json: bool = typer.Option(False, "--json", help="With --cycles or --projection: print one JSON object."),
) -> None:
    """Show the timeline of a session, oldest first. It is that of the active branch."""
    if as_json and not cycles and projection is None:
        raise typer.BadParameter("--json goes with --cycles or --projection; the log as JSON is --events")
    if events + cycles + (projection is not None) > 1:
        raise typer.BadParameter("--events, --cycles and --projection are different views; give one")
    with store() as opened:
        row = find(opened, session)
        hidden = redactor()
        log = [redact_event(hidden, event) for event in opened.load(row.session_id)]
        call = None if projection is None else PastCall(log, projection, opened.blob_get, hidden.redact)
    if call is not None and as_json:
        _echo_json(call.to_json())
        return
    if events:
        for event in log:
            _echo_json(encode(event))
        return
    path = path_of(log)
    if as_json:
        _echo_json(to_json(cycles_of(path)))
        return
    typer.echo(f"{row.session_id}  {shown(row.cwd)}  {row.events:,} events\n")
    for block in call.blocks(_width()) if call is not None else _timeline(path, row.cwd, cycles=cycles):
        typer.echo(visible(block) + "\n")


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _echo_json(data: bytes) -> None:
    # As bytes, because JSON is UTF-8 whatever the terminal takes.
    write_json(sys.stdout, visible_json(data.decode()).encode() + b"\n")


def _timeline(log: Sequence[Event], cwd: str, *, cycles: bool) -> Iterable[str]:
    return cycles_text(cycles_of(log)) if cycles else _blocks(log, cwd)


def _blocks(log: Sequence[Event], cwd: str) -> list[str]:
    timeline, acts = Timeline(lookup_in(log)), Acts(log, cwd)
    statements = {event.tool_call_id for event in log if isinstance(event, StatementRecorded)}
    calls = {event.tool_call_id for event in log if isinstance(event, ToolCall) and event.parent_id is not None}
    blocks: list[str] = []
    for event in log:
        timeline.apply(event)
        block = _block(event, timeline, acts) or _of_replay(event) or _foreign(event, statements | calls)
        if block:
            blocks.append(block)
    return blocks


def _block(event: Event, timeline: Timeline, acts: Acts) -> str | None:
    match event:
        case UserMessage(text=text):
            return _indented("user> ", text)
        case AgentText(text=text):
            return _indented("agent> ", text)
        case ExecutionFinished():
            return _execution(event, timeline, acts)
        case ResultRerendered(statement=statement, text=text):
            return _indented(f"rendered {statement}> ", text)
        case FileChanged(delta=delta):
            return _indented("file> ", delta)
        case EnvironmentRestored(executions=executions, sentences=sentences):
            lines = [f"{executions} {plural(executions, 'execution')} ran again in a new worker", *sentences]
            return _indented("restored> ", "\n".join(lines))
        case DomainEntered():
            return _indented("sandbox> ", entered_sentence(event))
        case HeadMoved():
            return _indented("branch> ", moved_sentence(event))
        case RunStop(cause=cause, detail=detail) if cause != "end_turn":
            return f"[{cause}{': ' + detail if detail else ''}]"
        case _:
            return None


def _of_replay(event: Event) -> str | None:
    match event:
        case Diverged():
            return _indented("differs> ", f"statement {event.statement}: {divergence_phrase(event)}")
        case ReplayEnded(outcome=outcome, detail=detail) if outcome != "completed":
            return f"[the replay was {outcome}{': ' + detail if detail else ''}]"
        case _:
            return None


def _foreign(event: Event, ours: set[ToolCallId]) -> str | None:
    """A call or a result of an imported conversation; one of ours is shown as its statement."""
    match event:
        case ToolCall(tool_call_id=call) if call not in ours:
            return f"call> {call_line(event)}"
        case ToolResult(tool_call_id=call, status=status, text=text) if call not in ours:
            return _indented("    " if status == "ok" else f"    [{status}] ", text)
        case _:
            return None


def _execution(event: ExecutionFinished, timeline: Timeline, acts: Acts) -> str:
    cell = timeline.cell(event.statement_id)
    again = "" if event.mode is None else f" again, {event.mode}"
    head = "?>" if cell is None else _indented(f"{cell.statement.index}{again}> ", cell.statement.source)
    parts = [acts.of(event.execution_id), result_text(event)]
    return "\n".join([head, *(_indented("    ", part) for part in parts if part)])


def _indented(head: str, text: str) -> str:
    return head + text.rstrip("\n").replace("\n", "\n" + " " * len(head))
