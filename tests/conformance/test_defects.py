"""The conforming peer of each suite passes everything; each defect fails its requirement and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conformance.judging import Requirement
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

SUITES = ("acp", "acp-2", "acp-client", "remote", "mcp")
_MCP_SHOWN_BY = {
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
# The scenario that first shows a violation of a requirement without a scenario; by default, DEFAULT_SCENARIO does.
SHOWN_BY = {
    "acp": {
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
    },
    "acp-2": {
        "ACP2-A-FRAME-001": "array",
        "ACP2-A-RPC-001": "list",
        "ACP2-A-RPC-002": "list",
        "ACP2-A-RPC-003": "resume-cursor",
        "ACP2-A-RPC-004": "list",
        "ACP2-A-RPC-005": "unknown-methods",
        "ACP2-A-RPC-007": "tool-turn",
        "ACP2-A-RPC-010": "list",
    },
    "acp-client": {
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
    },
    "remote": {},
    "mcp": {f"MCP-S-{one}": scenario for scenario, names in _MCP_SHOWN_BY.items() for one in names.split()},
}
DEFAULT_SCENARIO = {
    "acp": "tool-turn",
    "remote": "opening",
    "acp-2": "opening",
    "acp-client": "opening",
    "mcp": "opening",
}
ROWS = {of: {row.id: row for row in suite(of).requirements} for of in SUITES}
EACH = [(of, name) for of in SUITES for name in ROWS[of]]
SERVER = [sys.executable, str(PEERS / "run_mcp_server.py")]


def showing_scenario(of: str, row: Requirement) -> str:
    """The scenario in which the defect of a requirement shows."""
    return row.scenario or SHOWN_BY[of].get(row.id, DEFAULT_SCENARIO[of])


@pytest.mark.parametrize("of", SUITES)
def test_conforming_peer_passes_every_requirement(of: str) -> None:
    outcome = run(Plan(suite(of), in_memory(conforming(of), of), SUBJECTS[of].options, jobs=1))
    assert {r.requirement.id: r.verdict for r in outcome.results if r.verdict.outcome != "pass"} == {}
    assert outcome.code == 0


@pytest.mark.parametrize(("of", "name"), EACH)
def test_defect_fails_only_its_requirement_in_its_scenario(of: str, name: str) -> None:
    scenario = showing_scenario(of, ROWS[of][name])
    transcript = transcript_of(scenario, defect(name, of), of)
    shown = {row.id: row for row in ROWS[of].values() if row.scenario in (None, scenario)}
    assert shown_failing(transcript, shown, of) == {name}


@pytest.mark.slow
@pytest.mark.parametrize(("of", "name"), [(of, name) for of in SUITES for name in defects(of)])
def test_defect_fails_only_its_requirement_in_the_suite(of: str, name: str) -> None:
    outcome = run(Plan(suite(of), in_memory(defect(name, of), of), SUBJECTS[of].options, jobs=1))
    assert outcome.obstacle == ""
    assert failing(outcome) == {name}
    assert outcome.code == (1 if ROWS[of][name].decides else 0)


@pytest.mark.slow
def test_conforming_server_passes_as_a_process() -> None:
    outcome = run(Plan(suite("mcp"), lambda: ProcessPeer(SERVER, Path.cwd(), {}), SUBJECTS["mcp"].options))
    assert {r.requirement.id: r.verdict for r in outcome.results if r.verdict.outcome != "pass"} == {}
