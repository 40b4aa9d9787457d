"""Which answers fit a form, and which forms can be answered without typing."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.ids import Seq, ToolCallId
from engine.log.forms import NO, YES, Choice, Field, Form, choices_of, problem_of

CHOICES = (Choice("a", "A"), Choice("b", "B"))
TEXT = Field(name="f")
CHOSEN = Field(name="f", choices=CHOICES)
OPEN = Field(name="f", choices=CHOICES, is_open=True, least=2)
LIST = Field(name="f", type="array", choices=CHOICES, least=1, most=1)
NUMBER = Field(name="f", type="number", least=0, most=1)
WHOLE = Field(name="f", type="integer")
YES_OR_NO = Field(name="f", type="boolean")


def form(*fields: Field, server: str = "") -> Form:
    return Form(tool_call_id=ToolCallId("c"), message="Well?", fields=fields, server=server, seq=Seq(1))


@pytest.mark.parametrize(
    ("field", "fitting", "other"),
    [
        (TEXT, ["", "x"], [1, None, True, ["x"], {}]),
        (Field(name="f", least=2, most=3), ["ab", "abc"], ["a", "abcd"]),
        (Field(name="f", format="email"), ["a@b.c"], ["a", "a@b c"]),
        (Field(name="f", format="uri"), ["https://a/b"], ["a/b", "https: //a"]),
        (Field(name="f", format="date"), ["2026-01-31"], ["2026-02-31", "20260131", "today"]),
        (Field(name="f", format="date-time"), ["2026-01-31T12:00:00Z"], ["2026-01-31", "noon"]),
        (CHOSEN, ["a", "b"], ["A", "c", "", 1]),
        (OPEN, ["a", "cc"], ["c", 1]),
        (LIST, [["a"], ["b"]], [[], ["a", "b"], ["c"], [1], [["a"]], "a"]),
        (NUMBER, [0, 0.5, 1], [-1, 2, float("nan"), float("inf"), True, "1"]),
        (WHOLE, [3, 3.0, -1], [3.5, True, "3"]),
        (YES_OR_NO, [True, False], [1, 0, "true", None]),
    ],
)
def test_only_values_of_its_type_and_in_its_limits_fit_a_field(
    field: Field, fitting: list[Any], other: list[Any]
) -> None:
    assert [problem_of(form(field), {"f": value}) for value in fitting] == [""] * len(fitting)
    assert all(problem_of(form(field), {"f": value}) for value in other)


def test_unknown_and_missing_fields_do_not_fit() -> None:
    required = Field(name="g", title="The name", is_required=True)
    assert problem_of(form(TEXT), {}) == ""
    assert "'h'" in problem_of(form(TEXT), {"f": "x", "h": "y"})
    assert "'The name'" in problem_of(form(TEXT, required), {"f": "x"})
    assert problem_of(form(), {}) == ""
    assert problem_of(form(), {"f": "x"})


def test_forms_that_can_be_answered_without_typing() -> None:
    required = Field(name="g", choices=CHOICES, is_required=True)
    assert choices_of(form()) == [(YES, {})]
    assert choices_of(form(YES_OR_NO)) == [(YES, {"f": True}), (NO, {"f": False})]
    assert choices_of(form(OPEN)) == [("A", {"f": "a"}), ("B", {"f": "b"})]
    assert choices_of(form(TEXT, required)) == [("A", {"g": "a"}), ("B", {"g": "b"})]
    for fields in ([TEXT], [NUMBER], [LIST], [CHOSEN, TEXT], [required, Field(name="h", is_required=True)]):
        assert choices_of(form(*fields)) is None


def test_form_of_a_server_names_it() -> None:
    assert form().text == "Well?"
    assert "S" in form(server="S").text
    assert "Well?" in form(server="S").text
