"""Bytes over a connected socket."""

from __future__ import annotations

import os
import socket

import anyio
import pytest

from acp_adapter.jsonrpc.sockets import SocketTransport

pytestmark = pytest.mark.anyio


async def test_bytes_arrive_in_order_and_then_the_end() -> None:
    sender, receiver = map(SocketTransport, socket.socketpair())
    data, received = os.urandom(1 << 20), bytearray()  # more than a socket holds

    async def receive() -> None:
        while piece := await receiver.receive():
            received.extend(piece)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            await sender.send(data)
            sender.close()
    receiver.close()
    assert received == data
