"""Asks the user about what a model wants to do, and records question and answer.

Owns that nobody is asked about what a remembered answer covers, how much is shown of what is long, that what holds a
secret is shown without it and never remembered, and that a wait which is torn is an answer, too. Must not know when
there is something to ask. Used by the agent loop for statements and by the desk for their acts.

Code, commands and arguments do what their last line says as much as their first, so one that cannot be shown whole is
refused. Of a file a person may decide by its beginning, by how much more there is and where it goes, as they do of one
that is no text; and there are ways enough to have the same content in parts.
"""

from __future__ import annotations

from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ...core.diff import text_size
from ...core.ids import ToolCallId
from ...core.text import cut_line
from ...log.event_log import EventLog
from ...log.events.session import PermissionAnswered, PermissionAsked, PermissionOutcome
from ...log.permissions import (
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
from ...log.redaction import Redactor, redact_struct
from ..policy import Policy
from ..scopes import phrase, scope_of
from .act_events import beginning

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
