"""An agent on a network beside the same agent on stdio, and agents on a Ray cluster that are lost or let go.

For a turn, each of three agents runs a session of its own, taking turns with one statement. The server and the clients
are on this machine, over loopback, so the figures are what our processes add, and no network.

The cluster has a head and a node on this machine, and a PostgreSQL store. `bench_store` has the commits to such a
store. The session that comes back has one variable, so its rebuild takes next to nothing.
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any, Final, Protocol

import psutil
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from benchmarks.clients import Client, held
from benchmarks.environments import measured
from benchmarks.measuring import Setting, duration, in_turns, row
from benchmarks.report import Row
from tests.support.postgresql import running
from tests.support.ray_nodes import Cluster
from tests.support.ray_nodes import running as nodes

PROGRAM: Final = str(Path(sys.executable).parent / "rewindow-acp")
ROUNDS: Final = 200
MORE: Final = 0.002
"""Seconds that a turn may take more over WebSocket."""
RETURNS: Final = 5
IDLE_MINUTES: Final = 0.02
TAKEN_OVER: Final = 12.0
"""Seconds until a session answers whose agent was killed: its lease, and 2 s."""
BACK: Final = 2.0
"""Seconds until a session answers whose agent was let go."""
MORE_MEMORY: Final = 90_000_000
"""Bytes that an agent with an open session may take beside a bare actor."""
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

    def __init__(self, port: int, headers: Mapping[str, str]) -> None:
        self._port = port
        self._headers = {**headers, "Content-Type": "application/json"}
        self._posts = http.client.HTTPConnection("127.0.0.1", port)
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
            connection = http.client.HTTPConnection("127.0.0.1", self._port)
            headers = {**self._headers, "Accept": "text/event-stream"}
            connection.request("GET", _PATH, headers=headers | ({} if session is None else {"Acp-Session-Id": session}))
            self._streams[session] = connection.getresponse()
        return self._streams[session]


@contextmanager
def served(
    state: Path, *options: str, environ: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[int, dict[str, str]]]:
    """A server for the block: its port, and the headers of its user."""
    account = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    add = [PROGRAM, "tokens", "add", "bench", "--account", account, "--state-dir", str(state)]
    token = subprocess.run(add, capture_output=True, text=True, check=True).stdout.strip()
    command = [PROGRAM, "--listen", "0", "--state-dir", str(state), *options]
    env = {**measured(), **environ}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr
        line = process.stderr.readline()
        try:
            yield int(line.partition("127.0.0.1:")[2].partition("/")[0]), {"Authorization": f"Bearer {token}"}
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
    return [*_turns(setting), *_cluster(setting)]


def _turns(setting: Setting) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder)
        port, headers = stack.enter_context(served(place / "served"))
        socket = stack.enter_context(
            connect(f"ws://127.0.0.1:{port}{_PATH}", additional_headers=headers, max_size=None, proxy=None)
        )
        stdio = Client([PROGRAM], place / "stdio", folder)
        stack.callback(stdio.close)
        agents = {
            "ours": opened(WebSocketAgent(socket), folder),
            "stdio": opened(stdio, folder),
            "HTTP": opened(HttpAgent(port, headers), folder),
        }
        found = in_turns(agents, setting.rounds(ROUNDS), lambda agent: turn(*agent))
    more = found["ours"] - found["stdio"]
    bar, met = f"<= stdio + {duration(MORE)}", more <= MORE
    return [row("turn over WebSocket", found, duration, bar=bar, met=met, ratio=f"stdio + {more * 1e3:.2f} ms")]


# --- on a cluster -----------------------------------------------------------------------------------------------------


def _cluster(setting: Setting) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, running("18", "fsync=on") as database, nodes(1) as cluster:
        options = (
            "--cluster",
            cluster.address,
            "--cluster-cpus",
            "1",
            "--store",
            database.new_database(),
            "--idle",
            str(IDLE_MINUTES),
        )
        with served(Path(folder) / "state", *options, environ=cluster.environ) as (port, headers):
            client = Returning(port, headers, folder)
            client.answered()
            memory = _memory(cluster, client)
            lost = _median(setting, lambda: _lost(cluster, client))
            let_go = _median(setting, lambda: _let_go(cluster, client))
    return [
        row("agent that was killed, until the next answer", {"ours": lost}, duration, bar=f"<= {TAKEN_OVER:.0f} s",
            met=lost <= TAKEN_OVER),
        row("agent that was let go, until the next answer", {"ours": let_go}, duration, bar=f"<= {BACK:.0f} s",
            met=let_go <= BACK),
        memory,
    ]  # fmt: skip


def _median(setting: Setting, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(setting.rounds(RETURNS)))


class Returning:
    """A client whose session may be lost at any moment; it tries until it has an answer."""

    def __init__(self, port: int, headers: Mapping[str, str], cwd: str) -> None:
        self._port = port
        self._headers = headers
        self._cwd = cwd
        self._session = ""

    def answered(self, then: Callable[[], None] = lambda: None) -> float:
        """The seconds until a statement was answered; `then` is called while the session is still open."""
        begun = perf_counter()
        while True:
            # A response without a result is an error: another process still has the lease.
            with suppress(OSError, KeyError, WebSocketException), self._connected() as agent:
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

    @contextmanager
    def _connected(self) -> Iterator[Agent]:
        url = f"ws://127.0.0.1:{self._port}{_PATH}"
        with connect(url, additional_headers=self._headers, max_size=None, proxy=None, open_timeout=60) as socket:
            yield WebSocketAgent(socket)


def _lost(cluster: Cluster, client: Returning) -> float:
    client.answered(lambda: [host.kill() for host in cluster.hosts()] and None)
    return client.answered()


def _let_go(cluster: Cluster, client: Returning) -> float:
    client.answered()
    while any(_is_actor(each) for node in cluster.nodes for each in node.family()):
        time.sleep(0.1)
    return client.answered()


def _is_actor(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any("HostActor" in word for word in process.cmdline())
    return False


def _memory(cluster: Cluster, client: Returning) -> Row:
    """What a user with an open session takes, beside an actor that does nothing."""
    found: list[int] = []
    client.answered(lambda: found.extend(held(each.pid) for each in cluster.nodes[0].family() if _is_actor(each)))
    code = (
        f"import os, ray, sys; ray.init({cluster.address!r}, logging_level='ERROR')\n"
        "class Bare:\n    async def pid(self): return os.getpid()\n"
        "print(ray.get(ray.remote(Bare).options(name='bare', lifetime='detached', num_cpus=0).remote().pid.remote()))"
    )
    environ = {**measured(), **cluster.environ}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
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
