"""`rewindow-acp`, judged by our own conformance suite, with no exceptions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.cli import main
from tests.support.agents import AGENT

pytestmark = pytest.mark.slow
SLOW = "import time\nfor number in range(60):\n    print(number)\n    time.sleep(0.1)"
ACTS = "write('conformance.txt', 'ok')\nbash('true')"
SHOWN = {
    "ACP1-A-AUTH-002",
    "ACP1-A-MCP-001",
    "ACP1-A-CANCEL-001",
    "ACP1-A-LOAD-001",
    "ACP1-A-TOOL-002",
    "ACP1-A-FRAME-007",
    "ACP1-A-ORDER-001",
}
"""What must have been tried, so that an agent that offers nothing does not pass."""


def test_our_agent_conforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWINDOW_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))  # whose stored keys the logout removes
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    report = tmp_path / "report.json"
    prompts = ["--prompt", "1 + 1", "--slow-prompt", SLOW, "--tool-prompt", ACTS]
    options = [
        "--allow-always",
        "--allow-logout",
        "--timeout",
        "60",
        "--scenario-timeout",
        "120",
        "--budget",
        "900",
        "--json",
        str(report),
    ]
    code = main(
        ["acp", *prompts, *options, "--keep", str(tmp_path / "failures"), "--", str(AGENT), "--model", "direct"]
    )
    results = {one["id"]: one for one in json.loads(report.read_text())["results"]}
    assert code == 0, [(one["id"], one["reason"]) for one in results.values() if one["violation"]]
    assert {name: results[name]["reason"] for name in SHOWN if results[name]["outcome"] != "pass"} == {}
