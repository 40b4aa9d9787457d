"""An agent on a network beside the same agent on stdio, and agents on a Ray cluster that are lost or let go.

For a turn, each of three agents runs a session of its own, taking turns with one statement. Server, head and node are
in network namespaces of their own, joined by a bridge (`network`), and the clients are outside. One row has a delay on
the way, which shows how often a turn waits for it.

The cluster has a head and a node, and a PostgreSQL store, whose commits are measured beside psycopg's (`bench_store`).
The session that comes back has one variable, so its rebuild takes next to nothing.
"""

from __future__ import annotations

import http.client
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

import psutil
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from benchmarks.bench_store import postgresql
from benchmarks.clients import Client, held, worked
from benchmarks.environments import measured
from benchmarks.measuring import Setting, duration, in_turns, row
from benchmarks.network import delayed, network
from benchmarks.report import Row
from tests.support.postgresql import running
from tests.support.ray_nodes import Cluster, Place
from tests.support.ray_nodes import running as nodes

PROGRAM: Final = str(Path(sys.executable).parent / "rewindow-acp")
ROUNDS: Final = 200
MORE: Final = 0.002
"""Seconds that a turn may take more over WebSocket."""
RETURNS: Final = 3
IDLE_MINUTES: Final = 0.02
TAKEN_OVER: Final = 12.0
"""Seconds until a session answers whose agent was killed: its lease, and 2 s."""
BACK: Final = 2.0
"""Seconds until a session answers whose agent was let go."""
MORE_MEMORY: Final = 90_000_000
"""Bytes that an agent with an open session may take beside a bare actor."""
FAR_ROUNDS: Final = 20
ONE_WAY: Final = 0.02
"""Seconds that a message takes in one row."""
SESSIONS: Final = 1_000
AT_ONCE: Final = 4
LET_GO_MEMORY: Final = 1_000_000
"""Bytes that the sessions may take in all, beyond their rows."""
_PATH: Final = "/acp"


class Agent(Protocol):
    """Answers requests."""

    def call(self, method: str, params: dict[str, Any]) -> Any: ...


class WebSocketAgent:
    """An agent behind a WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = 0

    def call(self, method: str, params: dict[str, Any]) -> Any:
        self._ids += 1
        self._socket.send(json.dumps({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._ids and "method" not in message:
                return message["result"]


class HttpAgent:
    """An agent behind POST and event streams, over HTTP/1.1."""

    def __init__(self, server: Served) -> None:
        self._server = server
        self._headers = {**server.headers, "Content-Type": "application/json"}
        self._posts = http.client.HTTPConnection(server.address, server.port)
        self._streams: dict[str | None, http.client.HTTPResponse] = {}
        self._ids = 0

    def call(self, method: str, params: dict[str, Any]) -> Any:
        self._ids += 1
        session: str | None = params.get("sessionId")
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        headers = self._headers if session is None else {**self._headers, "Acp-Session-Id": session}
        self._posts.request("POST", _PATH, json.dumps(message), headers)
        response = self._posts.getresponse()
        body = response.read()
        if method == "initialize":
            self._headers["Acp-Connection-Id"] = response.headers["Acp-Connection-Id"]
            return json.loads(body)["result"]
        for line in self._stream(session):
            if line.startswith(b"data: ") and (found := json.loads(line[6:])).get("id") == self._ids:
                return found["result"]
        raise RuntimeError("the stream has ended")

    def _stream(self, session: str | None) -> http.client.HTTPResponse:
        if session not in self._streams:
            connection = http.client.HTTPConnection(self._server.address, self._server.port)
            headers = {**self._headers, "Accept": "text/event-stream"}
            connection.request("GET", _PATH, headers=headers | ({} if session is None else {"Acp-Session-Id": session}))
            self._streams[session] = connection.getresponse()
        return self._streams[session]


class Served(NamedTuple):
    """A server that runs: its process, address and port, and the headers of its user."""

    pid: int
    address: str
    port: int
    headers: dict[str, str]

    @contextmanager
    def connected(self) -> Iterator[Agent]:
        """A connection over WebSocket for the block."""
        url = f"ws://{self.address}:{self.port}{_PATH}"
        with connect(url, additional_headers=self.headers, max_size=None, proxy=None, open_timeout=60) as socket:
            yield WebSocketAgent(socket)


@contextmanager
def served(
    place: Place, state: Path, *options: str, environ: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Served]:
    """A server for the block."""
    account = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    add = [PROGRAM, "tokens", "add", "bench", "--account", account, "--state-dir", str(state)]
    token = subprocess.run(add, capture_output=True, text=True, check=True).stdout.strip()
    command = [*place.prefix, PROGRAM, "--listen", f"{place.address}:0", "--state-dir", str(state), *options]
    env = {**measured(), **environ}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr
        found = next(filter(None, (re.search(rf"{place.address}:(\d+)/", line) for line in process.stderr)))
        try:
            yield Served(process.pid, place.address, int(found[1]), {"Authorization": f"Bearer {token}"})
        finally:
            process.terminate()


def turn(agent: Agent, session: str) -> float:
    """The seconds of one turn."""
    begun = perf_counter()
    agent.call("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "1 + 1"}]})
    return perf_counter() - begun


def opened(agent: Agent, cwd: str) -> tuple[Agent, str]:
    agent.call("initialize", {"protocolVersion": 1})
    return agent, agent.call("session/new", {"cwd": cwd, "mcpServers": []})["sessionId"]


def run(setting: Setting) -> list[Row]:
    """The rows."""
    with network(2) as places:
        return [*_turns(setting, places[0]), *postgresql(setting), *_cluster(setting, places)]


def _turns(setting: Setting, place: Place) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        server = stack.enter_context(served(place, Path(folder) / "served"))
        port = stack.enter_context(delayed(server.address, server.port, ONE_WAY))
        late = server._replace(address="127.0.0.1", port=port)
        stdio = Client([PROGRAM], Path(folder) / "stdio", folder)
        stack.callback(stdio.close)
        agents = {
            "ours": opened(stack.enter_context(server.connected()), folder),
            "stdio": opened(stdio, folder),
            "HTTP": opened(HttpAgent(server), folder),
        }
        found = in_turns(agents, setting.rounds(ROUNDS), lambda agent: turn(*agent))
        far = opened(stack.enter_context(late.connected()), folder)
        seconds = statistics.median(turn(*far) for _ in range(setting.rounds(FAR_ROUNDS)))
    more, trips = found["ours"] - found["stdio"], (seconds - found["ours"]) / (2 * ONE_WAY)
    bar, met = f"<= stdio + {duration(MORE)}", more <= MORE
    return [
        row("turn over WebSocket", found, duration, bar=bar, met=met, ratio=f"stdio + {more * 1e3:.2f} ms"),
        row(f"the same, {duration(ONE_WAY)} away", {"ours": seconds}, duration, ratio=f"+ {trips:.2f} round trips"),
    ]


# --- on a cluster -----------------------------------------------------------------------------------------------------


def _cluster(setting: Setting, places: Sequence[Place]) -> list[Row]:
    with (
        tempfile.TemporaryDirectory() as folder,
        running("18", "fsync=on") as database,
        nodes(1, places=places) as cluster,
    ):
        store = database.new_database()
        options = ("--cluster", cluster.address, "--cluster-cpus", "1", "--store", store, "--idle", str(IDLE_MINUTES))
        with served(places[0], Path(folder) / "state", *options, environ=cluster.environ) as server:
            client = Returning(server, folder)
            client.answered()
            memory = _memory(cluster, client, places[0])
            lost = _median(setting, lambda: _lost(cluster, client))
            work: list[float] = []
            let_go = _median(setting, lambda: _let_go(cluster, client, work))
            many = _many(setting, cluster, server, folder)
    return [
        row("agent that was killed, until the next answer", {"ours": lost}, duration, bar=f"<= {TAKEN_OVER:.0f} s",
            met=lost <= TAKEN_OVER),
        row("agent that was let go, until the next answer", {"ours": let_go}, duration, bar=f"<= {BACK:.0f} s",
            met=let_go <= BACK, ratio=f"{statistics.median(work):.2f} s of processors"),
        memory,
        many,
    ]  # fmt: skip


def _median(setting: Setting, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(setting.rounds(RETURNS)))


class Returning:
    """A client whose session may be lost at any moment; it tries until it has an answer."""

    def __init__(self, server: Served, cwd: str) -> None:
        self._server = server
        self._cwd = cwd
        self._session = ""

    def answered(self, then: Callable[[], None] = lambda: None) -> float:
        """The seconds until a statement was answered; `then` is called while the session is still open."""
        begun = perf_counter()
        while True:
            # A response without a result is an error: another process still has the lease.
            with suppress(OSError, KeyError, WebSocketException), self._server.connected() as agent:
                agent.call("initialize", {"protocolVersion": 1})
                where = {"cwd": self._cwd, "mcpServers": []}
                if self._session:
                    agent.call("session/load", {**where, "sessionId": self._session})
                else:
                    self._session = agent.call("session/new", where)["sessionId"]
                turn(agent, self._session)
                seconds = perf_counter() - begun
                then()
                return seconds
            time.sleep(0.05)


def _lost(cluster: Cluster, client: Returning) -> float:
    client.answered(lambda: [host.kill() for host in cluster.hosts()] and None)
    return client.answered()


def _let_go(cluster: Cluster, client: Returning, work: list[float]) -> float:
    """The seconds until an answer; `work` gets the processors' time of the actor and of the agent."""
    client.answered()
    _wait_until_let_go(cluster)
    return client.answered(lambda: work.extend(worked(each.pid) for each in _actors(cluster)))


def _actors(cluster: Cluster) -> list[psutil.Process]:
    return [each for node in cluster.nodes for each in node.family() if _is_actor(each)]


def _wait_until_let_go(cluster: Cluster) -> None:
    while _actors(cluster):
        time.sleep(0.1)


def _many(setting: Setting, cluster: Cluster, server: Served, cwd: str) -> Row:
    """What many sessions take once their agent was let go: processes on the node, and memory of the server."""
    count = setting.size(SESSIONS)

    def rests(sessions: int) -> tuple[int, int]:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(lambda share: _make(server, cwd, share), [sessions // AT_ONCE] * AT_ONCE))
        _wait_until_let_go(cluster)
        return len(cluster.nodes[0].family()), held(server.pid)

    few = rests(count // 10)  # the same before, so that the server has what it needs for any session
    many = rests(count)
    processes, more = many[0] - few[0], many[1] - few[1]
    return row(
        f"{count:,} sessions that were let go",
        {"ours": more},
        lambda size: f"{size / 1e6:.2f} MB, {processes} processes",
        bar=f"<= {LET_GO_MEMORY / 1e6:.0f} MB, no process",
        met=more <= LET_GO_MEMORY and processes <= 0,
    )


def _make(server: Served, cwd: str, count: int) -> None:
    """Sessions with one statement each, one after another."""
    made = 0
    while made < count:
        # On a busy machine, an agent that starts too slowly is replaced.
        with suppress(OSError, KeyError, WebSocketException), server.connected() as agent:
            agent.call("initialize", {"protocolVersion": 1})
            while made < count:
                session = agent.call("session/new", {"cwd": cwd, "mcpServers": []})["sessionId"]
                turn(agent, session)
                agent.call("session/close", {"sessionId": session})
                made += 1


def _is_actor(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any("HostActor" in word for word in process.cmdline())
    return False


def _memory(cluster: Cluster, client: Returning, place: Place) -> Row:
    """What a user with an open session takes, beside an actor that does nothing."""
    found: list[int] = []
    client.answered(lambda: found.extend(held(each.pid) for each in _actors(cluster)))
    code = (
        f"import os, ray, sys; ray.init({cluster.address!r}, logging_level='ERROR')\n"
        "class Bare:\n    async def pid(self): return os.getpid()\n"
        "print(ray.get(ray.remote(Bare).options(name='bare', lifetime='detached', num_cpus=0).remote().pid.remote()))"
    )
    environ = {**measured(), **cluster.environ}
    command = [*place.prefix, sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    bare = held(int(done.stdout.split()[-1]))
    more = found[0] - bare
    return row(
        "agent with an open session, and its actor",
        {"ours": found[0], "a bare actor": bare},
        lambda size: f"{size / 1e6:.0f} MB",
        bar=f"<= bare + {MORE_MEMORY / 1e6:.0f} MB",
        met=more <= MORE_MEMORY,
        ratio=f"bare + {more / 1e6:.0f} MB",
    )
