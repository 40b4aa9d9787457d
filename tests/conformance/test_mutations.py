"""Random changes of the conforming peers' messages: forbidden ones are caught, and every run ends with reports."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from conformance.reports import terminal
from conformance.reports.files import REPORTS
from conformance.reports.terminal import Context
from conformance.transcript import load
from tests.conformance.mutations import ODD, Mutation, change, judged, places
from tests.conformance.suite_runs import conforming

pytestmark = pytest.mark.slow
SUITES = ("acp", "acp-client", "mcp")
UNSPEAKABLE: list[Any] = [*ODD, float("inf"), "\ud800"]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("of", SUITES)
def test_forbidden_change_is_caught(of: str, seed: int) -> None:
    mutation = Mutation(seed, of)
    outcome = judged(mutation.peer(), of)
    assert outcome.code != 0 or not mutation.is_forbidden, mutation


@pytest.mark.parametrize("of", SUITES)
def test_most_mutations_are_forbidden(of: str) -> None:
    mutations = [Mutation(seed, of) for seed in range(40)]
    for mutation in mutations:
        judged(mutation.peer(), of)
    assert sum(mutation.is_forbidden for mutation in mutations) >= 20


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("of", SUITES)
def test_random_messages_still_end_scenarios_and_write_reports(of: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    rate = chance.choice([0.02, 0.1, 0.5])

    class Spoiling(conforming(of)):
        def send(self, message: dict[str, Any]) -> None:
            if chance.random() < rate:
                message = copy.deepcopy(message)
                place = chance.choice(list(places(message)))
                change(message, place, chance.choice(UNSPEAKABLE), cut=chance.random() < 0.3)
            super().send(message)

        def encode(self, message: dict[str, Any]) -> bytes:
            return json.dumps(message).encode() + b"\n"

        def take_line(self, line: bytes) -> None:
            try:
                super().take_line(line)
            except (LookupError, TypeError, AttributeError, ValueError):
                self.world.exit(1)  # the suite returned changed messages to it

    outcome = judged(Spoiling, of)
    context = Context(["peer"], {})
    for name, kind in REPORTS.items():
        (tmp_path / name).write_text(kind.render(outcome, context), encoding="utf-8")
    assert terminal.render(outcome, context, verbose=True).encode()
    for transcript in outcome.transcripts:
        transcript.save(tmp_path / "saved.jsonl")
        assert len(load(tmp_path / "saved.jsonl").entries) == len(transcript.entries)
