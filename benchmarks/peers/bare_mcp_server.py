"""The least that the MCP SDK's low-level `Server` can be: one trivial tool, on stdio, or over HTTP at a free port.

What is above it is ours: `bench_mcp` measures `rewindow-mcp` beside it. Over HTTP its URL is the first line of stderr.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server

Context = ServerRequestContext[Any, Any]


async def list_tools(_ctx: Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    tool = types.Tool(name="say", description="Says a word", input_schema={"type": "object"})
    return types.ListToolsResult(tools=[tool])


async def call_tool(_ctx: Context, _params: types.CallToolRequestParams) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text="a word")])


async def serve_stdio(server: Server[Any]) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def serve_http(server: Server[Any]) -> None:
    from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
    from starlette.routing import Route, Router
    from uvicorn import Config
    from uvicorn import Server as HttpServer

    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    manager = StreamableHTTPSessionManager(server)
    router = Router([Route("/mcp", StreamableHTTPASGIApp(manager))], redirect_slashes=False)
    async with manager.run():
        sys.stderr.write(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp\n")
        sys.stderr.flush()
        await HttpServer(Config(router, access_log=False, lifespan="off", log_config=None, ws="none")).serve(
            [listening]
        )


if __name__ == "__main__":
    serve = serve_http if sys.argv[1:] == ["http"] else serve_stdio
    anyio.run(serve, Server("bare", on_list_tools=list_tools, on_call_tool=call_tool))
