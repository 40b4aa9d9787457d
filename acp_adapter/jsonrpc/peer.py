"""One end of a JSON-RPC connection: reads, classifies, dispatches and answers, and sends requests to the other side.

Owns ordering, correlation, cancellation and the end of the connection. Knows no method, no shape of the wire and
nothing of the engine. The server makes one with its methods and awaits `run`; handlers reach it through their context.

Lines are taken one at a time: a row's `accept` is done before the next line is read, so a cancel in the same read finds
its turn. Handlers then run concurrently, started in the order of their lines. Everything that leaves goes through one
queue, so the order of sending is the order of the calls.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from acp_adapter.jsonrpc.dispatch import Admit, Codec, Context, Dispatcher, Incoming, Method, unanswerable
from acp_adapter.jsonrpc.lines import HIGH_WATER, Broken, Frame, LineDecoder, Outbox, ParseError, decode, encode
from acp_adapter.jsonrpc.messages import (
    Call,
    Code,
    ConnectionClosedError,
    Invalid,
    InvalidResultError,
    RemoteError,
    RequestId,
    Response,
    ToError,
    WireError,
    WireShapeError,
    classify,
    error_response,
    is_request_id,
    notification,
    one_sentence,
    request,
)

C = TypeVar("C")
R = TypeVar("R")
CANCEL_REQUEST: Final = "$/cancel_request"
DEFAULT_GRACE: Final = 2.0
_MOST_ABANDONED: Final = 1024
"""Limit of remembered ids of requests whose wait was cancelled."""
_READ_LIMIT: Final = 4 * HIGH_WATER
_log = logging.getLogger(__name__)


class Transport(Protocol):
    """Moves bytes: `stdio` over descriptors, and tests in memory.

    `receive` returns b"" at the end; both raise OSError when the other side is gone.
    """

    async def receive(self) -> bytes: ...

    async def send(self, data: bytes) -> None: ...


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
        """Serve `methods`, rows by name.

        `admit` is called before a row's `accept`. `on_eof` is awaited when the input has ended; unfinished requests
        then have `grace` seconds. `encode` makes every line that leaves.
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

    # --- for the server and handlers ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until the client closes its end or is gone, then answer or cancel unfinished requests.

        Cancelling `run` cancels every handler. It returns when all of them have ended.
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
        """Stop reading, as if the client had closed its end."""
        self._reading.cancel()

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, in the order of the calls; wait while too much is queued.

        Cancelling the wait does not withdraw the notification. If the client is gone, nothing is raised.
        """
        self._outbox.put(self._encode(notification(method, params)))
        await self._outbox.room()

    async def request(
        self, method: str, params: Mapping[str, Any], read: Callable[[object], R], deadline: float | None = None
    ) -> R:
        """Send a request and return the answer as a value of `read`, within `deadline` seconds if given.

        `read` raises WireShapeError for an answer of the wrong shape. When the wait is cancelled or times out, the
        client gets `$/cancel_request`, and a late answer is dropped.

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

    # --- reading ------------------------------------------------------------------------------------------------------

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
        """Handle one message; return it if nothing else may be read before it is answered."""
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

    # --- incoming requests and notifications --------------------------------------------------------------------------

    def _begin(self, call: Call, method: Method[C, Any, Any]) -> Incoming[C] | None:
        if call.is_notification and not method.is_notification:
            # because there is no id under which to answer
            _log.warning("Ignored the request %s without an id", method.name)
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
        # because otherwise anyio would cancel jsonrpcserver's task again at every step, and no handler could clean up
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
            _log.exception("A follow-up of the response to %s failed", incoming.method.name)
        finally:
            self._inflight.remove(incoming)

    # --- writing, and the end -----------------------------------------------------------------------------------------

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
                _log.exception("The callback for the end of input failed")
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


# --- requests in both directions --------------------------------------------------------------------------------------


class InFlight:
    """Unfinished requests and notifications: cancellable until answered, counted until their follow-ups are done."""

    def __init__(self) -> None:
        self._all: dict[Incoming[Any], None] = {}
        self._running: dict[Incoming[Any], None] = {}
        self._changed = anyio.Event()

    def add(self, incoming: Incoming[Any]) -> None:
        self._all[incoming] = self._running[incoming] = None

    def cancel(self, request_id: RequestId) -> None:
        """Cancel the running request with this id, if there is one; `1` and `"1"` are different ids."""
        for incoming in self._running:
            if incoming.id == request_id and not incoming.is_notification:
                incoming.scope.cancel()

    def cancel_all(self) -> None:
        for incoming in self._running:
            incoming.scope.cancel()

    def answered(self, incoming: Incoming[Any]) -> None:
        """Make it no longer cancellable."""
        self._running.pop(incoming, None)

    def remove(self, incoming: Incoming[Any]) -> None:
        self._all.pop(incoming, None)
        if not self._all:
            self._changed.set()
            self._changed = anyio.Event()

    async def empty(self) -> None:
        """Wait until nothing is in flight."""
        while self._all:
            await self._changed.wait()


class PendingRequest:
    """One of our requests that has no answer yet."""

    __slots__ = ("_answered", "_error", "_result", "method")

    def __init__(self, method: str) -> None:
        self.method = method
        self._answered = anyio.Event()
        self._result: object = None
        self._error: Exception | None = None

    async def answer(self) -> object:
        """Wait for the result. Raises RemoteError, InvalidResultError or ConnectionClosedError."""
        await self._answered.wait()
        if self._error is not None:
            raise self._error
        return self._result

    def resolve(self, result: object) -> None:
        self._result = result
        self._answered.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._answered.set()


class OutgoingRequests:
    """Our unanswered requests by id: 1, 2, 3 ... Whatever a client answers, it can only end one wait."""

    def __init__(self) -> None:
        self._pending: dict[int, PendingRequest] = {}
        self._abandoned: dict[int, None] = {}
        self._last = 0
        self._closed = False

    @property
    def next_id(self) -> int:
        return self._last + 1

    def open(self, method: str) -> tuple[int, PendingRequest]:
        """Return a new id and its pending answer. Raises ConnectionClosedError if the client is gone."""
        if self._closed:
            raise ConnectionClosedError(method)
        self._last = self.next_id
        pending = self._pending[self._last] = PendingRequest(method)
        return self._last, pending

    def abandon(self, request_id: int) -> bool:
        """Stop waiting; False if the answer has already come. A late answer is then dropped silently."""
        if self._pending.pop(request_id, None) is None:
            return False
        self._abandoned[request_id] = None
        if len(self._abandoned) > _MOST_ABANDONED:
            self._abandoned.pop(next(iter(self._abandoned)))
        return True

    def resolve(self, response: Response) -> None:
        """Pass a response to its request; an unexpected response is logged and dropped."""
        # because True and 1.0 would find the request 1, and a list would raise
        request_id = response.id if type(response.id) is int else 0
        pending = self._pending.pop(request_id, None)
        if pending is None:
            if self._abandoned.pop(request_id, self) is self:
                _log.warning("Ignored a response that answers no open request")
        elif response.error is None:
            pending.resolve(response.result)
        else:
            pending.fail(_remote_error(pending.method, response.error))

    def close(self) -> None:
        """End every wait with ConnectionClosedError."""
        self._closed = True
        for pending in self._pending.values():
            pending.fail(ConnectionClosedError(pending.method))
        self._pending.clear()


def _remote_error(method: str, error: object) -> Exception:
    fields: dict[str, Any] = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    code, message = fields.get("code"), fields.get("message")
    if not isinstance(code, int) or not isinstance(message, str):
        return InvalidResultError(method, "the error has no code and message")
    return RemoteError(method, code, one_sentence(message), fields.get("data"))
