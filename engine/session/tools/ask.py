"""`ask(question, choices=None)`: a question to the user, answered with a choice or with a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from ...core.text import cut_line, legible_line
from ...log.forms import Choice, Field, FormAnswer
from .workspace import Workspace

LONGEST_QUESTION: Final = 10_000
"""Characters of a question."""
MOST_CHOICES: Final = 100
LONGEST_CHOICE: Final = 1_000
LONGEST_ANSWER: Final = 100_000
"""Characters of a typed answer."""
ANSWER: Final = "answer"
"""The name of the form's field."""
_LABEL: Final = "Answer"
_SHOWN: Final = 60
UNTYPED: Final = "the user accepted the question without an answer"


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`choices` is a list of texts; the function says what is wrong with another value."""

    question: str
    choices: Any = None


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A question that is valid, and not yet asked."""

    question: str
    fields: tuple[Field, ...]


def ask(_workspace: Workspace, arguments: Arguments) -> UserQuestion:
    """Check the question. Raises TypeError, ValueError."""
    question = arguments.question.strip()
    if not question:
        raise ValueError("ask(): the question is empty")
    if len(question) > LONGEST_QUESTION:
        raise ValueError(f"ask(): the question has {len(question):,} characters; the limit is {LONGEST_QUESTION:,}")
    choices = _choices(arguments.choices)
    return UserQuestion(
        question,
        (
            Field(
                name=ANSWER,
                title=_LABEL,
                is_required=True,
                is_open=bool(choices),
                choices=choices,
                least=1,
                most=LONGEST_ANSWER,
            ),
        ),
    )


def _choices(given: object) -> tuple[Choice, ...]:
    if given is None:
        return ()
    if not isinstance(given, list):
        raise TypeError(f"ask(): choices must be a list of texts, not {type(given).__name__}")
    texts = cast("list[object]", given)
    if not texts:
        raise ValueError("ask(): choices is empty; leave it out to let the user type an answer")
    if len(texts) > MOST_CHOICES:
        raise ValueError(f"ask(): a question has at most {MOST_CHOICES} choices, not {len(texts):,}")
    seen: set[str] = set()
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise TypeError(f"ask(): choice {number} must be a text, not {type(text).__name__}")
        if not text.strip():
            raise ValueError(f"ask(): choice {number} is empty")
        if len(text) > LONGEST_CHOICE:
            raise ValueError(f"ask(): choice {number} has {len(text):,} characters; the limit is {LONGEST_CHOICE:,}")
        shown = legible_line(text)
        if shown in seen:
            raise ValueError(f"ask(): the choice {cut_line(repr(text), _SHOWN)} appears twice")
        seen.add(shown)
    return tuple(Choice(text, text) for text in cast("list[str]", texts))


def answered(answer: FormAnswer) -> dict[str, str | None]:
    """The answer for the statement (`runtime.results`)."""
    text = answer.values.get(ANSWER)
    if answer.outcome == "accepted" and not (isinstance(text, str) and text.strip()):
        return {"answer": None, "note": UNTYPED}
    return {"answer": text if isinstance(text, str) else None, "note": answer.note}
