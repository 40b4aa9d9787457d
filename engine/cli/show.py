"""`rewindow show SESSION`: what was asked, what ran, what came of it."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from ..cycles import cycles_of, to_json
from ..events import AgentText, EnvironmentRestored, Event, ExecutionFinished, FileChanged, RunStop, UserMessage
from ..events.codec import encode
from ..projection.results import result_text
from ..timeline.index import Timeline
from .opened import find, store


def show(
    session: str = typer.Argument(help="The session's id, or the start of it."),
    events: bool = typer.Option(False, "--events", help="The whole log, one JSON object per line."),
    cycles: bool = typer.Option(False, "--cycles", help="The request cycles with their rounds and steps, as JSON."),
) -> None:
    """Show a session's timeline, oldest first."""
    with store() as opened:
        row = find(opened, session)
        log = opened.load(row.session_id)
    if events:
        for event in log:
            typer.echo(encode(event))
        return
    if cycles:
        typer.echo(to_json(cycles_of(log)))
        return
    typer.echo(f"{row.session_id}  {row.cwd}  {row.events:,} events\n")
    for block in _blocks(log):
        typer.echo(block + "\n")


def _blocks(log: Sequence[Event]) -> list[str]:
    timeline = Timeline()
    blocks: list[str] = []
    for event in log:
        timeline.apply(event)
        block = _block(event, timeline)
        if block:
            blocks.append(block)
    return blocks


def _block(event: Event, timeline: Timeline) -> str | None:
    match event:
        case UserMessage(text=text):
            return _indented("user> ", text)
        case AgentText(text=text):
            return _indented("agent> ", text)
        case ExecutionFinished():
            return _execution(event, timeline)
        case FileChanged(delta=delta):
            return _indented("file> ", delta)
        case EnvironmentRestored(executions=executions, divergences=divergences):
            lines = [f"{executions} executions ran again in a new worker", *divergences]
            return _indented("restored> ", "\n".join(lines))
        case RunStop(cause=cause, detail=detail) if cause != "end_turn":
            return f"[{cause}{': ' + detail if detail else ''}]"
        case _:
            return None


def _execution(event: ExecutionFinished, timeline: Timeline) -> str:
    cell = next(cell for cell in timeline.cells if cell.statement.statement_id == event.statement_id)
    head = _indented(f"{cell.statement.index}> ", cell.statement.source)
    output = result_text(event)
    return head + (f"\n{_indented('    ', output)}" if output else "")


def _indented(head: str, text: str) -> str:
    return head + text.rstrip("\n").replace("\n", "\n" + " " * len(head))
