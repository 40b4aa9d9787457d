"""`trace`: forwards everything unchanged, and judges both sides."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.suite import NOT_TRIED
from conformance.transcript import Transcript, load
from tests.conformance.suite_runs import PEERS, suite
from tests.support.acpx import opened
from tests.support.agents import AGENT as OUR_AGENT

TRACE = [sys.executable, "-m", "conformance", "trace"]
ANY_BYTES = b'{"a": \xff}\nnot json\r\n\n\x00\xef\xbb\xbf{}\n' + "\u2028\n".encode() + b"x" * 200_000 + b"no end"
ECHO = "import sys\nwhile data := sys.stdin.buffer.read1():\n sys.stdout.buffer.write(data); sys.stdout.flush()\n"
LEAVES = ECHO + "print('it ended', file=sys.stderr); sys.exit(7)"


def agent(*defect: str) -> list[str]:
    return [sys.executable, str(PEERS / "run_acp_agent.py"), *defect]


def session(program: list[str], *options: str) -> subprocess.CompletedProcess[bytes]:
    """Return messages that initialize and open a session."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
        ("session/new", {"cwd": "/", "mcpServers": []}),
    ]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": given})
        for number, (method, given) in enumerate(asked)
    ]
    return subprocess.run(
        [*TRACE, *options, "--", *program], input="\n".join([*lines, ""]).encode(), capture_output=True, timeout=60
    )


def test_bytes_exit_status_and_stderr_are_forwarded(tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl"
    report = tmp_path / "report.txt"
    command = [*TRACE, "--transcript", str(path), "--report", str(report), "--", sys.executable, "-c", LEAVES]
    done = subprocess.run(command, input=ANY_BYTES, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (7, ANY_BYTES, b"it ended\n")
    entries = load(path).entries
    for kind, sent in (("client", ANY_BYTES), ("server", ANY_BYTES), ("server-log", b"it ended\n")):
        assert b"".join(entry.data for entry in entries if entry.kind == kind) == sent
    assert [entry.label for entry in entries if entry.kind == "mark"][-1] == "ended"
    assert entries[-1].value == {"by": "close stdin", "code": 7}
    assert "FAIL ACP1-A-FRAME-001" in report.read_text()


def test_message_is_forwarded_immediately() -> None:
    with subprocess.Popen(
        [*TRACE, "--", sys.executable, "-c", ECHO],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        for line in (b"one\n", b"two\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == line
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_signals_are_forwarded() -> None:
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('up', flush=True)\n"
        "signal.pause()"
    )
    with subprocess.Popen(
        [*TRACE, "--", sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 5


@pytest.mark.slow
def test_signal_death_gives_shell_status() -> None:
    done = subprocess.run([*TRACE, "--", "sh", "-c", "kill -9 $$"], input=b"", capture_output=True, timeout=60)
    assert done.returncode == 128 + 9


def test_violations_in_traced_traffic_are_reported() -> None:
    assert "Conformant." in session(agent()).stderr.decode()
    done = session(agent("ACP1-A-INIT-001"), "--verbose")
    assert "FAIL ACP1-A-INIT-001" in done.stderr.decode()
    assert done.returncode == 0, "the client sees the program's own status"


def test_unexercised_requirements_are_skipped() -> None:
    results = suite().judge([Transcript("")], {row.id: row for row in suite().requirements if row.scenario is None})
    assert not [result for result in results if result.is_violation]
    assert any(NOT_TRIED in result.verdict.reason for result in results)


@pytest.mark.slow
def test_full_disk_does_not_stop_a_trace() -> None:
    done = session(agent(), "--transcript", "/dev/full")
    assert done.stdout.count(b"\n") >= 2
    assert "/dev/full is incomplete: No space left on device" in done.stderr.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name the program after"),
        (["--", "/no/such/program"], "cannot be started: No such file"),
        (["--transcript", "/no/such/folder/x", "--", "true"], "cannot be written: No such file"),
    ],
)
def test_wrong_trace_usage_is_one_line(arguments: list[str], said: str) -> None:
    done = subprocess.run([*TRACE, *arguments], input=b"", capture_output=True, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr.decode()
    assert done.stdout == b""


@pytest.mark.slow
def test_acpx_and_our_agent_conform(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    wrapped = f"{' '.join(TRACE)} --verbose --report {report} -- {OUR_AGENT} --model direct"
    with opened(tmp_path, wrapped, env={"PYTHONPATH": str(Path(__file__).parents[2])}) as client:
        assert "2" in client.run("--approve-all", "exec", "1 + 1")
    text = report.read_text()
    assert "FAIL" not in text
    assert "pass       ACP1-A-TOOL-006" in text
