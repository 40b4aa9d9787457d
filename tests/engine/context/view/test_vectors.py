"""The View agrees with every vector, and with the examples of the published rule."""

from __future__ import annotations

import pytest

from conformance.documents import json_document
from engine.context.view import BoundaryRule, View
from engine.context.view.properties import ToolCallMatching
from engine.context.view.well_formed import indices_of
from engine.log.events import Event
from tests.engine.context.view.rows import condensation, log_of
from tests.support import view_reference as reference
from tests.support.view_vectors import Vector, load_vectors

VECTORS = load_vectors()
PUBLISHED = {row["name"]: row["expected"] for row in json_document("vectors.positions")["vectors"]}
by_name = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)


def test_there_are_219_vectors() -> None:
    assert len(VECTORS) == 219


@by_name
def test_the_appended_view_is_the_expected_one(vector: Vector) -> None:
    view = View.from_events(vector.events)

    assert reference.ids(view.events) == vector.appended.view_ids
    assert view.indices == vector.appended.manipulation_indices
    assert view.unhandled_condensation_request is vector.appended.unhandled_condensation_request


@by_name
def test_the_enforced_view_is_the_expected_one(vector: Vector) -> None:
    view = View.from_events(vector.events)

    assert reference.ids(view.ready()) == vector.enforced.view_ids
    assert indices_of(view.ready()) == vector.enforced.manipulation_indices
    assert view.unhandled_condensation_request is vector.enforced.unhandled_condensation_request


@by_name
def test_the_reference_agrees_with_the_vector(vector: Vector) -> None:
    entries = reference.appended(vector.events)
    kept = reference.enforced(entries, vector.events)

    assert reference.ids(entries) == vector.appended.view_ids
    assert reference.indices(entries) == vector.appended.manipulation_indices
    assert reference.request_is_unhandled(vector.events) is vector.appended.unhandled_condensation_request
    assert reference.ids(kept) == vector.enforced.view_ids
    assert reference.indices(kept) == vector.enforced.manipulation_indices


@by_name
def test_the_published_rule_gives_the_results_of_its_file(vector: Vector) -> None:
    view, expected = View.from_events(vector.events, BoundaryRule.POSITIONS), PUBLISHED[vector.name]
    kept = reference.published_enforced(vector.events)

    assert list(reference.ids(view.events)) == expected["appended"]["view_ids"]
    assert list(view.indices) == expected["appended"]["manipulation_indices"]
    assert list(reference.ids(view.ready())) == list(reference.ids(kept)) == expected["enforced"]["view_ids"]
    assert list(reference.published_indices(view.events)) == expected["appended"]["manipulation_indices"]
    assert list(reference.published_indices(kept)) == expected["enforced"]["manipulation_indices"]


def _indices(log: list[Event], rule: BoundaryRule) -> tuple[int, ...]:
    return View.from_events(log, rule).indices


def test_the_published_batch_example_gives_0_3_5() -> None:
    log = log_of("m0 a1:b1:t1 a2:b1:t2 m3 a4:b2:t3")

    assert _indices(log, BoundaryRule.POSITIONS) == (0, 3, 5)
    assert View.from_events(log, BoundaryRule.POSITIONS).batches == {"b1": (1, 2), "b2": (4,)}


def test_the_published_loop_example_gives_0_4_5() -> None:
    log = log_of("m0 a1:b1:t1+ o1:t1 a2:b2:t2 m3")

    assert _indices(log, BoundaryRule.POSITIONS) == (0, 4, 5)
    assert View.from_events(log, BoundaryRule.POSITIONS).tool_loop_ranges == ((1, 3),)


def test_the_published_matching_example_filters_the_orphan_and_closes_nothing() -> None:
    log = log_of("a1:b1:t1 o1:t1 a2:b2:t2")
    view = View.from_events(log, BoundaryRule.POSITIONS)

    assert reference.ids(view.ready()) == ("a1", "o1")
    assert indices_of(log, BoundaryRule.POSITIONS, (ToolCallMatching,)) == (0, 1, 2, 3)
    assert view.action_tool_call_ids == {"t1", "t2"}
    assert view.observation_tool_call_ids == {"t1"}


def test_a_published_loop_ends_at_other_events_only() -> None:
    log = log_of("m0 a1:b1:t1+ o1:t1 a2:b2:t2+ o2:t2 m5")

    assert _indices(log, BoundaryRule.POSITIONS) == (0, 5, 6)
    assert _indices(log, BoundaryRule.GAPS) == (0, 1, 3, 5, 6)


def test_the_published_rule_removes_no_partial_loop() -> None:
    log = [*log_of("a1:b1:t1+ o1:t1 a2:b2:t2 o2:t2 m5"), condensation("a1 o1", seq=5)]

    assert reference.ids(View.from_events(log, BoundaryRule.POSITIONS).ready()) == ("a2", "o2", "m5")
    assert reference.ids(View.from_events(log, BoundaryRule.GAPS).ready()) == ("m5",)
