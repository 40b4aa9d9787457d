"""One connection to an MCP server, through the SDK's client: what it offers, its tools, its resources.

Owns what a call is to the SDK: its timeout, its progress, its cancellation, and which of its failures is whose. What
comes from the server leaves here as plain data. Imports the SDK (half a second), so it is loaded with the first server
that is named. Must not know sessions, permissions or how a program is started. Used by `session.servers`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final

import anyio
import httpx2
import msgspec
from mcp import MCPError
from mcp.client import Client, IncomingMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    CallToolResult,
    Implementation,
    PaginatedResult,
    ResourceListChangedNotification,
    ToolListChangedNotification,
)
from pydantic import BaseModel, ValidationError

from ...core.mcp_servers import HttpServer
from ...core.plain_data import clean
from ...core.programs import ServerProcess
from .mcp_listing import Listing, listing
from .mcp_transports import Streams, over_http, over_pipes

ANSWER_BYTES: Final = 16 << 20
"""The largest answer of a tool, as JSON."""
_MOST_PAGES: Final = 100
_REQUEST_SECONDS: Final = 30.0
"""For what is asked beside calls: the handshake's parts, lists."""

_FORGOTTEN: Final = (INVALID_REQUEST, "Session terminated")
"""How the SDK says that a server over HTTP does not know the session any more."""

Heard = Callable[[str], None]
"""Is given each word of progress, a line."""


class Connection:
    """A server that is connected. `ended` is set when it says no more; `changed` when it offers something else."""

    def __init__(self, client: Client, ended: anyio.Event) -> None:
        self._client = client
        self.ended = ended
        self.changed = anyio.Event()

    async def listing(self) -> Listing:
        """What it offers now. Raises ConnectionError, TimeoutError."""
        offers = self._client.server_capabilities
        tools = await self._all(self._client.list_tools, "tools") if offers.tools else []
        resources = await self._all(self._client.list_resources, "resources") if offers.resources else []
        return listing(tools, resources, self._client.instructions)

    async def _all(self, ask: Callable[..., Awaitable[PaginatedResult]], field: str) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        cursor = None
        for _ in range(_MOST_PAGES):
            page = await _answered(ask(cursor=cursor))
            found += _plain(getattr(page, field))
            cursor = page.next_cursor
            if not cursor:
                break
        return found

    async def call(self, tool: str, arguments: Mapping[str, object], seconds: float, heard: Heard) -> object:
        """What the tool answers, as `tool_values.ServerAnswer` takes it.

        `seconds` is how long it may take without a word of progress. Cancelling the wait has the server told.

        Raises:
            RuntimeError: the tool failed, with what the server says of it; or its answer cannot be used.
            ConnectionError: the connection ended; whether the call was carried out is not known.
            TimeoutError: it took too long.
        """
        with anyio.CancelScope(deadline=anyio.current_time() + seconds) as scope:

            async def hear(progress: float, total: float | None, message: str | None) -> None:
                scope.deadline = anyio.current_time() + seconds
                heard(_progress(progress, total, message))

            return _answer(await self._asked(self._client.call_tool(tool, dict(arguments), progress_callback=hear)))
        raise TimeoutError(f"the server did not answer within {seconds:g} s, and was told to stop")

    async def read(self, uri: str, seconds: float) -> list[Mapping[str, Any]]:
        """The contents of a resource, each with `text` or `blob`. Raises as `call`."""
        with anyio.move_on_after(seconds):
            return _plain((await self._asked(self._client.read_resource(uri))).contents)
        raise TimeoutError(f"the server did not answer within {seconds:g} s")

    async def _asked(self, asked: Awaitable[Any]) -> Any:
        try:
            return await _answered(asked)
        except ConnectionError:
            self.ended.set()  # which a transport of single requests does not learn by itself
            raise

    async def take(self, message: IncomingMessage) -> None:
        """What the server says by itself."""
        if isinstance(message, ToolListChangedNotification | ResourceListChangedNotification):
            self._note_changed()

    async def follow(self) -> None:
        """Listens to what the server says on a stream of its own, as those of 2026-07-28 do; until that ends."""
        offers = self._client.server_capabilities
        tools = bool(offers.tools and offers.tools.list_changed)
        resources = bool(offers.resources and offers.resources.list_changed)
        if tools or resources:
            with suppress(MCPError, RuntimeError, TimeoutError, httpx2.HTTPError):
                async with self._client.listen(tools_list_changed=tools, resources_list_changed=resources) as changes:
                    async for _ in changes:
                        self._note_changed()

    def _note_changed(self) -> None:
        changed, self.changed = self.changed, anyio.Event()
        changed.set()


@asynccontextmanager
async def connected(server: HttpServer | ServerProcess, version: str) -> AsyncGenerator[Connection]:
    """A connection to the server; the program is stopped at its end, however that comes.

    Raises:
        OSError: it could not be started, or reached.
        RuntimeError: it does not speak MCP as the SDK does.
    """
    ended = anyio.Event()
    streams: AbstractAsyncContextManager[Streams]
    streams = over_http(server, ended) if isinstance(server, HttpServer) else over_pipes(server, ended)
    found: list[Connection] = []

    async def take(message: IncomingMessage) -> None:
        for connection in found:
            await connection.take(message)

    client = Client(
        streams,
        read_timeout_seconds=None,
        message_handler=take,
        client_info=Implementation(name="rewindow", version=version),
        cache=None,
    )
    async with client:
        found.append(Connection(client, ended))
        yield found[0]


async def _answered(asked: Awaitable[Any]) -> Any:
    """The answer, or the failure in Python's own words."""
    try:
        return await asked
    except MCPError as error:
        if error.code == CONNECTION_CLOSED or (error.code, error.message) == _FORGOTTEN:
            raise ConnectionError("the connection to the server ended; what was asked may have been done") from None
        if error.code == REQUEST_TIMEOUT:
            raise TimeoutError("the server did not answer in time") from None
        raise RuntimeError(error.message or f"the server answered with the error {error.code}") from None
    except httpx2.HTTPError:
        raise ConnectionError("the server cannot be reached") from None
    except ValidationError:
        raise RuntimeError("the server's answer is not as MCP has it") from None


def _answer(result: CallToolResult) -> object:
    answer = {"content": _plain(result.content), "data": clean(result.structured_content)}
    if (size := len(msgspec.json.encode(answer))) > ANSWER_BYTES:
        raise RuntimeError(f"the answer has {size:,} bytes, and at most {ANSWER_BYTES:,} are taken")
    if not result.is_error:
        return answer
    texts = [text for block in answer["content"] if isinstance(text := block.get("text"), str)]
    raise RuntimeError("\n".join(texts) or "the tool failed, and the server does not say why")


def _plain(models: Sequence[BaseModel]) -> list[Mapping[str, Any]]:
    return [clean(model.model_dump(mode="json", by_alias=True, exclude_none=True)) for model in models]


def _progress(done: float, total: float | None, message: str | None) -> str:
    counted = f"{done:g}" if total is None else f"{done:g}/{total:g}"
    return f"{counted} {message}\n" if message else f"{counted}\n"
