"""What is shown of a program's output while it runs, beside what is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.log.redaction import Redactor
from engine.runtime.programs import KeptOutput

KEY = "sk-proj-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iXtBy4wKvM"


@given(st.text("abcdef\xe9-k ", max_size=200), st.integers(0, 120), st.integers(1, 50))
def test_what_was_shown_is_what_is_kept(text: str, kept: int, size: int) -> None:
    shown: list[str] = []
    output = KeptOutput(kept, shown.append)
    data = text.encode()
    for at in range(0, len(data), size):
        output.feed(data[at : at + size])
    assert output.finish().text == "".join(shown)


@pytest.mark.parametrize("left", [10, 20, 30, 45, 50])
def test_no_part_of_a_key_is_shown_where_the_beginning_ends(left: int) -> None:
    redactor, shown, held = Redactor([KEY]), "", ""

    def show(text: str) -> None:
        nonlocal shown, held
        more, held = redactor.redact_piece(held + text)
        shown += more

    output = KeptOutput(2_000, show)
    data = f"{'a' * (999 - left)} {KEY} {'m ' * 3_000}end".encode()
    for at in range(0, len(data), 700):
        output.feed(data[at : at + 700])
    output.finish()
    assert [at for at in range(len(KEY) - 8) if KEY[at : at + 8] in shown + held] == []
