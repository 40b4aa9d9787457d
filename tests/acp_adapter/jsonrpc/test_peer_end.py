"""The end of a connection: end of input, a client that is gone, cancellation. No request is lost."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from acp_adapter.jsonrpc.dispatch import Context
from acp_adapter.jsonrpc.messages import ConnectionClosedError
from acp_adapter.wire import Empty
from tests.support.wire_peer import connected, reading, served

pytestmark = pytest.mark.anyio


def call(method: str, request_id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method}


async def test_last_request_is_answered_without_newline() -> None:
    async def slow(context: Context[Any, Any], params: Empty) -> None:
        for _ in range(50):
            await anyio.lowlevel.checkpoint()

    async with connected([served("m", Empty, None, slow)]) as (client, _):
        await client.write(b'{"jsonrpc":"2.0","id":1,"method":"m"}\n{"jsonrpc":"2.0","id":2,"method":"m"}')
        client.stop_writing()
        assert [(await client.read())["id"] for _ in range(2)] == [1, 2]
        assert await client.read_or_end() is None


async def test_end_of_input_calls_the_server_and_answers_requests() -> None:
    told = anyio.Event()
    order: list[str] = []

    async def turn(context: Context[Any, Any], params: Empty) -> Empty:
        with pytest.raises(ConnectionClosedError):
            await context.peer.request("session/request_permission", {}, reading(Empty))
        order.append("asked in vain")
        await told.wait()
        await context.peer.notify("last", {})
        return Empty(meta={"stop": "cancelled"})

    async def on_eof() -> None:
        order.append("told")
        told.set()

    async with connected([served("m", Empty, None, turn)], on_eof=on_eof) as (client, _):
        await client.send(call("m"))
        assert (await client.read())["method"] == "session/request_permission"
        client.stop_writing()
        assert (await client.read())["method"] == "last"
        assert (await client.read())["result"] == {"_meta": {"stop": "cancelled"}}
        assert await client.read_or_end() is None
    assert sorted(order) == ["asked in vain", "told"]


async def test_follow_ups_run_at_the_end() -> None:
    async def handler(context: Context[Any, Any], params: Empty) -> None:
        async def later() -> None:
            await anyio.lowlevel.checkpoint()
            await context.peer.notify("later", {})

        context.after_response(later)

    async with connected([served("m", Empty, None, handler)]) as (client, _):
        await client.send(call("m"))
        client.stop_writing()
        assert (await client.read())["id"] == 1
        assert (await client.read())["method"] == "later"


async def test_requests_beyond_the_grace_are_cancelled_and_answered() -> None:
    async def forever(context: Context[Any, Any], params: Empty) -> None:
        await anyio.sleep_forever()

    async with connected([served("m", Empty, None, forever)], grace=0.05) as (client, _):
        await client.send(call("m"))
        client.stop_writing()
        assert (await client.read())["error"]["code"] == -32800
        assert await client.read_or_end() is None


async def test_hanging_or_failing_end_callback_does_not_block(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise ValueError("the hook failed")

    async with connected([], on_eof=anyio.sleep_forever, grace=0.05) as (client, _):
        client.stop_writing()
        assert await client.read_or_end() is None
    async with connected([], on_eof=fails) as (client, _):
        client.stop_writing()
        assert await client.read_or_end() is None
    assert "the hook failed" in caplog.text


async def test_broken_output_ends_the_peer_quietly(caplog: pytest.LogCaptureFixture) -> None:
    ended = anyio.Event()

    async def on_eof() -> None:
        ended.set()

    async def flood(context: Context[Any, Any], params: Empty) -> None:
        while not ended.is_set():
            await context.peer.notify("n", {"pad": "x" * 10_000})
            await anyio.lowlevel.checkpoint()

    async with connected([served("m", Empty, None, flood)], on_eof=on_eof) as (client, _):
        await client.send(call("m"))
        await client.read()
        client.stop_reading()
        with anyio.fail_after(10):
            await ended.wait()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_close_equals_end_of_input() -> None:
    async def handler(context: Context[Any, Any], params: Empty) -> None:
        context.peer.close()

    async with connected([served("m", Empty, None, handler)]) as (client, _):
        await client.send(call("m"))
        assert (await client.read())["result"] == {}
        assert await client.read_or_end() is None


async def test_cancelling_the_peer_waits_for_handlers_to_clean_up() -> None:
    begun = anyio.Event()
    cleaned: list[str] = []

    async def handler(context: Context[Any, Any], params: Empty) -> None:
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.02)
            cleaned.append("cleaned")

    with anyio.CancelScope() as scope:
        async with connected([served("m", Empty, None, handler)]) as (client, _):
            await client.send(call("m"))
            await begun.wait()
            scope.cancel()
    assert cleaned == ["cleaned"]
