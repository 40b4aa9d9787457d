"""The model agrees with every vector, and the vectors reach every transition, group and anomaly."""

from __future__ import annotations

from typing import get_args

import pytest

from engine.cli.vectors import neutral
from engine.core.toolbox import ROUTED
from engine.log.cycles import CycleFold, cycles_of, to_plain
from engine.log.cycles.machine import ANOMALIES, TRANSITIONS, Action, AnomalyKind, Input, State, Transition
from engine.log.cycles.views import GROUPS
from engine.log.event_log import lookup_in
from tests.support.cycles import Vector, load_vectors

VECTORS = load_vectors()
by_name = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)


@by_name
def test_the_model_is_the_expected_one(vector: Vector) -> None:
    assert neutral(to_plain(cycles_of(vector.events))) == vector.expected


@by_name
def test_the_live_model_equals_the_rebuilt_one_after_every_event(vector: Vector) -> None:
    live = CycleFold(lookup_in(vector.events))
    for count, event in enumerate(vector.events, 1):
        live.apply(event)
        assert live.model == cycles_of(vector.events[:count])


def test_there_are_sixty_vectors_with_unique_names() -> None:
    assert len({vector.name for vector in VECTORS}) == len(VECTORS) >= 60


def test_every_state_has_a_transition_for_every_input() -> None:
    assert set(TRANSITIONS) == {(state, seen_as) for state in State for seen_as in Input}
    assert {transition.action for transition in TRANSITIONS.values()} == set(Action)


def test_the_vectors_take_every_transition_of_the_table() -> None:
    taken: set[tuple[State, Input]] = set()

    class Watched(dict[tuple[State, Input], Transition]):
        def __getitem__(self, key: tuple[State, Input]) -> Transition:
            taken.add(key)
            return super().__getitem__(key)

    for vector in VECTORS:
        fold = CycleFold(lookup_in(vector.events), Watched(TRANSITIONS))
        for event in vector.events:
            fold.apply(event)

    assert set(TRANSITIONS) - taken == set()


def test_every_anomaly_has_a_sentence_and_occurs_in_a_vector() -> None:
    occurring = {anomaly["type"] for vector in VECTORS for anomaly in vector.expected["anomalies"]}

    assert occurring == set(ANOMALIES) == set(get_args(AnomalyKind))


def test_every_tool_with_a_group_occurs_in_a_vector() -> None:
    tools = {getattr(event, "tool", None) for vector in VECTORS for event in vector.events}

    # But for what only code asks for, which the published model does not name.
    assert tools >= set(GROUPS) - set(ROUTED)
