"""An agent on a network beside the same agent on stdio: what a turn costs more over WebSocket, and over HTTP.

Each of the three runs a session of its own, taking turns with one statement. The server and the clients are on this
machine, over loopback, so the figures are what our processes add, and no network.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Protocol

from websockets.sync.client import ClientConnection, connect

from benchmarks.clients import Client
from benchmarks.environments import measured
from benchmarks.measuring import Setting, duration, in_turns, row
from benchmarks.report import Row

PROGRAM: Final = str(Path(sys.executable).parent / "rewindow-acp")
ROUNDS: Final = 200
MORE: Final = 0.002
"""Seconds that a turn may take more over WebSocket."""
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
def served(state: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """A server for the block: its port, and the headers of its user."""
    account = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    add = [PROGRAM, "tokens", "add", "bench", "--account", account, "--state-dir", str(state)]
    token = subprocess.run(add, capture_output=True, text=True, check=True).stdout.strip()
    command = [PROGRAM, "--listen", "0", "--state-dir", str(state)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=measured()) as process:
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
