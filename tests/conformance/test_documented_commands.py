"""Runs every command line of the documentation and of `--help` in a fresh directory."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from conformance.cli import COMMANDS, main
from conformance.driver import Options
from conformance.fuzzing.campaign import play
from conformance.fuzzing.targets import TARGETS
from tests.conformance.suite_runs import OPTIONS, PEERS, conforming, in_memory, transcript_of

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/conformance.md", "docs/conformance-formats.md")
BIN = Path(sys.executable).parent
OURS = ("rewindow-conformance", "pytest --")


@dataclass(frozen=True)
class Run:
    """The exit code and output of a command. A whole suite takes half a minute, so it runs once, and `added` options
    shorten the other runs."""

    code: int = 0
    said: str = "Conformant."
    added: tuple[str, ...] = ()
    replaced: dict[str, str] = field(default_factory=dict[str, str])
    interrupted: bool = False
    """Whether to press Ctrl-C after it prints a line."""


CALLS_SLOWLY = "--slow-tool build --slow-arguments '{\"seconds\": 5}' -k CANCEL -k PROG"
AGENT, CLIENT, SERVER = (("-k", word) for word in ("ACP1-A-INIT-003", "ACP1-C-RPC-010", "MCP-S-RPC-008"))
RUNS = {
    "rewindow-conformance acp -- my-agent --its-arguments": Run(),
    "rewindow-conformance acp -- my-agent --acp": Run(added=AGENT),
    "rewindow-conformance acp -k CANCEL -- my-agent": Run(),
    "rewindow-conformance acp --json report.json -- my-agent": Run(added=AGENT),
    'rewindow-conformance acp --env API_KEY=x --slow-prompt "Count to 500, a number on each line." -- my-agent': Run(
        added=AGENT
    ),
    "rewindow-conformance acp --jobs 1 --timeout 30 --scenario-timeout 120 -- my-slow-agent": Run(added=AGENT),
    "rewindow-conformance acp -k LOAD -k RESUME -- my-agent": Run(),
    "rewindow-conformance acp --protocol-version 2 -- my-new-agent": Run(),
    "rewindow-conformance acp --url wss://agents.example/acp --token-file token --cwd /a/directory/there": Run(
        code=2, said="--token-file: token cannot be read: No such file or directory"
    ),
    "rewindow-conformance acp --url https://agents.example/acp --token-file token --transport": Run(
        code=2, said="--token-file: token cannot be read: No such file or directory"
    ),
    "rewindow-conformance acp-client -- my-client --agent {agent}": Run(added=CLIENT),
    'rewindow-conformance acp-client -- my-client --agent {agent} "Hello."': Run(),
    'rewindow-conformance acp-client -- acpx --agent {agent} --cwd {cwd} --approve-all exec "Hello."': Run(
        added=CLIENT
    ),
    "rewindow-conformance acp-client -- sh -c 'echo Hello. | my-client \"$0\"' {agent}": Run(added=CLIENT),
    "rewindow-conformance acp-client -k TERM -- my-client --agent {agent}": Run(),
    "rewindow-conformance acp-client --editor": Run(code=3, said="/agent", interrupted=True),
    "rewindow-conformance mcp -- my-server": Run(added=SERVER),
    "rewindow-conformance mcp -- my-server --its-arguments": Run(),
    'rewindow-conformance mcp --tool search --arguments \'{"query": "x"}\' -- my-server': Run(
        added=SERVER, replaced={"search": "echo", "query": "text"}
    ),
    f"rewindow-conformance mcp {CALLS_SLOWLY} -- my-server": Run(replaced={"build": "slow"}),
    "rewindow-conformance mcp --cwd ~/project -- my-file-server ~/project": Run(
        added=SERVER, replaced={"~/project": "project"}
    ),
    "rewindow-conformance mcp --url http://127.0.0.1:8000/mcp": Run(code=2, said="the official suite"),
    "rewindow-conformance vectors -- my-adapter": Run(),
    "rewindow-conformance vectors -- ADAPTER": Run(replaced={"ADAPTER": "my-adapter"}),
    "rewindow-conformance vectors -k CYCLES -- my-adapter": Run(),
    "rewindow-conformance vectors -- rewindow vectors-adapter": Run(),
    "rewindow-conformance trace -- my-agent --acp": Run(said=""),
    "rewindow-conformance trace --report report.txt --transcript traffic.jsonl -- my-agent": Run(said=""),
    "rewindow-conformance judge --suite acp --html report.html traffic.jsonl": Run(),
    "rewindow-conformance judge failures/cancel.jsonl": Run(),
    "rewindow-conformance judge --suite acp session-of-another-client.jsonl": Run(),
    "rewindow-conformance replay failures/cancel.jsonl -- my-agent": Run(),
    'rewindow-conformance replay failures/cancel.jsonl --slow-prompt "Write a long story." -- my-agent': Run(
        replaced={"Write a long story": "count"}
    ),
    "rewindow-conformance fuzz acp -- my-agent": Run(said="found", added=("--seconds", "1")),
    "rewindow-conformance fuzz acp --seconds 600 --seed 7 -- my-agent": Run(said="found", replaced={"600": "1"}),
    "rewindow-conformance fuzz mcp --seconds 600 --seed 7 -- my-server": Run(said="found", replaced={"600": "1"}),
    "rewindow-conformance replay fuzz.jsonl -- my-agent": Run(said="no longer fails"),
    "rewindow-conformance list": Run(said="ACP1-A-CANCEL-001"),
    "rewindow-conformance list --level mandatory": Run(said="mandatory"),
    "rewindow-conformance list --level mandatory -k CANCEL": Run(said="ACP1-A-CANCEL-001"),
    "rewindow-conformance list --json": Run(said='"id": "ACP1-A-CANCEL-001"'),
    "rewindow-conformance explain ID": Run(said="Violation:", replaced={"ID": "ACP1-A-CANCEL-001"}),
    "rewindow-conformance explain ACP1-A-CANCEL-001": Run(said="Violation:"),
    "rewindow-conformance explain VECTORS-CYCLES-error_is_a_boundary": Run(said="VECTORS-CYCLES-error_is_a_boundary"),
    'pytest --acp-agent "my-agent --its-arguments" -k ACP1 --junitxml=report.xml': Run(
        said=" passed", replaced={"ACP1": "INIT"}
    ),
}
PROGRAMS = {
    "my-agent": "run_acp_agent.py",
    "my-slow-agent": "run_acp_agent.py",
    "my-new-agent": "run_acp2_agent.py",
    "my-server": "run_mcp_server.py",
    "my-file-server": "run_mcp_server.py",
}
CLIENTS = {"my-client": "${2:-$1}", "acpx": "$2"}
"""The position of the agent in a client's arguments."""


def documented() -> set[str]:
    """Return the commands in blocks, in sentences, and in the examples of `--help`."""
    found: set[str] = set()
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for block in re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            found.update(line for line in block.splitlines() if line.startswith(OURS))
        inline = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        spans = (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", inline))
        found.update(span for span in spans if span.startswith(OURS) and len(span.split()) > 2)
    return found


def shown_by_help(capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Return the examples without their explanations."""
    for name in ("", *COMMANDS):
        assert main([name, "--help"] if name else ["--help"]) == 0
    lines = (line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  rewindow-conf"))
    return {re.split(r" {2,}", line)[0] for line in lines}


def test_documented_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert documented() | shown_by_help(capsys) == set(RUNS)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with the reader's programs, and files of earlier commands."""
    bin_, work = tmp_path / "bin", tmp_path / "work"
    bin_.mkdir()
    (work / "failures").mkdir(parents=True)
    (work / "project").mkdir()
    scripts = {name: f"{PEERS / file}" for name, file in PROGRAMS.items()}
    scripts |= {name: f'{PEERS / "run_acp_client.py"} "{agent}"' for name, agent in CLIENTS.items()}
    adapter = "import stdio_world, vectors_adapter; stdio_world.run(vectors_adapter.Adapter)"
    scripts["my-adapter"] = f"-c {shlex.quote(f'import sys; sys.path.insert(0, {str(PEERS)!r}); {adapter}')}"
    for name, script in scripts.items():
        (bin_ / name).write_text(f"#!/bin/sh\nexec {sys.executable} {script}\n")
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{BIN}:/usr/bin:/bin")
    cancelled = transcript_of("cancel")
    cancelled.facts["options"] = asdict(OPTIONS)
    cancelled.save(work / "failures" / "cancel.jsonl")
    for name in ("traffic.jsonl", "session-of-another-client.jsonl"):
        foreign = transcript_of("cancel")
        foreign.scenario = ""
        foreign.save(work / name)
    (acp,) = TARGETS["acp"]()
    played = play(acp.opening, in_memory(conforming()), acp, Options(cwd="/project", timeout=1, scenario_timeout=1e6))
    played.transcript.facts["suite"] = "acp"
    played.transcript.save(work / "fuzz.jsonl")
    return work


def words(text: str, run: Run) -> list[str]:
    for old, new in run.replaced.items():
        assert old in text
        text = text.replace(old, new)
    first, *rest = shlex.split(text)
    if first == "pytest":
        return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *rest]
    end = rest.index("--") if "--" in rest else len(rest)
    return [str(BIN / first), *rest[:end], *run.added, *rest[end:]]


@pytest.mark.slow
@pytest.mark.parametrize("text", RUNS)
def test_documented_command_works(text: str, fresh: Path) -> None:
    run = RUNS[text]
    with subprocess.Popen(
        words(text, run),
        cwd=fresh,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout
        out = ""
        if run.interrupted:
            out = process.stdout.readline()
            process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=240)
    out += rest
    assert process.returncode == run.code, out
    assert run.said in out
    assert "Traceback" not in out
    named = [
        word
        for option in ("--json", "--html", "--report", "--transcript")
        for word in re.findall(f"{option} (\\S+)", text)
    ]
    assert all((fresh / name).stat().st_size for name in named if "." in name)
    assert os.listdir(fresh / "project") == []
