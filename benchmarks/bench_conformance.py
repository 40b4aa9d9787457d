"""What `rewindow-conformance` takes: judging our own agent and server, a program that is dead, and a saved transcript.

A whole suite starts its program some seventy times, so it is run once, after one scenario that does not count. Its bar
is about time on two processors; what the processors worked stands beside it. Where others keep the machine busy when
the suite begins, that is what is judged, and the rows say so. `trace` stands between a client and the bare agent, which
answers at once: what is left is its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

from benchmarks.clients import Client
from benchmarks.environments import OURS, ROOT, measured
from benchmarks.measuring import Figures, Setting, duration, in_turns, row
from benchmarks.report import Row

HELP_ROUNDS: Final = 9
JUDGE_ROUNDS: Final = 5
TRACE_ROUNDS: Final = 500
MESSAGES: Final = 10_000
AGENT_SECONDS: Final = 60.0
SERVER_SECONDS: Final = 120.0
DEAD_SECONDS: Final = 15.0
HELP_SECONDS: Final = 0.2
TRACE_SECONDS: Final = 0.001
JUDGE_SECONDS: Final = 2.0
BARE: Final = (OURS.python, str(ROOT / "benchmarks" / "peers" / "bare_agent.py"))
DEAD: Final = ("sh", "-c", "trap '' TERM INT; while :; do sleep 1; done")
"""Reads nothing, says nothing, and ends by SIGKILL alone."""
PROMPTS: Final = (
    "--prompt",
    "1 + 1",
    "--slow-prompt",
    "import time\nfor number in range(60):\n    print(number)\n    time.sleep(0.1)",
    "--tool-prompt",
    "write('conformance.txt', 'ok')\nbash('true')",
)
SLOW_CALL: Final = ("--slow-tool", "tick", "--slow-arguments", '{"wait": 4}')
PATIENCE: Final = ("--timeout", "20", "--scenario-timeout", "60", "--budget", "900")
"""A busy machine must not turn into a verdict. Programs that answer do not use it up."""
NOT_JUDGED: Final = 3


class Spent(NamedTuple):
    """Seconds: on the clock, and of all processors in the program and in all it waited for."""

    wall: float
    processors: float
    code: int


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar."""
    with tempfile.TemporaryDirectory() as directory:
        bench = _Bench(Path(directory), setting)
        return [
            *bench.suites(),
            bench.dead(),
            bench.help(),
            bench.trace(),
            bench.judge(),
        ]


class _Bench:
    """Our two checkouts are `ours` and `before`; each suite judges the programs of its own checkout."""

    def __init__(self, place: Path, setting: Setting) -> None:
        self.place = place
        self.setting = setting
        self.busy = os.getloadavg()[0] > (os.cpu_count() or 1) / 2
        self.judges = {name: checkout.judge for name, checkout in setting.checkouts.items()}
        self.project = place / "project"
        self.project.mkdir()
        (self.project / "a.txt").write_text("one\ntwo\n")

    def suites(self) -> Iterator[Row]:
        agents = {
            name: (each.judge, "acp", *PROMPTS, *PATIENCE, "--", each.agent, "--model", "direct")
            for name, each in self.setting.checkouts.items()
        }
        servers = {
            name: (each.judge, "mcp", *SLOW_CALL, *PATIENCE, "--", each.server)
            for name, each in self.setting.checkouts.items()
        }
        yield self._suite("our agent judged", agents, "version-newer", AGENT_SECONDS)
        yield self._suite("our server on stdio judged", servers, "handshake-newer", SERVER_SECONDS)

    def _suite(self, what: str, commands: Mapping[str, Sequence[str]], scenario: str, bar: float) -> Row:
        spent: dict[str, Spent] = {}
        for name, command in commands.items():
            one = (*command[:2], "-k", scenario, *command[2:])
            first = self._spent(name, one)
            spent[name] = first if self.setting.quick else self._spent(name, command)
            if spent[name].code == NOT_JUDGED:
                raise RuntimeError(f"{what}: {name} was not judged; its report is above")
        worked = ", ".join(f"{name} {duration(each.processors)}" for name, each in spent.items())
        return row(
            what,
            {name: each.wall for name, each in spent.items()},
            duration,
            peer=f"of processors: {worked}",
            bar=self._bar(bar),
            met=self._taken(spent["ours"]) <= bar,
        )

    def _taken(self, spent: Spent) -> float:
        """What a bar is about: seconds on the clock, unless others use the processors too."""
        return spent.processors if self.busy else spent.wall

    def _bar(self, seconds: float) -> str:
        return f"<= {duration(seconds)}{', of processors: the machine was busy' if self.busy else ''}"

    def _spent(self, name: str, command: Sequence[str]) -> Spent:
        before = os.times()
        begun = perf_counter()
        done = subprocess.run(
            command,
            cwd=self.project,
            env={**measured(), "REWINDOW_STATE_DIR": str(self.place / f"state-{name}")},
            stdout=subprocess.PIPE,
            text=True,
        )
        wall = perf_counter() - begun
        after = os.times()
        if done.returncode == NOT_JUDGED:
            sys.stderr.write(done.stdout)
        worked = after.children_user - before.children_user + after.children_system - before.children_system
        return Spent(wall, worked, done.returncode)

    def dead(self) -> Row:
        """By the default limits, which are what people wait for."""
        timeout = ("--timeout", "0.5") if self.setting.quick else ()
        figures: Figures = {}
        for name, judge in self.judges.items():
            spent = self._spent(name, (judge, "acp", *timeout, "--", *DEAD))
            if spent.code != NOT_JUDGED:
                raise RuntimeError(f"{name} judged a program that says nothing: exit status {spent.code}")
            figures[name] = spent.wall
        met = figures["ours"] <= DEAD_SECONDS
        return row(
            "a dead program told from a slow one", figures, duration, bar=f"<= {duration(DEAD_SECONDS)}", met=met
        )

    def help(self) -> Row:
        figures = in_turns(
            {name: (name, judge) for name, judge in self.judges.items()},
            self.setting.rounds(HELP_ROUNDS),
            lambda subject: self._taken(self._spent(subject[0], (subject[1], "--help"))),
        )
        met = figures["ours"] <= HELP_SECONDS
        return row("--help", figures, duration, bar=self._bar(HELP_SECONDS), met=met)

    def trace(self) -> Row:
        """Of a request and its answer, which are two messages: half of what they take longer."""
        commands = {"direct": BARE} | {
            name: (
                judge,
                "trace",
                "--report",
                os.devnull,
                "--transcript",
                str(self.place / f"{name}.jsonl"),
                "--",
                *BARE,
            )
            for name, judge in self.judges.items()
        }
        clients = {name: Client(command, self.place / "state", str(self.project)) for name, command in commands.items()}
        try:
            taken = in_turns(clients, self.setting.rounds(TRACE_ROUNDS), _round_trip)
        finally:
            for client in clients.values():
                client.close()
        direct = taken.pop("direct")
        added = {name: max(0.0, seconds - direct) / 2 for name, seconds in taken.items()}
        met = added["ours"] <= TRACE_SECONDS
        peer = f"a request and its answer without it {duration(direct)}"
        return row("trace adds to a message", added, duration, peer=peer, bar=f"<= {duration(TRACE_SECONDS)}", met=met)

    def judge(self) -> Row:
        count = self.setting.size(MESSAGES)
        path = self.place / "traffic.jsonl"
        path.write_text("".join(line + "\n" for line in transcript(count)))

        def judged(subject: tuple[str, str]) -> float:
            spent = self._spent(subject[0], (subject[1], "judge", "--suite", "acp", str(path)))
            if spent.code:
                raise RuntimeError(f"{subject[0]} found fault with a transcript that has none: {spent.code}")
            return self._taken(spent)

        subjects = {name: (name, judge) for name, judge in self.judges.items()}
        figures = in_turns(subjects, self.setting.rounds(JUDGE_ROUNDS), judged)
        met = figures["ours"] <= JUDGE_SECONDS
        return row(f"judge of {count:,} messages", figures, duration, bar=self._bar(JUDGE_SECONDS), met=met)


def _round_trip(client: Client) -> float:
    begun = perf_counter()
    client.call("initialize", {"protocolVersion": 1})
    return perf_counter() - begun


def transcript(messages: int) -> Iterator[str]:
    """The lines of a transcript of so many messages: turns of an agent that talks and uses a tool, without a fault."""
    facts = {"suite": "acp"}
    yield json.dumps({"format": "rewindow-conformance transcript", "version": 1, "scenario": "", "facts": facts})
    for number, (sender, message) in zip(range(messages), _session(), strict=False):
        text = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        yield json.dumps({"ms": number, "from": sender, "text": text})
    yield json.dumps({"ms": messages, "mark": "input-closed", "value": None})


def _session() -> Iterator[tuple[str, dict[str, Any]]]:
    """Without end; cut off anywhere, it shows no violation."""
    yield "client", {"id": 1, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}}
    capable = {"loadSession": False, "promptCapabilities": {"image": True}}
    info = {"name": "written", "version": "1"}
    result = {"protocolVersion": 1, "agentCapabilities": capable, "agentInfo": info, "authMethods": []}
    yield "server", {"id": 1, "result": result}
    yield "client", {"id": 2, "method": "session/new", "params": {"cwd": "/project", "mcpServers": []}}
    yield "server", {"id": 2, "result": {"sessionId": "s"}}
    turn = 2
    while True:
        turn += 1
        prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "Say more."}]}
        yield "client", {"id": turn, "method": "session/prompt", "params": prompt}
        for _ in range(20):
            yield _update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "Some words more. "})
        call = f"call-{turn}"
        yield _update(sessionUpdate="tool_call", toolCallId=call, title="Read", kind="read", status="pending")
        yield _update(sessionUpdate="tool_call_update", toolCallId=call, status="in_progress")
        yield _update(sessionUpdate="tool_call_update", toolCallId=call, status="completed")
        yield "server", {"id": turn, "result": {"stopReason": "end_turn"}}


def _update(**fields: Any) -> tuple[str, dict[str, Any]]:
    return "server", {"method": "session/update", "params": {"sessionId": "s", "update": fields}}
