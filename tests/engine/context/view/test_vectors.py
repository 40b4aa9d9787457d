"""The View agrees with every vector, and with the examples of the published rule."""

from __future__ import annotations

import pytest

from conformance.documents import json_document
from engine.context.view import BoundaryRule, View
from engine.context.view.well_formed import indices_of
from tests.support import view_reference as reference
from tests.support.view_vectors import Vector, load_vectors

VECTORS = load_vectors()
PUBLISHED = {row["name"]: row["expected"] for row in json_document("vectors.positions")["vectors"]}
by_name = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)


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
