"""`rewindow-acp`, judged by our own conformance suite, with no exceptions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance.cli import main
from tests.support.agents import AGENT
from tests.support.remote import add_token, serving

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
LOCAL = {"ACP1-A-AUTH-002"}
"""What is not tried with a server: a logout removes keys."""


SHOWN_2 = {
    "ACP2-A-AUTH-001",
    "ACP2-A-PROMPT-002",
    "ACP2-A-STATE-001",
    "ACP2-A-CANCEL-001",
    "ACP2-A-CLOSE-001",
    "ACP2-A-RESUME-002",
    "ACP2-A-CONFIG-002",
}
"""The same for version 2."""
LIMITS = ("--timeout", "60", "--scenario-timeout", "120", "--budget", "900")


@pytest.mark.parametrize(
    ("version", "options", "shown"),
    [("1", ("--allow-always", "--allow-logout"), SHOWN), ("2", (), SHOWN_2)],
    ids=["version 1", "version 2"],
)
def test_our_agent_conforms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, options: Sequence[str], shown: set[str]
) -> None:
    monkeypatch.setenv("REWINDOW_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))  # whose stored keys the logout removes
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    report = tmp_path / "report.json"
    prompts = ["--prompt", "1 + 1", "--slow-prompt", SLOW, "--tool-prompt", ACTS]
    kept = ["--json", str(report), "--keep", str(tmp_path / "failures")]
    agent = ["--", str(AGENT), "--model", "direct"]
    code = main(["acp", "--protocol-version", version, *prompts, *options, *LIMITS, *kept, *agent])
    judged(code, report, shown)


@pytest.mark.parametrize("scheme", ["ws", "http"])
def test_our_agent_conforms_on_a_network(tmp_path: Path, scheme: str) -> None:
    state, report, token = tmp_path / "state", tmp_path / "report.json", tmp_path / "token"
    token.write_text(add_token(state))
    prompts = ["--prompt", "1 + 1", "--slow-prompt", SLOW, "--tool-prompt", ACTS, "--allow-always"]
    kept = ["--json", str(report), "--keep", str(tmp_path / "failures"), "--token-file", str(token)]
    with serving(state, "--model", "direct") as server:
        code = main(["acp", "--url", f"{scheme}://{server.url}", *prompts, *LIMITS, *kept])
    judged(code, report, SHOWN - LOCAL)


def judged(code: int, report: Path, shown: set[str]) -> None:
    results = {one["id"]: one for one in json.loads(report.read_text())["results"]}
    assert code == 0, [(one["id"], one["reason"]) for one in results.values() if one["violation"]]
    assert {name: results[name]["reason"] for name in shown if results[name]["outcome"] != "pass"} == {}
