"""One prompt without a person: runs its turn, prints its result, and returns an exit code."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal

import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from ...context.models.local import statement_in
from ...context.models.providers import ModelSetup
from ...core.ids import LlmResponseId, StatementId, ToolCallId
from ...core.settings import DEFAULT_MODEL
from ...core.text import as_printed, visible
from ...core.toolbox import call_title, tool_named
from ...log.events import Event
from ...log.events.codec import encode
from ...log.events.conversation import AgentText, RunStop, StopCause, ToolCall
from ...log.events.execution import ExecutionFinished, FileWritten, StatementRecorded
from ...log.events.going_back import Rewound
from ...log.events.session import ModelCallEnded
from ...log.file_history import finished_lines
from ...log.redaction import write_json
from ...log.user_message import compose
from ...session.commands.table import command_of
from ...session.journal import (
    FilesPutBack,
    Item,
    ModelRetried,
    OutputStreamed,
    ReasoningStreamed,
    StatementRerun,
    TextStreamed,
)
from ...session.requests import ReplayReport, TurnEnd
from ...session.session import Session
from ..complaints import ExitCode
from ..output import print_json, shown_line, visible_json
from .keyboard import Pump
from .mentions import with_mentions
from .permissions import NobodyToAsk
from .rendering import painted, shown_markdown
from .screen import Printed
from .transcript import Transcript, turn_ending

# The result of one prompt as a value: the document that `rewindow run -p --output-format json` prints.
#
# `docs/scripts.md` describes each field. A new field may come at any time; whatever else changes makes another
# VERSION. Pure: folds the events of one turn. Must not know how it is printed, nor why the program ended. Called by
# `one_prompt`.

VERSION: Final = 1
Change = Literal["created", "changed", "removed", "restored"]
PromptKind = Literal["statement", "command", "task"]
"""A Python statement of the user's, a slash command, or something for a model."""


class StatementRun(Struct, frozen=True, kw_only=True):
    """One run of a statement. Of each stream the first 64 KiB; `truncated` says that there was more."""

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
    """A file that is not what it was before the prompt. `path` is absolute."""

    path: str
    change: Change


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of all model calls. `sent_tokens` is our own count; the others are the provider's, None where unknown."""

    model_calls: int = 0
    sent_tokens: int = 0
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


class PromptResult(Struct, frozen=True, kw_only=True):
    """What came of one prompt. `error` is one sentence where `exit_code` is not 0."""

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
    """The parts of a result, from the events of the prompt's turn.

    Args:
        kind: what the prompt is, which decides where its answer comes from.
        calls_model: whether the session's model is a language model, whose calls cost something.
        statement: finds a statement of the session by its id.
    """

    def __init__(
        self, kind: PromptKind, calls_model: bool, statement: Callable[[StatementId], StatementRecorded | None]
    ) -> None:
        self.kind: Final[PromptKind] = kind
        self._calls_model = calls_model
        self._statement = statement
        self._by_model: set[ToolCallId] = set()
        self._texts: dict[LlmResponseId | None, list[str]] = {}
        self._asides: list[str] = []
        self._own: ExecutionFinished | None = None
        self._digests: dict[str, tuple[str, str]] = {}
        """By path, of the file before the prompt and now; empty for no file."""
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
            case ModelCallEnded() if self._calls_model:
                self.usage = _added(self.usage, event)
            case _:
                pass

    @property
    def own(self) -> ExecutionFinished | None:
        """The run of the statement that the prompt is; None before its end, and where it is none."""
        return self._own

    @property
    def answer(self) -> str:
        """The answer so far: of a statement its result, of a command its text, of a model its last message."""
        if self.kind == "statement" and self._own is not None:
            return _result(self._own)
        if self.kind == "command":
            return "\n\n".join(self._asides)
        return "\n\n".join(list(self._texts.values())[-1]) if self._texts else ""

    @property
    def statements(self) -> tuple[StatementRun, ...]:
        """The runs that have ended, in their order."""
        return tuple(self._runs)

    @property
    def files(self) -> tuple[FileChange, ...]:
        """The files that differ, by their paths."""
        changes: dict[str, Change] = {
            path: _change(*digests) for path, digests in self._digests.items() if digests[0] != digests[1]
        }
        restored: Change = "restored"
        changes |= dict.fromkeys(self._restored, restored)
        return tuple(FileChange(path=path, change=change) for path, change in sorted(changes.items()))

    def is_own(self, statement: StatementRecorded) -> bool:
        """Whether it is the statement that the prompt is."""
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


def _result(event: ExecutionFinished) -> str:
    return "\n".join(part.rstrip("\n") for part in (event.stdout.text, given(event)) if part)


def given(event: ExecutionFinished) -> str:
    """Return what the run gave beside what it printed: displayed views, and the value."""
    displays = (f"[{display.title}]\n{display.text}".rstrip("\n") for display in event.displays)
    return "\n".join([*displays, *([] if event.value is None else [event.value])])


def _change(before: str, after: str) -> Change:
    return "created" if not before else "changed" if after else "removed"


def _added(usage: Usage, call: ModelCallEnded) -> Usage:
    return Usage(
        model_calls=usage.model_calls + 1,
        sent_tokens=usage.sent_tokens + call.used,
        input_tokens=_sum(usage.input_tokens, call.input_tokens),
        cached_tokens=_sum(usage.cached_tokens, call.cached_tokens),
        output_tokens=_sum(usage.output_tokens, call.output_tokens),
    )


def _sum(total: int | None, count: int | None) -> int | None:
    return total if count is None else (total or 0) + count


# prompt output:
# How the result of one prompt is printed: the answer alone, one JSON document, or JSON lines as things happen.
#
# A format is a class here and a row of FORMATS. Owns which stream a text goes to: standard output has what the prompt
# was asked for, and standard error the rest. `docs/scripts.md` describes the JSON. Must not know how a turn is
# carried out. Called by `one_prompt`.

_EXACT: Final = ("type", "version", "session_id", "stop_reason", "kind", "status", "change")
"""Fields whose values are words of ours."""
SIGNALS: Final = {
    TextStreamed: "text",
    ReasoningStreamed: "reasoning",
    OutputStreamed: "output",
    StatementRerun: "rerun",
    ModelRetried: "retry",
    FilesPutBack: "files_restored",
}
_TITLE_CHARS: Final = 100


class JsonOutput:
    """One JSON document at the end. The other formats differ from it in what they print before."""

    shows_failures = False
    """Whether it prints the traceback of the user's own statement."""

    def begin(self, fold: PromptFold, session_id: str, cwd: str, model: str) -> None:
        """Take what is known before the turn begins. Raises OSError."""

    def show(self, item: Item) -> None:
        """Print what happens, if the format shows it. The fold has taken it already. Raises OSError."""

    def end(self, result: PromptResult) -> None:
        """Print the result. Raises OSError."""
        print_json(msgspec.to_builtins(result), _EXACT)


class StreamOutput(JsonOutput):
    """A JSON object on each line: the start, each event and each piece as it comes, and the document at the end."""

    def begin(self, fold: PromptFold, session_id: str, cwd: str, model: str) -> None:
        start = {"type": "start", "version": VERSION, "session_id": session_id, "cwd": cwd, "model": model}
        print_json(start, _EXACT)

    def show(self, item: Item) -> None:
        # What is published holds no secrets any more.
        if isinstance(item, Event):
            data = b'{"type":"event","event":' + encode(item) + b"}"
        else:
            data = msgspec.json.encode({"type": SIGNALS[type(item)], **msgspec.to_builtins(item)})
        write_json(sys.stdout, visible_json(data.decode()).encode() + b"\n")


class TextOutput(JsonOutput):
    """The answer alone on standard output.

    What the user's own statement prints comes as it is printed. A model's last message is known only at the end.

    Args:
        is_brief: whether standard error gets a line for each statement of a model, each change and each command.
    """

    shows_failures = True

    def __init__(self, is_brief: bool) -> None:
        self._is_brief = is_brief
        self._fold: PromptFold | None = None
        self._call: ToolCallId | None = None
        """That of the user's own statement."""
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
            case ExecutionFinished() if item is self._fold.own:
                self._finished(item)
            case _:
                pass

    def end(self, result: PromptResult) -> None:
        """Print the answer, unless it is that of a statement, which stands there already."""
        if self._fold is not None and self._fold.kind == "command" and result.answer:
            self._block("stdout", painted(shown_markdown(visible(result.answer)), False))
        elif self._fold is not None and self._fold.own is None and result.answer:
            self._block("stdout", visible(result.answer))

    def _called(self, call: ToolCall) -> None:
        tool = tool_named(call.tool)
        if tool is None or tool.kind not in ("read", "search"):
            mark = "$" if tool is not None and tool.kind == "execute" else "~"
            self._block("stderr", f"   {mark} {shown_line(call_title(call.tool, call.arguments), _TITLE_CHARS)}")

    def _finished(self, event: ExecutionFinished) -> None:
        for name, captured in (("stdout", event.stdout), ("stderr", event.stderr)):
            printed = self._printed.pop(name, None)
            self._write(name, as_printed(captured.text) if printed is None else printed.end())
            if captured.truncated:
                self._block("stderr", f"rewindow: {name} had {captured.total_bytes:,} bytes; only the first are shown")
        self._block("stdout", as_printed(given(event)))
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
        """Return the text, which is written now."""
        self._is_at_start = text.endswith("\n")
        return text


FORMATS: Final[dict[str, Callable[[bool], JsonOutput]]] = {
    "text": lambda is_verbose: TextOutput(is_brief=not is_verbose),
    "json": lambda _: JsonOutput(),
    "stream-json": lambda _: StreamOutput(),
}
"""The formats by the names that `--output-format` takes, each made for a run that is verbose or not."""


# one prompt:
# One prompt without a person: its turn is carried out, its result is printed, and how it ended is an exit code.
#
# Nobody can be asked, so every question is answered with no. Owns what each end of a turn means for a script. Must
# not know formats. Made by `cli.run`, carried out by `program`.

_NO_MODEL: Final = "the prompt is not Python, and no language model is set; set one with --model or REWINDOW_MODEL"
_SIGNALLED: Final = (ExitCode.INTERRUPTED, ExitCode.TERMINATED, ExitCode.HANGUP)


class OnePrompt:
    """One prompt on its way. After the session is closed, `finish` prints its result.

    Args:
        text: what the user gave.
        output: the format of the result.
        is_verbose: whether the transcript of the turn goes to standard error.
    """

    def __init__(self, text: str, output: JsonOutput, *, is_verbose: bool) -> None:
        self._text = text
        self._output = output
        self._is_verbose = is_verbose
        self._started = time.monotonic()
        self._result = PromptResult(exit_code=ExitCode.FAILED)
        self._fold: PromptFold | None = None
        self._cancel: Callable[[], None] | None = None
        self._signalled: ExitCode | None = None
        self._is_told = False
        """Whether standard error has the error already."""

    def kind(self, model: str) -> PromptKind:
        """Return what the prompt is for a session with that model."""
        command, _ = command_of(compose([self._text]))
        if command is not None:
            return "statement" if command.run is None else "command"
        return "statement" if model == DEFAULT_MODEL else "task"

    def lacks_model(self, model: str, setup: ModelSetup | None) -> bool:
        """Whether the prompt needs a model that is not set up. Then there is nothing to carry out."""
        self._result = replace(self._result, model=model)
        command, _ = command_of(compose([self._text]))
        if command is not None:
            return False
        if model == DEFAULT_MODEL and statement_in(self._text) is None:
            error = _NO_MODEL
        elif setup is not None and not setup.is_done:
            error = setup.failure
        else:
            return False
        self._result = replace(self._result, exit_code=ExitCode.NO_MODEL, error=error)
        return True

    def interrupt(self, code: ExitCode) -> bool:
        """Cancel the turn, so that the exit code is `code`; False where no turn runs or it was cancelled before."""
        if self._cancel is None or self._signalled is not None:
            return False
        self._signalled = code
        self._cancel()
        return True

    async def carry_out(
        self, session: Session, model: str, transcript: Transcript, tasks: TaskGroup, lost: Callable[[OSError], None]
    ) -> None:
        """Carry out the prompt, until all of it was shown.

        Args:
            lost: called with what the output raised.

        Raises:
            EngineError: the turn cannot be carried out or recorded.
            OSError: the output takes nothing.
        """
        kind = self.kind(model)
        fold = self._fold = PromptFold(kind, model != DEFAULT_MODEL, session.statement)
        self._result = replace(self._result, session_id=session.session_id, cwd=session.cwd)
        for line in finished_lines(session.settled, partial(os.path.relpath, start=session.cwd)):
            sys.stderr.write(f"{visible(line)}\n")
        self._output.begin(fold, session.session_id, session.cwd, model)
        pump = Pump(session.subscribe(), partial(self._show, transcript), lost)
        tasks.start_soon(pump.run)
        nobody = NobodyToAsk()
        session.attach(nobody)
        self._cancel = session.cancel
        is_typed = kind != "task"
        ticket = session.accept(self._text if is_typed else with_mentions(self._text, session.cwd))
        end = await ticket.end()
        await pump.finished(session, end)
        if self._is_verbose:
            sys.stderr.write(painted(transcript.finish_line(), False))
        if end.failure is not None:
            raise end.failure
        refused = tuple(nobody.refused)
        code, error = _outcome(end, fold, refused)
        has_traceback = self._output.shows_failures and fold.own is not None and fold.own.exception is not None
        self._is_told = bool(refused) or has_traceback
        self._result = replace(self._result, exit_code=code, error=error, stop_reason=end.cause, refused=refused)

    def _show(self, transcript: Transcript, item: Item) -> None:
        assert self._fold is not None
        if isinstance(item, Event):
            self._fold.apply(item)
        self._output.show(item)
        if self._is_verbose:
            sys.stderr.write(painted(transcript.show(item), False))
            sys.stderr.flush()

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self, signalled: ExitCode | None) -> ExitCode:
        """Print the result, and return the exit code.

        Args:
            signalled: the code of the signal that ended the program before the turn had ended.

        Raises:
            OSError: the output takes nothing.
        """
        signalled = signalled or (self._signalled if self._result.exit_code == ExitCode.INTERRUPTED else None)
        if signalled is not None:
            self._result = replace(self._result, exit_code=signalled, error="cancelled", stop_reason="cancelled")
        self._end(self._result)
        return ExitCode(self._result.exit_code)

    def fail(self, error: Exception) -> None:
        """Print the result of a prompt that could not be carried out for that error, which the caller reports.

        Raises:
            OSError: the output takes nothing.
        """
        self._is_told = True
        self._end(replace(self._result, exit_code=ExitCode.FAILED, error=str(error)))

    def _end(self, result: PromptResult) -> None:
        if self._fold is not None:
            is_error = result.error is not None and self._fold.kind != "task" and self._fold.own is None
            result = replace(
                result,
                answer="" if is_error else self._fold.answer,
                statements=self._fold.statements,
                files=self._fold.files,
                usage=self._fold.usage,
            )
        self._result = replace(result, duration_ms=round((time.monotonic() - self._started) * 1000))
        self._output.end(self._result)
        if self._result.error is not None and not self._is_told and self._result.exit_code not in _SIGNALLED:
            sys.stderr.write(f"rewindow: {visible(self._result.error)}\n")


def _outcome(end: TurnEnd, fold: PromptFold, refused: Sequence[str]) -> tuple[ExitCode, str | None]:
    """The exit code of a turn, and why it is not 0."""
    if end.unusable:
        return ExitCode.NO_MODEL, end.detail
    if end.cause == "cancelled":
        return ExitCode.INTERRUPTED, "cancelled"
    if end.cause == "error":
        return ExitCode.FAILED, end.detail or "error"
    if end.cause != "end_turn":
        return ExitCode.STOPPED, turn_ending(RunStop(reason="error", cause=end.cause, detail=end.detail)).strip("[]")
    if refused:
        return ExitCode.STOPPED, f"refused, because nobody could be asked: {'; '.join(refused)}"
    if end.refused is not None:
        return ExitCode.FAILED, str(end.refused)
    if isinstance(end.result, ReplayReport) and end.result.outcome != "completed":
        return ExitCode.FAILED, f"the replay was {end.result.outcome}: {end.result.detail}"
    return _statement_outcome(fold) if fold.kind == "statement" else (ExitCode.DONE, None)


def _statement_outcome(fold: PromptFold) -> tuple[ExitCode, str | None]:
    own = fold.own
    if own is None:
        return ExitCode.FAILED, fold.answer or "the statement did not run"
    if own.status == "timeout":
        return ExitCode.STOPPED, f"the statement was stopped after {own.time_ms / 1000:.1f} s (statement_seconds)"
    if own.status != "ok":
        return ExitCode.FAILED, fold.statements[-1].exception or own.status
    return ExitCode.DONE, None
