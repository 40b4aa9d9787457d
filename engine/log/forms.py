"""Forms: questions to the user that are answered with values, not with a permission.

A form has a few flat fields, as in MCP and ACP: text, number, boolean, or a choice. `ask` makes one with one field, an
MCP server sends others. This module owns the values, the check of an answer, the schema of a form, which is the same
in both protocols, and `choices_of`: what is left of a form where the user can only choose an option. Data and pure
functions; who is asked, and how, is the business of those that implement `Forms`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final, Literal, Protocol, cast

from msgspec import Struct

from ..core.ids import Seq, ToolCallId

FieldType = Literal["string", "number", "integer", "boolean", "array"]
Value = str | int | float | bool | list[str]
"""The value of a field; a list is that of an `array`."""
Outcome = Literal["accepted", "declined", "cancelled"]
YES: Final = "Yes"
NO: Final = "No"


class Choice(Struct, frozen=True):
    """A value that a field may have, and the text that people see for it."""

    value: str
    title: str


class Field(Struct, frozen=True, kw_only=True):
    """One field of a form.

    `choices` are the possible values of a string, and of the items of an array, which always has some. An `is_open`
    string may have another value too. `least` and `most` are limits of a number, of the characters of a string, or of
    the items of an array.
    """

    name: str
    type: FieldType = "string"
    title: str = ""
    description: str = ""
    is_required: bool = False
    is_open: bool = False
    choices: tuple[Choice, ...] = ()
    default: Value | None = None
    least: float | None = None
    most: float | None = None
    format: str = ""

    @property
    def label(self) -> str:
        """What people see for the field."""
        return self.title or self.name


class Form(Struct, frozen=True, kw_only=True):
    """A question with fields; without fields the user only agrees or not.

    `server` is the MCP server that asks; empty for a statement. `seq` is the event that announced the call. The asker
    first shows everything up to it.
    """

    tool_call_id: ToolCallId
    message: str
    fields: tuple[Field, ...] = ()
    server: str = ""
    seq: Seq

    @property
    def text(self) -> str:
        """The message, with the name of the server that asks."""
        return asked_by(self.server, self.message) if self.server else self.message


def asked_by(server: str, message: str) -> str:
    """Return a server's message with the name of the server."""
    return f"The MCP server {server} asks: {message}"


class FormAnswer(Struct, frozen=True, kw_only=True):
    """The user's answer; only an accepted one has values.

    `note` says why there is none, if the user did not decide that: nobody could be asked, or the answer did not fit.
    `ends_turn`: the user closed the question so that the turn is cancelled.
    """

    outcome: Outcome
    values: Mapping[str, Value] = {}
    note: str = ""
    ends_turn: bool = False


class Forms(Protocol):
    """Asks the user. Cancel a form by cancelling the wait."""

    async def fill(self, form: Form) -> FormAnswer:
        """Show the form and wait for the answer. The caller checks the values."""
        ...


DECLINED: Final = FormAnswer(outcome="declined")
DISMISSED: Final = FormAnswer(outcome="cancelled", ends_turn=True)


# --- the check of an answer -------------------------------------------------------------------------------------------

_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


def problem_of(form: Form, values: Mapping[str, object]) -> str:
    """Return why the values do not fit the form, as a sentence without an end; empty if they do.

    Values that the form does not have are a problem too.
    """
    known = {field.name for field in form.fields}
    if unknown := [name for name in values if name not in known]:
        return f"the form has no field {unknown[0][:_SHOWN]!r}"
    for field in form.fields:
        if field.name not in values:
            if field.is_required:
                return f"{field.label!r} is missing"
        elif problem := problem_of_value(field, values[field.name]):
            return f"{field.label!r} {problem}"
    return ""


_SHOWN: Final = 60


def problem_of_value(field: Field, value: object) -> str:
    """Return what is wrong with the value of a field, as the end of a sentence; empty if nothing is."""
    match field.type:
        case "string":
            return _problem_of_text(field, value)
        case "boolean":
            return "" if isinstance(value, bool) else "must be yes or no"
        case "array":
            return _problem_of_items(field, value)
        case _:
            return _problem_of_number(field, value)


def _problem_of_text(field: Field, value: object) -> str:
    if not isinstance(value, str):
        return "must be a text"
    chosen = any(choice.value == value for choice in field.choices)
    if field.choices and not chosen and not field.is_open:
        return "is not one of the choices"
    if chosen:
        return ""
    return _out_of_range(field, len(value), "characters") or _problem_of_format(field.format, value)


def _problem_of_format(name: str, value: str) -> str:
    match name:
        case "email":
            return "" if _EMAIL.fullmatch(value) else "must be an e-mail address"
        case "uri":
            return "" if _ADDRESS.fullmatch(value) else "must be an address such as https://example.org"
        case "date":
            return (
                "" if _parses(date.fromisoformat, value) and len(value) == _DATE_CHARS else "must be a date: 2026-01-31"
            )
        case "date-time":
            return (
                ""
                if _parses(datetime.fromisoformat, value) and "T" in value
                else "must be a date and time: 2026-01-31T12:00:00Z"
            )
        case _:
            return ""


_DATE_CHARS: Final = 10


def _parses(parse: Any, value: str) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True


def _problem_of_number(field: Field, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        return "must be a number"
    if field.type == "integer" and value != int(value):
        return "must be a whole number"
    return _out_of_range(field, value, "")


def _problem_of_items(field: Field, value: object) -> str:
    if not isinstance(value, list):
        return "must be a list"
    items, known = cast("list[object]", value), {choice.value for choice in field.choices}
    if any(item not in known for item in items if isinstance(item, str)) or not all(
        isinstance(item, str) for item in items
    ):
        return "has an item that is not one of the choices"
    return _out_of_range(field, len(items), "choices")


def _out_of_range(field: Field, size: float, unit: str) -> str:
    shown = f" {unit}" if unit else ""
    if field.least is not None and size < field.least:
        return f"must have at least {field.least:g}{shown}" if unit else f"must be at least {field.least:g}"
    if field.most is not None and size > field.most:
        return f"must have at most {field.most:g}{shown}" if unit else f"must be at most {field.most:g}"
    return ""


# --- a form as a choice -----------------------------------------------------------------------------------------------


def choices_of(form: Form) -> Sequence[tuple[str, Mapping[str, Value]]] | None:
    """Return the options by which a user can answer without typing, each with its values; None if there are none.

    The first required field decides, or the only one. All others must be optional, and stay empty.
    """
    required = [field for field in form.fields if field.is_required]
    if not form.fields:
        return [(YES, {})]
    field, *others = required or form.fields
    if others:
        return None
    if field.type == "boolean":
        return [(YES, {field.name: True}), (NO, {field.name: False})]
    if field.type == "string" and field.choices:
        return [(choice.title, {field.name: choice.value}) for choice in field.choices]
    return None


# --- a form as a JSON schema ------------------------------------------------------------------------------------------
#
# A field with choices that may have another value too becomes two: the choices, and a text. Neither is required then,
# because a schema cannot require one of two.

OTHER_TITLE: Final = "Another answer"
_OTHER: Final = "{}_other"
LIMITS: Final[Mapping[FieldType, tuple[str, str]]] = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
}
"""The keywords of `least` and `most`."""


def schema_of(form: Form) -> dict[str, Any]:
    """Return the requested schema of a form, as ACP and MCP define it."""
    return {
        "type": "object",
        "properties": {name: shape for field in form.fields for name, shape in _properties(field)},
        "required": [field.name for field in form.fields if field.is_required and not field.is_open],
    }


def _properties(field: Field) -> Sequence[tuple[str, dict[str, Any]]]:
    shape: dict[str, Any] = {"type": field.type}
    texts = {"title": field.title, "description": field.description, "format": field.format}
    shape |= {key: text for key, text in texts.items() if text}
    if field.default is not None:
        shape["default"] = field.default
    limits = zip(LIMITS.get(field.type, ()), (field.least, field.most), strict=False)
    limited = {key: int(limit) if limit == int(limit) else limit for key, limit in limits if limit is not None}
    if not field.choices:
        return [(field.name, shape | limited)]
    titled = [{"const": choice.value, "title": choice.title} for choice in field.choices]
    values = [choice.value for choice in field.choices]
    is_plain = all(choice.value == choice.title for choice in field.choices)
    if field.type == "array":
        items = {"type": "string", "enum": values} if is_plain else {"anyOf": titled}
        return [(field.name, shape | limited | {"items": items})]
    chosen = shape | ({"enum": values} if is_plain else {"oneOf": titled})
    if not field.is_open:
        return [(field.name, chosen)]
    return [(field.name, chosen), (_OTHER.format(field.name), {"type": "string", "title": OTHER_TITLE} | limited)]


def answer_of(form: Form, action: str, content: Mapping[str, Any] | None) -> FormAnswer:
    """Return what a client answers to the schema of a form; the caller checks the values.

    Null stands for no value. An action that the protocols do not define is no answer.
    """
    if action != "accept":
        return FormAnswer(outcome="cancelled" if action == "cancel" else "declined")
    values = {name: value for name, value in (content or {}).items() if value is not None}
    for field in form.fields:
        typed = values.pop(_OTHER.format(field.name), "") if field.is_open else ""
        if not isinstance(typed, str) or typed.strip():  # what the user typed counts, even beside a choice
            values[field.name] = typed
    return FormAnswer(outcome="accepted", values=values)
