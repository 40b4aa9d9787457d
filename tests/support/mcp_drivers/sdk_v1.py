"""A driver of PyPI `mcp` 1, which speaks the versions up to 2025-11-25."""

from __future__ import annotations

from typing import Any

from lines import METHODS, run, serve, write
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client


async def main(server: dict[str, Any], _era: str) -> None:
    async def hear(message: Any) -> None:
        write(notification=message)

    async with (
        stdio_client(StdioServerParameters(**server)) as (read, send),
        ClientSession(read, send, message_handler=hear) as client,
    ):
        write(result=await client.initialize())
        await serve(client, McpError, METHODS)


run(main)
