"""What a method is: a row with what is done when it is read, and its handler; and what both are given.

Knows no single method and no shape of the wire: params are read and results written by the connection's Codec.
Handlers are given a Context and the params as one value, never as loose arguments. The registry of rows belongs to
`handlers`; the peer runs them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import anyio
from msgspec import Struct

from acp_adapter.rpc.errors import Code, ProtocolError, WireShapeError
from acp_adapter.rpc.messages import RequestId

C = TypeVar("C")
P = TypeVar("P")
A = TypeVar("A")
R = TypeVar("R")
AfterResponse = Callable[[], Awaitable[None]]


class Codec(Protocol):
    """Params and results of the methods of one protocol, between JSON and the values that handlers know."""

    def read_params(self, method: str, params: object) -> Any:
        """The params of a call, `None` where it had none. Raises WireShapeError or ProtocolError."""
        ...

    def write_result(self, method: str, result: Any) -> Mapping[str, Any]:
        """The JSON object that answers a call; `None` is a result too."""
        ...


class Remote(Protocol):
    """The other side of the connection, as handlers see it."""

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Sends a notification; waits while too much is queued."""
        ...

    async def request(
        self, method: str, params: Mapping[str, Any], read: Callable[[object], R], deadline: float | None = None
    ) -> R:
        """Asks and waits for the answer, which `read` turns into a value."""
        ...

    def close(self) -> None:
        """Stops reading, as if the other side had closed its end."""
        ...


class Context(Generic[C, A]):
    """What a handler knows beside its params; one for each request or notification."""

    __slots__ = ("_followups", "accepted", "connection", "peer", "request_id")

    def __init__(self, peer: Remote, connection: C, request_id: RequestId) -> None:
        self.peer = peer
        self.connection = connection
        self.request_id = request_id
        """None for a notification, and for a request whose id is null."""
        self.accepted: A
        """What `accept` returned when the line was read; None for a row without `accept`."""
        self._followups: list[AfterResponse] = []

    def after_response(self, followup: AfterResponse) -> None:
        """Has `followup` awaited once the response has been handed to the transport.

        Several run one after the other, in the order of these calls; none runs if the request fails or the client is
        gone. For a notification they run when its handler returns.
        """
        self._followups.append(followup)

    @property
    def followups(self) -> tuple[AfterResponse, ...]:
        return tuple(self._followups)


class Method(Struct, Generic[C, P, A], frozen=True):
    """One row of the registry.

    `accept(connection, params)` runs while the line is read, before any later line is looked at; what it raises is
    the answer to the request, and the handler is not run. `handler(context, params)` returns a result for the codec;
    it runs in a task of its own, begun in the order in which the lines were read. While an exclusive method is served
    no later line is looked at, until its response has been handed to the transport. `needs_initialization` is for
    the connection's `admit`, which the peer asks about every call.
    """

    name: str
    accept: Callable[[C, P], A] | None
    handler: Callable[[Context[C, A], P], Awaitable[object]]
    is_notification: bool = False
    is_exclusive: bool = False
    needs_initialization: bool = True


Admit = Callable[[Method[Any, Any, Any]], None]
"""Says whether a method may be called now; raises ProtocolError where it may not."""


class Incoming(Generic[C]):
    """A request or notification from when it is read until it is answered and followed up."""

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
        """Reads the params, has the call admitted and runs the row's `accept`; a failure is kept, to be the answer."""
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
