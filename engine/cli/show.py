"""`rewindow show SESSION`: its timeline, its request cycles, its log, one prompt as it was sent, or all as JSON.

Everything is one line or one block of text that is safe for a terminal. Pure, except for reading the store. Called by
`cli`.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Final

import msgspec
import typer

from ..context.model import Prompt
from ..context.tail.feed import divergence_phrase
from ..context.tail.prompt import Account, message_text
from ..context.tail.results import shown_text
from ..context.tail.rights import entered_sentence
from ..context.tail.sent_prompts import SentProjections, prompt_of, role_of
from ..core.errors import InvalidRequestError, StoreError
from ..core.ids import BlobDigest, ExecutionId, SessionId, StatementId, ToolCallId
from ..core.python_source import TAG_CHARS
from ..core.text import more, plural, visible
from ..core.toolbox import ROUTED, call_title
from ..log.branches import branches_of, path_of
from ..log.cycles import Cycles, RequestCycle, cycles_of, steps_of, to_json
from ..log.cycles.machine import ANOMALIES, Item
from ..log.cycles.views import AiBlock, Call, Step
from ..log.event_log import lookup_in
from ..log.events import Event
from ..log.events.codec import encode
from ..log.events.conversation import (
    AgentReasoning,
    AgentText,
    ResultRerendered,
    RunStop,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ..log.events.execution import CommandEnded, EffectRequested, ExecutionFinished, FileWritten, StatementRecorded
from ..log.events.going_back import Diverged, HeadMoved, ReplayEnded, Rewound
from ..log.events.nodes import FileChanged
from ..log.events.session import DomainEntered, EnvironmentRestored
from ..log.file_history import rewound_lines
from ..log.redaction import Redactor, redact_event, write_json
from ..log.timeline import Timeline
from ..session.commands.timeline import no_tagged_statement
from ..session.model_calls.context_text import breakdown_text
from ..session.model_calls.replies import breakdown_of
from ..session.session_json import session_json
from .commands import number_from
from .output import branch_sentence, find, redactor, shown, shown_line, size, store, visible_json
from .terminal.rendering import diff, painted, shown_markdown


def show(
    session: str = typer.Argument(metavar="SESSION", help="The session's id, or any unique beginning of it."),
    events: bool = typer.Option(False, "--events", help="Print the whole log, one JSON object per line."),
    cycles: bool = typer.Option(False, "--cycles", help="Print the request cycles with their steps."),
    projection: int | None = typer.Option(
        None,
        "--projection",
        metavar="N",
        parser=number_from(None),
        help="Print the prompt and the cost of model call N (counted from 1).",
    ),
    tag: str | None = typer.Option(None, "--tag", metavar="NAME", help="Show only the statements with this tag."),
    as_json: bool = typer.Option(
        False,
        "--json",
        help="Print one JSON object: the whole session, or the part that --cycles or --projection chooses.",
    ),
    html: str | None = typer.Option(
        None, "--html", metavar="FILE", help="Write the session as a page for any browser, into one file."
    ),
) -> None:
    """Show the timeline of a session's active branch, oldest first."""
    _check(events, cycles, projection is not None, as_json, tag is not None, html is not None)
    with store() as opened:
        row = find(opened, session)
        hidden = redactor()
        log = [redact_event(hidden, event) for event in opened.load(row.session_id)]
        call = None if projection is None else PastCall(log, projection, opened.blob_get, hidden.redact)
        if html is not None:
            _write_page(html, row.session_id, log, opened.blob_get, hidden)
            return
        if as_json and not cycles and call is None:
            _echo_json(session_json(row.session_id, log, opened.blob_get, hidden))
            return
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
    for block in call.blocks(_width()) if call is not None else _timeline(path, row.cwd, tag, cycles=cycles):
        typer.echo(visible(block) + "\n")


def _check(events: bool, cycles: bool, projection: bool, as_json: bool, tag: bool, html: bool) -> None:
    """Raise typer.BadParameter for options that do not go together."""
    if html and (events or cycles or projection or as_json or tag):
        raise typer.BadParameter("--html cannot be combined with other options: the page has everything")
    if as_json and events:
        raise typer.BadParameter("--events always prints JSON; use --json without it for the whole session")
    if events + cycles + projection > 1:
        raise typer.BadParameter("use only one of --events, --cycles and --projection")
    if tag and (events or cycles or as_json or projection):
        raise typer.BadParameter("--tag cannot be combined with --events, --cycles, --projection or --json")


WROTE: Final = "Wrote {path} ({size}). It contains:"
LEFT_OUT: Final = "Left out, because the file would be too large: {count} {contents}, {size} in all."


def _write_page(
    path: str, session_id: SessionId, log: Sequence[Event], content: Callable[[BlobDigest], bytes], hidden: Redactor
) -> None:
    # By its name, as a command is loaded: what makes pages stands above the engine.
    try:
        written = import_module(_PAGE_FILE).write_file(path, session_id, log, content, hidden, time.time())
    except OSError as error:
        raise InvalidRequestError(f"cannot write {shown(path)}: {error.strerror}") from error
    notes = written.notes
    typer.echo(WROTE.format(path=shown(path), size=size(written.size)))
    for line in notes.contains:
        typer.echo(f"- {line}")
    if notes.left_out:
        count, total = len(notes.left_out), sum(each.size for each in notes.left_out)
        typer.echo(LEFT_OUT.format(count=count, contents=plural(count, "content"), size=size(total)))
        for each in notes.left_out:
            typer.echo(f"  {each.what}, {size(each.size)}: {each.digest}")


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _echo_json(data: bytes) -> None:
    # As bytes, because JSON is UTF-8 in any locale.
    write_json(sys.stdout, visible_json(data.decode()).encode() + b"\n")


_PAGE_FILE: Final = "session_page.file"
TYPED: Final = "user "
"""Before the number of a statement that is a whole prompt."""


def _timeline(log: Sequence[Event], cwd: str, tag: str | None, *, cycles: bool) -> Iterable[str]:
    if cycles:
        return cycles_text(cycles_of(log))
    return _blocks(log, cwd) if tag is None else _tagged(log, cwd, tag) or [no_tagged_statement(tag)]


def _tagged(log: Sequence[Event], cwd: str, tag: str) -> list[str]:
    """The executions of the statements with this tag, and their differences."""
    timeline, actions = Timeline(lookup_in(log)), Actions(log, cwd)
    found: set[StatementId] = set()
    indexes: set[int] = set()
    blocks: list[str] = []
    for event in log:
        timeline.apply(event)
        match event:
            case StatementRecorded(statement_id=statement, index=index, tag_names=tags) if tag in tags:
                found.add(statement)
                indexes.add(index)
            case ExecutionFinished(statement_id=statement) if statement in found:
                blocks.append(_execution(event, timeline, actions))
            case Diverged(statement=index) if index in indexes:
                blocks.append(_of_replay(event) or "")
            case _:
                pass
    return blocks


def _blocks(log: Sequence[Event], cwd: str) -> list[str]:
    timeline, actions = Timeline(lookup_in(log)), Actions(log, cwd)
    statements = {event.tool_call_id for event in log if isinstance(event, StatementRecorded)}
    calls = {event.tool_call_id for event in log if isinstance(event, ToolCall) and event.parent_id is not None}
    blocks: list[str] = []
    prompt = ""
    for event in log:
        timeline.apply(event)
        block = _block_of(event, timeline, actions) or _of_replay(event) or _foreign(event, statements | calls)
        if isinstance(event, Rewound):
            block = _indented("files> ", "\n".join(rewound_lines(event, lambda path: _named(path, cwd))))
        if prompt and isinstance(event, ExecutionFinished) and _source(event, timeline) == prompt:
            blocks.pop()  # because the prompt is the statement, and one block shows both
            block = _execution(event, timeline, actions, TYPED)
        if not block:
            continue
        prompt = event.text if isinstance(event, UserMessage) else ""
        blocks.append(block)
    return blocks


def _block_of(event: Event, timeline: Timeline, actions: Actions) -> str | None:
    match event:
        case UserMessage(text=text):
            return _indented("user> ", text)
        case AgentText(text=text):
            return _indented("agent> ", text)
        case ExecutionFinished():
            return _execution(event, timeline, actions)
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
            return _indented("branch> ", branch_sentence(event))
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
    """Show a call or result of an imported conversation.

    Our own calls are shown as statements.
    """
    match event:
        case ToolCall(tool_call_id=call) if call not in ours:
            return f"call> {call_line(event)}"
        case ToolResult(tool_call_id=call, status=status, text=text) if call not in ours:
            return _indented("    " if status == "ok" else f"    [{status}] ", text)
        case _:
            return None


def _execution(event: ExecutionFinished, timeline: Timeline, actions: Actions, by: str = "") -> str:
    cell = timeline.cell(event.statement_id)
    again = "" if event.mode is None else f" again, {event.mode}"
    head = "?>" if cell is None else _indented(f"{by}{cell.statement.index}{again}> ", cell.statement.source)
    tags = "" if cell is None else ", ".join(shown_line(tag, TAG_CHARS) for tag in cell.statement.tag_names)
    parts = [tags and f"[tags: {tags}]", actions.of(event.execution_id), shown_text(event)]
    return "\n".join([head, *(_indented("    ", part) for part in parts if part)])


def _source(event: ExecutionFinished, timeline: Timeline) -> str | None:
    cell = timeline.cell(event.statement_id)
    return None if cell is None else cell.statement.source


def _indented(head: str, text: str) -> str:
    return head + text.strip("\n").replace("\n", "\n" + " " * len(head))


WIDTH: Final = 100
"""The most characters of a line that summarizes something longer."""


def call_line(call: ToolCall) -> str:
    """Return the tool, and the first line of its source or arguments."""
    source = call.arguments.get("source")
    text = source if isinstance(source, str) else msgspec.json.encode(call.arguments).decode()
    return f"{shown_line(call.tool, WIDTH)} {shown_line(text, WIDTH)}".rstrip()


# What a statement changed through tools: files as diffs, commands with how they ended. A command's output is usually
# part of the statement's result; all of it is on the log (`--events`).

SHOWN_LINES: Final = 60
"""The most lines of one diff."""


class Actions:
    """The changes and commands of each execution."""

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
                    pass  # the line of its call is enough
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
        """Return what the execution did, in order; empty for nothing."""
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


# Request cycles (`--cycles`): a block of lines for each, then the queue, withdrawn messages, strays and anomalies. Only
# the layout is here; `log.cycles` defines a cycle.

_OPEN: Final = "open"
"""The status of a call without a result."""
_STATUS_WIDTH: Final = 9
_ORDINARY: Final = (("completed", "end_turn"), ("interrupted", "cancelled"), ("error", "error"))
"""Causes that add nothing to their reason."""
_NOTHING: Final = "No request yet."


def cycles_text(model: Cycles) -> Iterator[str]:
    """Yield a block for each cycle, and for each list that is not empty."""
    for cycle in model.cycles:
        yield "\n".join(_cycle(cycle))
    if not model.cycles:
        yield _NOTHING
    sections = (
        ("queue", [_line(f"{waiting.message_id}>", waiting.text) for waiting in model.queue]),
        ("withdrawn", [_line(f"{each.message_id}>", each.text or "") for each in model.withdrawn]),
        ("outside all cycles", [_item(item) for item in model.strays]),
        ("anomalies", [_anomaly(each.seq, each.kind, each.subject, ANOMALIES[each.kind]) for each in model.anomalies]),
    )
    for name, lines in sections:
        if lines:
            yield "\n".join([name, *(f"  {line}" for line in lines)])


def _cycle(cycle: RequestCycle) -> Iterator[str]:
    yield _line(f"cycle {cycle.number} ({cycle.root_kind})>", cycle.root.text)
    for step in steps_of(cycle)[1:]:
        yield from _step(step)
    yield "  [still running]" if cycle.stop is None else f"  {_stop(cycle.stop)}"


def _step(step: Step) -> Iterator[str]:
    if not isinstance(step, AiBlock):
        yield "  " + _line("steer>", step.message.text)
        return
    yield "  ai-block" if step.text is None else f"  {_item(step.text)}"
    for call in step.statements:
        yield f"    {_call('statement', call)}"
    for group in step.groups:
        yield f"    {group.name}"
        for call in group.calls:
            yield f"      {_call('', call)}"


def _call(kind: str, call: Call) -> str:
    status = _OPEN if call.result is None else call.result.status
    return f"{kind} {status:<{_STATUS_WIDTH}} {call_line(call.call)}".lstrip()


def _stop(stop: RunStop) -> str:
    cause = "" if (stop.reason, stop.cause) in _ORDINARY else f" ({stop.cause})"
    detail = f": {shown_line(stop.detail, WIDTH)}" if stop.detail else ""
    return f"[{stop.reason}{cause}{detail}]"


def _item(item: Item) -> str:
    match item:
        case UserMessage(text=text):
            return _line("user>", text)
        case AgentText(text=text):
            return _line("agent>", text)
        case AgentReasoning(text=text):
            return _line("reasoning>", text)
        case ToolCall():
            return f"call> {call_line(item)}"
        case ToolResult(status=status, text=text):
            return _line(f"result ({status})>", text)


def _anomaly(seq: int, kind: str, subject: str, sentence: str) -> str:
    about = f" ({shown(subject)})" if subject else ""
    return f"event {seq}, {kind}{about}: {sentence}"


def _line(head: str, text: str) -> str:
    return f"{shown(head)} {shown_line(text, WIDTH)}".rstrip()


# The prompt of a model call (`--projection N`), made again from log and store: as text, and as one JSON object whose
# fields docs/context.md describes.


class PastCall:
    """The model call with that number, from 1, and its prompt.

    Raises:
        InvalidRequestError: the call does not exist, or content of its prompt is no longer stored.
    """

    def __init__(
        self, log: Sequence[Event], number: int, content: Callable[[BlobDigest], bytes], hide: Callable[[str], str]
    ) -> None:
        sent = SentProjections()
        for event in log:
            sent.apply(event)
        call = sent.numbered(str(number))
        if call is None:
            raise InvalidRequestError(sent.without(str(number)))
        path = branches_of(log).path(log, call.branch_id)  # the ids of handles are unique only on one branch
        timeline = Timeline(lookup_in(path))
        self._account = Account(timeline)
        for event in path:
            timeline.apply(event)
            self._account.apply(event)
        self._number = number
        self._call = call
        try:
            prompt = prompt_of(call, sent.messages_of(call), log, content)
        except KeyError as error:
            raise InvalidRequestError(
                f"model call {number} cannot be shown: part of its prompt, {error.args[0]}, is missing from the store"
            ) from None
        except StoreError as error:
            raise InvalidRequestError(f"model call {number} cannot be shown: {error}") from None
        self._prompt = Prompt(
            instructions=hide(prompt.instructions),
            messages=prompt.messages,
            tail=hide(prompt.tail),
            calls_tools=prompt.calls_tools,
        )

    def blocks(self, width: int | None) -> Iterable[str]:
        """Yield the use of tokens, then every text in the order it was sent.

        Args:
            width: cells of a line of the first block; None for no wrapping.
        """
        breakdown = breakdown_of(self._call, self._account, is_first=self._number == 1)
        text = breakdown_text(f"Model call {self._number} sent", breakdown)
        yield painted(shown_markdown(text, width), in_colour=False).removesuffix("\n")
        yield _block("instructions", self._prompt.instructions)
        for message in self._prompt.messages:
            cut = ", shortened" if message.event_id in self._call.shortened else ""
            yield _block(f"{role_of(message)} ({message.event_id}{cut})", self._text(message))
        yield _block("end of the newest message", self._prompt.tail)

    def to_json(self) -> bytes:
        """Return one JSON object."""
        call = self._call
        return msgspec.json.encode(
            {
                "call": self._number,
                "round": call.round_id,
                "answered": call.answered,
                "tokens": {
                    "used": call.used,
                    "size": call.size,
                    "shared": call.shared,
                    "sections": call.sections,
                    "handles": {self._account.name(obj_id): tokens for obj_id, tokens in call.nodes.items()},
                },
                "provider": {
                    "input": call.input_tokens,
                    "cached": call.cached_tokens,
                    "output": call.output_tokens,
                },
                "instructions": self._prompt.instructions,
                "messages": [
                    {
                        "event": message.event_id,
                        "role": role_of(message),
                        "shortened": message.event_id in call.shortened,
                        "text": self._text(message),
                    }
                    for message in self._prompt.messages
                ],
                "tail": self._prompt.tail,
            }
        )

    def _text(self, message: Event) -> str:
        return message_text(message, calls_tools=self._prompt.calls_tools)


def _block(title: str, text: str) -> str:
    line = "\u2500" * 4
    return f"{line} {title} {line}\n{text.rstrip(chr(10))}" if text else f"{line} {title}: nothing {line}"
