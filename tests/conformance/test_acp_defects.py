"""The conforming agent passes everything; each defect fails its requirement and nothing else. All in memory."""

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

# Where a passive requirement is violated first; where nothing is named, a turn with tools shows it.
SHOWN_BY = {
    "ACP1-A-FRAME-003": "close-idle",
    "ACP1-A-FRAME-020": "close-idle",
    "ACP1-A-RPC-001": "list",
    "ACP1-A-RPC-021": "unknown-methods",
    "ACP1-A-AUTH-001": "three-sessions",
    "ACP1-A-AUTH-003": "three-sessions",
    "ACP1-A-RPC-002": "delete",
    "ACP1-A-RPC-003": "modes",
    "ACP1-A-RPC-004": "list",
    "ACP1-A-RPC-005": "unknown-methods",
    "ACP1-A-RPC-019": "three-sessions",
    "ACP1-A-RPC-020": "close",
    "ACP1-A-INIT-002": "initialize-bare",
    "ACP1-A-INIT-005": "initialize-bare",
    "ACP1-A-NEW-001": "three-sessions",
    "ACP1-A-LIST-001": "list",
    "ACP1-A-LIST-007": "list",
    "ACP1-A-LIST-008": "list",
    "ACP1-A-LOAD-001": "load",
    "ACP1-A-RESUME-001": "resume",
    "ACP1-A-PROMPT-001": "resource-link",
    "ACP1-A-PROMPT-013": "resource-link",
    "ACP1-A-UPDATE-001": "load",
    "ACP1-A-UPDATE-008": "modes",
    "ACP1-A-UPDATE-009": "modes",
    "ACP1-A-ORDER-001": "cancel",
    "ACP1-A-TOOL-007": "permission-allowed-always",
    "ACP1-A-FS-001": "minimal-client",
    "ACP1-A-FS-002": "minimal-client",
    "ACP1-A-TERM-001": "minimal-client",
    "ACP1-A-MODE-001": "three-sessions",
    "ACP1-A-MODE-002": "three-sessions",
    "ACP1-A-MODE-003": "modes",
    "ACP1-A-MODE-007": "modes",
    "ACP1-A-CONFIG-001": "three-sessions",
    "ACP1-A-CONFIG-002": "three-sessions",
    "ACP1-A-CONFIG-003": "minimal-client",
    "ACP1-A-CONFIG-004": "three-sessions",
    "ACP1-A-CONFIG-009": "config-options",
    "ACP1-A-CONFIG-010": "three-sessions",
}
ROWS = {row.id: row for row in suite().requirements}


def test_the_conforming_agent_passes_every_requirement() -> None:
    outcome = run(Plan(suite(), in_memory(conforming()), OPTIONS, jobs=1))
    assert {r.requirement.id: r.verdict for r in outcome.results if r.verdict.outcome != "pass"} == {}
    assert outcome.code == 0


@pytest.mark.parametrize("name", ROWS)
def test_a_defect_fails_its_requirement_and_nothing_else_in_its_scenario(name: str) -> None:
    scenario = ROWS[name].scenario or SHOWN_BY.get(name, "tool-turn")
    transcript = transcript_of(scenario, defect(name))
    shown = {row.id: row for row in ROWS.values() if row.scenario in (None, scenario)}
    assert shown_failing(transcript, shown) == {name}


@pytest.mark.slow
@pytest.mark.parametrize("name", defects())
def test_a_defect_fails_its_requirement_and_nothing_else_in_the_whole_suite(name: str) -> None:
    outcome = run(Plan(suite(), in_memory(defect(name)), OPTIONS, jobs=1))
    assert outcome.obstacle == ""
    assert failing(outcome) == {name}
    assert outcome.code == (1 if ROWS[name].decides else 0)
