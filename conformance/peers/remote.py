"""A program on standard streams that is a remote agent: it carries lines to an endpoint, over WebSocket or HTTP.

    python -m conformance.peers.remote ws://127.0.0.1:8765/acp --token-file FILE

So every scenario for an agent on stdio runs against a remote one, too. `ws` and `wss` use a WebSocket, `http` and
`https` POST and event streams. A request `_http` is not carried: its params describe a request of HTTP, which is made,
and its result is the response. Requirements of the transport itself are shown with it.

Knows no protocol above JSON-RPC but the names of its ids and headers. Started by the command `acp --url`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

import anyio
import anyio.to_thread
import httpx2
from anyio.abc import ByteStream, TaskGroup
from anyio.streams.tls import TLSStream
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)

CONNECTION_ID: Final = "Acp-Connection-Id"
SESSION_ID: Final = "Acp-Session-Id"
RAW: Final = "_http"
"""The method of a request of HTTP that the scenario describes."""
_SECONDS: Final = 60.0
_RAW_SECONDS: Final = 5.0
_PARTS: Final = {"ws": "http", "wss": "https"}
_PORTS: Final = {"ws": 80, "wss": 443}
_CHUNK: Final = 1 << 16


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _session_of(message: Mapping[str, Any]) -> str | None:
    for part in ("params", "result"):
        fields = message.get(part)
        named = cast("dict[str, Any]", fields).get("sessionId") if isinstance(fields, dict) else None
        if isinstance(named, str):
            return named
    return None


def put(line: bytes) -> None:
    """Write a line to standard output."""
    sys.stdout.buffer.write(line.rstrip(b"\r\n") + b"\n")
    sys.stdout.buffer.flush()


class Raw:
    """Makes the requests that scenarios describe."""

    def __init__(self, http: httpx2.AsyncClient, url: str, authorization: Mapping[str, str]) -> None:
        self._http = http
        self._url = url
        self._authorization = authorization

    async def answer(self, message: Mapping[str, Any]) -> None:
        """Make the request of a message, and answer it."""
        params: dict[str, Any] = message.get("params") or {}
        headers = {**self._authorization, **params.get("headers", {})}
        headers = {name: value for name, value in headers.items() if value is not None}
        body = params.get("body")
        content = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
        result: dict[str, Any] = {"status": 0, "headers": {}, "body": ""}
        try:
            async with self._http.stream(
                params.get("method", "GET"), self._url, headers=headers, content=content
            ) as response:
                result = {"status": response.status_code, "headers": dict(response.headers), "body": ""}
                result["version"] = response.http_version
                with anyio.move_on_after(params.get("seconds", _RAW_SECONDS)):
                    async for piece in response.aiter_text():
                        result["body"] += piece
                        if params.get("until", "\0") in result["body"]:
                            break
        except httpx2.HTTPError as error:
            result["error"] = str(error)
        put(json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode())


# --- HTTP -------------------------------------------------------------------------------------------------------------


class Streamable:
    """Carries lines by POST, and back by event streams, which are read again where they broke."""

    def __init__(self, http: httpx2.AsyncClient, url: str, headers: Mapping[str, str], tasks: TaskGroup) -> None:
        self._http = http
        self._url = url
        self._headers = dict(headers)
        self._tasks = tasks
        self._open: dict[str | None, anyio.Event] = {}
        self._asked: dict[object, str | None] = {}

    async def send(self, line: bytes) -> None:
        message = _object(line)
        session = _session_of(message) if "method" in message else self._asked.pop(message.get("id"), None)
        headers = {**self._headers, "Content-Type": "application/json"}
        if session is not None and CONNECTION_ID in headers:
            headers[SESSION_ID] = session
            await self._stream(session)
        response = await self._http.post(self._url, content=line, headers=headers)
        if response.headers.get(CONNECTION_ID) and CONNECTION_ID not in self._headers:
            self._headers[CONNECTION_ID] = response.headers[CONNECTION_ID]
            put(response.content)
            await self._stream(None)
        elif response.headers.get("Content-Type", "").startswith("application/json"):
            put(response.content)
        elif not response.is_success:
            self._refused(message, response)

    def _refused(self, message: Mapping[str, Any], response: httpx2.Response) -> None:
        """Answer as an agent would to a message that it did not take."""
        code = -32700 if response.status_code == 400 and not message else -32600  # noqa: PLR2004 -- of HTTP
        error = {"code": code, "message": f"HTTP {response.status_code}: {response.text.strip()}"}
        is_response = bool(message) and "method" not in message
        if not is_response and ("id" in message or not message):
            put(json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "error": error}).encode())

    async def _stream(self, session: str | None) -> None:
        if session not in self._open:
            self._open[session] = anyio.Event()
            self._tasks.start_soon(self._read, session)
        await self._open[session].wait()

    async def _read(self, session: str | None) -> None:
        headers = {**self._headers, "Accept": "text/event-stream"}
        if session is not None:
            headers[SESSION_ID] = session
        while True:
            try:
                async with self._http.stream("GET", self._url, headers=headers) as response:
                    self._open[session].set()
                    if not response.is_success:
                        return
                    async for line in response.aiter_lines():
                        if line.startswith("id:"):
                            headers["Last-Event-ID"] = line[3:].strip()
                        elif line.startswith("data:"):
                            self._take(line[5:].strip().encode(), session)
            except httpx2.HTTPError:
                await anyio.sleep(0.1)
            if session is None and "Last-Event-ID" not in headers:
                return

    def _take(self, line: bytes, session: str | None) -> None:
        message = _object(line)
        if "method" in message and "id" in message:
            self._asked[message["id"]] = session
        elif (named := _session_of(message)) is not None:
            self._tasks.start_soon(self._stream, named)
        put(line)

    async def close(self) -> None:
        if CONNECTION_ID in self._headers:
            await self._http.delete(self._url, headers=self._headers)


# --- WebSocket --------------------------------------------------------------------------------------------------------


class Socket:
    """Carries lines as text frames."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._sending = anyio.Lock()

    async def connect(self, host: str, target: str, headers: Mapping[str, str]) -> None:
        """Upgrade the connection. Raises SystemExit if the server refuses."""
        extra = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send(Request(host=host, target=target, extra_headers=extra))
        while True:
            self._protocol.receive_data(await self._stream.receive(_CHUNK))
            for event in self._protocol.events():
                if isinstance(event, AcceptConnection):
                    return
                if isinstance(event, RejectConnection):
                    raise SystemExit(f"the server refused the WebSocket with status {event.status_code}")

    async def send(self, line: bytes) -> None:
        await self._send(TextMessage(data=line.decode("utf-8", "replace").rstrip("\r\n")))

    async def _send(self, event: Any) -> None:
        async with self._sending:
            await self._stream.send(self._protocol.send(event))

    async def read(self) -> None:
        """Put what arrives, until the socket ends."""
        text = ""
        while True:
            for event in self._protocol.events():
                if isinstance(event, TextMessage):
                    text += event.data
                    if event.message_finished:
                        put(text.encode())
                        text = ""
                elif isinstance(event, Ping):
                    await self._send(event.response())
                elif isinstance(event, CloseConnection):
                    return
            try:
                self._protocol.receive_data(await self._stream.receive(_CHUNK))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async def close(self) -> None:
        await self._send(CloseConnection(code=1000))
        await self._stream.aclose()


# --- the program ------------------------------------------------------------------------------------------------------


async def carry(url: str, token: str) -> None:
    """Carry lines until standard input, or the connection, ends."""
    parts = urlsplit(url)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    web = urlunsplit(parts._replace(scheme=_PARTS.get(parts.scheme, parts.scheme)))
    is_plain = urlsplit(web).scheme == "http"
    async with (
        httpx2.AsyncClient(http1=not is_plain, http2=True, timeout=_SECONDS, trust_env=False) as http,
        anyio.create_task_group() as tasks,
    ):
        raw = Raw(http, web, headers)
        if parts.scheme in _PORTS:
            carrier: Socket | Streamable = Socket(await _connected(parts.scheme, parts.hostname or "", parts.port))
            await carrier.connect(parts.netloc, parts.path or "/", headers)
            tasks.start_soon(_read, carrier, tasks)
        else:
            carrier = Streamable(http, web, headers, tasks)
        while line := await anyio.to_thread.run_sync(sys.stdin.buffer.readline, abandon_on_cancel=True):
            message = _object(line)
            if message.get("method") == RAW:
                tasks.start_soon(raw.answer, message)
            elif line.strip():
                await carrier.send(line)
        await carrier.close()
        tasks.cancel_scope.cancel()


async def _connected(scheme: str, host: str, port: int | None) -> ByteStream:
    stream: ByteStream = await anyio.connect_tcp(host, port or _PORTS[scheme])
    return await TLSStream.wrap(stream, hostname=host) if scheme == "wss" else stream


async def _read(socket: Socket, tasks: TaskGroup) -> None:
    await socket.read()
    tasks.cancel_scope.cancel()


def main() -> None:
    parser = argparse.ArgumentParser("conformance.peers.remote")
    parser.add_argument("url")
    parser.add_argument("--token-file", type=Path)
    options = parser.parse_args()
    token = "" if options.token_file is None else options.token_file.read_text().strip()
    anyio.run(carry, options.url, token)
    sys.stdout.flush()
    os._exit(0)  # a thread may still read standard input


if __name__ == "__main__":
    main()
