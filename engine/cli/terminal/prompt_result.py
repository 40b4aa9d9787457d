"""The result of one prompt, and the formats that print it: the answer alone, one JSON document, or JSON lines.

Owns what goes to standard output, which has only the requested format, and what to standard error. `docs/scripts.md`
describes each field. Fields may be added; any other change needs a new VERSION. A format is a class and a row of
FORMATS. Must not know how a turn is run, nor why the program ended. Called by `one_prompt`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, Literal

import msgspec
from msgspec import Struct

from ...context.tail.feed import plan_lines
from ...core.ids import LlmResponseId, StatementId, ToolCallId
from ...core.pictures import Picture, description
from ...core.text import as_printed, visible
from ...core.toolbox import PLAN, call_title, tool_named
from ...log.events import Event
from ...log.events.codec import encode
from ...log.events.conversation import AgentText, StopCause, SummaryCallEnded, ToolCall
from ...log.events.execution import ExecutionFinished, FileWritten, StatementRecorded
from ...log.events.going_back import Rewound
from ...log.events.session import ModelCallEnded, PlanChanged
from ...log.redaction import write_json
from ...session.journal import (
    CommandsListed,
    FilesPutBack,
    Item,
    ModelDelayed,
    ModelRetried,
    ModelsListed,
    OutputStreamed,
    ReasoningStreamed,
    StatementRerun,
    TextStreamed,
)
from ..output import print_json, shown_line, visible_json
from .rendering import painted, shown_markdown
from .streams import Printed

VERSION: Final = 1
PLANNED: Final = "Plan:"
"""Heads the plan that a statement tells the user."""
Change = Literal["created", "changed", "removed", "restored"]
PromptKind = Literal["statement", "command", "task"]
"""A Python statement of the user, a slash command, or a task for a model."""


class StatementRun(Struct, frozen=True, kw_only=True):
    """One run of a statement.

    Each stream has its first 64 KiB; `truncated` reports that there was more.
    """

    index: int
    kind: Literal["python", "meta"]
    source: str
    status: Literal["ok", "error", "timeout", "cancelled"]
    value: str | None
    stdout: str
    stderr: str
    truncated: bool
    exception: str | None
    time_ms: float


class FileChange(Struct, frozen=True, kw_only=True):
    """A file that the prompt changed. `path` is absolute."""

    path: str
    change: Change


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of all model calls.

    `sent_tokens` is our own count, without the calls for summaries; the others are the provider's, None if unknown.
    """

    model_calls: int = 0
    sent_tokens: int = 0
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


class PromptResult(Struct, frozen=True, kw_only=True):
    """The result of one prompt. `error` is a sentence if `exit_code` is not 0."""

    type: Literal["result"] = "result"
    version: int = VERSION
    session_id: str | None = None
    cwd: str | None = None
    model: str | None = None
    answer: str = ""
    stop_reason: StopCause | None = None
    exit_code: int
    error: str | None = None
    statements: tuple[StatementRun, ...] = ()
    files: tuple[FileChange, ...] = ()
    refused: tuple[str, ...] = ()
    usage: Usage = Usage()
    duration_ms: int = 0


class PromptFold:
    """Collects the parts of a result from the events of the prompt's turn.

    Args:
        kind: what the prompt is. It decides where the answer comes from.
        calls_model: whether the session's model is a language model, whose calls are counted.
        statement: finds a statement of the session by its id.
        picture_line: says in a line what a picture shows, and where it is.
    """

    def __init__(
        self,
        kind: PromptKind,
        calls_model: bool,
        statement: Callable[[StatementId], StatementRecorded | None],
        picture_line: Callable[[Picture], str] = description,
    ) -> None:
        self.kind: Final[PromptKind] = kind
        self._picture_line = picture_line
        self._calls_model = calls_model
        self._statement = statement
        self._by_model: set[ToolCallId] = set()
        self._texts: dict[LlmResponseId | None, list[str]] = {}
        self._asides: list[str] = []
        self._own: ExecutionFinished | None = None
        self._digests: dict[str, tuple[str, str]] = {}
        """For each path, the digests before the prompt and now; empty for no file."""
        self._restored: set[str] = set()
        self._runs: list[StatementRun] = []
        self.usage = Usage()

    def apply(self, event: Event) -> None:
        """Take the next event of the turn."""
        match event:
            case AgentText(aside=True, text=text):
                self._asides.append(text)
            case AgentText(llm_response_id=response, text=text) if text.strip():
                self._texts.setdefault(response, []).append(text)
            case ToolCall(typed=False, parent_id=None):
                self._by_model.add(event.tool_call_id)
            case ExecutionFinished(counts=True):
                self._finished(event)
            case FileWritten(path=path):
                before, _ = self._digests.get(path, (event.before_digest, ""))
                self._digests[path] = (before, event.after_digest)
            case Rewound(cancelled=False, restored=restored):
                self._restored.update(file.path for file in restored)
            case ModelCallEnded() | SummaryCallEnded() if self._calls_model:
                self.usage = _added(self.usage, event)
            case _:
                pass

    @property
    def own(self) -> ExecutionFinished | None:
        """The run of the prompt's own statement, once it has ended."""
        return self._own

    @property
    def answer(self) -> str:
        """The answer so far.

        It is the result of a statement, the text of a command, or the last message of a model.
        """
        if self.kind == "statement" and self._own is not None:
            return "\n".join([*_result(self._own), *self.picture_lines(self._own)])
        if self.kind == "command":
            return "\n\n".join(self._asides)
        return "\n\n".join(list(self._texts.values())[-1]) if self._texts else ""

    def picture_lines(self, event: ExecutionFinished) -> list[str]:
        """Return a line for each picture of a run."""
        return [self._picture_line(picture) for picture in event.pictures]

    @property
    def statements(self) -> tuple[StatementRun, ...]:
        """The runs that have ended, in order."""
        return tuple(self._runs)

    @property
    def files(self) -> tuple[FileChange, ...]:
        """The changed files, sorted by path."""
        changes: dict[str, Change] = {
            path: _change(*digests) for path, digests in self._digests.items() if digests[0] != digests[1]
        }
        restored: Change = "restored"
        changes |= dict.fromkeys(self._restored, restored)
        return tuple(FileChange(path=path, change=change) for path, change in sorted(changes.items()))

    def is_own(self, statement: StatementRecorded) -> bool:
        """Whether the prompt itself is this statement."""
        is_users = statement.tool_call_id not in self._by_model and statement.statement_kind == "python"
        return self.kind == "statement" and is_users

    def _finished(self, event: ExecutionFinished) -> None:
        statement = self._statement(event.statement_id)
        if statement is None:
            return
        if self.is_own(statement):
            self._own = event
        self._runs.append(_run(statement, event))


def _run(statement: StatementRecorded, event: ExecutionFinished) -> StatementRun:
    exception = event.exception
    return StatementRun(
        index=statement.index,
        kind=statement.statement_kind,
        source=statement.source,
        status=event.status,
        value=event.value,
        stdout=event.stdout.text,
        stderr=event.stderr.text,
        truncated=event.stdout.truncated or event.stderr.truncated,
        exception=None if exception is None else f"{exception.type}: {exception.message}",
        time_ms=event.time_ms,
    )


def _result(event: ExecutionFinished) -> list[str]:
    return [part.rstrip("\n") for part in (event.stdout.text, given(event)) if part]


def given(event: ExecutionFinished) -> str:
    """Return a run's displayed views and its value, without its output."""
    displays = (f"[{display.title}]\n{display.text}".rstrip("\n") for display in event.displays)
    return "\n".join([*displays, *([] if event.value is None else [event.markdown or event.value])])


def _change(before: str, after: str) -> Change:
    return "created" if not before else "changed" if after else "removed"


def _added(usage: Usage, call: ModelCallEnded | SummaryCallEnded) -> Usage:
    return Usage(
        model_calls=usage.model_calls + 1,
        sent_tokens=usage.sent_tokens + (call.used if isinstance(call, ModelCallEnded) else 0),
        input_tokens=_sum(usage.input_tokens, call.input_tokens),
        cached_tokens=_sum(usage.cached_tokens, call.cached_tokens),
        output_tokens=_sum(usage.output_tokens, call.output_tokens),
    )


def _sum(total: int | None, count: int | None) -> int | None:
    return total if count is None else (total or 0) + count


_EXACT: Final = ("type", "version", "session_id", "stop_reason", "kind", "status", "change")
"""Fields with a fixed set of values, which need no redaction."""
SIGNALS: Final = {
    TextStreamed: "text",
    ReasoningStreamed: "reasoning",
    OutputStreamed: "output",
    StatementRerun: "rerun",
    ModelRetried: "retry",
    ModelDelayed: "delay",
    FilesPutBack: "files_restored",
    ModelsListed: "models_listed",
    CommandsListed: "commands_listed",
}
_TITLE_CHARS: Final = 100


class JsonOutput:
    """One JSON document at the end. Other formats also print before it."""

    shows_failures = False
    """Whether it prints the traceback of the user's own statement."""

    def begin(self, fold: PromptFold, session_id: str, cwd: str, model: str) -> None:
        """Take what is known before the turn begins.

        Raises:
            OSError
        """

    def show(self, item: Item) -> None:
        """Print an item, if the format shows it. The fold has taken it already.

        Raises:
            OSError
        """

    def end(self, result: PromptResult) -> None:
        """Print the result.

        Raises:
            OSError
        """
        print_json(msgspec.to_builtins(result), _EXACT)


class StreamOutput(JsonOutput):
    """JSON lines: the start, each event and signal, at last the document."""

    def begin(self, fold: PromptFold, session_id: str, cwd: str, model: str) -> None:
        start = {"type": "start", "version": VERSION, "session_id": session_id, "cwd": cwd, "model": model}
        print_json(start, _EXACT)

    def show(self, item: Item) -> None:
        # Published items are already redacted.
        if isinstance(item, Event):
            data = b'{"type":"event","event":' + encode(item) + b"}"
        else:
            data = msgspec.json.encode({"type": SIGNALS[type(item)], **msgspec.to_builtins(item)})
        write_json(sys.stdout, visible_json(data.decode()).encode() + b"\n")


class TextOutput(JsonOutput):
    """The answer alone on standard output.

    Output of the user's own statement is printed as it arrives. A model's last message is known only at the end.

    Args:
        is_brief: whether standard error gets a line for each statement, change and command of a model.
    """

    shows_failures = True

    def __init__(self, is_brief: bool) -> None:
        self._is_brief = is_brief
        self._fold: PromptFold | None = None
        self._call: ToolCallId | None = None
        """The call of the user's own statement."""
        self._printed: dict[str, Printed] = {}
        self._lines = {"stdout": _Lines(), "stderr": _Lines()}

    def begin(self, fold: PromptFold, session_id: str, cwd: str, model: str) -> None:
        del session_id, cwd, model
        self._fold = fold

    def show(self, item: Item) -> None:
        assert self._fold is not None
        match item:
            case OutputStreamed(tool_call_id=call, stream=stream, text=text) if call == self._call:
                self._write(stream, self._printed.setdefault(stream, Printed()).add(text))
            case StatementRecorded() if self._fold.is_own(item):
                self._call = item.tool_call_id
            case StatementRecorded(statement_kind="python") if self._is_brief:
                self._block("stderr", f"{item.index}> {shown_line(item.source, _TITLE_CHARS)}")
            case ToolCall(parent_id=parent) if self._is_brief and parent not in (None, self._call):
                self._called(item)
            case PlanChanged(entries=entries) if self._is_brief and entries:
                self._block("stderr", "\n".join(f"   {line}" for line in (PLANNED, *plan_lines(entries))))
            case ExecutionFinished() if item is self._fold.own:
                self._finished(item)
            case _:
                pass

    def end(self, result: PromptResult) -> None:
        """Print the answer, except a statement's, which is already printed."""
        if self._fold is not None and self._fold.kind == "command" and result.answer:
            self._block("stdout", painted(shown_markdown(visible(result.answer)), False))
        elif self._fold is not None and self._fold.own is None and result.answer:
            self._block("stdout", visible(result.answer))

    def _called(self, call: ToolCall) -> None:
        tool = tool_named(call.tool)
        if call.tool != PLAN and (tool is None or tool.kind not in ("read", "search")):
            mark = "$" if tool is not None and tool.kind == "execute" else "~"
            self._block("stderr", f"   {mark} {shown_line(call_title(call.tool, call.arguments), _TITLE_CHARS)}")

    def _finished(self, event: ExecutionFinished) -> None:
        for name, captured in (("stdout", event.stdout), ("stderr", event.stderr)):
            printed = self._printed.pop(name, None)
            self._write(name, as_printed(captured.text) if printed is None else printed.end())
            if captured.truncated:
                self._block(
                    "stderr", f"rewindow: {name} had {captured.total_bytes:,} bytes; only the beginning is shown"
                )
        assert self._fold is not None
        self._block("stdout", as_printed("\n".join([given(event), *self._fold.picture_lines(event)])))
        if event.exception is not None and event.status != "cancelled":
            traceback = event.exception.traceback or f"{event.exception.type}: {event.exception.message}"
            self._block("stderr", as_printed(traceback))

    def _block(self, name: str, text: str) -> None:
        """Print a text that begins and ends a line."""
        self._write(name, self._lines[name].begun() + text)
        self._write(name, self._lines[name].begun())

    def _write(self, name: str, text: str) -> None:
        if text:
            stream = sys.stdout if name == "stdout" else sys.stderr
            stream.write(self._lines[name].took(text))
            stream.flush()


class _Lines:
    """Whether a stream is at the start of a line."""

    def __init__(self) -> None:
        self._is_at_start = True

    def begun(self) -> str:
        """Return what ends the line, if one has begun."""
        return "" if self._is_at_start else "\n"

    def took(self, text: str) -> str:
        """Note a text that is written now, and return it."""
        self._is_at_start = text.endswith("\n")
        return text


FORMATS: Final[dict[str, Callable[[bool], JsonOutput]]] = {
    "text": lambda is_verbose: TextOutput(is_brief=not is_verbose),
    "json": lambda _: JsonOutput(),
    "stream-json": lambda _: StreamOutput(),
}
"""By the names that `--output-format` takes; the argument is whether the run is verbose."""
