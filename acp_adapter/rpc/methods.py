"""What a method is: a row with its params model, what is done when it is read, and its handler.

Knows no single method. Handlers are given a Context and the params as one model, never as loose arguments. The
registry of rows belongs to `handlers`; the peer runs them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio
from msgspec import Struct

from acp_adapter.errors import Code, ProtocolError
from acp_adapter.rpc.messages import RequestId
from acp_adapter.wire.model import WireModel, WireShapeError, from_wire

if TYPE_CHECKING:
    from acp_adapter.rpc.peer import Peer

C = TypeVar("C")
P = TypeVar("P", bound=WireModel)
A = TypeVar("A")
AfterResponse = Callable[[], Awaitable[None]]


class Context(Generic[C, A]):
    """What a handler knows beside its params; one for each request or notification."""

    __slots__ = ("_followups", "accepted", "connection", "peer", "request_id")

    def __init__(self, peer: Peer[C], connection: C, request_id: RequestId) -> None:
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
    the answer to the request, and the handler is not run. `handler(context, params)` returns a model, or None for
    `{}`; it runs in a task of its own, begun in the order in which the lines were read. While an exclusive method is
    served no later line is looked at, until its response has been handed to the transport.
    """

    name: str
    params_model: type[P]
    accept: Callable[[C, P], A] | None
    handler: Callable[[Context[C, A], P], Awaitable[WireModel | None]]
    is_notification: bool = False
    is_exclusive: bool = False


class Incoming(Generic[C]):
    """A request or notification from when it is read until it is answered and followed up."""

    __slots__ = ("answered", "context", "failure", "id", "is_notification", "method", "params", "scope")

    def __init__(self, method: Method[C, Any, Any], context: Context[C, Any], is_notification: bool) -> None:
        self.method = method
        self.context = context
        self.id = context.request_id
        self.is_notification = is_notification
        self.params: WireModel | None = None
        self.failure: Exception | None = None
        self.scope = anyio.CancelScope()
        self.answered = anyio.Event()

    def accept(self, raw: object) -> None:
        """Reads the params and runs the row's `accept`; a failure is kept, to be the answer."""
        try:
            self.params = self._read(raw)
            accept = self.method.accept
            self.context.accepted = None if accept is None else accept(self.context.connection, self.params)
        except Exception as failure:
            self.failure = failure

    def _read(self, raw: object) -> WireModel:
        try:
            return from_wire(self.method.params_model, raw)
        except WireShapeError as error:
            raise ProtocolError(Code.INVALID_PARAMS, f"Invalid params: {error}") from None
