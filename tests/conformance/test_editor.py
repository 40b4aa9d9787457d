"""The agent for editors: its chat runs what the user types and shows the results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.suites.acp1_client.permitting import CANCEL_NOW
from tests.conformance.suite_runs import PEERS

pytestmark = pytest.mark.slow

CLIENT = [sys.executable, str(PEERS / "run_acp_client.py")]
COMMAND = [sys.executable, "-m", "conformance", "acp-client", "--editor"]


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [*COMMAND, "--json", str(tmp_path / "report.json")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def path_of(editor: subprocess.Popen[str]) -> str:
    assert editor.stdout
    return editor.stdout.readline().strip()


def typed(agent: str, text: str, *defect: str) -> str:
    """Return what a client's chat shows after one prompt. Its user stops the turn on request."""
    shown: list[str] = []
    with subprocess.Popen(
        [*CLIENT, agent, *defect], env={**os.environ, "REFERENCE_PROMPT": text}, stderr=subprocess.PIPE, text=True
    ) as client:
        assert client.stderr
        for line in client.stderr:
            shown.append(line)
            if CANCEL_NOW in line:
                client.send_signal(signal.SIGINT)
    return "".join(shown)


def test_scenario_and_requirement_run_by_name(editor: subprocess.Popen[str]) -> None:
    agent = path_of(editor)
    assert "pass `ACP1-C-RPC-010`" in typed(agent, "unknown-methods")
    shown = typed(agent, "acp1-c-rpc-010", "ACP1-C-RPC-011")
    assert "pass `ACP1-C-RPC-010`" in shown
    assert "advice `ACP1-C-RPC-011` (advisory)" in shown
    assert "was answered with the code -32603, not with -32601." in shown
    assert "- `read-file`: Reads a file" in typed(agent, "what?")


def test_all_runs_scenarios_of_one_connection(editor: subprocess.Popen[str], tmp_path: Path) -> None:
    agent = path_of(editor)
    shown = typed(agent, "all")
    assert "fail" not in shown
    for scenario in ("cancel", "cancel-permission"):
        typed(agent, scenario)
    assert "| ACP1-C-CANCEL-004 |" in typed(agent, "report")
    editor.send_signal(signal.SIGINT)
    said, _ = editor.communicate(timeout=20)
    assert (editor.returncode, "Conformant." in said) == (0, True)
    report = json.loads((tmp_path / "report.json").read_text())
    outcomes = {result["id"]: result["outcome"] for result in report["results"]}
    assert {name for name, outcome in outcomes.items() if outcome == "fail"} == set()
    assert outcomes["ACP1-C-PERM-003"] == outcomes["ACP1-C-TERM-013"] == outcomes["ACP1-C-FS-001"] == "pass"
    assert not Path(agent).exists()
