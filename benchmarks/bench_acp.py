"""`rewindow-acp` over its pipes beside a bare asyncio loop and the Python SDK's echo agent in the same run.

Every figure is taken by the same raw client, the agents taking turns, as a median after a warm-up. The model is
`scripted`, which answers at once, so that what is left is our own overhead; the peers answer at once too.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks import bench_turns
from benchmarks.clients import Client, held
from benchmarks.environments import ROOT, peer_python
from benchmarks.measuring import Figures, Setting, in_turns, row
from benchmarks.report import Row

PEERS: Final = ROOT / "benchmarks" / "peers"
STARTS: Final = 9
TURNS: Final = 60
CHUNKS: Final = 2_000
SDK: Final = "agent-client-protocol==0.12.1"

MEMORY: Final = (
    ("after session/new", 75),
    ("after a turn with a view", 130),
    ("that a first outline adds", None),
    ("of each further session", 15),
)
"""What is held by the processes of an agent, and how many MB it may be at most."""

Commands = Mapping[str, Sequence[str]]
"""How each agent is started, by the name of its figures."""


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "project").mkdir()
        bench = _Bench(place, setting)
        return [
            *bench.starts(),
            *bench.turns(),
            *bench_turns.rows(setting, place),
            bench.stream(),
            *bench.cancels(),
            *bench.memory(),
        ]


class _Bench:
    """Every agent has a state directory of its own; our two checkouts are `ours` and `before`."""

    def __init__(self, place: Path, setting: Setting) -> None:
        self.place = place
        self.setting = setting
        sdk = peer_python("acp-sdk", SDK)
        self.bare = {"bare": (sys.executable, str(PEERS / "bare_agent.py"))}
        self.sdk = {"SDK": (str(sdk), str(PEERS / "sdk_agent.py"))} if sdk else {}

    def ours(self, *arguments: str) -> Commands:
        return {name: (checkout.agent, *arguments) for name, checkout in self.setting.checkouts.items()}

    def scripted(self, *replies: dict[str, Any]) -> Commands:
        script = self.place / "replies.jsonl"
        script.write_text("\n".join(json.dumps(reply) for reply in replies))
        return self.ours("--model", f"scripted:{script}")

    def client(self, name: str, command: Sequence[str]) -> Client:
        return Client(command, self.place / f"state-{name}", str(self.place / "project"))

    @contextmanager
    def opened(self, commands: Commands) -> Iterator[dict[str, tuple[Client, str]]]:
        """A client for each agent, with a session."""
        clients = {name: self.client(name, command) for name, command in commands.items()}
        try:
            yield {name: (client, client.open()) for name, client in clients.items()}
        finally:
            for client in clients.values():
                client.close()

    def starts(self) -> list[Row]:
        agents = {**self.ours(), **self.bare, **self.sdk}
        rounds = self.setting.rounds(STARTS)
        opened: dict[str, list[float]] = {name: [] for name in agents}

        def start(name: str) -> float:
            initialized, new = self._start(name, agents[name])
            opened[name].append(new)
            return initialized

        first = in_turns({name: name for name in agents}, rounds, start)
        second = {name: statistics.median(times[1:]) for name, times in opened.items()}
        sdk = first.get("SDK")
        met = first["ours"] <= 4 * first["bare"] and (sdk is None or first["ours"] <= 0.45 * sdk)
        return [
            _row("spawn -> initialize", first, "<= 4x bare, <= 0.45x SDK", met),
            _row(
                "spawn -> session/new, back to back",
                second,
                "<= the row above + 30 ms",
                second["ours"] <= first["ours"] + 0.030,
            ),
        ]

    def _start(self, name: str, command: Sequence[str]) -> tuple[float, float]:
        started = perf_counter()
        client = self.client(name, command)
        hello = client.begin("initialize", {"protocolVersion": 1})
        new = client.begin("session/new", {"cwd": client.cwd, "mcpServers": []})
        client.response(hello)
        initialized = perf_counter() - started
        client.response(new)
        opened = perf_counter() - started
        client.close()
        return initialized, opened

    def turns(self) -> list[Row]:
        rounds = self.setting.rounds(TURNS)
        with self.opened({**self.scripted(*[{"text": "x"}] * (2 * TURNS + 2)), **self.bare}) as agents:
            warm = in_turns(agents, rounds, lambda agent: agent[0].prompt(agent[1], "go"))
            first = in_turns(agents, rounds, self._first_update)
        with self.opened(self.ours()) as agents:
            statement = in_turns(agents, rounds, lambda agent: agent[0].prompt(agent[1], "x = 1"))
        return [
            _row("warm turn overhead", warm, "<= 10 ms", warm["ours"] <= 0.010),
            _row("prompt -> first update", first, "<= 2 ms", first["ours"] <= 0.002),
            _row("warm turn with one statement", statement, "", None),
        ]

    def _first_update(self, agent: tuple[Client, str]) -> float:
        client, session = agent
        started = perf_counter()
        request = client.begin_prompt(session, "go")
        client.until(lambda message: "agent_message_chunk" in str(message))
        took = perf_counter() - started
        client.response(request)
        return took

    def stream(self) -> Row:
        rounds = self.setting.rounds(STARTS)
        replies = [{"text": "x" * CHUNKS, "chunk": 1}] * (STARTS + 2)
        with self.opened({**self.scripted(*replies), **self.bare}) as agents:
            # The bare agent takes the number of chunks from the prompt; ours does not read it.
            figures = in_turns(agents, rounds, lambda agent: agent[0].prompt(agent[1], str(CHUNKS)))
        return _row(f"{CHUNKS} streamed chunks", figures, "<= 2x bare", figures["ours"] <= 2 * figures["bare"])

    def cancels(self) -> list[Row]:
        rounds = self.setting.rounds(STARTS)
        rows: list[Row] = []
        for name, commands, text, sign, limit in (
            ("model call", self._endless(), "go", "agent_message_chunk", 0.005),
            ("statement", self.ours(), "while True: pass", "in_progress", 0.050),
        ):
            with self.opened(commands) as agents:
                figures = in_turns(agents, rounds, lambda agent: self._cancel(*agent, text, sign))  # noqa: B023 -- called at once
            met = figures["ours"] <= limit
            rows.append(_row(f"cancel -> cancelled, {name}", figures, f"<= {limit * 1000:.0f} ms", met))
        return rows

    def _endless(self) -> Commands:
        return self.scripted(*[{"text": "x" * 10_000, "chunk": 1, "pause": 0.01}] * 20)

    def _cancel(self, client: Client, session: str, text: str, sign: str) -> float:
        request = client.begin_prompt(session, text)
        client.until(lambda message: sign in str(message))
        started = perf_counter()
        client.begin("session/cancel", {"sessionId": session}, notification=True)
        client.response(request)
        return perf_counter() - started

    def memory(self) -> list[Row]:
        (self.place / "project" / "a.py").write_text("def f(x):\n    return x\n" * 500)
        found = {name: self._memory(name, command) for name, command in self.ours().items()}
        return [
            row(
                f"memory {what}",
                {name: sizes[index] for name, sizes in found.items()},
                _mb,
                bar=f"<= {limit} MB" if limit else "",
                met=found["ours"][index] <= limit * 1e6 if limit else None,
            )
            for index, (what, limit) in enumerate(MEMORY)
        ]

    def _memory(self, name: str, command: Sequence[str]) -> tuple[float, ...]:
        """What MEMORY names, in its order."""
        client = self.client(name, command)
        session = client.open()
        opened = held(client.process.pid)
        client.prompt(session, 'view("a.py")')
        turned = held(client.process.pid)
        client.prompt(session, 'view("a.py", lod=1)')
        outlined = held(client.process.pid)
        for _ in range(3):
            another = client.call("session/new", {"cwd": client.cwd, "mcpServers": []})["sessionId"]
            client.prompt(another, 'view("a.py")')
        each = (held(client.process.pid) - outlined) / 3
        client.close()
        return opened, turned, outlined - turned, each


def _row(name: str, figures: Figures, bar: str, met: bool | None) -> Row:
    bare = figures.get("bare")
    ratio = "" if bare is None else f"{figures['ours'] / bare:.2f}"
    return row(name, figures, _ms, bar=bar, met=met, ratio=ratio)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def _mb(size: float) -> str:
    return f"{size / 1e6:.0f} MB"
