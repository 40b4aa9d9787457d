"""Clients that keep nothing: one of ACP for many threads over pipes, and those of MCP over HTTP, in both eras."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import subprocess
import threading
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Final

SECONDS: Final = 120.0
TOKEN: Final = "a-token-for-the-clients-of-a-soak"
_NEW: Final = "2026-07-28"
_OLD: Final = "2025-11-25"
_INFO: Final = {"name": "soak", "version": "1"}
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": _NEW,
    "io.modelcontextprotocol/clientCapabilities": {},
}

Message = dict[str, Any]


class FailedError(Exception):
    """A request was answered with an error, or not at all."""


class Agent:
    """A process of the agent, whose sessions several threads use."""

    def __init__(self, command: Sequence[str], environ: dict[str, str], log: Path) -> None:
        self._errors = log.open("ab")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environ
        )
        self._lock = threading.Lock()
        self._number = 0
        self._waiting: dict[int, queue.Queue[Message]] = {}
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        self.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})

    def call(self, method: str, params: Message, seconds: float = SECONDS) -> Any:
        """Send a request and wait for its result. Raises FailedError."""
        answer: queue.Queue[Message] = queue.Queue(1)
        with self._lock:
            self._number += 1
            number = self._number
            self._waiting[number] = answer
        self._write({"id": number, "method": method, "params": params})
        try:
            response = answer.get(timeout=seconds)
        except queue.Empty:
            raise FailedError(f"{method} was not answered for {seconds} s") from None
        finally:
            self._waiting.pop(number, None)
        if "result" not in response:
            raise FailedError(f"{method} was answered with {response.get('error')}")
        return response["result"]

    def new(self, project: Path, mode: str = "auto") -> str:
        session = self.call("session/new", {"cwd": str(project), "mcpServers": []})["sessionId"]
        self.call("session/set_mode", {"sessionId": session, "modeId": mode})
        return session

    def prompt(self, session: str, text: str) -> None:
        """Send a prompt and wait for the end of its turn. Raises FailedError if that is not an ordinary end."""
        params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        reason = self.call("session/prompt", params)["stopReason"]
        if reason != "end_turn":
            raise FailedError(f"the turn {text!r} ended with {reason}")

    def close(self) -> None:
        assert self.process.stdin
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self._thread.join(SECONDS)
            self._errors.close()
            assert self.process.stdout
            self.process.stdout.close()

    def _write(self, message: Message) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._lock:
            assert self.process.stdin
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message:
                if (waiting := self._waiting.get(message["id"])) is not None:
                    waiting.put(message)
            elif "id" in message:
                option = next(each for each in message["params"]["options"] if each["kind"] == "allow_once")
                outcome = {"outcome": "selected", "optionId": option["optionId"]}
                self._write({"id": message["id"], "result": {"outcome": outcome}})
        for waiting in list(self._waiting.values()):
            with contextlib.suppress(queue.Full):
                waiting.put_nowait({"error": "the agent has ended"})


class Server:
    """A process of `rewindow-mcp` over HTTP."""

    def __init__(self, command: Sequence[str], environ: dict[str, str], log: Path) -> None:
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environ)
        assert self.process.stderr
        self.place = ("", "")
        self._errors = log.open("ab")
        for line in self.process.stderr:
            self._errors.write(line)
            if found := re.search(rb"http://([^/]+)(/\w+)", line):
                self.place = (found[1].decode(), found[2].decode())
                break
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        if not self.place[0]:
            self.close()
            raise FailedError(f"the server said no address; its messages are in {log}")

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self._errors.write(line)

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self._thread.join(SECONDS)
            self._errors.close()
            assert self.process.stderr
            self.process.stderr.close()


class WebClient:
    """A client of one session over HTTP, which may leave and come again."""

    def __init__(self, server: Server, session: str, *, is_old: bool) -> None:
        self._host, path = server.place
        self._path = f"{path}/{session}"
        self._is_old = is_old
        self._number = 0
        self.connect()

    def connect(self) -> None:
        self._connection = HTTPConnection(self._host, timeout=SECONDS)
        self._session = ""
        if self._is_old:
            self.call("initialize", {"protocolVersion": _OLD, "capabilities": {}, "clientInfo": _INFO})
            self._send({"method": "notifications/initialized", "params": {}})

    def call(self, method: str, params: Message) -> Any:
        """Send a request and wait for its result. Raises FailedError."""
        self._number += 1
        if not self._is_old:
            params = {**params, "_meta": _META}
        response = self._send({"id": self._number, "method": method, "params": params})
        result = response.get("result")
        if result is None or result.get("isError"):
            raise FailedError(f"{method} {params} was answered with {response}")
        return result

    def leave(self) -> None:
        if self._is_old:
            self._connection.request("DELETE", self._path, headers=self._headers({}))
            self._connection.getresponse().read()
        self.close()

    def close(self) -> None:
        self._connection.close()

    def _send(self, message: Message) -> Message:
        body = json.dumps({"jsonrpc": "2.0", **message})
        response, data = self._exchanged(body, self._headers(message))
        if response.status >= 300:
            raise FailedError(f"{message} was answered with status {response.status}: {data!r:.200}")
        self._session = response.getheader("Mcp-Session-Id", self._session)
        lines = data.decode().splitlines() if data else []
        events = [line.removeprefix("data: ") for line in lines if line.startswith(("data: {", "{"))]
        return json.loads(events[-1]) if events else {}

    def _exchanged(self, body: str, headers: dict[str, str]) -> tuple[HTTPResponse, bytes]:
        # A server closes a connection that was idle for some seconds; another one is made at the next request.
        for _ in range(2):
            try:
                self._connection.request("POST", self._path, body, headers)
                response = self._connection.getresponse()
                return response, response.read()
            except (ConnectionError, HTTPException):
                self.close()
        raise FailedError("the server closed two connections without an answer")

    def _headers(self, message: Message) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {TOKEN}",
        }
        if not self._is_old:
            params = message.get("params", {})
            name = params.get("name") or params.get("uri", "")
            return {**headers, "MCP-Protocol-Version": _NEW, "Mcp-Method": message["method"], "Mcp-Name": name}
        of_session = {"Mcp-Session-Id": self._session, "MCP-Protocol-Version": _OLD} if self._session else {}
        return {**headers, **of_session}


def environment(state: Path, home: Path, **more: str) -> dict[str, str]:
    """The environment of a product with this state."""
    return {**os.environ, "REWINDOW_STATE_DIR": str(state), "HOME": str(home), **more}
