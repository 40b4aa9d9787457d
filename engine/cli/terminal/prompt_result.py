"""The result of one prompt as a value: the document that `rewindow run -p --output-format json` prints.

`docs/scripts.md` describes each field. A new field may come at any time; whatever else changes makes another VERSION.
Pure: folds the events of one turn. Must not know how it is printed, nor why the program ended. Called by `one_prompt`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from ...core.ids import LlmResponseId, StatementId, ToolCallId
from ...log.events import Event
from ...log.events.conversation import AgentText, StopCause, ToolCall
from ...log.events.execution import ExecutionFinished, FileWritten, StatementRecorded
from ...log.events.going_back import Rewound
from ...log.events.session import ModelCallEnded

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
