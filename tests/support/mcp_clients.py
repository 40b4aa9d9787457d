"""The MCP server for tests, with the SDK's client at the other end: in this process over memory, or as a process."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp import Client, StdioServerParameters
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types import CallToolResult, TextContent

from engine import Host, Settings, Store
from engine.core.clock import SystemClock
from engine.log.redaction import NO_SECRETS
from engine.log.store.memory import MemoryStore
from mcp_tools.access import Roots
from mcp_tools.server import Service, serve_streams
from tests.support.sessions import LentStore
from tests.support.workers import PATIENCE, new_worker

Era = Literal["auto", "legacy"]
"""How the client connects: by `server/discover` (2026-07-28), or by `initialize` (2025-11-25)."""
ERAS: tuple[Era, ...] = ("auto", "legacy")
SCRIPT = Path(sys.executable).parent / "rewindow-mcp"


class Caller:
    """A connected client, and the texts of what it is answered."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def result(self, tool: str, **arguments: Any) -> CallToolResult:
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        return result

    async def text(self, tool: str, **arguments: Any) -> str:
        """The text of a call that has to succeed."""
        result = await self.result(tool, **arguments)
        assert not result.is_error, text_of(result)
        return text_of(result)

    async def error(self, tool: str, **arguments: Any) -> str:
        """The sentence of a call that has to fail."""
        result = await self.result(tool, **arguments)
        assert result.is_error, text_of(result)
        return text_of(result)


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@asynccontextmanager
async def _given(streams: Any) -> AsyncIterator[Any]:
    yield streams


@asynccontextmanager
async def served(
    root: Path,
    *,
    era: Era = "auto",
    store: Store | None = None,
    session: str | None = None,
    runs: bool = False,
    structured: bool = False,
    limit: Roots | None = None,
    hear: Callable[[object], Awaitable[None]] | None = None,
    **of_client: Any,
) -> AsyncIterator[Caller]:
    """A client of a server in this process, whose workers are real; limited to `root` unless told otherwise."""
    lent: Any = LentStore(store or MemoryStore(SystemClock()))
    service = Service(
        redactor=lambda: NO_SECRETS,
        roots=limit or Roots((str(root),)),
        session=session,
        allow_run=runs,
        structured=structured,
    )

    def make_host() -> Host:
        # A statement that was slow by chance would leave a checkpoint, and fewer statements would run again.
        settings = Settings(state_dir=root / ".state", restore_by="re-execution")
        return Host(settings, {}, environments=new_worker, store=lent)

    with anyio.fail_after(PATIENCE * 2):
        async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:
            tasks.start_soon(serve_streams, _given(theirs), make_host, service)
            async with Client(_given(ours), mode=era, message_handler=hear, **of_client) as client:
                yield Caller(client)


@asynccontextmanager
async def process(
    root: Path, *options: str, era: Era = "auto", environ: Mapping[str, str] | None = None, **of_client: Any
) -> AsyncIterator[Caller]:
    """A client of `rewindow-mcp` as a host starts it, in `root`, with its state beside it."""
    server = StdioServerParameters(
        command=str(SCRIPT),
        args=list(options),
        cwd=root,
        env={**os.environ, "REWINDOW_STATE_DIR": str(root.parent / "state"), **(environ or {})},
    )
    with anyio.fail_after(PATIENCE * 2):
        async with Client(server, mode=era, **of_client) as client:
            yield Caller(client)
