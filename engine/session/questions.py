"""Asks the user about an act, and records question, answer and act on the log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

import anyio
import msgspec
import xxhash
from msgspec import Struct
from msgspec.structs import replace

from ..core.diff import text_size, within
from ..core.execution import Captured, ExceptionInfo, TextChange
from ..core.ids import ExecutionId, ToolCallId
from ..core.plain_data import argument_digest
from ..core.programs import CommandOutcome, CommandOutput
from ..core.text import cut_end, cut_line, cut_middle, plural, valid_text
from ..log.event_log import EventLog
from ..log.events.conversation import ResultStatus, ToolCall
from ..log.events.execution import CommandEnded, EffectRequested
from ..log.events.session import PermissionAnswered, PermissionAsked, PermissionOutcome
from ..log.permissions import (
    ASKED_CHARS,
    CommandSubject,
    FileSubject,
    PermissionAnswer,
    PermissionQuestion,
    Permissions,
    PermissionSubject,
    RebuildSubject,
    ServerCallSubject,
    StatementSubject,
    TreeSubject,
)
from ..log.redaction import Redactor, redact_struct
from ..log.statements import EffectAnswer, EffectRequest
from ..runtime.results import shown_value
from .policy import Policy, phrase, scope_of

# What of an act goes on the log, and what an editor and a person are shown of it: bounded texts, places, digests.
#
# Pure. Must not know how acts are done or who is asked. Used by `acts`.

SHOWN_CHARS: Final = 2_000
"""How much of an answer, and of each argument, the call on the log repeats; the whole answer is in the blob."""
_NAME_CHARS: Final = 100
_MOST_ARGUMENTS: Final = 20
"""More than any tool has."""
_ERROR_CHARS: Final = 10_000
"""Of an error: a path, and what differs, have room."""
SHOWN_OUTPUT_CHARS: Final = 65_536
"""How much of what a command printed the log repeats, both ends."""
STOPPED: Final = EffectAnswer(error=ExceptionInfo(type="InterruptedError", message="the statement is being stopped"))
_WRONG: Final = re.compile(r"Expected `(.+)`, got `(.+)` - at `\$\.(\w+)`")
"""How msgspec says that an argument has another type."""
_IN_PYTHON: Final = {"null": "None", "array": "list", "object": "dict"}
_TYPES: Final = re.compile("|".join(_IN_PYTHON))


def call_event(request: EffectRequest, call: ToolCallId, parent: ToolCallId) -> ToolCall:
    """The call as it is shown, with its arguments as far as they are."""
    given = islice(request.arguments.items(), _MOST_ARGUMENTS)
    shown = {cut_line(name, _NAME_CHARS): _shown_argument(value) for name, value in given}
    return ToolCall(tool_call_id=call, tool=named(request), arguments=shown, parent_id=parent)


def named(request: EffectRequest) -> str:
    """The operation as the log names it: a statement that talks to the host by itself may ask for anything."""
    return cut_line(request.operation, _NAME_CHARS)


def protected_line(reason: str) -> str:
    """What a question says of a file that is protected, for `Protection.why`; empty for another."""
    return f"Another program would run this outside the sandbox: {reason}" if reason else ""


def request_event(request: EffectRequest, call: ToolCallId, execution_id: ExecutionId) -> EffectRequested:
    """The question as a replay compares it."""
    return EffectRequested(
        execution_id=execution_id,
        ordinal=request.ordinal,
        operation=named(request),
        argument_digest=argument_digest(request.arguments),
        tool_call_id=call,
    )


def command_event(call: ToolCallId, execution_id: ExecutionId, cwd: str, outcome: CommandOutcome) -> CommandEnded:
    """How a command ended, with what it printed."""
    return CommandEnded(
        execution_id=execution_id,
        tool_call_id=call,
        cwd=cwd,
        code=outcome.code,
        signal=outcome.signal,
        timed_out=outcome.timed_out,
        reason=outcome.reason,
        time_ms=outcome.seconds * 1000,
        output=_captured(outcome.stdout),
        errors=_captured(outcome.stderr),
    )


def status_of(answer: EffectAnswer) -> ResultStatus:
    """The answer as the status of its call."""
    if answer.error is None:
        return "ok"
    return "cancelled" if answer is STOPPED else "error"


def answer_text(request: EffectRequest, answer: EffectAnswer) -> str:
    """The answer as its call shows it."""
    if answer.error is not None:
        return f"{answer.error.type}: {answer.error.message}"
    return cut_end(shown_value(request.operation, answer.value), SHOWN_CHARS)


def failure(error: Exception) -> EffectAnswer:
    """The answer for what could not be done, as the exception that the statement sees."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    filename = f": {error.filename}" if isinstance(error, OSError) and error.filename else ""
    return EffectAnswer(
        error=ExceptionInfo(
            type=type(error).__name__, message=cut_middle(valid_text(f"{reason}{filename}"), _ERROR_CHARS)
        )
    )


def wrong_argument(operation: str, error: msgspec.ValidationError) -> TypeError:
    """What msgspec found, with the types' names in Python."""
    found = _WRONG.fullmatch(str(error))
    if found is None:
        return TypeError(f"{operation}(): {error}")
    expected, got = (_TYPES.sub(lambda name: _IN_PYTHON[name[0]], names) for names in found.group(1, 2))
    return TypeError(f"{operation}(): {found[3]} must be {expected}, not {got}")


def digest_of(data: bytes | None) -> str:
    """xxh3 hex of a content; empty for none."""
    return "" if data is None else xxhash.xxh3_64_hexdigest(data)


def beginning(
    redactor: Redactor, changes: Sequence[TextChange], note: str, limit: int
) -> tuple[tuple[TextChange, ...], str]:
    """The changes and the note as far as they are shown or kept: up to `limit` characters. A large text takes long."""
    if text_size(changes) > limit:
        changes = [redact_struct(redactor, each) for each in changes]
    return within(changes, note, limit)


def _captured(output: CommandOutput) -> Captured:
    return Captured(text=cut_middle(output.text, SHOWN_OUTPUT_CHARS), total_bytes=output.total)


def _shown_argument(value: object) -> object:
    if isinstance(value, str):
        return cut_end(value, SHOWN_CHARS)
    if isinstance(value, bytes):
        return f"({len(value):,} {plural(len(value), 'byte')})"
    if isinstance(value, (list, dict)):  # which no tool takes, and which may hold anything
        return cut_end(msgspec.json.encode(value).decode(), SHOWN_CHARS)
    return value


# questions:
# Asks the user about what a model wants to do, and records question and answer.
#
# Owns that nobody is asked about what a remembered answer covers, how much is shown of what is long, that what holds
# a secret is shown without it and never remembered, and that a wait which is torn is an answer, too. Must not know
# when there is something to ask. Used by the agent loop for statements and by the desk for their acts.
#
# Code, commands and arguments do what their last line says as much as their first, so one that cannot be shown whole
# is refused. Of a file a person may decide by its beginning, by how much more there is and where it goes, as they do
# of one that is no text; and there are ways enough to have the same content in parts.

_NAMES: dict[type[PermissionSubject], str] = {
    RebuildSubject: "rebuild",
    StatementSubject: "statement",
    FileSubject: "change",
    TreeSubject: "change",
    CommandSubject: "command",
    ServerCallSubject: "call",
}

REASON_CHARS: Final = 2_000
"""Of the reason for a no, as much as a model is told."""
_NOBODY: Final = "This {} needs permission, and nobody can be asked for it here, so it was not done."


class Verdict(Struct, frozen=True):
    """How it was decided. `reason` is a sentence on what was not allowed, for the model. `rest`: and all further
    changes of files by the same statement are allowed."""

    outcome: PermissionOutcome
    reason: str = ""
    rest: bool = False


class Questions:
    """The questions of one session. `permissions` is whom to ask; where there is nobody, the answer is no."""

    def __init__(self, log: EventLog, policy: Policy, redactor: Redactor, roots: tuple[str, ...]) -> None:
        self._log = log
        self._policy = policy
        self._redactor = redactor
        self._roots = roots
        self.permissions: Permissions | None = None

    async def decide(self, call: ToolCallId, subject: PermissionSubject, *, rest: bool = False) -> Verdict:
        """Whether what the call wants may be done. With `rest` the answer may be about more, as in the question."""
        allowed = self._policy.remembered(subject)
        name = _NAMES[type(subject)]
        if allowed is None:
            if (size := _size(subject)) > ASKED_CHARS:
                return Verdict("rejected", _too_long(name, size))
            answer = await self._ask(call, subject, rest)
        else:
            answer = PermissionAnswer(outcome="allowed" if allowed else "rejected")
        if answer.outcome == "allowed":
            return Verdict("allowed", rest=answer.rest)
        is_said = f"The user rejected this {name}{self._why(answer)}." if answer.asked else _NOBODY.format(name)
        if isinstance(subject, FileSubject | TreeSubject) and subject.protected:
            is_said += f" It asks in every mode, because {subject.protected}."
        return Verdict(answer.outcome, is_said)

    def _why(self, answer: PermissionAnswer) -> str:
        """The reason that the user gave, without secrets, as the end of a sentence."""
        reason = " ".join(self._redactor.redact(cut_line(answer.reason, REASON_CHARS)).split())
        return f": {reason.rstrip('.')}" if reason else ""

    def remembered(self, subject: PermissionSubject) -> bool | None:
        """What an answer to an earlier question says about it; None where there is none."""
        return self._policy.remembered(subject)

    async def _shown(self, subject: PermissionSubject) -> PermissionSubject:
        """The subject without secrets, and of a change no more than can be shown."""
        if isinstance(subject, FileSubject | TreeSubject) and text_size(subject.changes) > ASKED_CHARS:
            # On a thread, because a large text takes a while to be looked through.
            changes, note = await anyio.to_thread.run_sync(
                beginning, self._redactor, subject.changes, subject.note, ASKED_CHARS
            )
            subject = replace(subject, changes=changes, note=note)
        return redact_struct(self._redactor, subject)

    async def _ask(self, call: ToolCallId, subject: PermissionSubject, rest: bool) -> PermissionAnswer:
        shown = await self._shown(subject)
        scope = scope_of(subject, self._roots)
        if shown != subject and scope != scope_of(shown, self._roots):
            scope = ""
        seq = self._log.append(PermissionAsked(tool_call_id=call, scope=scope))
        always = phrase(scope, self._roots[0])
        # A wait that is torn is cancelled too.
        nobody = self.permissions is None
        answer = PermissionAnswer(outcome="rejected" if nobody else "cancelled", asked=not nobody)
        try:
            if self.permissions is not None:
                question = PermissionQuestion(tool_call_id=call, subject=shown, seq=seq, always=always, rest=rest)
                answer = await self.permissions.ask(question)
                answer = replace(answer, rest=answer.rest and rest and answer.outcome == "allowed")
        finally:
            remembered = answer.remember and bool(scope)
            event = PermissionAnswered(tool_call_id=call, scope=scope, outcome=answer.outcome, remembered=remembered)
            self._log.append(replace(event, rest=answer.rest))
        return answer


def _size(subject: PermissionSubject) -> int:
    match subject:
        case RebuildSubject() | FileSubject() | TreeSubject():
            return 0  # what cannot be shown of it is told in numbers
        case StatementSubject(source=source):
            return len(source)
        case CommandSubject(command=command):
            return len(command)
        case ServerCallSubject(arguments=arguments):
            return len(arguments)


def _too_long(name: str, size: int) -> str:
    return (
        f"The user was not asked about this {name}: it has {size:,} characters, and whoever decides about it "
        f"can be shown at most {ASKED_CHARS:,}. Split it up."
    )
