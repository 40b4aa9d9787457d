"""Programs as processes: bad ones get a clear verdict in time, and nothing is left running."""

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
from conformance.driver import Driver
from conformance.options import Options
from conformance.peers.peer import PeerGoneError, PeerStartError
from conformance.peers.process import ProcessPeer
from conformance.runner import Plan, Run, run, run_scenario
from conformance.suite import Scenario
from conformance.transcript import Transcript
from tests.conformance.suite_runs import KEEP, PEERS, conforming, defects, failing, in_memory, suite
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
    """Processes whose command line holds a mark; this one is not meant."""
    every = psutil.process_iter(["cmdline"])
    return [one for one in every if one.pid != os.getpid() and any(mark in word for word in one.info["cmdline"] or ())]


def remaining(mark: str) -> list[psutil.Process]:
    """Those of them that do not end: one that was killed is seen for a moment, on a busy machine a longer one."""
    deadline = time.monotonic() + 5.0
    while (found := running(mark)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def test_a_command_that_does_not_exist_is_not_judged() -> None:
    outcome = judged(["/no/such/program"])
    assert (outcome.code, outcome.results) == (3, [])
    assert outcome.obstacle == "/no/such/program cannot be started: No such file or directory"


def test_a_program_that_ends_at_once_is_not_judged_and_does_not_take_the_timeout() -> None:
    began = time.monotonic()
    outcome = judged(python("import sys; sys.exit('no key')"))
    assert outcome.code == 3
    assert outcome.obstacle == "the agent ended, with status 1, and did not answer initialize"
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
def test_a_dead_program_is_found_out_in_time_and_ended_with_all_it_started(source: str) -> None:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    began = time.monotonic()
    outcome = judged(python(source % mark))
    assert outcome.code == 3
    assert time.monotonic() - began < 15
    assert remaining(mark) == []


def test_a_process_that_left_its_group_is_counted_and_ended() -> None:
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
def test_each_rung_of_the_ladder_ends_what_the_ones_before_did_not() -> None:
    rungs = {
        "by itself": "",
        "close stdin": "import os; os.write(1, b'.'); os.read(0, 1); os._exit(0)",
        "SIGTERM": "import os, time; os.write(1, b'.'); time.sleep(600)",
        "SIGKILL": "import os, signal, time; signal.signal(15, signal.SIG_IGN); os.write(1, b'.'); time.sleep(600)",
    }
    for rung, source in rungs.items():
        peer = ProcessPeer(python(source), Path.cwd(), {})
        if rung == "by itself":
            os.waitid(os.P_PID, peer.pid, os.WEXITED | os.WNOWAIT)  # its streams close before it has ended
        else:
            assert peer.read(30.0) is not None  # until then the interpreter starts, whom signals end
        assert peer.end().rung == rung
        assert peer.end() is peer.end()


@pytest.mark.slow
def test_a_program_that_reads_nothing_stops_no_writer_for_ever() -> None:
    peer = ProcessPeer(python("import time; time.sleep(600)"), Path.cwd(), {})
    try:
        with pytest.raises(TimeoutError):
            peer.write(b"x" * 1_000_000, peer.now() + 0.2)
    finally:
        peer.end()


@pytest.mark.slow
def test_writing_to_a_program_that_closed_its_input_is_said() -> None:
    peer = ProcessPeer(
        python("import os; os.close(0); os.write(1, b'.'); import time; time.sleep(600)"), Path.cwd(), {}
    )
    try:
        assert peer.read(5) is not None
        with pytest.raises(PeerGoneError):
            peer.write(b"x", 5)
    finally:
        peer.end()


def test_a_scenario_that_finds_no_room_for_its_files_says_so() -> None:
    def put(_: Driver) -> None:
        raise OSError(28, "No space left on device", "/tmp/record")

    transcript = run_scenario(Scenario("puts", "Puts a file.", put), in_memory(conforming()), OPTIONS, {})
    assert [entry.value for entry in transcript.entries if entry.label == "stopped"] == [
        "the suite itself could not go on: No space left on device"
    ]


def test_what_cannot_be_started_says_why() -> None:
    with pytest.raises(PeerStartError, match="cannot be started"):
        ProcessPeer(["/etc/hostname"], Path.cwd(), {})


@pytest.mark.slow
def test_a_transcript_of_a_flood_ends_at_its_limit() -> None:
    peer = ProcessPeer(python("import os\nwhile True: os.write(1, b'x' * 65536)"), Path.cwd(), {})
    transcript = Transcript("flood", size=63 * 1024 * 1024)
    driver = Driver(peer, transcript, OPTIONS, {})
    try:
        with pytest.raises(Exception, match="64 MiB"):
            driver.pause(5)
    finally:
        driver.finish()
    assert transcript.size < 65 * 1024 * 1024


@pytest.mark.slow
def test_the_conforming_agent_passes_as_a_process(tmp_path: Path) -> None:
    options = replace(EVERYTHING, cwd=str(tmp_path))
    outcome = run(Plan(suite(), lambda: ProcessPeer(AGENT, Path.cwd(), {}), options))
    assert {r.requirement.id: r.verdict for r in outcome.results if r.verdict.outcome != "pass"} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in defects() if name.rpartition("-")[2] in ("001", "002")])
def test_a_defect_fails_its_requirement_as_a_process(name: str, tmp_path: Path) -> None:
    row = next(row for row in suite().requirements if row.id == name)
    wanted = {row.id: row} if row.scenario else {r.id: r for r in suite().requirements if r.scenario is None}
    plan = Plan(
        suite(),
        lambda: ProcessPeer([*AGENT, name], Path.cwd(), {}),
        replace(EVERYTHING, cwd=str(tmp_path)),
        chosen=wanted,
    )
    assert failing(run(plan)) == {name}


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_a_peer_of_these_tests_writes_nothing_but_into_the_directory_it_is_given(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_an_interrupted_run_leaves_nothing_running(number: signal.Signals, tmp_path: Path) -> None:
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
def test_a_second_interrupt_cuts_nothing_off(tmp_path: Path) -> None:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    stays = f"import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600) # {mark}"
    process = subprocess.Popen(
        [*COMMAND, "acp", "--cwd", str(tmp_path), "--", *python(stays)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 20
    while len(running(mark)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)  # into the ladder, whose steps take a second each
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, b"rewindow-conformance: interrupted; every program was ended\n")
    assert remaining(mark) == []


def test_a_scenario_of_nothing_is_recorded_with_its_end() -> None:
    transcript = run_scenario(
        Scenario("nothing", "Nothing.", lambda _: None),
        lambda: ProcessPeer(python("pass"), Path.cwd(), {}),
        OPTIONS,
        {},
    )
    assert transcript.entries[-1].label == "ended"


@pytest.mark.slow
def test_a_process_that_dropped_its_environment_is_ended_with_the_run(tmp_path: Path) -> None:
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
def test_no_scenario_is_begun_where_those_before_filled_their_transcripts(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, limit, 10)
    outcome = run(Plan(suite(), in_memory(conforming()), OPTIONS, jobs=1))
    begun = [one for one in outcome.transcripts if one.size]
    assert 1 < len(begun) < 5  # of nearly eighty
    assert outcome.code == 1
