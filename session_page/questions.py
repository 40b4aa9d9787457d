"""The questions of a session that are answered on its page: permissions, and forms.

A question waits until a reader of the page answers it, however many pages show it, until somebody else has answered it,
such as the user of an editor, or until its turn ends. What is shown has no secrets. Must not know HTTP.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import anyio
import msgspec
from msgspec import Struct, field

from engine.context.tail.rights import rebuild_sentence
from engine.core.errors import InvalidRequestError
from engine.log.forms import Form, FormAnswer, Value, problem_of
from engine.log.permissions import (
    CommandSubject,
    FileSubject,
    PermissionAnswer,
    PermissionQuestion,
    PermissionSubject,
    RebuildSubject,
    ServerCallSubject,
    SiteSubject,
    StatementSubject,
    TreeSubject,
)
from engine.log.redaction import Redactor, redact_json

OVER: Final = "This question does not wait any more: it was answered, or its turn has ended."
NO_REMEMBERING: Final = "This question offers no answer for later ones."
_EXACT: Final = ("id", "type", "call")
_OUTCOMES: Final = ("allowed", "rejected", "cancelled")
_FORM_OUTCOMES: Final = ("accepted", "declined", "cancelled")


class Region(Struct, frozen=True, omit_defaults=True):
    """A region of a difference, as `RegionEntry` of a session's JSON, with whole texts."""

    line: int
    new: dict[str, str]
    old: dict[str, str] | None = None
    more_added: int = 0
    more_removed: int = 0


class Question(Struct, frozen=True, kw_only=True):
    """A question as a page shows it. Fields that do not concern its `type` are empty."""

    id: str
    call: str
    type: str
    title: str
    source: str = ""
    note: str = ""
    protected: str = ""
    paths: tuple[str, ...] = ()
    regions: tuple[Region, ...] = ()
    cwd: str = ""
    outside: bool = False
    always: str = ""
    rest: bool = False
    fields: tuple[dict[str, Any], ...] = ()


class _Waiting(Struct):
    question: PermissionQuestion | Form
    shown: Question
    over: anyio.Event = field(default_factory=anyio.Event)
    answer: PermissionAnswer | FormAnswer | None = None


class Questions:
    """Asks the readers of a page; `Permissions` and `Forms` of a session.

    Args:
        hidden: removes secrets from what is shown.
        changed: called when other questions wait than before.
    """

    def __init__(self, hidden: Redactor, changed: Callable[[], None]) -> None:
        self._hidden = hidden
        self._changed = changed
        self._waiting: dict[str, _Waiting] = {}

    @property
    def shown(self) -> list[Any]:
        """The questions that wait, for JSON, oldest first."""
        plain = [msgspec.to_builtins(waiting.shown) for waiting in self._waiting.values()]
        return cast("list[Any]", redact_json(self._hidden, plain, _EXACT))

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """Ask the question and wait for the answer."""
        answer = await self._ask(question, _shown(question))
        assert isinstance(answer, PermissionAnswer)
        return answer

    async def fill(self, form: Form) -> FormAnswer:
        """Show the form and wait for the answer."""
        answer = await self._ask(form, _shown_form(form))
        assert isinstance(answer, FormAnswer)
        return answer

    async def _ask(self, question: PermissionQuestion | Form, shown: Question) -> PermissionAnswer | FormAnswer:
        waiting = self._waiting[shown.id] = _Waiting(question, shown)
        self._changed()
        try:
            await waiting.over.wait()
        finally:
            del self._waiting[shown.id]
            self._changed()
        assert waiting.answer is not None
        return waiting.answer

    def answer(self, number: str, outcome: str, reason: str, *, remember: bool, rest: bool) -> None:
        """Answer a permission.

        Raises:
            InvalidRequestError: it does not wait, or the answer is none that it offers.
        """
        waiting = self._found(number)
        question = waiting.question
        if not isinstance(question, PermissionQuestion) or outcome not in _OUTCOMES:
            raise InvalidRequestError(OVER if isinstance(question, Form) else f"no outcome is called {outcome!r}")
        if (remember and not question.always) or (rest and not (question.rest and outcome == "allowed")):
            raise InvalidRequestError(NO_REMEMBERING)
        waiting.answer = PermissionAnswer(
            outcome=cast("Any", outcome), reason="" if outcome == "allowed" else reason, remember=remember, rest=rest
        )
        waiting.over.set()

    def fill_in(self, number: str, outcome: str, values: Mapping[str, Value]) -> None:
        """Answer a form.

        Raises:
            InvalidRequestError: it does not wait, or the values do not fit.
        """
        waiting = self._found(number)
        form = waiting.question
        if not isinstance(form, Form) or outcome not in _FORM_OUTCOMES:
            raise InvalidRequestError(f"no outcome of a form is called {outcome!r}" if isinstance(form, Form) else OVER)
        if outcome == "accepted" and (problem := problem_of(form, values)):
            raise InvalidRequestError(problem)
        waiting.answer = FormAnswer(
            outcome=outcome,
            values=values if outcome == "accepted" else {},
            ends_turn=outcome == "cancelled",
        )
        waiting.over.set()

    def _found(self, number: str) -> _Waiting:
        waiting = self._waiting.get(number)
        if waiting is None or waiting.over.is_set():
            raise InvalidRequestError(OVER)
        return waiting


def _shown(question: PermissionQuestion) -> Question:
    return Question(
        id=secrets.token_hex(8),
        call=question.tool_call_id,
        always=question.always,
        rest=question.rest,
        **_of_subject(question.subject),
    )


def _of_subject(subject: PermissionSubject) -> dict[str, Any]:
    match subject:
        case StatementSubject():
            return {"type": "statement", "title": "Run this statement?", "source": subject.source, "note": subject.note}
        case FileSubject():
            return {
                "type": "file",
                "title": f"Write {subject.path}?",
                "paths": (subject.path,),
                **_difference(subject),
            }
        case TreeSubject():
            return {"type": "tree", "title": f"{subject.act}?", "paths": subject.paths, **_difference(subject)}
        case CommandSubject():
            return {
                "type": "command",
                "title": "Run this command?",
                "source": subject.command,
                "cwd": subject.cwd,
                "outside": subject.outside,
            }
        case ServerCallSubject():
            return {
                "type": "server-call",
                "title": f"Call {subject.tool} of the MCP server {subject.server}?",
                "source": subject.arguments,
            }
        case SiteSubject():
            return {"type": "site", "title": f"Fetch from {subject.site}?", "source": subject.url}
        case RebuildSubject():
            title = "Run earlier statements again for their names?"
            return {"type": "rebuild", "title": title, "note": rebuild_sentence(subject)}


def _difference(subject: FileSubject | TreeSubject) -> dict[str, Any]:
    return {
        "note": subject.note,
        "protected": subject.protected,
        "regions": tuple(
            Region(
                line=change.line,
                new={"text": change.new},
                old=None if change.old is None else {"text": change.old},
                more_added=change.left_out.added if change.left_out else 0,
                more_removed=change.left_out.removed if change.left_out else 0,
            )
            for change in subject.changes
        ),
    }


def _shown_form(form: Form) -> Question:
    fields = tuple(
        {
            "name": each.name,
            "type": each.type,
            "title": each.title,
            "description": each.description,
            "is_required": each.is_required,
            "is_open": each.is_open,
            "choices": [{"value": choice.value, "title": choice.title} for choice in each.choices],
            "default": each.default,
            "least": each.least,
            "most": each.most,
            "format": each.format,
        }
        for each in form.fields
    )
    return Question(id=secrets.token_hex(8), call=form.tool_call_id, type="form", title=form.text, fields=fields)
