"""Requests and notifications to the client, over real pipes."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from acp_adapter.jsonrpc.dispatch import Context
from acp_adapter.jsonrpc.lines import HIGH_WATER, encode
from acp_adapter.jsonrpc.messages import ConnectionClosedError, InvalidResultError, RemoteError
from acp_adapter.jsonrpc.peer import Peer
from acp_adapter.server import to_error
from acp_adapter.stored_sessions import SessionRequest
from acp_adapter.v1.client import ReadTextFileResponse
from acp_adapter.wire import Empty
from tests.acp_adapter.jsonrpc.played import PlayedTransport
from tests.support.wire_peer import ModelCodec, connected, reading, served

pytestmark = pytest.mark.anyio


def answer(request_id: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


async def test_answers_find_their_requests_in_any_order() -> None:
    got: dict[str, str] = {}
    async with connected([]) as (client, peer), anyio.create_task_group() as tasks:

        async def ask(path: str) -> None:
            got[path] = (await peer.request("fs/read_text_file", {"path": path}, reading(ReadTextFileResponse))).content

        for path in ("a", "b", "c"):
            tasks.start_soon(ask, path)
        asked = [await client.read() for _ in range(3)]
        assert [message["params"]["path"] for message in asked] == ["a", "b", "c"]
        assert len({message["id"] for message in asked}) == 3
        await client.send(*(answer(m["id"], {"content": m["params"]["path"] * 2}) for m in reversed(asked)))
    assert got == {"a": "aa", "b": "bb", "c": "cc"}


@pytest.mark.parametrize(
    ("response", "error"),
    [
        ({"error": {"code": -32601, "message": "Method\nnot found"}}, RemoteError),
        ({"error": {"code": "x"}}, InvalidResultError),
        ({"error": "nope"}, InvalidResultError),
        ({"result": {"content": 5}}, InvalidResultError),
        ({"result": [1]}, InvalidResultError),
        ({"result": None}, InvalidResultError),
        ({}, TimeoutError),
    ],
)
async def test_bad_answers_raise(response: dict[str, Any], error: type[Exception]) -> None:
    async with connected([]) as (client, peer), anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(error):
                await peer.request(
                    "fs/read_text_file", {}, reading(ReadTextFileResponse), deadline=5 if response else 0.05
                )

        tasks.start_soon(ask)
        asked = await client.read()
        await client.send({"jsonrpc": "2.0", "id": asked["id"], **response})
        if not response:
            told = [await client.read() for _ in range(2)]  # in either order
            assert [each["error"]["code"] for each in told if "error" in each] == [-32600]
            assert [each["method"] for each in told if "method" in each] == ["$/cancel_request"]


async def test_null_is_an_empty_answer() -> None:
    async with connected([]) as (client, peer), anyio.create_task_group() as tasks:

        async def ask() -> None:
            assert await peer.request("fs/write_text_file", {}, reading(Empty)) == Empty()

        tasks.start_soon(ask)
        await client.send(answer((await client.read())["id"], None))


async def test_cancelled_wait_withdraws_the_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connected([]) as (client, peer), anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()

        async def ask() -> None:
            with scope:
                await peer.request("session/request_permission", {}, reading(Empty))

        tasks.start_soon(ask)
        asked = await client.read()
        scope.cancel()
        told = await client.read()
        assert told["method"] == "$/cancel_request"
        assert told["params"] == {"requestId": asked["id"]}
        assert "id" not in told
        await client.send(answer(asked["id"], {}))
        tasks.start_soon(peer.request, "x", {}, reading(Empty))
        await client.send(answer((await client.read())["id"], {}))
    assert caplog.records == []


@pytest.mark.parametrize("stray", [99, "1", True, 1.0, None, [1], {"a": 1}, 0, -1])
async def test_stray_response_is_logged_once(stray: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with connected([]) as (client, peer), anyio.create_task_group() as tasks:
        got: list[str] = []

        async def ask() -> None:
            got.append((await peer.request("fs/read_text_file", {}, reading(ReadTextFileResponse))).content)

        tasks.start_soon(ask)
        asked = await client.read()
        await client.send(answer(stray, {"content": "wrong"}), answer(asked["id"], {"content": "right"}))
    assert got == ["right"]
    assert len(caplog.records) == 1


async def test_a_second_answer_to_the_same_request_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    async with connected([]) as (client, peer), anyio.create_task_group() as tasks:
        tasks.start_soon(peer.request, "x", {}, reading(Empty))
        asked = await client.read()
        await client.send(answer(asked["id"], {}), answer(asked["id"], {"again": True}))
    assert len(caplog.records) == 1


async def test_failed_encoding_leaves_no_pending_request() -> None:
    async with connected([]) as (client, peer), anyio.create_task_group() as tasks:
        with pytest.raises(TypeError):
            await peer.request("x", {"x": object()}, reading(Empty))
        tasks.start_soon(peer.request, "y", {}, reading(Empty))
        asked = await client.read()
        assert (asked["method"], asked["id"]) == ("y", 1)
        await client.send(answer(1, {}))


async def test_waits_end_when_the_client_is_gone() -> None:
    async with connected([]) as (client, peer), anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(ConnectionClosedError):
                await peer.request("x", {}, reading(Empty))
            with pytest.raises(ConnectionClosedError):
                await peer.request("y", {}, reading(Empty))

        tasks.start_soon(ask)
        await client.read()
        client.stop_writing()


async def test_notifications_keep_their_order_across_tasks() -> None:
    async with connected([]) as (client, peer), anyio.create_task_group() as tasks:
        for i in range(200):
            tasks.start_soon(peer.notify, "n", {"i": i, "pad": "x" * 5000})
        assert [(await client.read())["params"]["i"] for _ in range(200)] == list(range(200))


async def test_slow_reader_blocks_notifications_but_not_reading() -> None:
    sent = 0
    read = anyio.Event()

    async def note(context: Context[Any, Any], params: SessionRequest) -> None:
        read.set()

    async with connected([served("note", SessionRequest, None, note, is_notification=True)]) as (client, peer):
        async with anyio.create_task_group() as tasks:

            async def flood() -> None:
                nonlocal sent
                for _ in range(2000):
                    await peer.notify("n", {"pad": "x" * 1000})
                    sent += 1

            client.pause()
            tasks.start_soon(flood)
            await client.send({"jsonrpc": "2.0", "method": "note", "params": {"sessionId": "s"}})
            with anyio.fail_after(10):
                await read.wait()
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
            # what was sent fits into the queue, the batch in flight and the pipe
            assert sent * 1000 < HIGH_WATER + 4 * 65_536
            client.resume()
            for _ in range(2000):
                await client.read()
        assert sent == 2000


async def test_client_that_never_reads_is_throttled() -> None:
    lines, pieces = 15_000, 2
    transport = PlayedTransport([b"[]\n" * lines] * pieces, is_blocked=True)
    peer = Peer[None](transport, {}, None, codec=ModelCodec([]), to_error=to_error)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.run)
            for _ in range(200):
                await anyio.lowlevel.checkpoint()
            taken = transport.taken
            transport.unblock()
    # one piece makes 1.3 MB of answers, more than may wait
    assert taken == 1
    assert len(transport.messages) == lines * pieces


async def test_every_line_uses_the_given_encoder() -> None:
    def marked(message: Any) -> bytes:
        return encode({**message, "marked": True})

    async def fail(params: SessionRequest, context: Context[Any, SessionRequest]) -> None:
        raise ValueError

    method = served("fail", SessionRequest, None, fail)
    async with connected([method], encode=marked) as (client, peer):
        await peer.notify("session/update", {})
        with pytest.raises(TimeoutError):  # which withdraws it
            await peer.request("fs/read_text_file", {}, reading(ReadTextFileResponse), deadline=0.01)
        await client.write(b"no JSON\n")
        await client.send(
            {"jsonrpc": "2.0", "id": 1, "method": "unknown"},
            {"jsonrpc": "2.0", "id": 2, "method": "fail", "params": {"sessionId": "s"}},
            {"jsonrpc": "2.0", "id": 3, "method": "fail"},
            {"jsonrpc": "1.0", "id": 4, "method": "fail"},
        )
        messages = [await client.read() for _ in range(8)]
    assert [message for message in messages if not message.pop("marked", False)] == []
    assert [message.get("id", message.get("method")) for message in messages[:3]] == [
        "session/update", 1, "$/cancel_request",
    ]  # fmt: skip
    assert sum("error" in message for message in messages) == 5
