"""A driver of PyPI `mcp` 2, in either era."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import anyio
from lines import METHODS, run, serve, write
from mcp import Client, StdioServerParameters
from mcp.client.subscriptions import Subscription
from mcp.shared.exceptions import MCPError


async def main(server: dict[str, Any], era: str) -> None:
    async def hear(message: Any) -> None:
        write(notification=message)

    async def relay(subscription: Subscription) -> None:
        async for event in subscription:
            uri = getattr(event, "uri", None)
            name = "updated" if uri else "list_changed"
            write(notification={"method": f"notifications/resources/{name}", "params": {"uri": uri}})

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client(StdioServerParameters(**server), mode="auto" if era == "modern" else "legacy", message_handler=hear)
        )
        tasks = await stack.enter_async_context(anyio.create_task_group())

        async def listen(_client: Client, params: dict[str, Any]) -> dict[str, Any]:
            stream = client.listen(resource_subscriptions=[params["uri"]], resources_list_changed=True)
            tasks.start_soon(relay, await stack.enter_async_context(stream))
            return {}

        write(
            result={
                "protocolVersion": client.protocol_version,
                "serverInfo": client.server_info,
                "capabilities": client.server_capabilities,
                "instructions": client.instructions,
            }
        )
        await serve(client, MCPError, {**METHODS, "subscribe": listen} if era == "modern" else METHODS)


run(main)
