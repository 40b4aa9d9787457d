"""Methods as rows, the context of their handlers, and running them through jsonrpcserver.

Knows no single method: `acp_adapter.methods` has the rows, and the peer's Codec reads params and writes results. The
only module that imports jsonrpcserver. It works around three of its traps: jsonrpcserver unpacks params into arguments
(so we pass a list of one value), copies exception text into `data` (so it only ever sees its own error type), and runs
each handler in a task outside anyio's tree (so each handler gets a cancel scope of its own).
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import anyio
from msgspec import Struct

from acp_adapter.jsonrpc.messages import (
    INTERNAL_ERROR,
    Code,
    ProtocolError,
    RequestId,
    ToError,
    WireError,
    WireShapeError,
    error_response,
)

if TYPE_CHECKING:
    from jsonrpcserver.result import Result

C = TypeVar("C")
P = TypeVar("P")
A = TypeVar("A")
R = TypeVar("R")
AfterResponse = Callable[[], Awaitable[None]]
_log = logging.getLogger(__name__)


class Codec(Protocol):
    """Reads params and writes results, between JSON and the values of the handlers."""

    def read_params(self, method: str, params: object) -> Any:
        """Return the params of a call, which are `None` if it had none. Raises WireShapeError or ProtocolError."""
        ...

    def write_result(self, method: str, result: Any) -> Mapping[str, Any]:
        """Return the JSON object that answers a call; a result may be `None`."""
        ...


class Remote(Protocol):
    """The other side of the connection, as handlers see it."""

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification; wait while too much is queued."""
        ...

    async def request(
        self, method: str, params: Mapping[str, Any], read: Callable[[object], R], deadline: float | None = None
    ) -> R:
        """Send a request and wait for the answer, which `read` turns into a value."""
        ...

    def close(self) -> None:
        """Stop reading, as if the other side had closed its end."""
        ...


class Context(Generic[C, A]):
    """What a handler gets besides its params; one for each request or notification."""

    __slots__ = ("_followups", "accepted", "connection", "peer", "request_id")

    def __init__(self, peer: Remote, connection: C, request_id: RequestId) -> None:
        self.peer = peer
        self.connection = connection
        self.request_id = request_id
        """None for a notification, and for a request whose id is null."""
        self.accepted: A
        """The result of the row's `accept`; None for a row without one."""
        self._followups: list[AfterResponse] = []

    def after_response(self, followup: AfterResponse) -> None:
        """Await `followup` once the transport has the response.

        Several run one after the other, in the order of these calls. None runs if the request fails or the client is
        gone. For a notification they run when its handler returns.
        """
        self._followups.append(followup)

    @property
    def followups(self) -> tuple[AfterResponse, ...]:
        return tuple(self._followups)


class Method(Struct, Generic[C, P, A], frozen=True):
    """One row of the table of methods.

    `accept(connection, params)` runs while the line is read, before any later line. If it raises, that is the answer,
    and the handler does not run. `handler(context, params)` returns a result for the codec; without a handler the
    result is None. Handlers run in their own tasks, started in the order of their lines. While an exclusive method
    runs, no later line is read until the transport has its response. `needs_initialization` is for the connection's
    `admit`.
    """

    name: str
    accept: Callable[[C, P], A] | None
    handler: Callable[[Context[C, A], P], Awaitable[object]] | None = None
    is_notification: bool = False
    is_exclusive: bool = False
    needs_initialization: bool = True


Admit = Callable[[Method[Any, Any, Any]], None]
"""Raises ProtocolError if a method may not be called now."""


class Incoming(Generic[C]):
    """A request or notification, from its line until it is answered and its follow-ups are done."""

    __slots__ = ("answered", "context", "failure", "id", "is_notification", "method", "params", "scope")

    def __init__(self, method: Method[C, Any, Any], context: Context[C, Any], is_notification: bool) -> None:
        self.method = method
        self.context = context
        self.id = context.request_id
        self.is_notification = is_notification
        self.params: Any = None
        self.failure: Exception | None = None
        self.scope = anyio.CancelScope()
        self.answered = anyio.Event()

    def accept(self, raw: object, codec: Codec, admit: Admit) -> None:
        """Read the params, check admission and run the row's `accept`. A failure is stored, to be the answer."""
        try:
            self.params = self._read(raw, codec)
            admit(self.method)
            accept = self.method.accept
            self.context.accepted = None if accept is None else accept(self.context.connection, self.params)
        except Exception as failure:
            self.failure = failure

    def _read(self, raw: object, codec: Codec) -> Any:
        try:
            return codec.read_params(self.method.name, raw)
        except WireShapeError as error:
            raise ProtocolError(Code.INVALID_PARAMS, f"Invalid params: {error}") from None


def _without_validator(name: str) -> None:
    """Allow importing submodules of a package without its `__init__`, until the package itself is imported.

    jsonrpcserver's `__init__` loads jsonschema for a default validator that we do not use: 60 of 190 ms of start-up.
    """
    spec = importlib.util.find_spec(name)
    assert spec is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)


_is_loaded = "jsonrpcserver" in sys.modules
if not _is_loaded:
    _without_validator("jsonrpcserver")
try:
    from jsonrpcserver.async_dispatcher import dispatch_to_response_pure
    from jsonrpcserver.exceptions import JsonRpcError
    from jsonrpcserver.response import to_serializable
    from jsonrpcserver.result import Success
    from jsonrpcserver.sentinels import NODATA
finally:
    if not _is_loaded:
        del sys.modules["jsonrpcserver"]


def _unchanged(message: Any) -> Any:
    return message


class Dispatcher(Generic[C]):
    """Runs the methods of one connection through jsonrpcserver."""

    def __init__(self, methods: Mapping[str, Method[C, Any, Any]], codec: Codec, to_error: ToError) -> None:
        self._codec = codec
        self._to_error = to_error
        self._methods: dict[str, Callable[..., Awaitable[Result]]] = dict.fromkeys(methods, self._run)

    async def dispatch(self, incoming: Incoming[C]) -> dict[str, Any] | None:
        """Return the response to a request, None for a notification. Only raises what ends the process.

        The caller must shield this from cancellation; to cancel a handler, cancel `incoming.scope`.
        """
        message: dict[str, Any] = {"method": incoming.method.name, "params": [incoming.params]}
        if not incoming.is_notification:
            message["id"] = incoming.id
        respond = cast("Callable[..., Awaitable[dict[str, Any] | None]]", dispatch_to_response_pure)
        return await respond(
            deserializer=_unchanged,
            validator=_unchanged,
            methods=self._methods,
            context=incoming,
            post_process=to_serializable,
            request=message,
        )

    async def _run(self, incoming: Incoming[C], params: Any) -> Result:
        error = WireError(Code.CANCELLED, "The request was cancelled")
        try:
            with incoming.scope:
                if incoming.failure is not None:
                    raise incoming.failure
                handler = incoming.method.handler
                result = None if handler is None else await handler(incoming.context, params)
                return Success(self._codec.write_result(incoming.method.name, result))
        except Exception as exc:
            error = self.error_of(exc, incoming.method.name)
        except anyio.get_cancelled_exc_class():
            # Not the handler was cancelled, which its scope absorbs, but something that it awaited. It is answered too.
            pass
        raise JsonRpcError(int(error.code), error.message, NODATA if error.data is None else error.data)

    def error_of(self, exc: Exception, method: str) -> WireError:
        """Return the error for the client, and log internal errors: their sentence, or else a traceback.

        A sentence needs no traceback, which would only hide it on a terminal.
        """
        try:
            error = self._to_error(exc)
        except Exception:
            _log.exception("The error boundary failed")
            error = INTERNAL_ERROR
        if error.message == INTERNAL_ERROR.message:
            _log.error("%s failed", method, exc_info=exc)
        elif error.code == Code.INTERNAL_ERROR:
            _log.error("%s failed: %s", method, error.message)
        return error


def unanswerable(incoming: Incoming[Any]) -> dict[str, Any]:
    """Return the response to a request whose result is not JSON."""
    return error_response(incoming.id, INTERNAL_ERROR)
