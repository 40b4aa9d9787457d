"""`rewindow-mcp` on stdio, judged by our own conformance suite in both versions of the protocol, with no exceptions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from conformance.cli import main

pytestmark = pytest.mark.slow
SERVER = str(Path(sys.executable).parent / "rewindow-mcp")
SHOWN = {
    "MCP-S-FRAME-010",
    "MCP-S-META-001",
    "MCP-S-INIT-001",
    "MCP-S-TOOL-009",
    "MCP-S-RES-001",
    "MCP-S-SUB-001",
    "MCP-S-SUB-005",
}
"""What must have been tried, so that a server that offers nothing does not pass."""


def test_our_server_on_stdio_conforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\ntwo\n")
    monkeypatch.chdir(project)
    report = tmp_path / "report.json"
    waits = ["--slow-tool", "tick", "--slow-arguments", '{"wait": 4}']
    options = [*waits, "--timeout", "60", "--scenario-timeout", "120", "--budget", "900", "--json", str(report)]
    state = ["--state-dir", str(tmp_path / "state")]
    code = main(["mcp", *options, "--keep", str(tmp_path / "failures"), "--", SERVER, *state])
    results = {one["id"]: one for one in json.loads(report.read_text())["results"]}
    assert code == 0, [(one["id"], one["reason"]) for one in results.values() if one["violation"]]
    assert {name for name in SHOWN if results[name]["outcome"] != "pass"} == set()
