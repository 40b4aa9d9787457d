"""`ask`: which questions are refused, and what a statement gets for an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.log.forms import Choice, FormAnswer
from engine.session.tools import UserQuestion, Workspace
from engine.session.tools.ask import (
    ANSWER,
    LONGEST_CHOICE,
    LONGEST_QUESTION,
    MOST_CHOICES,
    UNTYPED,
    Arguments,
    answered,
    ask,
)


def asked(root: Path, question: str, choices: Any = None) -> UserQuestion:
    return ask(Workspace(str(root)), Arguments(question, choices))


@pytest.mark.parametrize(
    ("question", "choices", "error"),
    [
        ("", None, ValueError),
        (" \n", None, ValueError),
        ("x" * (LONGEST_QUESTION + 1), None, ValueError),
        ("x" * (1 << 20), ["a"], ValueError),
        ("Well?", [], ValueError),
        ("Well?", ["a", " "], ValueError),
        ("Well?", ["a", "b", "a"], ValueError),
        ("Well?", ["\x1b", "\\x1b"], ValueError),
        ("Well?", [str(number) for number in range(MOST_CHOICES + 1)], ValueError),
        ("Well?", [str(number) for number in range(1_000)], ValueError),
        ("Well?", ["x" * (LONGEST_CHOICE + 1)], ValueError),
        ("Well?", "ab", TypeError),
        ("Well?", {"a": 1}, TypeError),
        ("Well?", ["a", 1], TypeError),
        ("Well?", [None], TypeError),
    ],
)
def test_question_that_nobody_could_answer_is_refused(
    tmp_path: Path, question: str, choices: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"^ask\(\): "):
        asked(tmp_path, question, choices)


def test_question_is_a_field_with_the_choices(tmp_path: Path) -> None:
    many = [str(number) for number in range(MOST_CHOICES)]
    (typed,), (one,), (all_,) = (asked(tmp_path, " Well? ", choices).fields for choices in (None, ["only\x1b"], many))
    assert asked(tmp_path, " Well? ").question == "Well?"
    assert (typed.choices, typed.is_open, typed.is_required) == ((), False, True)
    assert (one.choices, one.is_open) == ((Choice("only\x1b", "only\x1b"),), True)
    assert [choice.value for choice in all_.choices] == many


def test_statement_gets_the_text_or_none_and_the_reason() -> None:
    assert answered(FormAnswer(outcome="accepted", values={ANSWER: "x"})) == {"answer": "x", "note": ""}
    assert answered(FormAnswer(outcome="accepted", values={ANSWER: " "})) == {"answer": None, "note": UNTYPED}
    assert answered(FormAnswer(outcome="declined")) == {"answer": None, "note": ""}
    assert answered(FormAnswer(outcome="declined", note="why")) == {"answer": None, "note": "why"}
