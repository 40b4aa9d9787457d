"""The MCP server over HTTP for tests, on a free port: in this process or its own, with a client or raw requests."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from engine import Host, Settings, Store
from engine.core.clock import SystemClock
from engine.log.redaction import NO_SECRETS
from engine.log.store.memory import MemoryStore
from mcp_tools.access import Access, Roots, Token, address_of
from mcp_tools.http import serve_http
from mcp_tools.server import Service
from tests.support.mcp_clients import SCRIPT, Caller, Era
from tests.support.sessions import LentStore
from tests.support.workers import PATIENCE, new_worker

TOKEN = "a-token-of-the-tests"
MODERN = "2026-07-28"
_JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Web:
    """A server that can be reached, and ways to reach it."""

    def __init__(self, url: str) -> None:
        self.url = url

    @asynccontextmanager
    async def client(self, name: str = "", *, era: Era = "auto", **options: Any) -> AsyncGenerator[Caller]:
        """A client of the session of that name, of the default one without."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        url = f"{self.url}/{name}" if name else self.url
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
            Client(streamable_http_client(url, http_client=http), mode=era, **options) as client,
        ):
            yield Caller(client)

    async def post(
        self, content: bytes | None = None, *, path: str = "", headers: Mapping[str, str | None] | None = None
    ) -> httpx2.Response:
        """One request as it stands: by default a call that opens a view. Headers of None are left out."""
        given = {**_JSON, "Authorization": f"Bearer {TOKEN}", **modern_headers("tools/call", "view"), **(headers or {})}
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            return await http.post(
                self.url + path,
                content=VIEW if content is None else content,
                headers={key: value for key, value in given.items() if value is not None},
            )


def modern_headers(method: str, name: str) -> dict[str, str]:
    """What a request of the newer era says of itself ahead of its body."""
    return {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Mcp-Name": name}


VIEW = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"view","arguments":{"path":"a.txt"},"_meta":'
    b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
)


@contextmanager
def web_process(root: Path, *options: str, environ: Mapping[str, str] | None = None) -> Iterator[Web]:
    """`rewindow-mcp --http` as people start it, in `root`, with its state beside it."""
    given = {"REWINDOW_MCP_TOKEN": TOKEN, "REWINDOW_STATE_DIR": str(root.parent / "state"), **(environ or {})}
    server = subprocess.Popen(
        [str(SCRIPT), "--http", "0", *options], cwd=root, env={**os.environ, **given}, stderr=subprocess.PIPE, text=True
    )
    assert server.stderr
    try:
        said = iter(server.stderr.readline, "")
        url = next((found[1] for line in said if (found := re.search(r"serving (http://\S+/mcp),", line))), None)
        assert url
        yield Web(url)
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE)


@asynccontextmanager
async def web(
    root: Path,
    *,
    address: str = "0",
    token: str | None = TOKEN,
    hosts: tuple[str, ...] = (),
    limit: Roots | None = None,
    store: Store | None = None,
    runs: bool = False,
) -> AsyncGenerator[Web]:
    """A server in this process, limited to `root` unless told otherwise; its workers are real."""
    lent: Any = LentStore(store or MemoryStore(SystemClock()))
    access = Access(address=address_of(address), token=None if token is None else Token(token, "a test"), hosts=hosts)
    listening = access.address.listen()
    service = Service(redactor=lambda: NO_SECRETS, roots=limit or Roots((str(root),)), allow_run=runs)
    stop, there = anyio.Event(), anyio.Event()
    urls: list[str] = []

    def ready(url: str) -> None:
        urls.append(url)
        there.set()

    async def serve() -> None:
        await serve_http(make_host, service, access, listening, stop=stop, ready=ready)

    def make_host() -> Host:
        return Host(Settings(state_dir=root / ".state"), {}, environments=new_worker, store=lent)

    with anyio.fail_after(PATIENCE * 2):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await there.wait()
            try:
                yield Web(urls[0])
            finally:
                stop.set()
