"""Requirements, scenarios, judges, quotes and defects match each other, both ways."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from conformance.documents import Source, binds, stands
from conformance.suites import SUITES
from tests.conformance.suite_runs import SUBJECTS, defects, suite

ROWS = suite().requirements
each_suite = pytest.mark.parametrize("name", SUBJECTS)


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
def test_what_decides_says_must_or_is_a_keyword_of_a_schema(name: str) -> None:
    assert [row.id for row in suite(name).requirements if row.decides and not binds(row.source)] == []


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
def test_a_description_binds_nobody_unless_it_says_must(place: str, quote: str, binding: bool) -> None:
    source = Source("acp1.schema", place, quote)
    assert stands(source)
    assert binds(source) is binding


@pytest.mark.parametrize("word", ["SHOULD", "MAY", "RECOMMENDED", "mustard", "is"])
def test_no_other_word_binds(word: str) -> None:
    assert not binds(Source("acp1.prose", "initialization", f"Agents {word} answer."))


@each_suite
def test_every_requirement_has_a_defect_and_every_defect_a_requirement(name: str) -> None:
    assert set(defects(name)) == {row.id for row in suite(name).requirements}


@each_suite
def test_every_requirement_shows_a_violation_and_is_one_sentence(name: str) -> None:
    assert [row.id for row in suite(name).requirements if not row.violation or not row.text.endswith(".")] == []
