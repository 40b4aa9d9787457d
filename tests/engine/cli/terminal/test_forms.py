"""How a person fills in a form at a terminal: by numbers, by texts, and by keys that end it."""

from __future__ import annotations

from typing import cast

import anyio
import pytest

from engine.cli.terminal.interaction import AskingForms
from engine.cli.terminal.keyboard import ESCAPE, PASTE, Keyboard
from engine.cli.terminal.rendering import plain
from engine.cli.terminal.screen import Pump, Screen
from engine.cli.terminal.transcript import Transcript
from engine.core.ids import ToolCallId
from engine.log.forms import DISMISSED, Choice, Field, Form, FormAnswer
from tests.engine.cli.terminal.test_questions import EVIL, QUESTION, Shown

pytestmark = pytest.mark.anyio
CHOICES = (Choice("a", "A"), Choice("b", "B"))
OPEN = Field(name="f", is_required=True, is_open=True, choices=CHOICES, least=1)
ENTER = "c-m"


async def filled(
    fields: tuple[Field, ...], *keys: str, message: str = "Well?", server: str = ""
) -> tuple[FormAnswer, str]:
    """The answer of a person who presses these keys, and what the screen shows."""
    shown = Shown(
        [key for each in keys for key in ([each] if each in (ENTER, ESCAPE, "c-h") or each.startswith(PASTE) else each)]
    )
    asking = AskingForms(cast("Keyboard", shown), cast("Screen", shown), Transcript("/w", plain), cast("Pump", shown))
    form = Form(tool_call_id=ToolCallId("c"), message=message, fields=fields, server=server, seq=QUESTION.seq)
    with anyio.fail_after(5):
        return await asking.fill(form), shown.text


def accepted(**values: object) -> FormAnswer:
    return FormAnswer(outcome="accepted", values=values)  # pyright: ignore[reportArgumentType]


async def test_choice_is_a_number_or_another_text() -> None:
    answer, text = await filled((OPEN,), "2", ENTER)
    assert answer == accepted(f="b")
    assert "Well?\n  1    A\n  2    B\n" in text
    assert (await filled((OPEN,), "B", ENTER))[0] == accepted(f="b")
    assert (await filled((OPEN,), "x 9", "c-h", ENTER))[0] == accepted(f="x")
    assert (await filled((OPEN,), "3", ENTER))[0] == accepted(f="3")


async def test_pasted_text_is_one_line() -> None:
    assert (await filled((OPEN,), "a ", f"{PASTE}=two\nlines\x1b[2K", ENTER))[0] == accepted(f="a two lines\\x1b[2K")


async def test_enter_alone_is_no_answer_and_escape_ends_the_turn() -> None:
    assert (await filled((OPEN,), ENTER))[0].outcome == "declined"
    assert (await filled((OPEN,), "x", ESCAPE))[0] == DISMISSED


async def test_answer_that_does_not_fit_is_asked_for_again() -> None:
    closed = Field(name="f", is_required=True, choices=CHOICES)
    answer, text = await filled((closed,), "3", ENTER, "1", ENTER)
    assert answer == accepted(f="a")
    assert "This is not one of the choices." in text


async def test_form_is_filled_in_field_by_field() -> None:
    fields = (
        Field(name="n", title="Seats", type="integer", is_required=True, least=1),
        Field(name="x", type="number"),
        Field(name="b", type="boolean"),
        Field(name="l", type="array", choices=CHOICES),
        Field(name="t", description="More"),
    )
    answer, text = await filled(
        fields, "0", ENTER, "2", ENTER, "0.5", ENTER, "1", ENTER, "1, B", ENTER, ENTER, server="shop"
    )
    assert answer == accepted(n=2, x=0.5, b=True, l=["a", "b"])
    assert "The MCP server shop asks: Well?" in text
    assert "This must be at least 1." in text
    assert "  Seats\n" in text


async def test_form_without_fields_is_a_yes_or_no() -> None:
    assert (await filled((), "1", ENTER))[0] == accepted()
    assert (await filled((), "no", ENTER))[0].outcome == "declined"


async def test_texts_of_a_form_have_no_power_over_the_screen() -> None:
    field = Field(name="f", title=EVIL, description=EVIL, choices=(Choice(EVIL, EVIL),))
    _, text = await filled((field, field), ENTER, ENTER, message=EVIL, server=EVIL)
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "\\x1b[2K" in text
