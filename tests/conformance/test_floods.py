"""Programs that never stop writing: scenarios and runs end in time, and earlier traffic is judged."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from conformance import driver as driving
from conformance import transcript as recording
from conformance.driver import Driver, Options
from conformance.peers.client import ClientPeer
from conformance.peers.peer import Ending, Peer, Received, Side, Stream
from conformance.peers.process import ProcessPeer
from conformance.runner import Budget, Plan, run, run_scenario
from conformance.suite import Scenario
from conformance.suites.jsonrpc import messages_only
from conformance.traffic import Traffic
from conformance.transcript import LOG_BYTES, LONGEST_LINE, Transcript, load
from tests.conformance.suite_runs import OPTIONS, PEERS, conforming, in_memory, suite

LIMITED = Options(timeout=2, scenario_timeout=6)
REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"x"}\n'


class Endless:
    """Always has another chunk, one millisecond later."""

    side: Side = "server"

    def __init__(self, data: bytes, stream: Stream = "server") -> None:
        self.chunk = Received(stream, data)
        self.clock = 0.0
        self.ended = False

    def now(self) -> float:
        return self.clock

    def read(self, until: float) -> Received | None:
        del until
        self.clock += 0.001
        return None if self.ended else self.chunk

    def write(self, data: bytes, until: float) -> None:
        pass

    def close_input(self) -> None:
        pass

    def has_closed(self) -> bool:
        return False

    def interrupt(self) -> None:
        pass

    def end(self) -> Ending:
        self.ended = True
        return Ending("SIGKILL", -9)

    def kill(self) -> None:
        pass


def pausing(times: int) -> Scenario:
    def act(driver: Driver) -> None:
        for _ in range(times):
            driver.pause(0.5)

    return Scenario("pausing", "Waits.", act)


@pytest.mark.parametrize(("data", "stream"), [(b"no\n", "server"), (REQUEST, "server"), (b".", "server-log")])
def test_pause_ends_during_a_flood(data: bytes, stream: Stream) -> None:
    peer = Endless(data, stream)
    driver = Driver(peer, Transcript("flood"), LIMITED, {})
    driver.pause(0.5)
    assert 0.5 <= peer.clock < 2.0
    assert driver.wait(lambda _: False, 0.5) is None
    assert peer.clock < 4.0


def test_scenario_ends_at_its_time_limit() -> None:
    peer = Endless(b"no\n")
    transcript = run_scenario(pausing(100), lambda: peer, LIMITED, {})
    assert 6.0 <= peer.clock < 7.5
    assert [entry.value for entry in transcript.entries if entry.label == "stopped"] == [
        "the scenario reached its limit of 6 s"
    ]


@pytest.mark.parametrize(
    ("data", "stream", "module", "limit", "said"),
    [
        (b"no\n", "server", driving, "MOST_LINES", "the program sent more than 100 lines"),
        (b"." * 65536, "server", recording, "LIMIT", "the transcript of the scenario reached its limit of"),
        (b".", "server", recording, "MOST_ENTRIES", "the transcript of the scenario reached its limit of"),
        (b".", "server", driving, "LONGEST_LINE", "the program sent a line of more than"),
    ],
)
def test_full_transcript_ends_a_scenario(
    data: bytes, stream: Stream, module: object, limit: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, 100)
    transcript = run_scenario(pausing(1), lambda: Endless(data, stream), LIMITED, {})
    (stopped,) = [entry.value for entry in transcript.entries if entry.label == "stopped"]
    assert stopped.startswith(said)
    assert len(transcript.entries) < 110


def test_budget_limits_a_scenario() -> None:
    peer = Endless(b"no\n")
    transcript = run_scenario(pausing(100), lambda: peer, LIMITED, {}, budget=Budget(0.01))
    assert peer.clock < 1.5
    stopped = [entry.value for entry in transcript.entries if entry.label == "stopped"]
    assert stopped == ["the budget of 0.01 s for all scenarios was used up"]


def test_judging_out_of_time_leaves_the_rest_untested() -> None:
    """The longest transcript is left out."""
    calls: list[None] = []

    def late() -> str:
        calls.append(None)
        return "no time" if len(calls) > 60 else ""

    flood = Transcript("", {})
    for _ in range(1000):
        flood.add(0.0, "server", b"no\n" * 100)
    short = run_scenario(suite().opening, in_memory(conforming()), OPTIONS, {})
    results = {r.requirement.id: r.verdict for r in suite().judge([flood, replace(short, scenario="")], late=late)}
    assert results["ACP1-A-FRAME-001"].outcome == "pass", "the flood's lines are no messages"
    assert "no time" in {verdict.reason for verdict in results.values()}


def test_equal_ids_are_answered_in_order() -> None:
    transcript = Transcript("")
    transcript.add(0.0, "server", REQUEST * 20_000)
    transcript.add(1.0, "client", b'{"jsonrpc":"2.0","id":1,"result":{}}\n' * 20_001)
    began = time.process_time()
    messages = Traffic(transcript).messages
    assert time.process_time() - began < 5.0, "each answer looks at every request"
    assert [one.answer for one in messages[:20_000]] == list(messages[20_000:-1])
    assert messages[-1].answers is None


FLOODS = """
import os, sys, threading
sys.path.insert(0, {peers!r})
import stdio_world
answer = stdio_world.World.write
def flood(number):
    while True:
        os.write(number, {data!r} * 16)
def write(self, data):
    answer(self, data)
    if not hasattr(self, "flood"):
        self.flood = threading.Thread(target=flood, args=({number} or self.sink,), daemon=True)
        self.flood.start()
stdio_world.World.write = write
import run_{peer}
"""
UPDATE = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}\n'
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "peer", "data", "number", "codes"),
    [
        ("acp", "acp_agent", UPDATE, 0, (1,)),
        ("acp", "acp_agent", REQUEST, 0, (1,)),
        ("acp", "acp_agent", b".", 2, (1,)),
        ("acp-client", "acp_client", b"no\n", 0, (1, 3)),  # whether the flood or the client starts faster
        ("acp-client", "acp_client", b".", 2, (1,)),
        ("mcp", "mcp_server", REQUEST, 0, (1,)),
    ],
)
def test_flood_keeps_to_the_budget(name: str, peer: str, data: bytes, number: int, codes: tuple[int, ...]) -> None:
    source = FLOODS.format(peers=str(PEERS), data=data, number=number, peer=peer)
    command = [sys.executable, "-c", source, *(["{agent}"] if name == "acp-client" else [])]
    started: list[int] = []

    def start() -> Peer:
        make: Callable[..., ProcessPeer] = ClientPeer if name == "acp-client" else ProcessPeer
        made = make(command, Path.cwd(), {})
        started.append(made.pid)
        return made

    budget = 4.0
    # Our own processor time, which does not depend on the machine's load.
    began = time.process_time()
    outcome = run(Plan(suite(name), start, replace(OPTIONS, timeout=10, scenario_timeout=30), budget=budget))
    # Fifteen more to judge 200,000 lines, one to accept a flood, one for each end step.
    assert time.process_time() - began < budget + 15 + 1 + 3
    assert outcome.code in codes
    if outcome.code == 1:
        reasons = [result.verdict.reason for result in outcome.results]
        assert any("budget" in each or "200,000 lines" in each for each in reasons)
    else:
        assert "the program sent more than 50,000 lines" in outcome.obstacle
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


def log_of(transcript: Transcript) -> list[bytes]:
    return [entry.data for entry in transcript.entries if entry.kind == "server-log"]


@pytest.mark.parametrize("size", [pytest.param(7, marks=pytest.mark.slow), 4096, 65536, 3 * LOG_BYTES])
def test_long_log_keeps_both_ends_and_omitted_size(size: int, tmp_path: Path) -> None:
    said = b"".join(b"%08d" % number for number in range(LOG_BYTES // 2))
    transcript = Transcript("log")
    for place in range(0, len(said), size):
        transcript.add(float(place), "server-log", said[place : place + size])
        assert transcript.size <= LOG_BYTES
    transcript.end_logs()
    kept = log_of(transcript)
    gap = next(index for index, entry in enumerate(transcript.entries) if entry.omitted)
    begin, end = b"".join(kept[:gap]), b"".join(kept[gap + 1 :])
    omitted = transcript.entries[gap].omitted
    assert kept[gap].decode() == f"\n[{omitted:,} bytes left out]\n"
    assert len(begin) + omitted + len(end) == len(said)
    assert said.startswith(begin)
    assert said.endswith(end)
    assert 0 < len(end) <= LOG_BYTES
    assert len(kept) <= 2001
    transcript.save(tmp_path / "t.jsonl")
    assert load(tmp_path / "t.jsonl") == transcript


def test_short_log_is_whole_and_dropped_bytes_counted() -> None:
    transcript = Transcript("log")
    transcript.add(0, "server-log", b"one\n")
    transcript.add(1, "server-log", b"two\n", omitted=1_000)
    transcript.add(2, "server", b"{}\n")
    transcript.add(3, "server-log", b"three\n")
    transcript.end_logs()
    assert b"".join(log_of(transcript)) == b"one\n\n[1,000 bytes left out]\ntwo\nthree\n"
    whole = Transcript("log")
    for _ in range(3):
        whole.add(0, "server-log", b"line\n")
    whole.end_logs()
    whole.end_logs()
    assert log_of(whole) == [b"line\n"] * 3


def test_endless_line_is_a_violation() -> None:
    transcript = Transcript("")
    transcript.add(0, "server", b"." * (LONGEST_LINE + 1))
    verdict = messages_only(Traffic(transcript))
    assert (verdict.outcome, verdict.reason) == ("fail", "a line of more than 16 MiB has no end")


FLOODING = """
import os, sys, threading
def flood(number, data):
    while True:
        os.write(number, data)
sys.stdin.readline()
os.write(2, b"this is how it began\\n")
threading.Thread(target=flood, args=({number}, {data!r}), daemon=True).start()
for line in sys.stdin:
    pass
"""
MESSAGES = UPDATE * 100
LINES = b"a line of standard error\n" * 1000


def peak_of(tmp_path: Path, suite_name: str, program: Path, code: int, timeout: int) -> tuple[int, str]:
    """Return the peak memory of a whole run in MiB, and its output."""
    tool = Path(sys.executable).with_name("rewindow-conformance")
    command = [tool, suite_name, "--timeout", timeout, "--keep", "kept"]
    command += ["--html", "report.html", "--json", "report.json", "--", sys.executable, program]
    with (tmp_path / "printed").open("wb") as printed:
        judging = psutil.Popen(list(map(str, command)), cwd=tmp_path, stdout=printed, stderr=printed)
        peak = 0
        while judging.poll() is None:
            with suppress(psutil.Error):
                peak = max(peak, judging.memory_info().rss)
            time.sleep(0.02)
    text = (tmp_path / "printed").read_text()
    assert judging.returncode == code, text[-1000:]
    assert all(path.stat().st_size < 1 << 20 for path in tmp_path.glob("report.*"))
    return peak >> 20, text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "data", "most"),
    [(2, LINES, 150), (2, b"." * 65536, 150), (2, b".", 150), (1, b"." * 65536, 250), (1, MESSAGES, 450)],
    ids=["lines of a log", "a log of one line", "a log in bytes", "one line", "messages"],
)
def test_flood_has_bounded_memory(tmp_path: Path, number: int, data: bytes, most: int) -> None:
    """The flood starts at the first request."""
    program = tmp_path / "flooding.py"
    program.write_text(FLOODING.format(number=number, data=data))
    peak, text = peak_of(tmp_path, "acp", program, 3, timeout=3)
    assert peak < most
    assert (
        "Not judged: the agent did not answer initialize before its connection ended" in text or " within 3 s" in text
    )
    assert len(text) < 20_000
