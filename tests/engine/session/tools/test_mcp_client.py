"""The streams of an MCP server's program, without a client at their end."""

from __future__ import annotations

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from engine.session.tools.mcp_client import over_pipes

pytestmark = pytest.mark.anyio
SECONDS = 10.0


class SilentServer:
    """Reads, and writes nothing until it is stopped."""

    def __init__(self) -> None:
        self.stopped = anyio.Event()

    async def receive(self) -> bytes:
        await self.stopped.wait()
        return b""

    async def send(self, data: bytes) -> None:
        del data

    def told(self) -> str:
        return ""

    async def stop(self) -> None:
        self.stopped.set()


async def test_both_streams_are_closed_and_the_program_is_stopped() -> None:
    process = SilentServer()
    with anyio.fail_after(SECONDS):
        async with over_pipes(process, anyio.Event()) as (incoming, outgoing):
            pass
    assert process.stopped.is_set()
    with pytest.raises(anyio.ClosedResourceError):
        await incoming.receive()
    with pytest.raises(anyio.ClosedResourceError):
        await outgoing.send(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="note")))
