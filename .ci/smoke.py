"""Runs every console script of the installed wheel once, from outside the checkout. Exits 1 at the first that fails."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

BIN = Path(sys.executable).parent
SECONDS = 60


def run(*command: str, stdin: str = "") -> str:
    done = subprocess.run(
        [str(BIN / command[0]), *command[1:]], input=stdin, capture_output=True, text=True, timeout=SECONDS
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} left with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def rewindow() -> None:
    assert "rewindow 0." in run("rewindow", "--version")
    assert "Examples:" in run("rewindow", "--help")
    assert "a worker started and ran a statement" in run("rewindow", "doctor")
    assert "No sessions yet" in run("rewindow", "sessions")


def rewindow_acp() -> None:
    assert "rewindow-acp" in run("rewindow-acp", "--help")
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    answer = json.loads(run("rewindow-acp", stdin=json.dumps(request)))
    assert answer["result"]["protocolVersion"] == 1, answer
    assert answer["result"]["authMethods"], answer


def rewindow_mcp() -> None:
    """Lists its tools to a client of the newest protocol."""
    assert "rewindow-mcp" in run("rewindow-mcp", "--help")
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    answer = json.loads(run("rewindow-mcp", stdin=json.dumps(request) + "\n"))
    assert [tool["name"] for tool in answer["result"]["tools"]] == ["view", "group", "tick", "timeline"]


def rewindow_conformance() -> None:
    """Lists its requirements, in pytest too, and judges our engine."""
    assert "ACP1-A-INIT-001" in run("rewindow-conformance", "list")
    assert "::ACP1-A-INIT-001" in run("pytest", "--acp-agent", "my-agent", "--collect-only", "-q")
    assert "Conformant." in run("rewindow-conformance", "vectors", "--", str(BIN / "rewindow"), "vectors-adapter")


CHECKS = {
    "rewindow-mcp": rewindow_mcp,
    "rewindow": rewindow,
    "rewindow-acp": rewindow_acp,
    "rewindow-conformance": rewindow_conformance,
}


def main() -> None:
    scripts = {
        script.name
        for script in entry_points(group="console_scripts")
        if script.dist and script.dist.name == "rewindow"
    }
    assert scripts == set(CHECKS), f"console scripts {sorted(scripts)}, checks for {sorted(CHECKS)}"
    for name, check in CHECKS.items():
        check()
        print(f"{name}: works from the wheel")


main()
