"""Asks the user the questions of statements and of MCP servers, and checks the answers.

A form goes to the `Forms` of whoever is attached, without secrets and with legible texts. An answer that does not fit
the form is no answer. Must not know what a question is for: `tool_calls` records it and uses the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from ..core.text import legible_line, source_lines
from ..log.forms import Choice, Field, Form, FormAnswer, Forms, Value, problem_of
from ..log.redaction import Redactor

NOBODY: Final = "no user can be asked here"
SAME_CHOICES: Final = "two choices of {} look the same"
UNFIT: Final = "the answer does not fit the question: {}"


class FormQuestions:
    """The forms of one session. `forms` asks the user; without it there is no answer."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.forms: Forms | None = None

    async def ask(self, form: Form) -> FormAnswer:
        """Return the user's answer, whose values fit the form.

        Raises:
            ValueError: two choices of a field look the same, so the user could not tell them apart.
        """
        shown = replace(form, message=self._text(form.message), fields=tuple(map(self._field, form.fields)))
        for field in shown.fields:
            _check_choices(field)
        if self.forms is None:
            return FormAnswer(outcome="declined", note=NOBODY)
        answer = await self.forms.fill(shown)
        if answer.outcome != "accepted":
            return replace(answer, values={})
        if problem := problem_of(shown, answer.values):
            return FormAnswer(outcome="declined", note=UNFIT.format(problem))
        return replace(answer, values=_originals(form, shown, answer.values))

    def _field(self, field: Field) -> Field:
        """Return the field as it is shown. Its choices have the same order."""
        title, description = self._line(field.title), self._text(field.description)
        choices = tuple(self._choice(choice) for choice in field.choices)
        default = next(
            (new.value for old, new in zip(field.choices, choices, strict=True) if old.value == field.default), None
        )
        if not field.choices:
            default = self._text(field.default) if isinstance(field.default, str) else field.default
        return replace(field, title=title, description=description, choices=choices, default=default)

    def _choice(self, choice: Choice) -> Choice:
        # A value with a secret goes as its title does, and comes back as it was.
        return Choice(self._line(choice.value), self._line(choice.title))

    def _line(self, text: str) -> str:
        return legible_line(self._redactor.redact(text))

    def _text(self, text: str) -> str:
        return "\n".join(source_lines(self._redactor.redact(text)))


def _check_choices(field: Field) -> None:
    for texts in ([choice.title for choice in field.choices], [choice.value for choice in field.choices]):
        if len(set(texts)) < len(texts):
            raise ValueError(SAME_CHOICES.format(repr(field.label)))


def _originals(form: Form, shown: Form, values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values with the choices as they were before they were made legible."""
    found = dict(values)
    for field, seen in zip(form.fields, shown.fields, strict=True):
        meant = {new.value: old.value for old, new in zip(field.choices, seen.choices, strict=True)}
        value = found.get(field.name)
        if isinstance(value, str):
            found[field.name] = meant.get(value, value)
        elif isinstance(value, list):
            found[field.name] = [meant.get(item, item) for item in value]
    return found
