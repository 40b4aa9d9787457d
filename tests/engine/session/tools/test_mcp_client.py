"""The streams of an MCP server, without a client at their end."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, cast

import anyio
import anyio.abc
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from engine import HttpServer
from engine.session.tools import mcp_client
from engine.session.tools.mcp_client import TOO_MANY_UNANSWERED, Streams, over_http, over_pipes

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


# --- floods -----------------------------------------------------------------------------------------------------------

MOST = 5
CALL = SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params={"name": "go"}))
Message = dict[str, Any]


def ping(number: int) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": "ping"}


def cancelled(number: int) -> Message:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}


def answered(message: SessionMessage) -> SessionMessage:
    assert isinstance(message.message, JSONRPCRequest)
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=message.message.id, result={}))


class FloodingProgram(SilentServer):
    """Sends its messages at once, and then nothing."""

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__()
        self._output = b"".join(json.dumps(each).encode() + b"\n" for each in messages)

    async def receive(self) -> bytes:
        output, self._output = self._output, b""
        return output or await super().receive()


async def _respond(stream: anyio.abc.ByteStream, messages: Sequence[Message], accepts: bool) -> None:
    """Send the messages on the stream of the first request; of others it accepts the head, or nothing."""
    async with stream:
        received = b""
        while b"\r\n\r\n" not in received or not received.endswith(b"}"):
            received += await stream.receive()
        if b'"tools/call"' not in received:
            if accepts:
                await stream.send(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            else:
                await anyio.sleep_forever()
            return
        events = "".join(f"event: message\r\ndata: {json.dumps(each)}\r\n\r\n" for each in messages)
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + events.encode())
        await anyio.sleep_forever()


@asynccontextmanager
async def flooded(
    transport: Literal["pipes", "http"], messages: Sequence[Message], *, accepts: bool = True
) -> AsyncGenerator[Streams]:
    """The streams of a server that sends these messages."""
    with anyio.fail_after(SECONDS):
        if transport == "pipes":
            async with over_pipes(FloodingProgram(messages), anyio.Event()) as streams, streams[0], streams[1]:
                yield streams
            return
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as tasks,
        ):

            async def respond(stream: anyio.abc.ByteStream) -> None:
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):  # the client left
                    await _respond(stream, messages, accepts)

            tasks.start_soon(listener.serve, respond)
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            server = HttpServer(name="web", url=f"http://127.0.0.1:{port}/mcp")
            try:
                async with over_http(server, anyio.Event()) as streams, streams[0], streams[1]:
                    await streams[1].send(CALL)
                    yield streams
            finally:
                tasks.cancel_scope.cancel()


def has_sentence(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(has_sentence(each) for each in cast("BaseExceptionGroup", error).exceptions)
    return isinstance(error, ValueError) and str(error) == TOO_MANY_UNANSWERED


@pytest.mark.parametrize("transport", ["pipes", "http"])
@pytest.mark.parametrize(
    "messages", [[ping(n) for n in range(MOST + 1)], [ping(1), cancelled(1)] * MOST + [ping(1)] * 6]
)
async def test_too_many_unanswered_requests_end_the_connection(
    transport: Literal["pipes", "http"], messages: Sequence[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_client, "MOST_UNANSWERED", MOST)
    taken = 0
    with pytest.RaisesExc(BaseExceptionGroup, check=has_sentence):
        async with flooded(transport, messages) as (incoming, _):
            async for _message in incoming:
                taken += 1
            await anyio.sleep_forever()
    assert taken == len(messages) - 1


async def test_unanswered_requests_are_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_client, "MOST_UNANSWERED_BYTES", 1_000)
    long = [{**ping(n), "params": {"x": "y" * 600}} for n in range(2)]
    with pytest.RaisesExc(BaseExceptionGroup, check=has_sentence):
        async with flooded("pipes", long) as (incoming, _):
            async for _message in incoming:
                pass
            await anyio.sleep_forever()


@pytest.mark.parametrize("transport", ["pipes", "http"])
async def test_requests_may_be_answered_or_cancelled_without_limit(
    transport: Literal["pipes", "http"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_client, "MOST_UNANSWERED", MOST)
    messages = [each for n in range(3 * MOST) for each in (ping(n), cancelled(n))]
    messages += [ping(n) for n in range(3 * MOST)]
    async with flooded(transport, messages) as (incoming, outgoing):
        for n in range(len(messages)):
            message = await incoming.receive()
            if n >= 6 * MOST:
                await outgoing.send(answered(message))


async def test_server_that_accepts_no_answers_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_client, "MOST_UNANSWERED", MOST)
    with pytest.RaisesExc(BaseExceptionGroup, check=has_sentence):
        async with (
            flooded("http", [ping(n) for n in range(MOST + 2)], accepts=False) as (incoming, outgoing),
            anyio.create_task_group() as tasks,
        ):
            async for message in incoming:
                tasks.start_soon(outgoing.send, answered(message))
            await anyio.sleep_forever()


@pytest.mark.parametrize("transport", ["pipes", "http"])
async def test_messages_are_read_at_a_limited_rate(
    transport: Literal["pipes", "http"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_client, "WINDOW_SECONDS", 10 * SECONDS)
    monkeypatch.setattr(mcp_client, "MOST_MESSAGES", MOST)
    async with flooded(transport, [cancelled(n) for n in range(MOST + 1)]) as (incoming, _):
        for _n in range(MOST):
            await incoming.receive()
        with anyio.move_on_after(0.05) as waited:
            await incoming.receive()
        assert waited.cancelled_caught


async def test_bytes_of_an_event_stream_are_read_at_a_limited_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_client, "WINDOW_SECONDS", 10 * SECONDS)
    monkeypatch.setattr(mcp_client, "MOST_BYTES", 1_000)
    long = {"jsonrpc": "2.0", "method": "x", "params": {"x": "y" * 200_000}}
    async with flooded("http", [long]) as (incoming, _):
        with anyio.move_on_after(0.3) as waited:
            await incoming.receive()
        assert waited.cancelled_caught
