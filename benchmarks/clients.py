"""Raw clients in front of any agent or server, over pipes and over HTTP, and what a program's processes hold.

One message out, messages in until what was waited for: nothing of it is ours, so that all programs are measured alike.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any, Final

import psutil

from benchmarks.environments import measured

_META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
}
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Client:
    """An agent's process. `variables` are added to its environment."""

    def __init__(
        self, command: Sequence[str], state_dir: Path, cwd: str, variables: Mapping[str, str] = NOTHING
    ) -> None:
        self.cwd = cwd
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**measured(), "REWINDOW_STATE_DIR": str(state_dir), **variables},
        )
        self.ids = 0

    def begin(self, method: str, params: dict[str, Any], notification: bool = False) -> int:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if not notification:
            self.ids += 1
            message["id"] = self.ids
        self._send(message)
        return self.ids

    def answer(self, request_id: int, result: dict[str, Any]) -> None:
        """Answers a request of the agent's."""
        self._send({"jsonrpc": "2.0", "id": request_id, "result": result})

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

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
        self.process.communicate(timeout=30)


class WebClient:
    """A process that serves MCP over HTTP and says on stderr where; asked in the newer era, on one connection."""

    def __init__(self, command: Sequence[str], state_dir: Path) -> None:
        environ = {**measured(), "REWINDOW_STATE_DIR": str(state_dir)}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ)
        assert self.process.stderr
        found = re.search(r"http://([^/]+)(/\w+)", self.process.stderr.readline())
        assert found
        self._path = found[2]
        self._connection = HTTPConnection(found[1])
        self._ids = 0

    def call(self, method: str, params: dict[str, Any], session: str = "") -> Any:
        """The result. `session` names one of the server's, where that is part of its paths."""
        self._ids += 1
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": {**params, "_meta": _META}}
        headers = {**_HEADERS, "Mcp-Method": method, "Mcp-Name": params.get("name") or params.get("uri", "")}
        path = f"{self._path}/{session}" if session else self._path
        self._connection.request("POST", path, json.dumps(message), headers)
        return json.loads(self._connection.getresponse().read())["result"]

    def close(self) -> None:
        self._connection.close()
        self.process.terminate()
        self.process.communicate(timeout=30)


def worked(pid: int) -> float:
    """The processor's time that a process and all its descendants have taken so far, in seconds."""
    process = psutil.Process(pid)
    times = [member.cpu_times() for member in [process, *process.children(recursive=True)]]
    return sum(each.user + each.system for each in times)


def held(pid: int) -> int:
    """Proportional set size of a process and all its descendants, in bytes."""
    process = psutil.Process(pid)
    return sum(member.memory_full_info().pss for member in [process, *process.children(recursive=True)])
