"""How an MCP server is spoken to: over the pipes of a program, over streamable HTTP, over SSE, as the SDK's transports.

Owns the framing of stdio and its bounds. A line has at most LONGEST_LINE bytes. Whoever writes without end is read at a
bounded rate: the flood costs a bounded part of one processor, and the sender waits. What is no message is dropped,
because programs print banners. Imports the SDK, and is loaded with the first server that is named. Must not know what
is said. Used by `mcp_source`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from mcp.client import Transport
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from ...core.mcp_servers import HttpServer
from ...core.programs import ServerProcess
from .mcp_http_client import MessageClient

LONGEST_LINE: Final = 16 << 20
MOST_MESSAGES: Final = 200
MOST_BYTES: Final = 4 << 20
WINDOW_SECONDS: Final = 0.1
"""So many messages or bytes are read in this time at most."""
_FLUSH_SECONDS: Final = 0.5

Incoming = SessionMessage | Exception
Streams = tuple[Any, Any]
"""To read messages from and to write them to, as the SDK's `Transport` has them."""

# What the SDK logs of a connection may hold what a server was given: its URL, its headers, its answers.
for _name in ("mcp.client", "mcp.shared", "httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)


@asynccontextmanager
async def over_pipes(process: ServerProcess, ended: anyio.Event) -> AsyncGenerator[Streams]:
    """The streams of a server that is a program, which is stopped at the end; `ended` is set when it says no more.

    Raises:
        OSError: it could not be started; when the streams are used.
    """
    incoming_sender, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, outgoing_receiver = anyio.create_memory_object_stream[SessionMessage](0)
    written = anyio.Event()

    async def read() -> None:
        try:
            async with incoming_sender:
                async for line in _lines(process):
                    message = _message(line)
                    if message is not None:
                        await incoming_sender.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # nobody listens any more
        finally:
            ended.set()

    async def write() -> None:
        try:
            async with outgoing_receiver:
                async for message in outgoing_receiver:
                    await process.send(
                        message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                    )
        except OSError:
            await incoming_sender.aclose()  # so that nobody waits for an answer
        finally:
            written.set()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(write)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    incoming.close()
                    outgoing.close()
                    with anyio.move_on_after(_FLUSH_SECONDS):
                        await written.wait()
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await process.stop()


async def _lines(process: ServerProcess) -> AsyncGenerator[bytes]:
    """The lines that it writes. Raises ValueError for one that is too long, and OSError."""
    buffer, rate = bytearray(), _Rate()
    while data := await process.receive():
        looked_at = len(buffer)
        buffer += data
        start = 0
        while (end := buffer.find(b"\n", max(start, looked_at))) >= 0:
            await rate.count(end - start)
            yield bytes(buffer[start:end])
            start = end + 1
        del buffer[:start]
        if len(buffer) > LONGEST_LINE:
            raise ValueError(f"it sent a line of more than {LONGEST_LINE >> 20} MiB")


class _Rate:
    """Holds up who reads faster than is good for others."""

    def __init__(self) -> None:
        self._since = anyio.current_time()
        self._messages = self._bytes = 0

    async def count(self, size: int) -> None:
        """A message of that many bytes is about to be looked at."""
        left = self._since + WINDOW_SECONDS - anyio.current_time()
        if left <= 0:
            self._since, self._messages, self._bytes = anyio.current_time(), 0, 0
        elif self._messages >= MOST_MESSAGES or self._bytes >= MOST_BYTES:
            await anyio.sleep(left)
            self._since, self._messages, self._bytes = anyio.current_time(), 0, 0
        self._messages += 1
        self._bytes += size


def _message(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


@asynccontextmanager
async def over_http(server: HttpServer, ended: anyio.Event) -> AsyncGenerator[Streams]:
    """The streams of a server behind a URL; `ended` is set when it says no more, or takes no more."""
    client = MessageClient(server.headers)
    sender, receiver = anyio.create_memory_object_stream[Incoming](0)

    async def pass_on(incoming: Any) -> None:
        try:
            async for message in incoming:
                await sender.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # nobody listens any more
        finally:
            ended.set()
            sender.close()

    async def give_up() -> None:
        await client.lost.wait()
        # So that nobody waits for an answer. Over streamable HTTP each message that fails has been answered already.
        ended.set()
        sender.close()

    transport = _sse(server, client) if server.transport == "sse" else _streamable(server, client)
    async with transport as (incoming, outgoing), anyio.create_task_group() as tasks:
        tasks.start_soon(pass_on, incoming)
        if server.transport == "sse":
            tasks.start_soon(give_up)
        yield receiver, outgoing
        tasks.cancel_scope.cancel()


def _sse(server: HttpServer, client: MessageClient) -> Transport:
    def made(headers: Any = None, timeout: Any = None, auth: Any = None) -> MessageClient:
        del headers, timeout, auth  # which the client has
        return client

    return sse_client(server.url, httpx_client_factory=made)


@asynccontextmanager
async def _streamable(server: HttpServer, client: MessageClient) -> AsyncGenerator[Streams]:
    async with client, streamable_http_client(server.url, http_client=client) as streams:
        yield streams
