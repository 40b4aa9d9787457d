"""Incoming requests and notifications: answers, errors, order, cancellation."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import anyio
import pytest

from acp_adapter.jsonrpc.dispatch import Context
from acp_adapter.jsonrpc.lines import MAX_LINE
from acp_adapter.jsonrpc.messages import Code, ProtocolError
from acp_adapter.jsonrpc.peer import Peer
from acp_adapter.requests import RESOURCE_NOT_FOUND
from acp_adapter.server import to_error
from acp_adapter.stored_sessions import ListSessionsRequest, SessionRequest
from acp_adapter.v1.prompts import PromptRequest, PromptResponse
from acp_adapter.wire import Empty
from tests.acp_adapter.jsonrpc.played import PlayedTransport
from tests.support.wire_peer import ModelCodec, Served, WireClient, connected, served

pytestmark = pytest.mark.anyio
PROMPT = {"sessionId": "s", "prompt": []}


def call(method: str, params: Any = None, request_id: Any = 1) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def note(method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def echo(context: Context[Any, Any], params: SessionRequest) -> Empty:
    return Empty(meta={"echo": params.session_id})


async def listed(context: Context[Any, Any], params: ListSessionsRequest) -> None:
    return None


ECHO = served("echo", SessionRequest, None, echo)
LIST = served("list", ListSessionsRequest, None, listed)


def failing(exception: BaseException) -> Served:
    async def fail(context: Context[Any, Any], params: Empty) -> None:
        raise exception

    return served("fail", Empty, None, fail)


async def still_serves(client: WireClient) -> None:
    await client.send(call("echo", {"sessionId": "alive"}, "last"))
    assert await client.read() == {"jsonrpc": "2.0", "id": "last", "result": {"_meta": {"echo": "alive"}}}


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"{", -32700, None),
        (b"\xff\xfe\xfd", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo","params":NaN}', -32700, None),
        (b"[" * 100_000, -32700, None),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, -32700, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"echo"}]', -32600, None),
        (b'"x"', -32600, None),
        (b"null", -32600, None),
        (b"5", -32600, None),
        (b"{}", -32600, None),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"echo"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"echo"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.0,"method":"echo"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":4,"method":["a"]}', -32600, 4),
        (b'{"id":"k","method":"echo","params":{"sessionId":"s"}}', -32600, "k"),
        (b'{"jsonrpc":"2.0","id":1,"method":"nope"}', -32601, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"_x/y","params":[1]}', -32601, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"$/cancel_request","params":{"requestId":1}}', -32601, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"__class__"}', -32601, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo"}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo","params":null}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo","params":["s"]}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo","params":"s"}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"sessionId":7}}', -32602, 1),
        (b'{"jsonrpc":"2.0","id":null,"method":"echo","params":{}}', -32602, None),
    ],
)
async def test_bad_input_gets_an_error_and_reading_continues(line: bytes, code: int, request_id: Any) -> None:
    async with connected([ECHO]) as (client, _):
        await client.write(line + b"\n")
        answer = await client.read()
        assert answer["error"]["code"] == code
        assert answer["id"] == request_id
        assert "data" not in answer["error"]
        assert "\n" not in answer["error"]["message"]
        await still_serves(client)


async def test_line_limit() -> None:
    request = json.dumps(call("echo", {"sessionId": "s"})).encode()
    longest = request.ljust(MAX_LINE) + b"\n"
    transport = PlayedTransport([longest, b" " + longest, request])
    with anyio.fail_after(10):
        await Peer(transport, {"echo": ECHO.method}, None, codec=ModelCodec([ECHO]), to_error=to_error).run()
    assert [each["result"] for each in transport.messages if "result" in each] == [{"_meta": {"echo": "s"}}] * 2
    assert [each["error"]["code"] for each in transport.messages if "error" in each] == [-32700]


@pytest.mark.parametrize("request_id", [1, "1", "", 0, -5, None, 2**80])
async def test_ids_keep_their_type(request_id: Any) -> None:
    async with connected([ECHO]) as (client, _):
        await client.send(call("echo", {"sessionId": "s"}, request_id))
        answer = await client.read()
        assert answer["id"] == request_id
        assert type(answer["id"]) is type(request_id)


async def test_notifications_are_never_answered() -> None:
    async with connected([ECHO, failing(ValueError("x"))]) as (client, _):
        await client.send(
            note("nope"),
            note("_x", [1]),
            note("$/x"),
            note("echo", {"sessionId": "s"}),
            note("fail"),
            note("$/cancel_request", {"requestId": [1]}),
            note("$/cancel_request", 5),
            note("$/cancel_request"),
        )
        await still_serves(client)


@pytest.mark.parametrize("params", [{}, {"cwd": None}, {"_meta": {"cwd": "/evil"}}, {"unknown": 1}])
async def test_null_missing_and_unknown_params_are_accepted(params: Any) -> None:
    async with connected([LIST]) as (client, _):
        await client.send(call("list", params), call("list"), {**call("list"), "params": None})
        for _ in range(3):
            assert (await client.read())["result"] == {}


async def test_param_errors_name_the_field_and_echo_nothing() -> None:
    method = served("prompt", PromptRequest, None, listed)
    async with connected([method]) as (client, _):
        bad = {"sessionId": "s", "prompt": [{"type": "text", "text": "a"}, {"type": "SECRET"}]}
        await client.send(call("prompt", bad), call("prompt", {"prompt": [], "SECRET": "SECRET"}, 2))
        errors = {answer["id"]: answer["error"] for answer in [await client.read(), await client.read()]}
        assert errors[1]["message"].startswith("Invalid params: prompt[1]: must be tagged with one of 'text'")
        assert errors[2] == {"code": -32602, "message": "Invalid params: sessionId: is required"}
        assert "SECRET" not in repr(errors)


async def test_unknown_exceptions_are_logged_and_sent_without_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connected([failing(ValueError("the secret"))]) as (client, _):
        await client.send(call("fail"))
        assert (await client.read())["error"] == {"code": -32603, "message": "Internal error"}
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "the secret" in caplog.text


async def test_an_answer_that_is_not_json_is_logged_by_its_method(caplog: pytest.LogCaptureFixture) -> None:
    async def answer(context: Context[Any, Any], params: Empty) -> Empty:
        return Empty(meta={"value": object()})

    async with connected([served("odd", Empty, None, answer)]) as (client, _):
        await client.send(call("odd"))
        assert (await client.read())["error"] == {"code": -32603, "message": "Internal error"}
    assert [record.getMessage() for record in caplog.records] == ["odd failed"]


async def test_protocol_errors_are_sent_on_one_line() -> None:
    error = ProtocolError(RESOURCE_NOT_FOUND, "no such\n session", {"sessionId": "s"})
    async with connected([failing(error)]) as (client, _):
        await client.send(call("fail"))
        assert (await client.read())["error"] == {
            "code": -32002,
            "message": "no such session",
            "data": {"sessionId": "s"},
        }


async def test_failing_error_boundary_is_an_internal_error() -> None:
    def boundary(exc: Exception) -> Any:
        raise exc

    async with connected([failing(ValueError("secret"))], to_error=boundary) as (client, _):
        await client.send(call("fail"))
        assert (await client.read())["error"] == {"code": -32603, "message": "Internal error"}


async def test_result_that_is_not_json_is_an_internal_error() -> None:
    async def unspeakable(context: Context[Any, Any], params: Empty) -> Empty:
        context.after_response(never)
        return Empty(meta={"x": object()})

    async def never() -> None:
        raise AssertionError("the request failed")

    async with connected([ECHO, served("m", Empty, None, unspeakable)]) as (client, _):
        await client.send(call("m"))
        assert (await client.read())["error"] == {"code": -32603, "message": "Internal error"}
        await still_serves(client)


async def test_leaked_cancellation_is_answered() -> None:
    async with connected([ECHO, failing(asyncio.CancelledError())]) as (client, _):
        await client.send(call("fail"))
        assert (await client.read())["error"]["code"] == -32800
        await still_serves(client)


async def test_handlers_start_in_order_and_run_concurrently() -> None:
    begun: list[str] = []
    release = anyio.Event()

    async def handler(context: Context[Any, Any], params: SessionRequest) -> None:
        begun.append(params.session_id)
        if len(begun) == 50:
            release.set()
        await release.wait()

    async with connected([served("m", SessionRequest, None, handler)]) as (client, _):
        await client.send(*(call("m", {"sessionId": str(i)}, i) for i in range(50)))
        answered = [(await client.read())["id"] for _ in range(50)]
    assert begun == [str(i) for i in range(50)]
    assert sorted(answered) == list(range(50))


async def test_busy_client_does_not_starve_handlers() -> None:
    reads_when_served: list[int] = []

    class Flood:
        """A client whose next bytes are always ready."""

        def __init__(self) -> None:
            self.reads = 0

        async def receive(self) -> bytes:
            self.reads += 1
            return b'{"jsonrpc":"2.0","method":"m"}\n' if self.reads < 500 else b""

        async def send(self, data: bytes) -> None:
            raise AssertionError("notifications are not answered")

    transport = Flood()

    async def handler(context: Context[Any, Any], params: Empty) -> None:
        reads_when_served.append(transport.reads)

    row = served("m", Empty, None, handler, is_notification=True)
    with anyio.fail_after(10):
        await Peer(transport, {"m": row.method}, None, codec=ModelCodec([row]), to_error=to_error).run()
    assert len(reads_when_served) == 499
    assert reads_when_served[0] < 50


async def test_cancel_in_the_same_write_finds_its_turn() -> None:
    class Turns:
        def __init__(self) -> None:
            self.cancelled: dict[str, anyio.Event] = {}

    def accept_prompt(turns: Turns, params: PromptRequest) -> anyio.Event:
        return turns.cancelled.setdefault(params.session_id, anyio.Event())

    async def prompt(context: Context[Turns, anyio.Event], params: PromptRequest) -> PromptResponse:
        await context.accepted.wait()
        return PromptResponse(stop_reason="cancelled")

    def accept_cancel(turns: Turns, params: SessionRequest) -> None:
        if params.session_id in turns.cancelled:
            turns.cancelled.pop(params.session_id).set()

    async def cancelled(context: Context[Turns, None], params: SessionRequest) -> None:
        pass

    methods: list[Served] = [
        served("session/prompt", PromptRequest, accept_prompt, prompt),
        served("session/cancel", SessionRequest, accept_cancel, cancelled, is_notification=True),
    ]
    async with connected(methods, Turns()) as (client, _):
        await client.send(
            note("session/cancel", {"sessionId": "s"}), call("session/prompt", PROMPT), note("session/cancel", PROMPT)
        )
        assert (await client.read())["result"] == {"stopReason": "cancelled"}


async def test_failed_accept_is_the_answer() -> None:
    def accept(connection: None, params: SessionRequest) -> None:
        raise ProtocolError(Code.INVALID_REQUEST, "busy")

    async def handler(context: Context[Any, Any], params: SessionRequest) -> None:
        raise AssertionError("not accepted")

    methods = [ECHO, served("m", SessionRequest, accept, handler)]
    methods.append(served("n", SessionRequest, accept, handler, is_notification=True))
    async with connected(methods) as (client, _):
        await client.send(call("m", {"sessionId": "s"}), note("n", {"sessionId": "s"}))
        assert (await client.read())["error"] == {"code": -32600, "message": "busy"}
        await still_serves(client)


async def test_notification_with_id_is_served_and_answered() -> None:
    async with connected([served("list", ListSessionsRequest, None, listed, is_notification=True)]) as (client, _):
        await client.send(call("list", {}, "q"))
        assert await client.read() == {"jsonrpc": "2.0", "id": "q", "result": {}}


async def test_request_without_id_is_ignored() -> None:
    async def handler(context: Context[Any, Any], params: Empty) -> None:
        await context.peer.notify("served", {})

    async with connected([ECHO, served("m", Empty, None, handler)]) as (client, _):
        await client.send(note("m", {}))
        await still_serves(client)


async def test_follow_ups_run_in_order_after_the_response() -> None:
    async def handler(context: Context[Any, Any], params: Empty) -> None:
        def later(text: str) -> None:
            async def send() -> None:
                await context.peer.notify("n", {"n": text})

            context.after_response(send)

        await context.peer.notify("n", {"n": "before"})
        later("first")
        later("second")

    async with connected([served("m", Empty, None, handler)]) as (client, _):
        await client.send(call("m"))
        messages = [await client.read() for _ in range(4)]
    assert [message.get("params", message.get("result")) for message in messages] == [
        {"n": "before"},
        {},
        {"n": "first"},
        {"n": "second"},
    ]


async def test_follow_ups_wait_for_the_transport() -> None:
    followed = anyio.Event()

    async def handler(context: Context[Any, Any], params: Empty) -> Empty:
        async def follow() -> None:
            followed.set()

        context.after_response(follow)
        return Empty(meta={"pad": "x" * 1_000_000})

    async with connected([served("m", Empty, None, handler)]) as (client, _):
        client.pause()
        await client.send(call("m"))
        for _ in range(200):
            await asyncio.sleep(0)
        assert not followed.is_set()
        client.resume()
        await client.read()
        with anyio.fail_after(10):
            await followed.wait()


async def test_a_notification_has_its_follow_ups_at_once() -> None:
    async def handler(context: Context[Any, Any], params: Empty) -> None:
        async def follow() -> None:
            await context.peer.notify("followed", {})

        context.after_response(follow)

    async with connected([served("m", Empty, None, handler, is_notification=True)]) as (client, _):
        await client.send(note("m", {}))
        assert (await client.read())["method"] == "followed"


async def test_failed_requests_have_no_follow_ups() -> None:
    async def handler(context: Context[Any, Any], params: Empty) -> None:
        async def never() -> None:
            await context.peer.notify("never", {})

        context.after_response(never)
        raise ProtocolError(Code.INVALID_PARAMS, "no")

    async with connected([ECHO, served("m", Empty, None, handler)]) as (client, _):
        await client.send(call("m"))
        assert (await client.read())["error"]["message"] == "no"
        await still_serves(client)


async def test_failing_follow_up_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(context: Context[Any, Any], params: Empty) -> None:
        async def broken() -> None:
            raise ValueError("follow-up")

        context.after_response(broken)

    async with connected([ECHO, served("m", Empty, None, handler)]) as (client, _):
        await client.send(call("m"))
        assert (await client.read())["result"] == {}
        await still_serves(client)
    assert "follow-up" in caplog.text


def waiting(begun: anyio.Event, cleaned: list[str]) -> Served:
    async def handler(context: Context[Any, Any], params: Empty) -> None:
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(3):
                    await asyncio.sleep(0)
            cleaned.append("cleaned")

    return served("wait", Empty, None, handler)


async def test_cancelled_request_cleans_up_and_is_answered() -> None:
    begun, cleaned = anyio.Event(), list[str]()
    async with connected([waiting(begun, cleaned)]) as (client, _):
        await client.send(call("wait", None, 7))
        await begun.wait()
        await client.send(note("$/cancel_request", {"requestId": "7"}))
        await client.send(note("$/cancel_request", {"requestId": 7}))
        answer = await client.read()
    assert answer == {"jsonrpc": "2.0", "id": 7, "error": {"code": -32800, "message": "The request was cancelled"}}
    assert cleaned == ["cleaned"]


async def test_request_cancelled_by_the_next_line_is_answered() -> None:
    async with connected([ECHO, waiting(anyio.Event(), [])]) as (client, _):
        await client.send(call("wait", None, "w"), note("$/cancel_request", {"requestId": "w"}))
        assert (await client.read())["error"]["code"] == -32800
        await client.send(note("$/cancel_request", {"requestId": "w"}))
        await still_serves(client)


async def test_cancel_matches_id_and_type() -> None:
    begun = [anyio.Event(), anyio.Event()]

    async def handler(context: Context[Any, Any], params: SessionRequest) -> Empty:
        begun[int(params.session_id)].set()
        with anyio.move_on_after(5):
            await anyio.sleep_forever()
        return Empty()

    async with connected([served("m", SessionRequest, None, handler)], grace=0.01) as (client, _):
        await client.send(call("m", {"sessionId": "0"}, 1), call("m", {"sessionId": "1"}, "1"))
        for event in begun:
            await event.wait()
        await client.send(note("$/cancel_request", {"requestId": "1"}))
        assert (await client.read())["id"] == "1"
        client.stop_writing()
        assert (await client.read())["id"] == 1


async def test_handler_may_return_a_result_when_cancelled() -> None:
    begun = anyio.Event()

    async def handler(context: Context[Any, Any], params: PromptRequest) -> PromptResponse:
        try:
            begun.set()
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return PromptResponse(stop_reason="cancelled")
        return PromptResponse(stop_reason="end_turn")

    async with connected([served("p", PromptRequest, None, handler)]) as (client, _):
        await client.send(call("p", PROMPT))
        await begun.wait()
        await client.send(note("$/cancel_request", {"requestId": 1}))
        assert (await client.read())["result"] == {"stopReason": "cancelled"}


async def test_exclusive_request_blocks_later_lines() -> None:
    order: list[str] = []

    async def slow(context: Context[Any, None], params: Empty) -> None:
        await asyncio.sleep(0)
        order.append("answered")

    def accept(connection: Any, params: Empty) -> None:
        order.append("looked at")

    async def handler(context: Context[Any, None], params: Empty) -> None:
        return None

    methods: list[Served] = [
        served("first", Empty, None, slow, is_exclusive=True),
        served("second", Empty, accept, handler),
    ]
    async with connected(methods) as (client, _):
        lines = [{"jsonrpc": "2.0", "id": number, "method": name} for number, name in enumerate(("first", "second"))]
        await client.send(*lines)
        assert [(await client.read())["id"] for _ in lines] == [0, 1]
    assert order == ["answered", "looked at"]
