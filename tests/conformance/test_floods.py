"""Programs that never stop writing: scenarios and runs end in time, and what was seen until then is judged."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conformance import driver as driving
from conformance import transcript as recording
from conformance.driver import Driver
from conformance.options import Options
from conformance.peers.client import ClientPeer
from conformance.peers.peer import Ending, Peer, Received, Side, Stream
from conformance.peers.process import ProcessPeer
from conformance.runner import Budget, Plan, run, run_scenario
from conformance.suite import Scenario
from conformance.traffic import Traffic
from conformance.transcript import Transcript
from tests.conformance.suite_runs import OPTIONS, PEERS, conforming, in_memory, suite

LIMITED = Options(timeout=2, scenario_timeout=6)
REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"x"}\n'


class Endless:
    """Has a further chunk whenever somebody reads, a millisecond of its clock later."""

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
def test_a_pause_ends_though_the_program_never_does(data: bytes, stream: Stream) -> None:
    peer = Endless(data, stream)
    driver = Driver(peer, Transcript("flood"), LIMITED, {})
    driver.pause(0.5)
    assert 0.5 <= peer.clock < 2.0
    assert driver.wait(lambda _: False, 0.5) is None
    assert peer.clock < 4.0


def test_a_scenario_ends_at_its_limit_though_the_program_never_does() -> None:
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
        (b".", "server-log", recording, "MOST_ENTRIES", "the transcript of the scenario reached its limit of"),
        (b"." * 65536, "server", recording, "LIMIT", "the transcript of the scenario reached its limit of"),
    ],
)
def test_a_scenario_ends_where_it_recorded_too_much(
    data: bytes, stream: Stream, module: object, limit: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, 100)
    transcript = run_scenario(pausing(1), lambda: Endless(data, stream), LIMITED, {})
    (stopped,) = [entry.value for entry in transcript.entries if entry.label == "stopped"]
    assert stopped.startswith(said)
    assert len(transcript.entries) < 110


def test_a_scenario_has_no_more_time_than_the_budget_has() -> None:
    peer = Endless(b"no\n")
    transcript = run_scenario(pausing(100), lambda: peer, LIMITED, {}, budget=Budget(0.01))
    assert peer.clock < 1.5
    stopped = [entry.value for entry in transcript.entries if entry.label == "stopped"]
    assert stopped == ["the budget of 0.01 s for all scenarios was used up"]


def test_what_nobody_had_time_to_judge_is_not_tested_and_the_rest_is_judged() -> None:
    """The longest transcript is the one that is left out."""
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


def test_requests_that_all_have_one_id_are_answered_in_their_order() -> None:
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
        ("acp-client", "acp_client", b"no\n", 0, (1, 3)),  # by whether the flood or the client is faster to begin with
        ("acp-client", "acp_client", b".", 2, (1,)),
        ("mcp", "mcp_server", REQUEST, 0, (1,)),
    ],
)
def test_a_run_keeps_to_its_budget_whatever_the_program_floods(
    name: str, peer: str, data: bytes, number: int, codes: tuple[int, ...]
) -> None:
    source = FLOODS.format(peers=str(PEERS), data=data, number=number, peer=peer)
    command = [sys.executable, "-c", source, *(["{agent}"] if name == "acp-client" else [])]
    started: list[int] = []

    def start() -> Peer:
        make: Callable[..., ProcessPeer] = ClientPeer if name == "acp-client" else ProcessPeer
        made = make(command, Path.cwd(), {})
        started.append(made.pid)
        return made

    budget = 4.0
    # Our own processor time, which is never more than the clock's: a busy machine takes what it takes.
    began = time.process_time()
    outcome = run(Plan(suite(name), start, replace(OPTIONS, timeout=10, scenario_timeout=30), budget=budget))
    # Fifteen more to judge the 200,000 lines that are kept, one to take a flood, one for each step of the ladder.
    assert time.process_time() - began < budget + 15 + 1 + 3
    assert outcome.code in codes
    if outcome.code == 1:
        reasons = [result.verdict.reason for result in outcome.results]
        assert any("budget" in each or "200,000 lines" in each for each in reasons)
    else:
        assert "the program sent more than 50,000 lines" in outcome.obstacle
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
