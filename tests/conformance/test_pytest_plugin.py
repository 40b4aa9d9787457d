"""The pytest plugin in other projects: its items, its failures, and its isolation."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import psutil
import pytest

from tests.conformance.suite_runs import PEERS, suite

AGENT = [sys.executable, str(PEERS / "run_acp_agent.py")]
OPTIONS = "--acp-options=--prompt hello --slow-prompt count --tool-prompt tool --keep kept"
SERVER = [sys.executable, str(PEERS / "run_mcp_server.py")]
OURS = ("acp_adapter", "conformance", "engine", "mcp_tools", "rewindow")


def run_pytest(project: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=project, env={**os.environ, **env}, capture_output=True, text=True, timeout=120)


def judged(project: Path, agent: list[str], *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run_pytest(project, "--acp-agent", shlex.join(agent), OPTIONS, *arguments, **env)


def test_plugin_imports_no_other_package() -> None:
    source = f"import sys, rewindow_pytest; print([n for n in sys.modules if n.startswith({OURS!r})])"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "['rewindow_pytest']", done.stderr


@pytest.mark.slow
def test_unused_plugin_imports_no_other_module(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        f"    found = {{n for n in sys.modules if n.startswith({OURS!r})}}\n"
        "    assert found == {'rewindow_pytest'}\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_empty_project_has_item_per_requirement(tmp_path: Path) -> None:
    done = judged(tmp_path, ["/no/such/program"], "--collect-only", "-q")
    assert done.returncode == 0, done.stdout
    listed = [line for line in done.stdout.splitlines() if "::" in line]
    assert listed == [f"conformance.acp::{row.id}" for row in suite().requirements]


@pytest.mark.slow
def test_failure_text_matches_the_report(tmp_path: Path) -> None:
    done = judged(tmp_path, [*AGENT, "ACP1-A-PROMPT-005"], "-k", "PROMPT-005 or NEW-002", "--junitxml", "report.xml")
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "session/prompt was answered with the error" in done.stdout
    assert f"again: rewindow-conformance replay {Path('kept', 'resource-link.jsonl')}" in done.stdout
    assert "rewindow_pytest.py" not in done.stdout
    assert (tmp_path / "kept" / "resource-link.jsonl").exists()
    cases = {case.get("name"): len(case) for case in ET.parse(tmp_path / "report.xml").iter("testcase")}
    assert cases == {"ACP1-A-NEW-002": 0, "ACP1-A-PROMPT-005": 1}


@pytest.mark.slow
def test_failure_contains_no_given_key(tmp_path: Path) -> None:
    key = "key-of-mine-9"
    agent = ["env", f"API_KEY={key}", *AGENT, "ACP1-A-PROMPT-005"]
    done = judged(tmp_path, agent, "-k", "PROMPT-005", "--junitxml", "report.xml")
    assert "1 failed" in done.stdout
    report = (tmp_path / "report.xml").read_text()
    for text in (done.stdout, report):
        assert "API_KEY=***" in text
        assert key not in text


@pytest.mark.slow
def test_project_with_same_package_names(tmp_path: Path) -> None:
    for name in ("conformance", "engine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True\n")
    (tmp_path / "test_mine.py").write_text(
        "import conformance, engine\ndef test_mine():\n    assert conformance.MINE and engine.MINE\n"
    )
    done = judged(tmp_path, AGENT, "-k", "NEW-003 or mine", PYTHONPATH=str(tmp_path))
    assert "2 passed" in done.stdout, done.stdout


@pytest.mark.slow
def test_workers_share_one_run(tmp_path: Path) -> None:
    agent = tmp_path / "agent.sh"
    agent.write_text(f"#!/bin/sh\necho started >> {tmp_path}/starts\nexec {shlex.join(AGENT)}\n")
    agent.chmod(0o755)
    done = judged(tmp_path, ["./agent.sh"], "-k", "NEW-002 or NEW-003", "-n", "2", "--dist", "each")
    assert "4 passed" in done.stdout, done.stdout
    assert len((tmp_path / "starts").read_text().split()) == len({"opening", "new-session", "new-without-cwd"})


@pytest.mark.slow
def test_server_and_agent_in_one_run(tmp_path: Path) -> None:
    server = shlex.join([*SERVER, "MCP-S-RPC-008"])
    mcp = ["--mcp-server", server, "--mcp-options=--keep kept"]
    done = judged(tmp_path, AGENT, *mcp, "-k", "NEW-003 or RPC-008 and MCP or RPC-009 and MCP")
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "conformance.mcp::MCP-S-RPC-008" in done.stdout
    assert "again: rewindow-conformance replay kept/unknown-methods.jsonl" in done.stdout


@pytest.mark.slow
def test_unjudged_server_fails_with_reason(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--mcp-server", "/no/such/program", "-k", "RPC-008")
    assert done.returncode == 1
    assert "the server was not judged: /no/such/program cannot be started: No such file" in done.stdout


@pytest.mark.slow
def test_inapplicable_items_are_skipped_with_reason(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    request = json.loads(line)\n"
        "    result = {'protocolVersion': 1} if request['method'] == 'initialize' else {'sessionId': 's'}\n"
        "    result = {'stopReason': 'end_turn'} if request['method'] == 'session/prompt' else result\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result}), flush=True)\n"
    )
    done = judged(tmp_path, [sys.executable, str(agent)], "-k", "LOAD-001", "-rs")
    assert done.returncode == 0, done.stdout
    assert "1 skipped" in done.stdout
    assert "is not advertised" in done.stdout


@pytest.mark.slow
def test_unjudged_agent_fails_with_reason(tmp_path: Path) -> None:
    done = judged(tmp_path, ["/no/such/program"], "-k", "NEW-003")
    assert done.returncode == 1
    assert "the agent was not judged: /no/such/program cannot be started: No such file" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["--acp-agent", ""], "name the command", 4),
        (["--mcp-server", " "], "--mcp-server: name the command that starts the server", 4),
        (["--acp-agent", "'"], "No closing quotation", 4),
        (["--acp-agent", "x", "--acp-options='"], "No closing quotation", 4),
        (["--acp-agent", "x", "--acp-options=--nonsense", "-k", "NEW-003"], "acp has no option --nonsense", 1),
    ],
)
def test_wrong_options_are_errors(tmp_path: Path, arguments: list[str], said: str, code: int) -> None:
    done = run_pytest(tmp_path, *arguments)
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_pytest_leaves_no_processes(tmp_path: Path, number: signal.Signals) -> None:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    hangs = [sys.executable, "-c", f"import time; time.sleep(600) # {mark}"]
    command = [sys.executable, "-m", "pytest", "--acp-agent", shlex.join(hangs), "-k", "NEW-003"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def agents() -> list[int]:
        every = psutil.process_iter(["cmdline"])
        return [one.pid for one in every if one.pid != process.pid and mark in " ".join(one.info["cmdline"] or ())]

    def wait_for(count: int, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while len(agents()) != count and time.monotonic() < deadline:
            time.sleep(0.05)
        return len(agents()) == count

    assert wait_for(2, 30)  # the suite and the agent
    process.send_signal(number)
    process.wait(20)
    assert wait_for(0, 8)
