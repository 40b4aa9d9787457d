"""Clients as processes: what they start as their agent, and that bad ones get a clear verdict in time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from conformance.cli import main
from conformance.options import Options
from conformance.peers.client import ClientPeer
from conformance.runner import Plan, Run, run
from tests.conformance.suite_runs import PEERS, failing, suite

SUITE = suite("acp-client")
OPTIONS = Options(timeout=2, scenario_timeout=6, long_line=2_000_000)
CLIENT = [sys.executable, str(PEERS / "run_acp_client.py"), "{agent}"]


def judged(command: list[str], only: str = "INIT-00", options: Options = OPTIONS) -> Run:
    chosen = {row.id: row for row in SUITE.requirements if only in row.id}
    return run(Plan(SUITE, lambda: ClientPeer(command, Path.cwd(), {}), options, chosen=chosen))


def shell(script: str) -> list[str]:
    return ["sh", "-c", script, "{agent}"]


def read(peer: ClientPeer, count: int) -> bytes:
    """What the client sends, up to so many bytes."""
    data = b""
    while len(data) < count and (received := peer.read(peer.now() + 5)) is not None:
        data += received.data if received.stream == "client" else b""
    return data


def test_the_agent_passes_bytes_unchanged_in_both_directions() -> None:
    every = bytes(range(256))
    # Two kinds of `cat` beside an agent: what it writes comes back to it.
    script = "import subprocess, sys, os; agent = subprocess.Popen(sys.argv[1], stdin=subprocess.PIPE, stdout=-1)\n"
    script += "while data := os.read(agent.stdout.fileno(), 7): os.write(agent.stdin.fileno(), data)"
    peer = ClientPeer([sys.executable, "-c", script, "{agent}"], Path.cwd(), {})
    try:
        peer.write(every, peer.now() + 5)
        assert read(peer, len(every)) == every
    finally:
        assert peer.end().left == 0


@pytest.mark.slow
def test_an_agent_that_is_started_twice_serves_the_first_alone() -> None:
    peer = ClientPeer(shell('echo one | "$0" & sleep 0.5; echo two | "$0" 2>&1; wait'), Path.cwd(), {})
    said = b""
    try:
        while (received := peer.read(peer.now() + 5)) is not None:
            said += received.data
    finally:
        peer.end()
    assert b"one\n" in said
    assert b"two" not in said
    assert b"this agent was started for it before" in said


def test_a_client_that_starts_no_agent_is_not_judged_and_does_not_take_the_timeout() -> None:
    began = time.monotonic()
    outcome = judged(shell("echo no such option >&2; exit 1"))
    assert outcome.code == 3
    assert outcome.obstacle == "the client did not start the agent, or did not call initialize"
    assert b"no such option" in b"".join(e.data for e in outcome.transcripts[0].entries if e.kind == "client-log")
    assert time.monotonic() - began < OPTIONS.timeout


def test_a_command_that_does_not_exist_is_not_judged() -> None:
    outcome = judged(["/no/such/program", "{agent}"])
    assert (outcome.code, outcome.obstacle) == (
        3,
        "/no/such/program cannot be started: No such file or directory",
    )


def test_a_command_that_names_no_agent_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["acp-client", "--", "my-client"]) == 2
    assert "say with {agent} where" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "sleep 600",
        "trap '' TERM; sleep 600 & wait; sleep 600",
        "yes",
        '"$0" </dev/null; sleep 600',
        'sleep 600 | "$0"',
        "setsid sleep 600 & exit 0",
        'setsid "$0" <&- & exit 0',
        'yes | "$0"',
    ],
)
def test_a_bad_client_is_found_out_in_time_and_ended_with_all_it_started(script: str) -> None:
    began = time.monotonic()
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    mark = f"bad-{os.getpid()}-{time.monotonic_ns()}"
    outcome = judged(["env", f"MARK={mark}", *shell(script)])
    assert outcome.code == 3
    assert time.monotonic() - began < 15
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    found = subprocess.run(
        ["grep", "-l", "--", mark, *map(str, Path("/proc").glob("[0-9]*/environ"))], capture_output=True
    )
    assert found.stdout == b""


@pytest.mark.slow
def test_the_conforming_client_passes_as_a_process() -> None:
    outcome = run(Plan(SUITE, lambda: ClientPeer(CLIENT, Path.cwd(), {}), OPTIONS))
    assert {r.requirement.id: r.verdict for r in outcome.results if r.verdict.outcome != "pass"} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ACP1-C-FRAME-015", "ACP1-C-INIT-012", "ACP1-C-FRAME-003"])
def test_defects_that_only_processes_have_are_found(name: str) -> None:
    outcome = run(Plan(SUITE, lambda: ClientPeer([*CLIENT, name], Path.cwd(), {}), OPTIONS))
    assert failing(outcome) == {name}


@pytest.mark.slow
def test_a_failure_is_kept_and_repeated_by_the_documented_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = [*CLIENT, "ACP1-C-RPC-010"]
    assert main(["acp-client", "-k", "RPC-010", "--timeout", "2", "--keep", str(tmp_path), "--", *client]) == 1
    assert "FAIL ACP1-C-RPC-010" in capsys.readouterr().out
    saved = str(tmp_path / "unknown-methods.jsonl")
    assert main(["judge", saved]) == 1
    assert main(["replay", saved, "--", *client]) == 1
    assert main(["replay", saved, "--", *CLIENT]) == 0
    assert "Conformant." in capsys.readouterr().out
