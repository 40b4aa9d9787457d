"""Programs as processes: bad ones get a clear verdict in time, and no process is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from conformance import runner
from conformance.cli import main
from conformance.driver import Driver, Options
from conformance.peers.client import ClientPeer
from conformance.peers.peer import PeerGoneError, PeerStartError
from conformance.peers.process import ProcessPeer
from conformance.runner import Plan, Run, run, run_scenario
from conformance.suite import Scenario
from tests.conformance.suite_runs import KEEP, PEERS, conforming, failing, in_memory, suite
from tests.conformance.suite_runs import OPTIONS as EVERYTHING

OPTIONS = Options("hello", "count", "tool", "/project", timeout=2, scenario_timeout=6, long_line=2_000_000)
AGENT = [sys.executable, str(PEERS / "run_acp_agent.py")]
COMMAND = [str(Path(sys.executable).parent / "rewindow-conformance")]


def judged(command: list[str], only: str = "INIT", options: Options = OPTIONS) -> Run:
    chosen = {row.id: row for row in suite().requirements if only in row.id}
    return run(Plan(suite(), lambda: ProcessPeer(command, Path.cwd(), {}), options, chosen=chosen))


def python(source: str) -> list[str]:
    return [sys.executable, "-c", source]


def running(mark: str) -> list[psutil.Process]:
    """Return processes with a mark on their command line, except this one."""
    every = psutil.process_iter(["cmdline"])
    return [one for one in every if one.pid != os.getpid() and any(mark in word for word in one.info["cmdline"] or ())]


def remaining(mark: str) -> list[psutil.Process]:
    """Return those that do not exit soon. A killed process remains visible for a moment."""
    deadline = time.monotonic() + 5.0
    while (found := running(mark)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def test_missing_command_is_not_judged() -> None:
    outcome = judged(["/no/such/program"])
    assert (outcome.code, outcome.results) == (3, [])
    assert outcome.obstacle == "/no/such/program cannot be started: No such file or directory"


def test_instant_exit_is_not_judged_without_timeout() -> None:
    began = time.monotonic()
    outcome = judged(python("import sys; sys.exit('no key')"))
    assert outcome.code == 3
    assert "status 1" in outcome.obstacle
    assert time.monotonic() - began < OPTIONS.timeout
    assert b"no key" in b"".join(entry.data for entry in outcome.transcripts[0].entries if entry.kind == "server-log")


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "import time; time.sleep(600) # hangs-%s",
        "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600) # ignores-%s",
        "import os\nwhile True: os.write(2, b'x' * 65536) # floods-%s",
        "import os\nwhile True: os.write(1, b'x' * 65536) # floods-out-%s",
        "import os\nwhile True: os.write(1, b'y\\n' * 32768) # floods-lines-%s",
        "import os, time; os.close(1); time.sleep(600) # closed-%s",
        "import os, time\nif os.fork(): os._exit(0)\nos.setsid(); time.sleep(600) # left-%s",
    ],
    ids=lambda source: source.partition("# ")[2].removesuffix("-%s"),
)
def test_dead_program_is_detected_and_cleaned_up(source: str) -> None:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    began = time.monotonic()
    outcome = judged(python(source % mark))
    assert outcome.code == 3
    assert time.monotonic() - began < 15
    assert remaining(mark) == []


def test_process_outside_group_is_counted_and_killed() -> None:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    stays = f"import time; time.sleep(600) # {mark}"
    source = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {stays!r}], start_new_session=True)"
    peer = ProcessPeer(python(source), Path.cwd(), {})
    while not peer.has_closed() and peer.now() < 10:
        peer.read(peer.now() + 0.1)
        if not psutil.pid_exists(peer.pid) or psutil.Process(peer.pid).status() == psutil.STATUS_ZOMBIE:
            break
    ending = peer.end()
    assert (ending.code, ending.left) == (0, 1)
    assert remaining(mark) == []


@pytest.mark.slow
def test_each_end_step_ends_its_program() -> None:
    rungs = {
        "by itself": "",
        "close stdin": "import os; os.write(1, b'.'); os.read(0, 1); os._exit(0)",
        "SIGTERM": "import os, time; os.write(1, b'.'); time.sleep(600)",
        "SIGKILL": "import os, signal, time; signal.signal(15, signal.SIG_IGN); os.write(1, b'.'); time.sleep(600)",
    }
    for rung, source in rungs.items():
        peer = ProcessPeer(python(source), Path.cwd(), {})
        if rung == "by itself":
            os.waitid(os.P_PID, peer.pid, os.WEXITED | os.WNOWAIT)  # its streams close before it exits
        else:
            assert peer.read(30.0) is not None  # wait until the interpreter has started; signals would kill it earlier
        assert peer.end().step == rung
        assert peer.end() is peer.end()


@pytest.mark.slow
def test_write_to_program_that_never_reads_times_out() -> None:
    peer = ProcessPeer(python("import time; time.sleep(600)"), Path.cwd(), {})
    try:
        with pytest.raises(TimeoutError):
            peer.write(b"x" * 1_000_000, peer.now() + 0.2)
    finally:
        peer.end()


@pytest.mark.slow
def test_write_to_closed_input_raises() -> None:
    peer = ProcessPeer(
        python("import os; os.close(0); os.write(1, b'.'); import time; time.sleep(600)"), Path.cwd(), {}
    )
    try:
        assert peer.read(5) is not None
        with pytest.raises(PeerGoneError):
            peer.write(b"x", 5)
    finally:
        peer.end()


def test_full_disk_stops_a_scenario() -> None:
    def put(_: Driver) -> None:
        raise OSError(28, "No space left on device", "/tmp/record")

    transcript = run_scenario(Scenario("puts", "Puts a file.", put), in_memory(conforming()), OPTIONS, {})
    (stopped,) = [entry.value for entry in transcript.entries if entry.label == "stopped"]
    assert stopped.endswith("No space left on device")


def test_start_error_has_reason() -> None:
    with pytest.raises(PeerStartError, match="cannot be started"):
        ProcessPeer(["/etc/hostname"], Path.cwd(), {})


@pytest.mark.slow
def test_conforming_agent_passes_as_a_process(tmp_path: Path) -> None:
    options = replace(EVERYTHING, cwd=str(tmp_path))
    outcome = run(Plan(suite(), lambda: ProcessPeer(AGENT, Path.cwd(), {}), options))
    assert {r.requirement.id: r.verdict for r in outcome.results if r.verdict.outcome != "pass"} == {}


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_test_peer_writes_only_into_its_directory(kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    works, keeps = tmp_path / "works", tmp_path / "keeps"
    works.mkdir()
    keeps.mkdir()
    if kept:
        monkeypatch.setenv(KEEP, str(keeps))
    else:
        monkeypatch.delenv(KEEP)
    scenario = next(one for one in suite().scenarios if one.name == "load-after-restart")
    options = replace(EVERYTHING, cwd=str(works))
    transcript = run_scenario(scenario, lambda: ProcessPeer(AGENT, works, {}), options, {})
    loaded = next(r for r in suite().judge([transcript]) if r.requirement.id == "ACP1-A-LOAD-009")
    assert loaded.verdict.outcome == ("pass" if kept else "fail")
    assert [*works.iterdir()] == []
    assert len([*keeps.iterdir()]) == kept


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_leaves_no_processes(number: signal.Signals, tmp_path: Path) -> None:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    agent = f"import sys; sys.argv = ['agent']; sys.path.insert(0, {str(PEERS)!r}); import run_acp_agent # {mark}"
    command = [*COMMAND, "acp", "--slow-prompt", "count", "--tool-prompt", "tool", "--", *python(agent)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=tmp_path)
    deadline = time.monotonic() + 20
    while len(running(mark)) < 3 and time.monotonic() < deadline:  # the command itself, and agents
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in errors
    assert remaining(mark) == []


@pytest.mark.slow
def test_second_interrupt_does_not_stop_cleanup(tmp_path: Path) -> None:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    stays = f"import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600) # {mark}"
    process = subprocess.Popen(
        [*COMMAND, "acp", "--cwd", str(tmp_path), "--", *python(stays)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 20
    while len(running(mark)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)  # in the middle of the end steps, which take a second each
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, b"rewindow-conformance: interrupted; all programs were stopped\n")
    assert remaining(mark) == []


def test_empty_scenario_records_the_end() -> None:
    transcript = run_scenario(
        Scenario("nothing", "Nothing.", lambda _: None),
        lambda: ProcessPeer(python("pass"), Path.cwd(), {}),
        OPTIONS,
        {},
    )
    assert transcript.entries[-1].label == "ended"


@pytest.mark.slow
def test_process_without_mark_is_killed_after_the_run(tmp_path: Path) -> None:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    stays = ["env", "-i", "setsid", sys.executable, "-c", f"import time; time.sleep(600) # {mark}"]
    source = f"import subprocess; subprocess.Popen({stays!r}, stdin=-3, stdout=-3, stderr=-3).pid; input()"
    held = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert main(["acp", "--timeout", "1", "--cwd", str(tmp_path), "--", *python(source)]) == 3
        assert remaining(mark) == []
        assert held.poll() is None
    finally:
        held.communicate()


@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_LINES"])
def test_full_transcripts_stop_further_scenarios(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, limit, 10)
    outcome = run(Plan(suite(), in_memory(conforming()), OPTIONS, jobs=1))
    begun = [one for one in outcome.transcripts if one.size]
    assert 1 < len(begun) < 5  # of nearly eighty
    assert outcome.code == 1


SUITE = suite("acp-client")
CLIENT_OPTIONS = Options(timeout=2, scenario_timeout=6, long_line=2_000_000)
CLIENT = [sys.executable, str(PEERS / "run_acp_client.py"), "{agent}"]


def judged_client(command: list[str], only: str = "INIT-00", options: Options = CLIENT_OPTIONS) -> Run:
    chosen = {row.id: row for row in SUITE.requirements if only in row.id}
    return run(Plan(SUITE, lambda: ClientPeer(command, Path.cwd(), {}), options, chosen=chosen))


def shell(script: str) -> list[str]:
    return ["sh", "-c", script, "{agent}"]


def read(peer: ClientPeer, count: int) -> bytes:
    """Return the client's messages, up to so many bytes."""
    data = b""
    while len(data) < count and (received := peer.read(peer.now() + 5)) is not None:
        data += received.data if received.stream == "client" else b""
    return data


def test_agent_relay_forwards_bytes_unchanged() -> None:
    every = bytes(range(256))
    # Two programs like `cat` around an agent: its output comes back to it.
    script = "import subprocess, sys, os; agent = subprocess.Popen(sys.argv[1], stdin=subprocess.PIPE, stdout=-1)\n"
    script += "while data := os.read(agent.stdout.fileno(), 7): os.write(agent.stdin.fileno(), data)"
    peer = ClientPeer([sys.executable, "-c", script, "{agent}"], Path.cwd(), {})
    try:
        peer.write(every, peer.now() + 5)
        assert read(peer, len(every)) == every
    finally:
        assert peer.end().left == 0


@pytest.mark.slow
def test_second_agent_start_exits() -> None:
    peer = ClientPeer(shell('echo one | "$0" & sleep 0.5; echo two | "$0" 2>&1; wait'), Path.cwd(), {})
    said = b""
    try:
        while (received := peer.read(peer.now() + 5)) is not None:
            said += received.data
    finally:
        peer.end()
    assert b"one\n" in said
    assert b"two" not in said
    assert b"already started once" in said


def test_client_without_agent_is_not_judged_without_timeout() -> None:
    began = time.monotonic()
    outcome = judged_client(shell("echo no such option >&2; exit 1"))
    assert outcome.code == 3
    assert outcome.obstacle == "the client did not start the agent, or did not call initialize"
    assert b"no such option" in b"".join(e.data for e in outcome.transcripts[0].entries if e.kind == "client-log")
    assert time.monotonic() - began < CLIENT_OPTIONS.timeout


def test_missing_client_command_is_not_judged() -> None:
    outcome = judged_client(["/no/such/program", "{agent}"])
    assert (outcome.code, outcome.obstacle) == (
        3,
        "/no/such/program cannot be started: No such file or directory",
    )


def test_client_command_must_name_its_agent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["acp-client", "--", "my-client"]) == 2
    assert "{agent}" in capsys.readouterr().err


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
def test_bad_client_is_detected_and_cleaned_up(script: str) -> None:
    began = time.monotonic()
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    mark = f"bad-{os.getpid()}-{time.monotonic_ns()}"
    outcome = judged_client(["env", f"MARK={mark}", *shell(script)])
    assert outcome.code == 3
    assert time.monotonic() - began < 15
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    found = subprocess.run(
        ["grep", "-l", "--", mark, *map(str, Path("/proc").glob("[0-9]*/environ"))], capture_output=True
    )
    assert found.stdout == b""


@pytest.mark.slow
def test_conforming_client_passes_as_a_process() -> None:
    outcome = run(Plan(SUITE, lambda: ClientPeer(CLIENT, Path.cwd(), {}), CLIENT_OPTIONS))
    assert {r.requirement.id: r.verdict for r in outcome.results if r.verdict.outcome != "pass"} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ACP1-C-FRAME-015", "ACP1-C-INIT-012", "ACP1-C-FRAME-003"])
def test_process_only_defects_are_found(name: str) -> None:
    outcome = run(Plan(SUITE, lambda: ClientPeer([*CLIENT, name], Path.cwd(), {}), CLIENT_OPTIONS))
    assert failing(outcome) == {name}


@pytest.mark.slow
def test_client_failure_is_saved_and_repeatable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client = [*CLIENT, "ACP1-C-RPC-010"]
    assert main(["acp-client", "-k", "RPC-010", "--timeout", "2", "--keep", str(tmp_path), "--", *client]) == 1
    assert "FAIL ACP1-C-RPC-010" in capsys.readouterr().out
    saved = str(tmp_path / "unknown-methods.jsonl")
    assert main(["judge", saved]) == 1
    assert main(["replay", saved, "--", *client]) == 1
    assert main(["replay", saved, "--", *CLIENT]) == 0
    assert "Conformant." in capsys.readouterr().out
