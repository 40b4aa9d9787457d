"""One end of a JSON-RPC connection: reads, judges, dispatches and answers, and asks the other side in turn.

Owns ordering, correlation, cancellation and the end of the connection. Must not know any method, any shape of the wire
or the engine. The server builds one with its methods and awaits `run`; handlers reach it through their context.

Incoming lines are taken one at a time: what a row's `accept` does is done before the next line is looked at, so that
a cancel in the same read finds its turn. Handlers then run side by side, begun in the order of their lines. All that
leaves goes through one queue, so the order of sending is the order of the calls.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, TypeVar, cast

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from acp_adapter.rpc.dispatch import Dispatcher, unanswerable
from acp_adapter.rpc.errors import Code, InvalidResultError, ToError, WireError, WireShapeError
from acp_adapter.rpc.framing import Broken, Frame, LineDecoder
from acp_adapter.rpc.inflight import InFlight
from acp_adapter.rpc.jsonline import ParseError, decode, encode
from acp_adapter.rpc.messages import (
    Call,
    Invalid,
    RequestId,
    Response,
    classify,
    error_response,
    is_request_id,
    notification,
    request,
)
from acp_adapter.rpc.methods import Admit, Codec, Context, Incoming, Method
from acp_adapter.rpc.outbox import HIGH_WATER, Outbox
from acp_adapter.rpc.outgoing import OutgoingRequests
from acp_adapter.rpc.transport import Transport

C = TypeVar("C")
R = TypeVar("R")
CANCEL_REQUEST: Final = "$/cancel_request"
DEFAULT_GRACE: Final = 2.0
_READ_LIMIT: Final = 4 * HIGH_WATER
_log = logging.getLogger(__name__)


async def _nothing() -> None: ...


def _always(_: Method[Any, Any, Any]) -> None: ...


class Peer(Generic[C]):
    """A connection whose handlers get `connection` through their context."""

    def __init__(
        self,
        transport: Transport,
        methods: Mapping[str, Method[C, Any, Any]],
        connection: C,
        *,
        codec: Codec,
        to_error: ToError,
        admit: Admit = _always,
        on_eof: Callable[[], Awaitable[None]] = _nothing,
        encode: Callable[[Any], bytes] = encode,
        grace: float = DEFAULT_GRACE,
    ) -> None:
        """Serves `methods`, rows by name.

        `admit` is asked before a row's `accept` is run. `on_eof` is awaited once no more can come in; then what is in
        flight has `grace` seconds to be answered. `encode` makes every line that leaves.
        """
        self._transport = transport
        self._methods = methods
        self._connection = connection
        self._codec = codec
        self._admit = admit
        self._on_eof = on_eof
        self._grace = grace
        self._encode = encode
        self._dispatcher = Dispatcher[C](self._methods, codec, to_error)
        self._decoder = LineDecoder()
        self._outbox = Outbox()
        self._outgoing = OutgoingRequests()
        self._inflight = InFlight()
        self._reading = anyio.CancelScope()
        self._tasks: TaskGroup | None = None

    # --- for the server and handlers ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serves until the client closes its end or goes away; in-flight requests are then answered or cancelled.

        Cancelling it cancels every handler. It returns when all of them have ended.
        """
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._write)
            tasks.start_soon(self._cancel_handlers_at_the_end)
            with self._reading:
                await self._read()
            await self._drain()
            tasks.cancel_scope.cancel()

    def close(self) -> None:
        """Stops reading, as if the client had closed its end."""
        self._reading.cancel()

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Sends a notification. Its place in the order is that of the call; waits while too much is queued.

        Cancelling the wait does not take the notification back. A client that is gone is not reported here.
        """
        self._outbox.put(self._encode(notification(method, params)))
        await self._outbox.room()

    async def request(
        self, method: str, params: Mapping[str, Any], read: Callable[[object], R], deadline: float | None = None
    ) -> R:
        """Asks the client and waits for its answer, for `deadline` seconds or for ever; `read` makes a value of it.

        `read` raises WireShapeError for an answer that has not the right shape. When the wait is cancelled or times
        out, the client is sent `$/cancel_request` and a late answer is dropped.

        Raises:
            RemoteError, InvalidResultError, ConnectionClosedError, TimeoutError.
        """
        line = self._encode(request(self._outgoing.next_id, method, params))
        request_id, pending = self._outgoing.open(method)
        try:
            self._outbox.put(line)
            with anyio.fail_after(deadline):
                result = await pending.answer()
        finally:
            if self._outgoing.abandon(request_id):
                self._outbox.put(self._encode(notification(CANCEL_REQUEST, {"requestId": request_id})))
        try:
            return read(result)
        except WireShapeError as error:
            raise InvalidResultError(method, str(error)) from None

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while data := await self._receive():
            await self._take(self._decoder.feed(data))
            # because a client that writes without reading would otherwise fill the memory with answers
            await self._outbox.room(_READ_LIMIT)
            await anyio.lowlevel.checkpoint()
        await self._take(self._decoder.eof())

    async def _receive(self) -> bytes:
        try:
            return await self._transport.receive()
        except OSError as error:
            _log.debug("reading ended: %s", error)
            return b""

    async def _take(self, frames: list[Frame]) -> None:
        for frame in frames:
            if isinstance(frame, Broken):
                self._refuse(None, Code.PARSE_ERROR, frame.reason)
                continue
            try:
                value = decode(frame.data)
            except ParseError as error:
                self._refuse(None, Code.PARSE_ERROR, str(error))
            else:
                exclusive = self._on_message(value)
                if exclusive is not None:
                    await exclusive.answered.wait()
                    await self._outbox.room(0)

    def _on_message(self, value: object) -> Incoming[C] | None:
        """Acts on one message; returns it if nothing else may be looked at before it is answered."""
        match classify(value):
            case Response() as response:
                self._outgoing.resolve(response)
            case Invalid(request_id, reason):
                self._refuse(request_id, Code.INVALID_REQUEST, reason)
            case Call(method=method, params=params, is_notification=True) if method == CANCEL_REQUEST:
                self._cancel(params)
            case Call(method=method) as call if method in self._methods:
                return self._begin(call, self._methods[method])
            case Call(is_notification=True):
                _log.debug("ignored an unknown notification")
            case Call(id=request_id):
                self._refuse(request_id, Code.METHOD_NOT_FOUND, "Method not found")
        return None

    def _refuse(self, request_id: RequestId, code: Code, message: str) -> None:
        self._outbox.put(self._encode(error_response(request_id, WireError(code, message))))

    def _cancel(self, params: object) -> None:
        request_id: object = (
            cast("dict[str, object]", params).get("requestId", self) if isinstance(params, dict) else self
        )
        if is_request_id(request_id):
            self._inflight.cancel(request_id)

    # --- incoming requests and notifications -------------------------------------------------------------------------

    def _begin(self, call: Call, method: Method[C, Any, Any]) -> Incoming[C] | None:
        if call.is_notification and not method.is_notification:
            # because nobody could be told what came of it
            _log.warning("Ignored %s, which is a request, without an id", method.name)
            return None
        context = Context[C, Any](self, self._connection, call.id)
        incoming = Incoming[C](method, context, call.is_notification)
        incoming.accept(call.params, self._codec, self._admit)
        if call.is_notification and incoming.failure is not None:
            error = self._dispatcher.error_of(incoming.failure, method.name)
            _log.warning("Ignored %s: %s", method.name, error.message)
            return None
        self._inflight.add(incoming)
        assert self._tasks is not None
        self._tasks.start_soon(self._serve, incoming)
        return incoming if method.is_exclusive else None

    async def _serve(self, incoming: Incoming[C]) -> None:
        response: dict[str, Any] | None = None
        # because jsonrpcserver's task would be cancelled again at every step, with no way for a handler to clean up
        with anyio.CancelScope(shield=True):
            response = await self._dispatcher.dispatch(incoming)
        self._inflight.answered(incoming)
        if response is None:
            self._follow_up(incoming, True)
        else:
            self._respond(incoming, response)
        incoming.answered.set()

    def _respond(self, incoming: Incoming[C], response: dict[str, Any]) -> None:
        try:
            line = self._encode(response)
        except TypeError as error:
            self._dispatcher.error_of(error, incoming.method.name)
            line = self._encode(response := unanswerable(incoming))
        if incoming.context.followups and "result" in response:
            self._outbox.put(line, lambda is_sent: self._follow_up(incoming, is_sent))
        else:
            self._outbox.put(line)
            self._inflight.remove(incoming)

    def _follow_up(self, incoming: Incoming[C], is_sent: bool) -> None:
        if is_sent and incoming.context.followups and self._tasks is not None:
            self._tasks.start_soon(self._run_followups, incoming)
        else:
            self._inflight.remove(incoming)

    async def _run_followups(self, incoming: Incoming[C]) -> None:
        try:
            for followup in incoming.context.followups:
                await followup()
        except Exception:
            _log.exception("What follows the response to %s failed", incoming.method.name)
        finally:
            self._inflight.remove(incoming)

    # --- writing, and the end ----------------------------------------------------------------------------------------

    async def _write(self) -> None:
        try:
            while True:
                batch = await self._outbox.take()
                await self._transport.send(batch.data)
                self._outbox.sent(batch)
        except (BrokenPipeError, ConnectionError):
            _log.debug("the client has closed its end")
        except OSError as error:
            _log.error("Cannot write to the client: %s", error)
        finally:
            self._outbox.close()
            self._reading.cancel()

    async def _drain(self) -> None:
        self._outgoing.close()
        with anyio.move_on_after(self._grace):
            try:
                await self._on_eof()
            except Exception:
                _log.exception("The server could not be told of the end of input")
            await self._settled()
            return
        self._inflight.cancel_all()
        with anyio.move_on_after(self._grace):
            await self._settled()

    async def _settled(self) -> None:
        await self._inflight.empty()
        await self._outbox.room(0)

    async def _cancel_handlers_at_the_end(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._inflight.cancel_all()
