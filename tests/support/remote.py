"""A server that listens, started as its administrator starts it, and clients of it: over WebSocket, and over HTTP/2."""

from __future__ import annotations

import gc
import json
import os
import pwd
import re
import signal
import stat
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
import httpx
import websockets
from anyio.abc import TaskGroup

from tests.support.memory import Client

PROGRAM = str(Path(sys.executable).parent / "rewindow-acp")
SECONDS = 30.0
OWN = pwd.getpwuid(os.geteuid()).pw_name
HEADERS = ("Acp-Connection-Id", "Acp-Session-Id")
_SESSION_METHODS = ("session/", "_rewindow/")
_WITHOUT_SESSION = ("session/new", "session/list")


SHOWING: Final = """
closed=$1 prefix=$2; shift 2; held=$(mktemp -d)
mount --bind "$closed" "$held" && mount -t tmpfs -o mode=755 tmpfs "$closed" && mkdir -p "$prefix" || exit 1
mount --bind "$held${prefix#"$closed"}" "$prefix" && umount "$held" && rmdir "$held" && exec "$@"
"""
"""In a file tree of its own, the directory that keeps others from Python holds nothing but that, for everybody."""


def python_for_all() -> tuple[str, ...]:
    """How a command is started that shows root's Python to all accounts, where it is in root's home."""
    closed = [each for each in Path(sys.base_prefix).parents if not each.stat().st_mode & stat.S_IXOTH]
    return ("unshare", "--mount", "sh", "-c", SHOWING, "sh", str(closed[-1]), sys.base_prefix) if closed else ()


def add_token(state: Path, user: str = "ann", account: str = OWN) -> str:
    command = [PROGRAM, "tokens", "add", user, "--account", account, "--state-dir", str(state)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def revoke(state: Path, name: str) -> None:
    command = [PROGRAM, "tokens", "revoke", name, "--state-dir", str(state)]
    subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)


class Server:
    """A server that runs; `url` is its endpoint without a scheme."""

    def __init__(self, process: subprocess.Popen[str], line: str, log: list[str]) -> None:
        self.process = process
        found = re.search(r"serving https?://(\S+?);", line)
        assert found, line
        self.url = found[1]
        self.log = log

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].partition("/")[0])


@contextmanager
def serving(
    state: Path,
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    address: str = "127.0.0.1:0",
    prefix: Sequence[str] = (),
    code: int = 130,
) -> Iterator[Server]:
    """Start a server, and end it with Ctrl-C. `prefix` is a command that executes it; `code` is how it ends."""
    process = subprocess.Popen(
        [*prefix, PROGRAM, "--listen", address, "--state-dir", str(state), *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environ or {})},
        start_new_session=True,
    )
    assert process.stderr is not None
    log: list[str] = []
    try:
        yield Server(process, process.stderr.readline(), log)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            _, rest = process.communicate(timeout=SECONDS)
            log += rest.splitlines()
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
    assert process.returncode == code, (process.returncode, log)


def forget_connections() -> Iterator[None]:
    """A fixture's body: nobody closes what was cancelled while it connected, and a later test would be blamed."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


# --- WebSocket --------------------------------------------------------------------------------------------------------


class WebSocketTransport:
    """Lines over a WebSocket."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self.socket = socket
        self.closed: tuple[int | None, str] | None = None

    async def send(self, data: bytes) -> None:
        for line in data.splitlines():
            await self.socket.send(line.decode())

    async def receive(self) -> bytes:
        try:
            text = await self.socket.recv()
        except websockets.ConnectionClosed:
            self.closed = (self.socket.close_code, self.socket.close_reason or "")
            return b""
        assert isinstance(text, str)
        return text.encode() + b"\n"


@asynccontextmanager
async def over_websocket(
    server: Server, token: str, permission: str | None = "allow_once", *, open_timeout: float = 60, **options: Any
) -> AsyncIterator[Client]:
    """A client; leaving closes the socket."""
    address, headers = f"ws://{server.url}", bearer(token)
    async with websockets.connect(
        address, additional_headers=headers, max_size=None, proxy=None, open_timeout=open_timeout, **options
    ) as socket:
        yield Client(WebSocketTransport(socket), permission=permission)  # pyright: ignore[reportArgumentType] -- alike


# --- HTTP -------------------------------------------------------------------------------------------------------------


class Event:
    """An event of a stream."""

    def __init__(self, position: int, data: bytes) -> None:
        self.position = position
        self.data = data


async def events(response: httpx.Response) -> AsyncIterator[Event]:
    """The events of a response."""
    position = 0
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            position = int(line[4:])
        elif line.startswith("data: "):
            yield Event(position, line[6:].encode())


class HttpTransport:
    """Lines over POST and event streams. A stream that breaks is read again from its last position."""

    def __init__(self, http: httpx.AsyncClient, url: str, tasks: TaskGroup) -> None:
        self.http = http
        self.url = url
        self.headers: dict[str, str] = {}
        self.positions: dict[str | None, int] = {}
        self.statuses: list[int] = []
        self.cuts = 0
        self._tasks = tasks
        self._streams: dict[str | None, anyio.Event] = {}
        self._asked: dict[Any, str] = {}
        self._put, self._take = anyio.create_memory_object_stream[bytes](100_000)

    async def send(self, data: bytes) -> None:
        for line in data.splitlines():
            await self._post(line)

    async def _post(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            message = {}
        session = self._session(message) if isinstance(message, dict) else None
        headers = {**self.headers, "Content-Type": "application/json"}
        if session is not None:
            headers["Acp-Session-Id"] = session
            await self.stream(session)
        response = await self.http.post(self.url, content=line, headers=headers)
        self.statuses.append(response.status_code)
        if response.status_code == 200:
            self.headers["Acp-Connection-Id"] = response.headers["Acp-Connection-Id"]
            await self._put.send(response.content + b"\n")
            await self.stream(None)
        elif response.status_code != 202:
            if response.headers["Content-Type"].startswith("application/json"):
                await self._put.send(response.content + b"\n")
            else:
                error = {"code": -response.status_code, "message": response.text}
                await self._put.send(json.dumps({"id": message.get("id"), "error": error}).encode() + b"\n")

    def _session(self, message: dict[str, Any]) -> str | None:
        if "method" not in message:
            return self._asked.pop(message.get("id"), None)
        found: str | None = (message.get("params") or {}).get("sessionId")
        return found

    async def stream(self, session: str | None) -> None:
        """Read a stream, and wait until it is open."""
        if session not in self._streams:
            self._streams[session] = anyio.Event()
            self._tasks.start_soon(self._read, session)
        await self._streams[session].wait()

    async def _read(self, session: str | None) -> None:
        headers = {**self.headers, "Accept": "text/event-stream"}
        if session is not None:
            headers["Acp-Session-Id"] = session
        while True:
            if session in self.positions:
                headers["Last-Event-ID"] = str(self.positions[session])
            with suppress(httpx.HTTPError):
                async with self.http.stream("GET", self.url, headers=headers) as response:
                    if response.status_code != 200:
                        self.statuses.append(response.status_code)
                        await self._put.aclose()
                        return
                    self._streams[session].set()
                    async for event in events(response):
                        assert event.position == self.positions.get(session, 0) + 1
                        self.positions[session] = event.position
                        self._note(event.data, session)
                        await self._put.send(event.data + b"\n")
            self.cuts += 1
            await anyio.sleep(0.05)

    def _note(self, data: bytes, session: str | None) -> None:
        message = json.loads(data)
        if session is not None and "method" in message and "id" in message:
            self._asked[message["id"]] = session

    async def receive(self) -> bytes:
        try:
            return await self._take.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return b""

    def close(self) -> None:
        self._put.close()
        self._take.close()


@asynccontextmanager
async def over_http(
    server: Server, token: str, permission: str | None = "allow_once", *, deletes: bool = True, http2: bool = True
) -> AsyncIterator[tuple[Client, HttpTransport]]:
    """A client and its transport; leaving deletes the connection."""
    url = f"http://{server.url}"
    async with (
        httpx.AsyncClient(
            http1=not http2, http2=http2, timeout=SECONDS, headers=bearer(token), trust_env=False
        ) as http,
        anyio.create_task_group() as tasks,
    ):
        transport = HttpTransport(http, url, tasks)
        try:
            yield Client(transport, permission=permission), transport  # pyright: ignore[reportArgumentType] -- alike
        finally:
            tasks.cancel_scope.cancel()
            transport.close()
            if deletes and transport.headers:
                with anyio.CancelScope(shield=True):
                    await http.delete(url, headers=transport.headers)
