"""What is said of the sandbox when statements enter it, or there is none."""

from __future__ import annotations

import pytest

from engine.events.session import DomainEntered
from engine.projection.entered import entered_sentence


@pytest.mark.parametrize(
    ("entered", "said", "unsaid"),
    [
        (DomainEntered(held=True), "asks in the mode ask and is refused in plan", "outside=True"),
        (DomainEntered(held=True, writable=("/work",)), "their scratch directory and /work. Commands run", "asks in"),
        (DomainEntered(held=True, network=True), "with TCP", "without a network"),
        (DomainEntered(held=False, reason="it is old"), "no sandbox here: it is old. Statements can do", "scratch"),
    ],
)
def test_it_says_what_asks_and_what_cannot_happen(entered: DomainEntered, said: str, unsaid: str) -> None:
    sentence = entered_sentence(entered)
    assert said in sentence
    assert unsaid not in sentence
