"""A question to the user as a form and as options, and what the answers mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from acp_adapter import questions
from acp_adapter.jsonrpc.messages import WireShapeError
from acp_adapter.v1 import client
from engine.core.ids import Seq, ToolCallId
from engine.log.forms import NO, OTHER_TITLE, YES, Choice, Field, Form, FormAnswer
from tests.support.acp_schema import validate_outgoing

CHOICES = (Choice("a", "a"), Choice("b", "b"))
OPEN = Field(name="answer", title="Answer", is_required=True, is_open=True, choices=CHOICES, least=1, most=9)


def form(*fields: Field, server: str = "") -> Form:
    return Form(tool_call_id=ToolCallId("c"), message="Well?", fields=fields, server=server, seq=Seq(1))


def requested(*fields: Field) -> dict[str, Any]:
    """The schema of the form, after the official schema has accepted the request."""
    params = client.form_request("s", form(*fields)).params
    validate_outgoing({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}, None)
    return params["requestedSchema"]


def given(answer: object, *fields: Field) -> FormAnswer:
    return client.form_request("s", form(*fields)).read(answer)


def test_every_field_has_its_schema() -> None:
    titled = (Choice("a", "A"),)
    schema = requested(
        Field(name="t", title="T", description="D", format="email", default="x@y", least=1, most=9, is_required=True),
        Field(name="n", type="number", least=0.5, most=2, default=1),
        Field(name="i", type="integer", least=0),
        Field(name="b", type="boolean", default=False),
        Field(name="e", choices=CHOICES, default="b"),
        Field(name="o", choices=titled),
        Field(name="l", type="array", choices=CHOICES, least=1, default=["a"]),
        Field(name="m", type="array", choices=titled),
    )
    assert schema == {
        "type": "object",
        "properties": {
            "t": {
                "type": "string",
                "title": "T",
                "description": "D",
                "format": "email",
                "default": "x@y",
                "minLength": 1,
                "maxLength": 9,
            },
            "n": {"type": "number", "minimum": 0.5, "maximum": 2, "default": 1},
            "i": {"type": "integer", "minimum": 0},
            "b": {"type": "boolean", "default": False},
            "e": {"type": "string", "enum": ["a", "b"], "default": "b"},
            "o": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
            "l": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "default": ["a"]},
            "m": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
        },
        "required": ["t"],
    }
    assert requested() == {"type": "object", "properties": {}, "required": []}


def test_open_choice_is_a_choice_and_a_text_of_which_neither_is_required() -> None:
    assert requested(OPEN) == {
        "type": "object",
        "properties": {
            "answer": {"type": "string", "title": "Answer", "enum": ["a", "b"]},
            "answer_other": {"type": "string", "title": OTHER_TITLE, "minLength": 1, "maxLength": 9},
        },
        "required": [],
    }


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ({"answer": "a"}, {"answer": "a"}),
        ({"answer_other": "c"}, {"answer": "c"}),
        ({"answer": "a", "answer_other": "c"}, {"answer": "c"}),
        ({"answer": "a", "answer_other": " "}, {"answer": "a"}),
        ({"answer": "a", "answer_other": None}, {"answer": "a"}),
        ({"answer_other": 7}, {"answer": 7}),
        ({"more": "x"}, {"more": "x"}),
        ({}, {}),
        (None, {}),
    ],
)
def test_typed_answer_counts_before_a_choice(content: Any, values: dict[str, Any]) -> None:
    assert given({"action": "accept", "content": content}, OPEN) == FormAnswer(outcome="accepted", values=values)


def test_other_actions_are_no_answer() -> None:
    assert given({"action": "decline"}, OPEN).outcome == "declined"
    assert given({"action": "cancel"}, OPEN) == FormAnswer(outcome="cancelled")
    assert given({"action": "_later", "content": {"answer": "a"}}, OPEN).outcome == "declined"
    for broken in ({}, None, [], {"action": 7}):
        with pytest.raises(WireShapeError):
            given(broken, OPEN)


def options(*fields: Field, server: str = "") -> tuple[Sequence[tuple[str, str]], questions.Asked]:
    """The names and kinds of the options, and the question, after the official schema has accepted it."""
    asked = client.options_request("s", form(*fields, server=server))
    assert asked is not None
    validate_outgoing({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": asked.params}, None)
    return [(each["name"], each["kind"]) for each in asked.params["options"]], asked


def test_choices_are_options_of_a_permission_request() -> None:
    shown, asked = options(OPEN, server="S")
    assert shown == [("a", "allow_once"), ("b", "allow_once"), (questions.NO_ANSWER, "reject_once")]
    assert "S" in asked.params["toolCall"]["title"]

    def chosen(option: str) -> FormAnswer:
        return asked.read({"outcome": {"outcome": "selected", "optionId": option}})

    first, second, none = (each["optionId"] for each in asked.params["options"])
    assert chosen(first) == FormAnswer(outcome="accepted", values={"answer": "a"})
    assert chosen(second).values == {"answer": "b"}
    assert (chosen(none).outcome, chosen("allow_once").outcome) == ("declined", "declined")
    assert asked.read({"outcome": {"outcome": "cancelled"}}) == FormAnswer(outcome="cancelled", ends_turn=True)


def test_form_without_choices_is_no_permission_request() -> None:
    assert [name for name, _ in options()[0]] == [YES, questions.NO_ANSWER]
    assert [name for name, _ in options(Field(name="b", type="boolean"))[0]] == [YES, NO, questions.NO_ANSWER]
    assert client.options_request("s", form(Field(name="t"))) is None
