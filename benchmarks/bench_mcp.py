"""`rewindow-mcp` beside a bare low-level `Server` of the same SDK, and beside the official filesystem server.

Every figure is taken by the same raw client, the servers taking turns, as a median after a warm-up: on stdio in the
handshake era, over HTTP in the newer one. The bare server has one tool that says a word, so that what is left is our
own. What only looks is measured in a session of a few statements; a recorded call is durable when it is answered.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

from benchmarks.clients import Client, WebClient, held
from benchmarks.environments import NODE, OURS, ROOT, peer_package
from benchmarks.measuring import Figures, Setting, duration, in_turns, row
from benchmarks.report import Row
from engine.core.tokens import count

BARE: Final = "bare"
FILES: Final = "filesystem"
SERVER_FILESYSTEM: Final = "@modelcontextprotocol/server-filesystem@2026.8.31"
MISSING: Final = f"missing: {SERVER_FILESYSTEM} cannot be installed"
STARTS: Final = 9
CALLS: Final = 200
SESSIONS: Final = 3
LINES: Final = 1_000
HELLO: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}
START_RATIO: Final = 1.15
FIRST_VIEW_SECONDS: Final = 0.4
LOOK_RATIO: Final = 1.25
RECORDED_SECONDS: Final = 0.002
MEMORY_MB: Final = 160
SESSION_MB: Final = 15
TOKENS: Final = {"four tools": 900, "seven tools, with `run`": 1_400, "instructions": 200}

Commands = Mapping[str, Sequence[str]]
"""How each server is started, by the name of its figures."""
Act = tuple[str, Mapping[str, Any]]
"""A request: its method and its parameters."""


class _Look(NamedTuple):
    """What only looks, in words, and how it is asked for."""

    name: str
    method: str
    params: Mapping[str, Any]


LOOKS: Final = (
    _Look("list of handles", "tools/call", {"name": "view", "arguments": {}}),
    _Look("timeline", "tools/call", {"name": "timeline", "arguments": {}}),
    _Look("resource", "resources/read", {"uri": "view://a"}),
)
SAY: Final[Act] = ("tools/call", {"name": "say", "arguments": {}})
VIEW: Final[Act] = ("tools/call", {"name": "view", "arguments": {"path": "a.txt"}})
AGAIN: Final[Act] = ("tools/call", {"name": "view", "arguments": {"name": "a"}})


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar."""
    with tempfile.TemporaryDirectory() as directory:
        bench = _Bench(Path(directory), setting)
        return [
            *bench.starts(),
            *bench.calls("on stdio", bench.opened),
            *bench.calls("over HTTP", bench.served),
            *bench.memory(),
            *bench.tokens(),
        ]


class _Bench:
    """Every server has a state directory of its own and the same files; our two checkouts are `ours` and `before`."""

    def __init__(self, place: Path, setting: Setting) -> None:
        self.place = place
        self.setting = setting
        self.project = place / "project"
        self.project.mkdir()
        (self.project / "a.txt").write_text("".join(f"line {number} of a file\n" for number in range(LINES)))
        self.bare = {BARE: (OURS.python, str(ROOT / "benchmarks" / "peers" / "bare_mcp_server.py"))}
        modules = peer_package("server-filesystem", SERVER_FILESYSTEM)
        script = None if modules is None else modules / "@modelcontextprotocol/server-filesystem/dist/index.js"
        self.files = {} if script is None else {FILES: (str(NODE), str(script), str(self.project))}

    def ours(self, *options: str) -> Commands:
        root = ("--root", str(self.project))
        return {name: (checkout.server, *root, *options) for name, checkout in self.setting.checkouts.items()}

    def client(self, name: str, command: Sequence[str]) -> Client:
        return Client(command, self.place / f"state-{name}", str(self.project))

    @contextmanager
    def opened(self) -> Iterator[dict[str, Callable[[Act], Any]]]:
        """How each server is asked on stdio, by name."""
        with ExitStack() as stack:
            asked: dict[str, Callable[[Act], Any]] = {}
            for name, command in {**self.ours(), **self.bare}.items():
                client = self.client(name, command)
                stack.callback(client.close)
                _greet(client)
                asked[name] = lambda act, client=client: client.call(act[0], dict(act[1]))
            yield asked

    @contextmanager
    def served(self) -> Iterator[dict[str, Callable[[Act], Any]]]:
        """How each server is asked over HTTP, by name."""
        bare = {name: (*command, "http") for name, command in self.bare.items()}
        with ExitStack() as stack:
            asked: dict[str, Callable[[Act], Any]] = {}
            for name, command in {**self.ours("--http", "0", "--no-token"), **bare}.items():
                client = WebClient(command, self.place / f"state-web-{name}")
                stack.callback(client.close)
                asked[name] = lambda act, client=client: client.call(act[0], dict(act[1]))
            yield asked

    def starts(self) -> list[Row]:
        commands = {**self.ours(), **self.bare, **self.files}
        first: dict[str, list[float]] = {name: [] for name in commands}

        def start(name: str) -> float:
            begun = perf_counter()
            client = self.client(name, commands[name])
            _greet(client)
            took = perf_counter() - begun
            if name != BARE:
                begun = perf_counter()
                _checked(client.call(*(_read_of(self.project) if name == FILES else VIEW)))
                first[name].append(perf_counter() - begun)
            client.close()
            return took

        figures = in_turns({name: name for name in commands}, self.setting.rounds(STARTS), start)
        views = {name: sorted(times[1:])[len(times[1:]) // 2] for name, times in first.items() if name != BARE}
        ratio = figures["ours"] / figures[BARE]
        return [
            self._row(
                "start -> initialize",
                figures,
                f"<= {START_RATIO:.2f}x bare",
                ratio <= START_RATIO,
                ratio=f"{ratio:.2f} x bare",
            ),
            self._row(
                "first view after it, back to back; the peer reads the file",
                views,
                f"<= {FIRST_VIEW_SECONDS * 1000:.0f} ms",
                views["ours"] <= FIRST_VIEW_SECONDS,
            ),
        ]

    def _row(self, name: str, figures: Figures, bar: str, met: bool, ratio: str = "") -> Row:
        others = [f"{each} {duration(value)}" for each, value in figures.items() if each not in ("ours", "before")]
        peer = ", ".join([*others, *([] if self.files else [MISSING])])
        return row(name, figures, duration, bar=bar, met=met, ratio=ratio, peer=peer)

    def calls(self, where: str, servers: Callable[[], Any]) -> list[Row]:
        rounds = self.setting.rounds(CALLS)
        with servers() as asked:
            for name, ask in asked.items():
                if name != BARE:
                    _checked(ask(VIEW))
            rows = [self._look_row(where, look, asked, rounds) for look in LOOKS]
            recorded = in_turns(asked, rounds, _asking(AGAIN, asked))
        more = recorded["ours"] - recorded[BARE]
        recorded_row = row(
            f"recorded call {where}: more by {duration(max(more, 0.0))}",
            recorded,
            duration,
            bar=f"<= bare + {duration(RECORDED_SECONDS)}",
            met=more <= RECORDED_SECONDS,
        )
        return [*rows, recorded_row]

    def _look_row(self, where: str, look: _Look, asked: dict[str, Callable[[Act], Any]], rounds: int) -> Row:
        figures = in_turns(asked, rounds, _asking((look.method, look.params), asked))
        ratio = figures["ours"] / figures[BARE]
        return row(
            f"{look.name} {where}",
            figures,
            duration,
            bar=f"<= {LOOK_RATIO}x bare",
            met=ratio <= LOOK_RATIO,
            ratio=f"{ratio:.2f} x",
        )

    def memory(self) -> list[Row]:
        after: dict[str, float] = {}
        each: dict[str, float] = {}
        for name, command in self.ours("--http", "0", "--no-token").items():
            client = WebClient(command, self.place / f"state-memory-{name}")
            _checked(client.call(*VIEW))
            after[name] = held(client.process.pid)
            for number in range(SESSIONS):
                _checked(client.call(*VIEW, session=f"s{number}"))
            each[name] = (held(client.process.pid) - after[name]) / SESSIONS
            client.close()
        for name, command in self.files.items():
            client = self.client(name, command)
            _greet(client)
            _checked(client.call(*_read_of(self.project)))
            after[name] = held(client.process.pid)
            client.close()
        return [
            row(
                "memory after a view",
                after,
                _mb,
                bar=f"<= {MEMORY_MB} MB",
                met=after["ours"] <= MEMORY_MB * 1e6,
                peer="" if self.files else MISSING,
            ),
            row(
                "memory of each further session",
                each,
                _mb,
                bar=f"<= {SESSION_MB} MB",
                met=each["ours"] <= SESSION_MB * 1e6,
            ),
        ]

    def tokens(self) -> list[Row]:
        """What a host puts into every prompt of its model, or at least keeps ready for it."""
        found: dict[str, dict[str, float]] = {what: {} for what in TOKENS}
        for name, command in self.ours().items():
            found["four tools"][name], found["instructions"][name] = self._advertised(name, command)
        for name, command in self.ours("--allow-run=unsandboxed").items():
            found["seven tools, with `run`"][name], _ = self._advertised(name, command)
        for name, command in self.files.items():
            found["four tools"][name], _ = self._advertised(name, command)
        return [
            row(
                f"tokens that are advertised: {what}",
                figures,
                lambda value: f"{value:,.0f}",
                bar=f"<= {TOKENS[what]:,}",
                met=figures["ours"] <= TOKENS[what],
                peer="" if self.files or what != "four tools" else MISSING,
            )
            for what, figures in found.items()
        ]

    def _advertised(self, name: str, command: Sequence[str]) -> tuple[float, float]:
        client = self.client(name, command)
        instructions = _greet(client).get("instructions", "")
        tools = client.call("tools/list", {})["tools"]
        client.close()
        texts = [json.dumps(tool, separators=(",", ":"), ensure_ascii=False) for tool in tools]
        return float(sum(map(count, texts))), float(count(instructions))


def _greet(client: Client) -> dict[str, Any]:
    said = client.call("initialize", HELLO)
    client.begin("notifications/initialized", {}, notification=True)
    return said


def _read_of(project: Path) -> Act:
    return "tools/call", {"name": "read_text_file", "arguments": {"path": str(project / "a.txt")}}


def _asking(act: Act, asked: Mapping[str, Callable[[Act], Any]]) -> Callable[[Callable[[Act], Any]], float]:
    bare = asked[BARE]

    def ask(server: Callable[[Act], Any]) -> float:
        begun = perf_counter()
        answer = server(SAY if server is bare else act)
        took = perf_counter() - begun
        _checked(answer)
        return took

    return ask


def _checked(answer: dict[str, Any]) -> None:
    """Raises RuntimeError for a call that failed, because a refusal is quick."""
    if answer.get("isError"):
        raise RuntimeError(f"a measured call failed: {answer}")


def _mb(size: float) -> str:
    return f"{size / 1e6:.0f} MB"
