"""Sockets of strangers, who show no token, and of users."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import anyio
import anyio.lowlevel
import psutil
import pytest
from hypercorn.config import Config
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from acp_adapter.listening import sockets
from acp_adapter.listening.connections import RefusedError
from acp_adapter.listening.sockets import ADMIT, Sockets

pytestmark = pytest.mark.anyio
MOST = 16
STRANGERS, OF_USER = 4, 3
SECONDS = 10.0


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Admits the user that a request names, and reads its body."""
    request = Request(scope, receive)
    user = request.headers.get("user")
    try:
        if user is not None:
            scope["state"][ADMIT](user)
        await request.body()
        response = PlainTextResponse("hello" if user else "who?", 200 if user else 401)
    except RefusedError as error:
        response = PlainTextResponse(str(error), 429)
    await response(scope, receive, send)


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    """A server; the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = Config()
        config.keep_alive_timeout = 1000.0
        door = Sockets(application, config, None, MOST)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(door.accept, listening)
            yield listening.getsockname()[1]
            tasks.cancel_scope.cancel()
        await door.leave(1)


async def is_open(client: socket.socket) -> bool:
    """Whether the server has not closed it, when it has had time for that."""
    client.setblocking(False)
    with anyio.move_on_after(0.3):
        return bool(await asyncio.get_running_loop().sock_recv(client, 1))
    return True


async def asked(client: socket.socket, headers: str = "", body: bytes = b"") -> str:
    """The status and the text of a response."""
    request = f"POST / HTTP/1.1\r\nhost: x\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body
    loop = asyncio.get_running_loop()
    client.setblocking(False)
    with anyio.fail_after(SECONDS):
        await loop.sock_sendall(client, request)
        received = b""
        while b"\r\n\r\n" not in received or not received.partition(b"\r\n\r\n")[2]:
            data = await loop.sock_recv(client, 4096)
            if not data:
                raise ConnectionError(received)
            received += data
    return received.split(b" ", 2)[1].decode() + " " + received.partition(b"\r\n\r\n")[2].decode()


async def test_a_user_gets_in_while_strangers_flood_the_server() -> None:
    async with served() as port:
        with ExitStack() as opened:
            clients = [opened.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(10)]
            ann = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            assert await asked(ann, "user: ann\r\n") == "200 hello"
            clients += [opened.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(10)]
            assert [await is_open(client) for client in clients] == [False] * 16 + [True] * STRANGERS
            assert await asked(ann, "user: ann\r\n") == "200 hello"


async def test_a_user_has_so_many_sockets_at_most() -> None:
    async with served() as port:
        with ExitStack() as opened:
            said = [
                await asked(opened.enter_context(socket.create_connection(("127.0.0.1", port))), "user: ann\r\n")
                for _ in range(OF_USER + 1)
            ]
            bob = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            assert said == ["200 hello"] * OF_USER + ["429 ann has 3 sockets already"]
            assert await asked(bob, "user: bob\r\n") == "200 hello"


async def test_a_proxy_s_socket_counts_for_its_latest_user() -> None:
    async with served() as port:
        with ExitStack() as opened:
            for _ in range(OF_USER + 1):
                proxy = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
                assert await asked(proxy, "user: ann\r\n") == "200 hello"
                assert await asked(proxy, "user: bob\r\n" if _ % 2 else "user: eve\r\n") == "200 hello"


async def test_a_stranger_has_to_leave_after_some_time_and_a_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "ADMIT_SECONDS", 0.2)
    async with served() as port:
        with (
            socket.create_connection(("127.0.0.1", port)) as silent,
            socket.create_connection(("127.0.0.1", port)) as wrong,
            socket.create_connection(("127.0.0.1", port)) as ann,
        ):
            assert await asked(ann, "user: ann\r\n") == "200 hello"
            with anyio.fail_after(SECONDS):
                while await is_open(silent):
                    pass
            assert await is_open(ann)
            assert not await is_open(wrong)
            assert await asked(ann, "user: ann\r\n") == "200 hello"


async def test_a_stranger_cannot_send_much_and_a_user_can() -> None:
    body = bytes(2 << 20)
    async with served() as port:
        with socket.create_connection(("127.0.0.1", port)) as ann:
            assert await asked(ann, "user: ann\r\n", body) == "200 hello"
        with socket.create_connection(("127.0.0.1", port)) as stranger, pytest.raises(ConnectionError):
            await asked(stranger, "", body)


async def test_a_socket_that_its_client_has_closed_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "ADMIT_SECONDS", 1000.0)
    async with served() as port:
        before = psutil.Process().num_fds()
        for headers, said in ((None, ""), ("user: ann\r\n", "200 hello"), ("", "401 who?")):
            with socket.create_connection(("127.0.0.1", port)) as client:
                if headers is not None:
                    assert await asked(client, headers) == said
        with anyio.fail_after(SECONDS):
            while psutil.Process().num_fds() > before:
                await anyio.lowlevel.checkpoint()
