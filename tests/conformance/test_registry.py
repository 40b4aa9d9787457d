"""Requirements, scenarios, judges, quotes and defects match each other, both ways."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from conformance.documents import DOCUMENTS, Source, stands
from conformance.requirement import Requirement
from conformance.suites import SUITES
from tests.conformance.suite_runs import SUBJECTS, defects, suite

ROWS = suite().requirements
each_suite = pytest.mark.parametrize("name", SUBJECTS)
_DECIDES = re.compile(r"\bMUST\b|\bmust\b|\bMust\b|\bREQUIRED\b")


def test_every_suite_is_tried_on_peers() -> None:
    assert set(SUBJECTS) == set(SUITES)


@each_suite
def test_ids_are_used_once_and_have_the_form_that_documents_promise(name: str) -> None:
    rows = suite(name).requirements
    assert [one for one, count in Counter(row.id for row in rows).items() if count > 1] == []
    assert [row.id for row in rows if not re.fullmatch(SUBJECTS[name].ids, row.id)] == []


@each_suite
def test_every_scenario_is_named_and_every_name_is_a_scenario(name: str) -> None:
    scenarios = {scenario.name: scenario for scenario in suite(name).every_scenario()}
    assert len(scenarios) == len(suite(name).every_scenario())
    named = {row.scenario for row in suite(name).requirements if row.scenario}
    assert named <= set(scenarios)
    unnamed = {name for name, scenario in scenarios.items() if not scenario.passive} - named
    assert unnamed == set()
    assert {name for name, scenario in scenarios.items() if scenario.passive} & named == set()


@each_suite
def test_every_quote_stands_where_its_source_says(name: str) -> None:
    assert [row.id for row in suite(name).requirements if not stands(row.source)] == []


def test_a_quote_that_was_changed_stands_nowhere() -> None:
    row = ROWS[0]
    assert not stands(Source(row.source.document, row.source.place, row.source.quote.replace("NOT", "SOMETIMES")))


def test_a_place_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(LookupError):
        stands(Source("acp1.schema", "/$defs/NoSuchThing", "anything"))


@each_suite
def test_what_decides_is_quoted_from_a_schema_or_says_must(name: str) -> None:
    weak = [
        row.id
        for row in suite(name).requirements
        if row.decides and not DOCUMENTS[row.source.document].file.endswith(".json") and not _is_binding(row)
    ]
    assert weak == []


def _is_binding(row: Requirement) -> bool:
    """Whether a sentence of prose binds agents: it says MUST, or states what holds, or what clients may do."""
    quote = row.source.quote.replace("the Client may", "")
    return bool(_DECIDES.search(quote)) or not re.search(r"SHOULD|MAY|should|may\b", quote)


@each_suite
def test_every_requirement_has_a_defect_and_every_defect_a_requirement(name: str) -> None:
    assert set(defects(name)) == {row.id for row in suite(name).requirements}


@each_suite
def test_every_requirement_shows_a_violation_and_is_one_sentence(name: str) -> None:
    assert [row.id for row in suite(name).requirements if not row.violation or not row.text.endswith(".")] == []
