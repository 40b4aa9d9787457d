"""Sentences about the sandbox, or its absence."""

from __future__ import annotations

import pytest

from engine.context.tail.rights import before_phrase, entered_line, entered_sentence, rebuild_sentence
from engine.core.domain import LATE_SOCKETS
from engine.log.events.session import DomainEntered
from engine.log.permissions import RebuildSubject
from engine.log.rights import UNHELD, Rights


@pytest.mark.parametrize(
    ("entered", "said", "unsaid"),
    [
        (DomainEntered(held=True), "need permission in mode ask and are refused in mode plan", "outside=True"),
        (
            DomainEntered(held=True, writable=("/work",)),
            "their scratch directory and /work. Commands run",
            "needs permission in",
        ),
        (DomainEntered(held=True, network=True), "with TCP", "without a network"),
        (
            DomainEntered(held=True, bare=True, lacks=("devices",)),
            "scratch directory, and can read stored keys and the state of other sessions, change modes",
            "in auto",
        ),
        (DomainEntered(held=True, bare=True), "does not offer the layer `mounts`", "no sandbox"),
        (DomainEntered(held=True, lacks=("sockets",)), LATE_SOCKETS, "the layer `mounts`"),
        (
            DomainEntered(held=False, reason="it is old"),
            "no sandbox here: it is old. Statements run with your",
            "scratch",
        ),
    ],
)
def test_it_says_what_asks_and_what_cannot_happen(entered: DomainEntered, said: str, unsaid: str) -> None:
    sentence = entered_sentence(entered)
    assert said in sentence
    assert unsaid not in sentence


@pytest.mark.parametrize("bare", [False, True])
def test_a_short_line_names_the_missing_layer(bare: bool) -> None:
    assert ("the layer mounts is missing" in entered_line(DomainEntered(held=True, bare=bare))) == bare


def test_a_rebuild_question_names_the_earlier_rights() -> None:
    given = [Rights(), Rights(network=True), Rights(), None]
    before = before_phrase(given)
    assert before == (
        "in a sandbox, without a network, and their own code writes only in their scratch directory; or in a sandbox,"
        " with TCP, and their own code writes only in their scratch directory; or elsewhere (they were imported, and"
        " had no permissions here)"
    )
    assert before_phrase([UNHELD]) == "with your permissions"
    asked = RebuildSubject(statements=(1,), held=False, before=before)
    assert f"they run with your permissions. Before, they ran {before}. To restore" in rebuild_sentence(asked)


@pytest.mark.parametrize(
    ("count", "named"),
    [(1, "Statement 1 ran"), (50, "49, 50 ran"), (51, "49, 50, ... ran")],
)
def test_a_rebuild_question_names_the_first_statements(count: int, named: str) -> None:
    assert named in rebuild_sentence(RebuildSubject(statements=tuple(range(1, count + 1)), held=False))
