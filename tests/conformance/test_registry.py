"""Requirements, scenarios, judges, quotes and defects match each other, both ways."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from conformance.documents import DOCUMENTS, Source, stands
from conformance.requirement import Requirement
from tests.conformance.suite_runs import defects, suite

ROWS = suite().requirements
_DECIDES = re.compile(r"\bMUST\b|\bmust\b|\bMust\b|\bREQUIRED\b")


def test_ids_are_used_once_and_have_the_form_that_documents_promise() -> None:
    assert [name for name, count in Counter(row.id for row in ROWS).items() if count > 1] == []
    assert [row.id for row in ROWS if not re.fullmatch(r"ACP1-A-[A-Z]+-\d{3}", row.id)] == []


def test_every_scenario_is_named_and_every_name_is_a_scenario() -> None:
    scenarios = {scenario.name: scenario for scenario in suite().every_scenario()}
    assert len(scenarios) == len(suite().every_scenario())
    named = {row.scenario for row in ROWS if row.scenario}
    assert named <= set(scenarios)
    unnamed = {name for name, scenario in scenarios.items() if not scenario.passive} - named
    assert unnamed == set()
    assert {name for name, scenario in scenarios.items() if scenario.passive} & named == set()


def test_every_quote_stands_where_its_source_says() -> None:
    assert [row.id for row in ROWS if not stands(row.source)] == []


def test_a_quote_that_was_changed_stands_nowhere() -> None:
    row = ROWS[0]
    assert not stands(Source(row.source.document, row.source.place, row.source.quote.replace("NOT", "SOMETIMES")))


def test_a_place_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(LookupError):
        stands(Source("acp1.schema", "/$defs/NoSuchThing", "anything"))


def test_what_decides_is_quoted_from_a_schema_or_says_must() -> None:
    weak = [
        row.id
        for row in ROWS
        if row.decides and not DOCUMENTS[row.source.document].file.endswith(".json") and not _is_binding(row)
    ]
    assert weak == []


def _is_binding(row: Requirement) -> bool:
    """Whether a sentence of prose binds agents: it says MUST, or states what holds, or what clients may do."""
    quote = row.source.quote.replace("the Client may", "")
    return bool(_DECIDES.search(quote)) or not re.search(r"SHOULD|MAY|should|may\b", quote)


def test_every_requirement_has_a_defect_and_every_defect_a_requirement() -> None:
    assert set(defects()) == {row.id for row in ROWS}


def test_every_requirement_shows_a_violation_and_is_one_sentence() -> None:
    assert [row.id for row in ROWS if not row.violation or not row.text.endswith(".")] == []
