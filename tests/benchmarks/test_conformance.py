"""The suite on the conformance suite runs, and what it has judged is without a fault."""

from __future__ import annotations

from pathlib import Path

from benchmarks import bench_conformance
from conformance.suites.registry import SUITES
from conformance.transcript import load


def test_judged_transcript_has_its_message_count_and_no_violation(tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl"
    path.write_text("".join(line + "\n" for line in bench_conformance.transcript(500)))
    found = load(path)
    assert len([entry for entry in found.entries if entry.kind != "mark"]) == 500
    suite = SUITES["acp"]()
    passive = {row.id: row for row in suite.requirements if row.scenario is None}
    results = suite.judge([found], passive)
    assert [result.requirement.id for result in results if result.verdict.outcome == "fail"] == []
    assert sum(result.verdict.outcome == "pass" for result in results) > 20
