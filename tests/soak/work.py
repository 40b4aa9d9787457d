"""The work of a run: two sessions of an agent with a model, 20 clients of a server, and what is measured meanwhile.

The agent's users send prompts, each of which the model answers with one statement, and now and then a command, a
rewind, or a session that is closed again. The clients of `rewindow-mcp` share two sessions over HTTP, in both eras;
they view, group, tick, look, run, leave and come again. Each of them waits for its answers, and for its next turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.soak import model, sampling
from tests.soak.clients import Agent, FailedError, Server, WebClient

SESSIONS: Final = 2
CLIENTS: Final = 20
SERVED: Final = ("s0", "s1")
SAMPLES: Final = 180
_REWIND_BY: Final = 3
_COMMANDS: Final = {10: "/timeline", 20: "/context", 30: "/changes", 40: "/views", 50: "rewind", 60: "open and close"}
"""After the turns whose number has this remainder by 60."""


@dataclass
class Measured:
    """What a run found."""

    started: float = field(default_factory=time.monotonic)
    samples: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    latencies: dict[str, list[tuple[float, float]]] = field(default_factory=dict[str, list[tuple[float, float]]])
    """By kind of request: when it was sent, and how many seconds it took."""
    turns: int = 0
    calls: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    @property
    def now(self) -> float:
        return time.monotonic() - self.started

    def timed(self, kind: str, action: Callable[[], Any]) -> None:
        """Perform a request and keep how long it took. A failure is kept as such."""
        at, begun = self.now, time.perf_counter()
        try:
            action()
        except (FailedError, OSError) as error:
            self.failed(f"{kind}: {error}")
            return
        with self._lock:
            self.latencies.setdefault(kind, []).append((at, time.perf_counter() - begun))

    def failed(self, reason: str) -> None:
        with self._lock:
            self.wrong.append(f"{self.now:.0f} s: {reason}")

    def count(self, *, turns: int = 0, calls: int = 0) -> None:
        with self._lock:
            self.turns += turns
            self.calls += calls


class Pace:
    """The rhythm of one client: so many acts, evenly over the time, and no faster after a delay."""

    def __init__(self, seconds: float, acts: int, ended: threading.Event) -> None:
        self._every = seconds / acts
        self._deadline = time.monotonic() + seconds
        self._left = acts
        self._ended = ended
        self._next = time.monotonic()

    def wait(self) -> bool:
        """Wait for the next act; False if there is none."""
        now = time.monotonic()
        self._ended.wait(max(0.0, self._next - now))
        self._next = max(self._next, now) + self._every
        self._left -= 1
        return self._left >= 0 and time.monotonic() < self._deadline and not self._ended.is_set()


class User:
    """The user of one session of the agent."""

    def __init__(self, agent: Agent, project: Path, measured: Measured) -> None:
        self.agent, self.project, self.measured = agent, project, measured
        self.session = agent.new(project)
        self.statements = 0
        """On the active branch."""

    def work(self, pace: Pace) -> None:
        number = 0
        while pace.wait():
            number += 1
            kind = model.kind_of(number)
            text = model.PROMPT.format(number=number, kind=kind)
            self.measured.timed(f"turn: {kind}", lambda text=text: self.agent.prompt(self.session, text))
            self.measured.count(turns=1)
            self.statements += 1
            if (command := _COMMANDS.get(number % 60)) is not None:
                self._command(command)

    def _command(self, command: str) -> None:
        if command == "rewind":
            self.statements = max(0, self.statements - _REWIND_BY)
            self.measured.timed("/rewind", lambda: self.agent.prompt(self.session, f"/rewind {self.statements}"))
        elif command == "open and close":
            self.measured.timed(command, self._open_and_close)
        else:
            self.measured.timed(command, lambda: self.agent.prompt(self.session, command))

    def _open_and_close(self) -> None:
        session = self.agent.new(self.project)
        self.agent.prompt(session, "/run 6 * 7")
        self.agent.call("session/close", {"sessionId": session})
        self.agent.call("session/delete", {"sessionId": session})


class Caller:
    """One client of the server."""

    def __init__(self, server: Server, number: int, project: Path, measured: Measured) -> None:
        self._client = WebClient(server, SERVED[number % len(SERVED)], is_old=number % 4 >= 2)
        self._measured = measured
        self._name = f"c{number}"
        self._project = project

    def work(self, pace: Pace) -> None:
        number = 0
        while pace.wait():
            self._measured.count(calls=1)
            kinds = self._kinds(number)
            kind = list(kinds)[number % len(kinds)]
            self._measured.timed(f"MCP: {kind}", kinds[kind])
            number += 1

    def close(self) -> None:
        """Close the connection; the server keeps what it has of the client."""
        self._client.close()

    def _kinds(self, number: int) -> dict[str, Callable[[], Any]]:
        name, path = self._name, f"a{number % model.FEW}.py"
        return {
            "view": lambda: self._call("view", name=name, path=path, tokens=300),
            "scroll": lambda: self._call("view", name=name, scroll=10),
            "list": lambda: self._call("view"),
            "resource": lambda: self._client.call("resources/read", {"uri": f"view://{name}"}),
            "group": lambda: self._call("group", name=f"g{name}", add=["a0.py", "a1.py"], tokens=500),
            "tick": lambda: self._tick(number),
            "run": lambda: self._call("run", code=f"{name}x = [{number}] * 100; sum({name}x)"),
            "timeline": lambda: self._call("timeline"),
            "close": lambda: self._call("view", name=name, close=True),
            "leave and come": self._again,
        }

    def _call(self, tool: str, **arguments: Any) -> Any:
        return self._client.call("tools/call", {"name": tool, "arguments": arguments})

    def _tick(self, number: int) -> None:
        (self._project / f"n{number % model.FEW}.txt").write_text(f"{number} of {self._name}\n")
        self._call("tick")

    def _again(self) -> None:
        self._client.leave()
        self._client.connect()


def sample(measured: Measured, programs: dict[str, tuple[int, Path]], ended: threading.Event, seconds: float) -> None:
    """Measure the programs again and again until the end."""
    while not ended.wait(max(0.25, seconds / SAMPLES)):
        row = {"seconds": measured.now, "turns": measured.turns, "calls": measured.calls, "pace": sampling.pace()}
        for name, (pid, state) in programs.items():
            row |= {f"{name}: {what}": value for what, value in sampling.taken(pid, state).items()}
        measured.samples.append(row)
