"""Requirements, scenarios, judges, quotes and defects match each other, both ways."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from conformance.documents import Source, is_binding, quote_exists
from conformance.suites.registry import SUITES
from tests.conformance.suite_runs import SUBJECTS, defects, suite

ROWS = suite().requirements
each_suite = pytest.mark.parametrize("name", SUBJECTS)


def test_every_suite_has_peers() -> None:
    assert set(SUBJECTS) == set(SUITES)


@each_suite
def test_ids_are_unique_and_well_formed(name: str) -> None:
    rows = suite(name).requirements
    assert [one for one, count in Counter(row.id for row in rows).items() if count > 1] == []
    assert [row.id for row in rows if not re.fullmatch(SUBJECTS[name].ids, row.id)] == []


@each_suite
def test_scenarios_and_requirements_match(name: str) -> None:
    scenarios = {scenario.name: scenario for scenario in suite(name).every_scenario()}
    assert len(scenarios) == len(suite(name).every_scenario())
    named = {row.scenario for row in suite(name).requirements if row.scenario}
    assert named <= set(scenarios)
    unnamed = {name for name, scenario in scenarios.items() if not scenario.passive} - named
    assert unnamed == set()
    assert {name for name, scenario in scenarios.items() if scenario.passive} & named == set()


@each_suite
def test_every_quote_is_at_its_source(name: str) -> None:
    assert [row.id for row in suite(name).requirements if not quote_exists(row.source)] == []


def test_changed_quote_is_not_found() -> None:
    row = ROWS[0]
    assert not quote_exists(Source(row.source.document, row.source.place, row.source.quote.replace("NOT", "SOMETIMES")))


def test_unknown_place_is_an_error() -> None:
    with pytest.raises(LookupError):
        quote_exists(Source("acp1.schema", "/$defs/NoSuchThing", "anything"))


@each_suite
def test_deciding_requirements_have_binding_quotes(name: str) -> None:
    assert [row.id for row in suite(name).requirements if row.decides and not is_binding(row.source)] == []


@pytest.mark.parametrize(
    ("place", "quote", "binding"),
    [
        ("/$defs/NewSessionRequest/required", '["cwd", "mcpServers"]', True),
        ("/anyOf/0/properties/jsonrpc", '"enum": ["2.0"]', True),
        ("/$defs/McpServer/anyOf/2", "All Agents MUST support this transport.", True),
        ("/$defs/ToolCallLocation/properties/line", "Optional 1-based line number within the file.", False),
        ("/$defs/SessionNotification/properties/update", "The actual update content.", False),
        ("/$defs/ReadTextFileRequest/properties/line", '"type": ["integer", "null"]', False),
        ("/$defs/SelectedPermissionOutcome/properties/optionId", '"description": "The ID of the option', False),
    ],
)
def test_description_without_must_does_not_bind(place: str, quote: str, binding: bool) -> None:
    source = Source("acp1.schema", place, quote)
    assert quote_exists(source)
    assert is_binding(source) is binding


@pytest.mark.parametrize("word", ["SHOULD", "MAY", "RECOMMENDED", "mustard", "is"])
def test_other_words_do_not_bind(word: str) -> None:
    assert not is_binding(Source("acp1.prose", "initialization", f"Agents {word} answer."))


@each_suite
def test_requirements_and_defects_match(name: str) -> None:
    assert set(defects(name)) == {row.id for row in suite(name).requirements}


@each_suite
def test_requirements_have_one_sentence_and_a_violation(name: str) -> None:
    assert [row.id for row in suite(name).requirements if not row.violation or not row.text.endswith(".")] == []
