"""`rewindow-acp` over its pipes beside a bare asyncio loop and the Python SDK's echo agent in the same run.

Every figure is taken by the same raw client, alternating between the agents, as a median after a warm-up. The model is
`scripted`, which answers at once, so that what is left is our own overhead; the peers answer at once too.

Run as `python -m benchmarks.bench_acp`; `run()` returns the rows for the collected report.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

from benchmarks.environments import Row, peer_python, table

HERE = Path(__file__).parent
OURS = str(Path(sys.executable).parent / "rewindow-acp")
STARTS = 9
TURNS = 60
CHUNKS = 2_000
SDK = "agent-client-protocol==0.12.1"


class Client:
    """A raw client: one line out, lines in until what was waited for."""

    def __init__(self, command: list[str], state_dir: Path, cwd: str) -> None:
        self.cwd = cwd
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "REWINDOW_STATE_DIR": str(state_dir)},
        )
        self.ids = 0

    def begin(self, method: str, params: dict[str, Any], notification: bool = False) -> int:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if not notification:
            self.ids += 1
            message["id"] = self.ids
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return self.ids

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        assert self.process.stdout
        for line in self.process.stdout:
            message = json.loads(line)
            if wanted(message):
                return message
        raise RuntimeError("the agent has left")

    def response(self, request_id: int) -> Any:
        message = self.until(lambda message: message.get("id") == request_id and "method" not in message)
        return message["result"]

    def call(self, method: str, params: dict[str, Any]) -> Any:
        return self.response(self.begin(method, params))

    def open(self) -> str:
        self.call("initialize", {"protocolVersion": 1})
        return self.call("session/new", {"cwd": self.cwd, "mcpServers": []})["sessionId"]

    def begin_prompt(self, session: str, text: str) -> int:
        return self.begin("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})

    def prompt(self, session: str, text: str) -> float:
        """Seconds from prompt to response."""
        started = perf_counter()
        self.response(self.begin_prompt(session, text))
        return perf_counter() - started

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(30)


def run() -> list[Row]:
    """One row per bar."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "project").mkdir()
        bench = _Bench(place)
        return [*bench.starts(), *bench.turns(), *bench.stream(), *bench.cancels(), *bench.memory()]


class _Bench:
    def __init__(self, place: Path) -> None:
        self.place = place
        sdk = peer_python("acp-sdk", SDK)
        self.bare = [sys.executable, str(HERE / "peers" / "bare_agent.py")]
        self.sdk = [str(sdk), str(HERE / "peers" / "sdk_agent.py")] if sdk else None

    def client(self, command: list[str]) -> Client:
        return Client(command, self.place / "state", str(self.place / "project"))

    def scripted(self, *replies: dict[str, Any]) -> list[str]:
        script = self.place / "replies.jsonl"
        script.write_text("\n".join(json.dumps(reply) for reply in replies))
        return [OURS, "--model", f"scripted:{script}"]

    def starts(self) -> list[Row]:
        agents = {"ours": [OURS], "bare": self.bare} | ({"sdk": self.sdk} if self.sdk else {})
        first: dict[str, list[float]] = {name: [] for name in agents}
        second: dict[str, list[float]] = {name: [] for name in agents}
        for turn in range(STARTS + 1):
            for name, command in agents.items():
                initialized, opened = self._start(command)
                if turn:
                    first[name].append(initialized)
                    second[name].append(opened)
        a, b = (_medians(times) for times in (first, second))
        sdk = a.get("sdk")
        met = a["ours"] <= 4 * a["bare"] and (sdk is None or a["ours"] <= 0.45 * sdk)
        peer = f"bare {_ms(a['bare'])}, SDK {_ms(sdk)}"
        bar = b["ours"] <= a["ours"] + 0.030
        return [
            _row("spawn -> initialize", _ms(a["ours"]), peer, a["ours"] / a["bare"], "<= 4x bare, <= 0.45x SDK", met),
            _row(
                "spawn -> session/new, back to back",
                _ms(b["ours"]),
                f"bare {_ms(b['bare'])}, SDK {_ms(b.get('sdk'))}",
                b["ours"] / b["bare"],
                "<= the row above + 30 ms",
                bar,
            ),
        ]

    def _start(self, command: list[str]) -> tuple[float, float]:
        started = perf_counter()
        client = self.client(command)
        hello = client.begin("initialize", {"protocolVersion": 1})
        new = client.begin("session/new", {"cwd": client.cwd, "mcpServers": []})
        client.response(hello)
        initialized = perf_counter() - started
        client.response(new)
        opened = perf_counter() - started
        client.close()
        return initialized, opened

    def turns(self) -> list[Row]:
        ours = self.client(self.scripted(*[{"text": "x"}] * (3 * TURNS)))
        bare = self.client(self.bare)
        session, other = ours.open(), bare.open()
        overhead, floor, first = [], [], []
        for _ in range(TURNS):
            overhead.append(ours.prompt(session, "go"))
            floor.append(bare.prompt(other, "go"))
            started = perf_counter()
            request = ours.begin_prompt(session, "go")
            ours.until(lambda message: "agent_message_chunk" in str(message))
            first.append(perf_counter() - started)
            ours.response(request)
        ours.close()
        bare.close()
        statement = self._statements()
        mine, peer, update = _median(overhead), _median(floor), _median(first)
        return [
            _row("warm turn overhead", _ms(mine), f"bare {_ms(peer)}", mine / peer, "<= 10 ms", mine <= 0.010),
            _row("prompt -> first update", _ms(update), f"bare {_ms(peer)}", update / peer, "<= 2 ms", update <= 0.002),
            _row("warm turn with one statement", _ms(statement), "-", None, "", True),
        ]

    def _statements(self) -> float:
        client = self.client([OURS])
        session = client.open()
        times = [client.prompt(session, "x = 1") for _ in range(TURNS)]
        client.close()
        return _median(times[5:])

    def stream(self) -> list[Row]:
        ours = self.client(self.scripted(*[{"text": "x" * CHUNKS, "chunk": 1}] * (STARTS + 2)))
        bare = self.client(self.bare)
        session, other = ours.open(), bare.open()
        mine, peer = [], []
        for _ in range(STARTS + 1):
            mine.append(ours.prompt(session, "go"))
            peer.append(bare.prompt(other, str(CHUNKS)))
        ours.close()
        bare.close()
        a, b = _median(mine[1:]), _median(peer[1:])
        return [_row(f"{CHUNKS} streamed chunks", _ms(a), f"bare {_ms(b)}", a / b, "<= 2x bare", a <= 2 * b)]

    def cancels(self) -> list[Row]:
        model = self.client(self.scripted(*[{"text": "x" * 10_000, "chunk": 1, "pause": 0.01}] * 20))
        statement = self.client([OURS])
        rows = []
        for name, client, text, sign, limit in (
            ("cancel -> cancelled, model call", model, "go", "agent_message_chunk", 0.005),
            ("cancel -> cancelled, statement", statement, "while True: pass", "in_progress", 0.050),
        ):
            session = client.open()
            times = [self._cancel(client, session, text, sign) for _ in range(STARTS + 1)][1:]
            client.close()
            took = _median(times)
            rows.append(_row(name, _ms(took), "-", None, f"<= {limit * 1000:.0f} ms", took <= limit))
        return rows

    def _cancel(self, client: Client, session: str, text: str, sign: str) -> float:
        request = client.begin_prompt(session, text)
        client.until(lambda message: sign in str(message))
        started = perf_counter()
        client.begin("session/cancel", {"sessionId": session}, notification=True)
        client.response(request)
        return perf_counter() - started

    def memory(self) -> list[Row]:
        project = self.place / "project"
        (project / "a.py").write_text("x = 1\n" * 1000)
        client = self.client([OURS])
        session = client.open()
        opened = _pss(client.process.pid)
        client.prompt(session, 'view("a.py")')
        turned = _pss(client.process.pid)
        for _ in range(3):
            another = client.call("session/new", {"cwd": client.cwd, "mcpServers": []})["sessionId"]
            client.prompt(another, 'view("a.py")')
        each = (_pss(client.process.pid) - turned) / 3
        client.close()
        return [
            _row("memory after session/new", _mb(opened), "-", None, "<= 75 MB", opened <= 75e6),
            _row("memory after a turn with a view", _mb(turned), "-", None, "<= 130 MB", turned <= 130e6),
            _row("memory of each further session", _mb(each), "-", None, "<= 15 MB", each <= 15e6),
        ]


def _pss(pid: int) -> int:
    """Proportional set size of a process and all its descendants, in bytes."""
    process = psutil.Process(pid)
    return sum(member.memory_full_info().pss for member in [process, *process.children(recursive=True)])


def _median(times: list[float]) -> float:
    return statistics.median(times)


def _medians(times: dict[str, list[float]]) -> dict[str, float]:
    return {name: _median(values) for name, values in times.items()}


def _ms(seconds: float | None) -> str:
    return "missing" if seconds is None else f"{seconds * 1000:.2f} ms"


def _mb(size: float) -> str:
    return f"{size / 1e6:.0f} MB"


def _row(name: str, ours: str, peer: str, ratio: float | None, bar: str, met: bool) -> Row:
    return {"name": name, "ours": ours, "peer": peer, "ratio": ratio and round(ratio, 2), "bar": bar, "met": met}


if __name__ == "__main__":
    print(table(run()))
