"""A question as text: for permission, with what would happen and the keys that answer it, or a form to fill in.

The change is shown before its question, because a person decides by what is on the screen. Any key that is not an
option is not an answer. A form is filled in field by field, and each answer is a line. Pure. Called by `transcript` and
`interaction`; `one_prompt` lists refused questions.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ...context.tail.rights import rebuild_sentence
from ...core.diff import is_cut
from ...core.text import legible_line, plural, source_text
from ...log.forms import NO, YES, Field, Form, Value
from ...log.permissions import (
    ASKED_CHARS,
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
from ..output import shown, shown_line
from .rendering import Fragment, Highlight, diff


class Option(Struct, frozen=True):
    """One answer: its key, its label, and its meaning."""

    key: str
    label: str
    answer: PermissionAnswer


_REST: Final = "yes, and all other files that this statement changes"
EXPLAIN: Final = "?"
REFUSE: Final = "n"
"""The option that takes a reason."""
_MEANINGS: Final = {
    "y": "Allows this once. The next request asks again.",
    "s": "Allows this, and all further changes of files by the same statement.",
    "a": "Allows this and, for the rest of this session, everything named in this line.",
    "n": "Refuses this. You can type a reason, which the model reads; Enter sends it.",
    "N": "Refuses this and, for the rest of this session, everything named in this line. Never asks again.",
}
_CHARS: Final = 100
"""The most characters of a one-line summary."""
_KEY_NAMES: Final = {"c-m": "Enter", "c-i": "Tab", "<bracketed-paste>": "Pasted text", " ": "Space"}
DISMISSED: Final = PermissionAnswer(outcome="cancelled")
"""The answer of a person who presses Escape: the turn is cancelled."""


def options(question: PermissionQuestion) -> tuple[Option, ...]:
    """Return the possible answers, the most cautious last."""
    once = Option("y", "yes, this once", PermissionAnswer(outcome="allowed"))
    no = Option("n", "no", PermissionAnswer(outcome="rejected"))
    rest = (Option("s", _REST, PermissionAnswer(outcome="allowed", rest=True)),) if question.rest else ()
    if not question.always:
        return once, *rest, no
    phrase = legible_line(question.always)
    return (
        once,
        *rest,
        Option("a", f"always allow {phrase}", PermissionAnswer(outcome="allowed", remember=True)),
        no,
        Option("N", f"never allow {phrase}", PermissionAnswer(outcome="rejected", remember=True)),
    )


def subject_shown(subject: PermissionSubject, highlight: Highlight) -> list[Fragment]:
    """Show what would happen.

    Of a long change of a file, show the beginning and how much more there is.
    """
    match subject:
        case RebuildSubject():
            return [("", f"{rebuild_sentence(subject)}\n")]
        case StatementSubject(source=source, note=note):
            return [*highlight(source_text(source, ASKED_CHARS)), ("", f"\n{note}\n" if note else "\n")]
        case FileSubject(path=path, changes=changes, note=note):
            return diff(path, changes, note)
        case TreeSubject(act=act, paths=paths, changes=changes, note=note):
            title: list[Fragment] = [("strong", legible_line(act) + "\n")]
            return [*title, *diff(paths[-1], changes, note)] if changes or note else title
        case CommandSubject(command=command):
            return [("quiet", "$ "), ("strong", source_text(command, ASKED_CHARS).replace("\n", "\n  ") + "\n")]
        case ServerCallSubject(tool=tool, arguments=arguments):
            return [("strong", f"{legible_line(tool)} "), ("", source_text(arguments, ASKED_CHARS) + "\n")]
        case SiteSubject(url=url):
            return [("strong", f"{legible_line(url)}\n")]


def asked(question: PermissionQuestion) -> list[Fragment]:
    """Return the question and its keys; the subject is shown above it."""
    rows = [
        fragment
        for option in options(question)
        for fragment in (("strong", f"  {option.key}"), ("", f"    {option.label}\n"))
    ]
    more: list[Fragment] = [("strong", "  ?"), ("", "    explain the keys\n")]
    dismiss: list[Fragment] = [("strong", "  Esc"), ("", "  cancel the turn\n")]
    return [("notice", f"{_sentence(question.subject)}\n"), *rows, *more, *dismiss]


def explained(question: PermissionQuestion) -> list[Fragment]:
    """Explain each key of the question."""
    rows = [(option.key, _MEANINGS[option.key]) for option in options(question)]
    rows += [("Esc", "Cancels the turn, like Ctrl-C. The requested action does not happen.")]
    return [fragment for key, text in rows for fragment in (("strong", f"  {key:<4} "), ("", f"{text}\n"))]


def unknown(question: PermissionQuestion, key: str) -> list[Fragment]:
    """Report that a key is not an answer, and list the keys."""
    name = key if len(key) == 1 and key.isprintable() else _KEY_NAMES.get(key, "This key")
    keys = ", ".join(option.key for option in options(question))
    return [("quiet", f"  {name} is not an answer. The keys are {keys} and Esc; ? explains them.\n")]


def _sentence(subject: PermissionSubject) -> str:
    match subject:
        case RebuildSubject(statements=statements):
            return f"Run {len(statements):,} earlier {plural(len(statements), 'statement')} again?"
        case StatementSubject(source=source):
            return f"Run this statement? It has {_lines(source)}, all shown above."
        case FileSubject(changes=changes):
            part = (
                "The beginning of the change is shown above" if is_cut(changes) else "The whole change is shown above"
            )
            return f"Write this file? {part}."
        case TreeSubject():
            return "Change these files?"
        case CommandSubject(command=command, cwd=cwd, outside=outside):
            place = f"{legible_line(cwd)}, outside the sandbox" if outside else legible_line(cwd)
            return f"Run this command in {place}? It has {_lines(command)}, all shown above."
        case ServerCallSubject(server=server, arguments=arguments):
            return f"Call this tool of the MCP server {legible_line(server)}? Its arguments have {_lines(arguments)}."
        case SiteSubject(site=site):
            return f"Fetch this address from {legible_line(site)}?"


def _lines(text: str) -> str:
    count = text.count("\n") + 1
    return f"{count:,} {plural(count, 'line')}"


def chosen(question: PermissionQuestion, key: str) -> Option | None:
    """Return the option of the key; None for any other key."""
    return next((option for option in options(question) if option.key == key), None)


def answered(option: Option | None, reason: str = "") -> list[Fragment]:
    """Return the line that shows the answer.

    It is empty for a dismissed question, because the end of the turn reports that.
    """
    because = f", {reason}" if reason else ""
    return [("quiet", f"  {option.key}: {option.label}{because}\n")] if option else []


def subject_line(subject: PermissionSubject) -> str:
    """Describe what would happen in one line."""
    match subject:
        case RebuildSubject(statements=statements):
            return f"run {len(statements):,} earlier {plural(len(statements), 'statement')} again"
        case StatementSubject(source=source):
            return f"run the statement {shown_line(source, _CHARS)}"
        case FileSubject(path=path):
            return f"write {shown(path)}"
        case TreeSubject(act=act):
            return shown_line(act, _CHARS)
        case CommandSubject(command=command):
            return f"run the command {shown_line(command, _CHARS)}"
        case ServerCallSubject(server=server, tool=tool):
            return f"call {shown(tool)} of the MCP server {shown(server)}"
        case SiteSubject(url=url):
            return f"fetch {shown_line(url, _CHARS)}"


# --- forms ------------------------------------------------------------------------------------------------------------

ANSWER: Final = "  Answer: "
_NO_ANSWER: Final = "Enter: no answer"
_SKIP: Final = "Enter: skip this field"
_DIVIDER: Final = ","


def form_shown(form: Form) -> list[Fragment]:
    """Return the question of a form."""
    return [("notice", f"{source_text(form.text, ASKED_CHARS)}\n")]


def field_shown(field: Field, *, is_only: bool) -> list[Fragment]:
    """Return what a field asks for, with its numbered choices, and how to answer it."""
    head: list[Fragment] = [] if is_only else [("strong", f"  {legible_line(field.label)}\n")]
    if field.description:
        head.append(("", f"  {source_text(field.description, ASKED_CHARS)}\n"))
    titles = [YES, NO] if field.type == "boolean" else [choice.title for choice in field.choices]
    rows = [
        fragment
        for number, title in enumerate(titles, 1)
        for fragment in (("strong", f"  {number:<4}"), ("", f" {legible_line(title)}\n"))
    ]
    ways = [_how(field), _NO_ANSWER if field.is_required else _SKIP, "Esc: cancel the turn"]
    return [*head, *rows, ("quiet", f"  {'; '.join(filter(None, ways))}\n")]


def _how(field: Field) -> str:
    match field.type:
        case "array":
            return "Type numbers, with commas between them"
        case "boolean":
            return "Type a number"
        case "string" if field.choices:
            return "Type a number, or another answer" if field.is_open else "Type a number"
        case _:
            return ""


def value_typed(field: Field, typed: str) -> Value:
    """Return the value that a typed line means for a field; the caller checks it."""
    match field.type:
        case "boolean":
            return {"1": True, "2": False, YES.lower(): True, NO.lower(): False}.get(typed.lower(), typed)
        case "array":
            return [_chosen_value(field, part.strip()) for part in typed.split(_DIVIDER)]
        case "string":
            return _chosen_value(field, typed)
        case _:
            return _number(typed)


def _chosen_value(field: Field, typed: str) -> str:
    if typed.isascii() and typed.isdigit() and 0 < int(typed) <= len(field.choices):
        return field.choices[int(typed) - 1].value
    return next((choice.value for choice in field.choices if choice.title == typed), typed)


def _number(typed: str) -> Value:
    for convert in (int, float):
        try:
            return convert(typed)
        except ValueError:
            continue
    return typed


def unfit(problem: str) -> list[Fragment]:
    """Return the line on a typed answer that a field does not take."""
    return [("quiet", f"  This {problem}.\n")]
