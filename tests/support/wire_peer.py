"""A peer under test and its client, joined by two real pipes in one event loop; every wait is bounded."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import anyio.to_thread

from acp_adapter.jsonrpc.dispatch import Method
from acp_adapter.jsonrpc.peer import Peer
from acp_adapter.jsonrpc.stdio import StdioTransport
from acp_adapter.server import to_error
from acp_adapter.wire import WireModel, from_wire, to_wire

SECONDS = 10.0
LIMIT = 128 * 1024 * 1024


class Served(NamedTuple):
    """A method of a test with the model of its params; its results are models."""

    method: Method[Any, Any, Any]
    model: type[WireModel]


def served(name: str, model: type[WireModel], accept: Any, handler: Any, **flags: bool) -> Served:
    """A method that is served like those of the protocol; `accept` may be None."""
    return Served(Method(name, accept, handler, **flags), model)


def reading(model: type[WireModel]) -> Callable[[object], Any]:
    """Reads an answer as a model."""
    return lambda result: from_wire(model, result)


class ModelCodec:
    """Params and results are wire models, and a method says which."""

    def __init__(self, rows: Sequence[Served]) -> None:
        self._models = {row.method.name: row.model for row in rows}

    def read_params(self, method: str, params: object) -> Any:
        return from_wire(self._models[method], params)

    def write_result(self, method: str, result: Any) -> dict[str, Any]:
        return {} if result is None else to_wire(result)


class WireClient:
    """The other end of the pipes."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport, write_fd: int) -> None:
        self._reader = reader
        self._transport = transport
        self._write_fd = write_fd
        self._is_open = True

    async def send(self, *messages: Any) -> None:
        """Sends all messages in one write."""
        await self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    async def write(self, data: bytes) -> None:
        await anyio.to_thread.run_sync(self._write_all, data, abandon_on_cancel=True)

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._write_fd, rest) :]

    async def read(self) -> dict[str, Any]:
        """The next message; fails at the end of the stream."""
        message = await self.read_or_end()
        assert message is not None, "the peer closed its end"
        return message

    async def read_or_end(self) -> dict[str, Any] | None:
        with anyio.fail_after(SECONDS):
            line = await self._reader.readline()
        assert not line or line.endswith(b"\n")
        return json.loads(line) if line else None

    def stop_writing(self) -> None:
        """The end of the peer's input."""
        if self._is_open:
            self._is_open = False
            os.close(self._write_fd)

    def pause(self) -> None:
        """Takes nothing off the pipe until `resume`."""
        self._transport.pause_reading()

    def resume(self) -> None:
        self._transport.resume_reading()

    def stop_reading(self) -> None:
        """What the peer writes from now on meets a broken pipe."""
        self._transport.close()


@asynccontextmanager
async def connected(
    rows: Sequence[Served], connection: Any = None, **options: Any
) -> AsyncIterator[tuple[WireClient, Peer[Any]]]:
    """A running peer; leaving ends its input and fails unless it then comes to its own end."""
    to_peer_r, to_peer_w = os.pipe()
    from_peer_r, from_peer_w = os.pipe()
    reader = asyncio.StreamReader(limit=LIMIT)
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_peer_r, "rb", buffering=0)
    )
    transport = StdioTransport(to_peer_r, from_peer_w)
    client = WireClient(reader, pipe, to_peer_w)
    methods = {row.method.name: row.method for row in rows}
    peer = Peer[Any](transport, methods, connection, **{"codec": ModelCodec(rows), "to_error": to_error, **options})

    async def run() -> None:
        await peer.run()
        transport.close()

    try:
        with anyio.fail_after(3 * SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                yield client, peer
                client.stop_writing()
    finally:
        client.stop_writing()
        pipe.close()
        # because a transport gives its descriptor back one turn of the loop later
        await asyncio.sleep(0)
