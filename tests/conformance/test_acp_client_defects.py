"""The conforming client passes everything; each defect fails its requirement and nothing else. All in memory."""

from __future__ import annotations

import pytest

from conformance.runner import Plan, run
from tests.conformance.suite_runs import (
    OPTIONS,
    conforming,
    defect,
    defects,
    failing,
    in_memory,
    shown_failing,
    suite,
    transcript_of,
)

NAME = "acp-client"
# Where a passive requirement is violated first; where nothing is named, the opening shows it.
SHOWN_BY = {
    "ACP1-C-RPC-001": "everything-offered",
    "ACP1-C-RPC-002": "malformed-lines",
    "ACP1-C-RPC-003": "malformed-lines",
    "ACP1-C-RPC-004": "unknown-methods",
    "ACP1-C-RPC-005": "unknown-notifications",
    "ACP1-C-RPC-016": "terminal",
    "ACP1-C-RPC-017": "everything-offered",
    "ACP1-C-INIT-013": "elicitation",
    "ACP1-C-AUTH-001": "authentication",
    "ACP1-C-NEW-006": "everything-offered",
    "ACP1-C-MODE-001": "everything-offered",
    "ACP1-C-CONFIG-001": "everything-offered",
    "ACP1-C-FS-001": "read-file",
    "ACP1-C-FS-014": "write-file",
    "ACP1-C-TERM-001": "terminal",
    "ACP1-C-TERM-002": "terminal",
    "ACP1-C-TERM-003": "terminal",
    "ACP1-C-PERM-001": "permission",
    "ACP1-C-PERM-002": "permission",
    "ACP1-C-PERM-003": "cancel-permission",
    "ACP1-C-PERM-006": "permission-unusual",
    "ACP1-C-CANCEL-001": "cancel",
    "ACP1-C-CANCEL-002": "cancel",
    "ACP1-C-CANCEL-003": "cancel",
}
ROWS = {row.id: row for row in suite(NAME).requirements}


def test_the_conforming_client_passes_every_requirement() -> None:
    outcome = run(Plan(suite(NAME), in_memory(conforming(NAME), NAME), OPTIONS, jobs=1))
    assert {r.requirement.id: r.verdict for r in outcome.results if r.verdict.outcome != "pass"} == {}
    assert outcome.code == 0


@pytest.mark.parametrize("name", ROWS)
def test_a_defect_fails_its_requirement_and_nothing_else_in_its_scenario(name: str) -> None:
    scenario = ROWS[name].scenario or SHOWN_BY.get(name, "opening")
    transcript = transcript_of(scenario, defect(name, NAME), NAME)
    shown = {row.id: row for row in ROWS.values() if row.scenario in (None, scenario)}
    assert shown_failing(transcript, shown, NAME) == {name}


@pytest.mark.slow
@pytest.mark.parametrize("name", defects(NAME))
def test_a_defect_fails_its_requirement_and_nothing_else_in_the_whole_suite(name: str) -> None:
    outcome = run(Plan(suite(NAME), in_memory(defect(name, NAME), NAME), OPTIONS, jobs=1))
    assert outcome.obstacle == ""
    assert failing(outcome) == {name}
    assert outcome.code == (1 if ROWS[name].decides else 0)
