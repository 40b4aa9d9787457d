"""The conforming MCP server passes everything; each defect fails its requirement and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conformance.peers.process import ProcessPeer
from conformance.runner import Plan, run
from tests.conformance.suite_runs import (
    PEERS,
    SUBJECTS,
    conforming,
    defect,
    defects,
    failing,
    in_memory,
    shown_failing,
    suite,
    transcript_of,
)

# Where a passive requirement is violated first; where nothing is named, the opening shows it.
_SHOWN = {
    "calls-2025-11-25": "FRAME-018 TOOL-009 CALL-001",
    "lists-2025-11-25": "RPC-001 RPC-002 RPC-004 RPC-012 LIST-002 LIST-003 LIST-004 LIST-005",
    "prompts-2025-11-25": "RPC-003 PROMPT-001 PROMPT-002 PROMPT-003 PROMPT-004",
    "long-line": "RPC-005",
    "discover": "META-001 META-010",
    "lists-2026-07-28": "META-007 META-008 META-011 META-013 META-014 LIST-008 LIST-009",
    "resources-2026-07-28": "META-009",
    "calls-2026-07-28": "META-012",
    "cursors-2025-11-25": "LIST-006",
    "undeclared-2025-11-25": "LIST-010 LIST-011 LIST-012 LIST-013",
    "wrong-calls-2025-11-25": "TOOL-004 TOOL-005 TOOL-006 TOOL-007 TOOL-008",
    "resources-2025-11-25": "CALL-004 RES-001 RES-002 RES-003",
    "completions-2025-11-25": "COMPLETE-001 COMPLETE-002 COMPLETE-003",
    "subscribe": "EMPTY-001 SUB-004",
    "progress-2025-11-25": "PROG-001 PROG-002 PROG-003 PROG-004",
    "cancel-2025-11-25": "CANCEL-001 CANCEL-002",
    "cancel-2026-07-28": "CANCEL-005",
    "cancel-stale-2025-11-25": "CANCEL-003",
    "cancel-malformed-2025-11-25": "CANCEL-004",
    "listen": "SUB-007",
}
SHOWN_BY = {f"MCP-S-{one}": scenario for scenario, names in _SHOWN.items() for one in names.split()}
ROWS = {row.id: row for row in suite("mcp").requirements}
OPTIONS = SUBJECTS["mcp"].options
SERVER = [sys.executable, str(PEERS / "run_mcp_server.py")]


def test_the_conforming_server_passes_every_requirement() -> None:
    outcome = run(Plan(suite("mcp"), in_memory(conforming("mcp"), "mcp"), OPTIONS, jobs=1))
    assert {r.requirement.id: r.verdict for r in outcome.results if r.verdict.outcome != "pass"} == {}
    assert outcome.code == 0


@pytest.mark.parametrize("name", ROWS)
def test_a_defect_fails_its_requirement_and_nothing_else_in_its_scenario(name: str) -> None:
    scenario = ROWS[name].scenario or SHOWN_BY.get(name, "opening")
    transcript = transcript_of(scenario, defect(name, "mcp"), "mcp")
    shown = {row.id: row for row in ROWS.values() if row.scenario in (None, scenario)}
    assert shown_failing(transcript, shown, "mcp") == {name}


@pytest.mark.slow
@pytest.mark.parametrize("name", defects("mcp"))
def test_a_defect_fails_its_requirement_and_nothing_else_in_the_whole_suite(name: str) -> None:
    outcome = run(Plan(suite("mcp"), in_memory(defect(name, "mcp"), "mcp"), OPTIONS, jobs=1))
    assert outcome.obstacle == ""
    assert failing(outcome) == {name}
    assert outcome.code == (1 if ROWS[name].decides else 0)


@pytest.mark.slow
def test_the_conforming_server_passes_as_a_process() -> None:
    outcome = run(Plan(suite("mcp"), lambda: ProcessPeer(SERVER, Path.cwd(), {}), OPTIONS))
    assert {r.requirement.id: r.verdict for r in outcome.results if r.verdict.outcome != "pass"} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in defects("mcp") if name.endswith("-001")])
def test_a_defect_fails_its_requirement_as_a_process(name: str) -> None:
    scenario = ROWS[name].scenario or SHOWN_BY.get(name, "opening")
    wanted = {row.id: row for row in ROWS.values() if row.scenario in (None, scenario)}
    plan = Plan(suite("mcp"), lambda: ProcessPeer([*SERVER, name], Path.cwd(), {}), OPTIONS, chosen=wanted)
    assert failing(run(plan)) == {name}


def test_a_server_that_says_nothing_is_asked_once_and_not_judged() -> None:
    class Silent(conforming("mcp")):
        def receive(self, data: bytes) -> None:
            pass

    outcome = run(Plan(suite("mcp"), in_memory(Silent, "mcp"), OPTIONS))
    assert outcome.code == 3
    assert outcome.obstacle == "the server did not answer initialize before its connection ended, 10.0 s later"
    assert outcome.transcripts[0].entries[-1].ms <= (OPTIONS.timeout + 3) * 1000


def test_a_server_of_the_later_version_alone_is_judged_by_what_applies() -> None:
    class Modern(conforming("mcp")):
        def handlers(self, version: str) -> dict[str, object]:
            return super().handlers(version) if version == "2026-07-28" else {}

    outcome = run(Plan(suite("mcp"), in_memory(Modern, "mcp"), OPTIONS, jobs=1))
    assert outcome.code == 0, outcome.violations
    verdicts = {r.requirement.id: r.verdict.outcome for r in outcome.results}
    assert (verdicts["MCP-S-INIT-001"], verdicts["MCP-S-META-002"]) == ("skipped", "pass")
    assert verdicts["MCP-S-FRAME-005"] == verdicts["MCP-S-TOOL-009"] == "pass"


def test_a_server_of_another_version_is_not_judged() -> None:
    class Older(conforming("mcp")):
        def initialize(self, request: dict[str, object], params: dict[str, object]) -> dict[str, object]:
            return {**super().initialize(request, params), "protocolVersion": "2024-11-05"}

        def discover(self, request: dict[str, object], params: dict[str, object]) -> dict[str, object]:
            return {**super().discover(request, params), "supportedVersions": ["2027-01-01"]}

    outcome = run(Plan(suite("mcp"), in_memory(Older, "mcp"), OPTIONS))
    assert outcome.code == 3
    assert outcome.obstacle.startswith("the server speaks version 2024-11-05")
