"""MCP servers behind a URL, over streamable HTTP and over SSE, made with the SDK's server."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest
import uvicorn
from mcp.server.mcpserver import Context, MCPServer

from engine import HttpServer, Session
from engine.log.events.execution import ExecutionFinished
from engine.log.events.session import ServerConnected, ServerLost
from engine.session import servers as module
from engine.session.servers import NO_ADDRESS
from tests.support.sessions import events_of, session_in, sessions_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SECONDS = 20.0
TOKEN = "Bearer of-the-tests-1a2b3c4d"
Transport = Literal["http", "sse"]


def offering() -> MCPServer:
    server = MCPServer("behind a URL")

    @server.tool()
    def double(n: int) -> int:
        """Twice as much."""
        return 2 * n

    @server.tool()
    async def grow(ctx: Context) -> str:
        """Adds a tool, and says so in both ways there are."""
        server.add_tool(double, name="again")
        await ctx.notify_tools_changed()
        with suppress(Exception):
            await ctx.session.send_tool_list_changed()
        return "grown"

    @server.resource("test://note")
    def note() -> str:
        return "one\ntwo\n"

    return server


Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class Site:
    """Where it is, and the headers of each request. `instead` answers messages in the server's place."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.authorizations: list[str] = []
        self.instead: Callable[[Receive, Send], Awaitable[None]] | None = None


@asynccontextmanager
async def serving(transport: Transport, port: int = 0) -> AsyncGenerator[Site]:
    server = offering()
    inner: Any = server.sse_app() if transport == "sse" else server.streamable_http_app()
    listening = socket.create_server(("127.0.0.1", port))
    site = Site(f"http://127.0.0.1:{listening.getsockname()[1]}/{'sse' if transport == 'sse' else 'mcp'}")

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            site.authorizations.append(dict(scope["headers"]).get(b"authorization", b"").decode())
            if site.instead is not None and scope["method"] == "POST":
                await site.instead(receive, send)
                return
        await inner(scope, receive, send)

    web = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(web.serve, [listening])
        try:
            yield site
        finally:
            web.should_exit = web.force_exit = True


async def ran(session: Session, source: str) -> ExecutionFinished:
    assert (await session.accept(source).end()).failure is None
    finished = session.cells[-1].finished
    assert finished is not None
    return finished


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_url_server_is_called_with_its_headers(tmp_path: Path, transport: Transport) -> None:
    async with serving(transport) as site, sessions_of(tmp_path) as sessions:
        named = HttpServer(name="web", url=site.url, headers={"Authorization": TOKEN}, transport=transport)
        session = await sessions.create(str(tmp_path), (), [named])
        assert (await ran(session, "web.double(n=21).text")).value == "'42'"
        (display,) = (await ran(session, "view('mcp://web/test://note')")).displays
        assert "2\ttwo" in display.text
        assert set(site.authorizations) == {TOKEN}
        assert TOKEN.removeprefix("Bearer ") not in repr(session.events)
        await sessions.close(session.session_id)


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_added_tool_is_announced_and_callable(tmp_path: Path, transport: Transport) -> None:
    async with (
        serving(transport) as site,
        session_in(tmp_path, servers=[HttpServer(name="web", url=site.url, transport=transport)]) as session,
    ):
        await ran(session, "web.grow()")
        with anyio.fail_after(SECONDS):
            while (await ran(session, "web.again(n=1).text")).status != "ok":
                pass
        await ran(session, "1")
        assert [each.tools for each in events_of(session, ServerConnected)] == [2, 3]


SECRET = "pwd-Eq93hfKsl28Zx73Qm"


@pytest.mark.parametrize(
    "url",
    [
        f"http://u1:{SECRET}/mcp",
        f"http://u1:{SECRET}@h\u2100.com/mcp",
        f"http://[{SECRET}]/",
        f"http://u1:{SECRET}@h:x/",
        f"http://h:99999/{SECRET}",
        f"http://h /{SECRET}",
        f"ht!tp://{SECRET}",
    ],
)
async def test_what_is_no_web_address_is_named_nowhere(
    tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with session_in(tmp_path, servers=[HttpServer(name="web", url=url)]) as session:
        assert (await ran(session, "web.double(n=21)")).status == "error"
        assert [each.reason for each in events_of(session, ServerLost)] == [NO_ADDRESS]
        assert SECRET not in repr(session.events) + caplog.text


async def refused(_receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 503, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def broken_off(_receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    raise RuntimeError("the server falls over")


async def sent_elsewhere(_receive: Receive, send: Send) -> None:
    there = [(b"location", b"http://elsewhere.invalid/")]
    await send({"type": "http.response.start", "status": 307, "headers": there})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("instead", [refused, broken_off, sent_elsewhere])
async def test_message_refused_over_sse_ends_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instead: Callable[[Receive, Send], Awaitable[None]]
) -> None:
    monkeypatch.setattr(module, "BACKOFF", (0.05,) * 100)
    async with serving("sse") as site, sessions_of(tmp_path) as sessions:
        named = HttpServer(name="web", url=site.url, transport="sse")
        session = await sessions.create(str(tmp_path), (), [named])
        assert (await ran(session, "web.double(n=1).text")).value == "'2'"
        site.instead = instead
        with anyio.fail_after(SECONDS):
            finished = await ran(session, "web.double(n=2)")
        assert finished.exception is not None
        assert finished.exception.type == "ConnectionError"
        assert "the connection to the server ended; the request may have been performed" in finished.exception.message
        site.instead = None
        with anyio.fail_after(SECONDS):
            assert (await ran(session, "web.double(n=3).text")).value == "'6'"
        await sessions.close(session.session_id)


class Flood:
    """Answers with JSON that does not end, as fast as it is taken; `sent` counts the bytes."""

    def __init__(self, *headers: tuple[bytes, bytes]) -> None:
        self._headers = [(b"content-type", b"application/json"), *headers]
        self.sent = 0

    async def __call__(self, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send, send)
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        piece = b'["' + b"x" * (1 << 20)
        while self.sent < FLOOD_BYTES:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            self.sent += len(piece)
            await anyio.lowlevel.checkpoint()


FLOOD_BYTES = 200 << 20


@pytest.mark.parametrize(
    ("headers", "most", "said"),
    [
        ((), 40 << 20, "the answer has more than 16 MiB"),
        (((b"content-length", b"99999999999"),), 20 << 20, "the answer has more than 16 MiB"),
        (((b"content-encoding", b"gzip"),), 20 << 20, "the answer is compressed, which was not requested"),
    ],
)
async def test_oversized_answer_is_abandoned_early(
    tmp_path: Path, headers: tuple[tuple[bytes, bytes], ...], most: int, said: str
) -> None:
    async with serving("http") as site, session_in(tmp_path, servers=[HttpServer(name="web", url=site.url)]) as session:
        assert (await ran(session, "web.double(n=1).text")).value == "'2'"
        site.instead = flood = Flood(*headers)
        with anyio.fail_after(SECONDS):
            finished = await ran(session, "web.double(n=2)")
        assert finished.exception is not None
        assert said in finished.exception.message
        assert flood.sent < most
        site.instead = None
        assert (await ran(session, "web.double(n=3).text")).value == "'6'"
