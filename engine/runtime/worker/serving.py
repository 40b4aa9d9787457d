"""The loop of a worker: one request after the other, each with its reply, until the transport ends it.

Owns what is said where a reply cannot be sent or our own code fails. Must not know what the requests mean. Used by
`main` and `runtime.thread_connection`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ...core.domain import Layer
from ...core.execution import ExceptionInfo
from ...log.events.nodes import ContentsAdopted, RevisionAdopted
from .framing import FrameTooLargeError, events_of
from .interpreter import Request
from .protocol import Answer, BufferTexts, Failed, FromWorker, Kept, OutputTaken, Ran, Run, Snapshot, Started
from .statements.effects import Transport


def serve(
    transport: Transport,
    answer: Callable[[Request], FromWorker | None],
    kept: Callable[[str], Kept],
    snapshot: Callable[[], Started | None],
    layers: tuple[Layer, ...] = (),
) -> NoReturn:
    """Says Started and answers one request after the other; ended from within `transport.receive`.

    `layers` hold the process to its domain. What `snapshot` returns is for the host of another process, which
    has been copied from this one.
    """
    transport.send(Started(layers))
    while True:
        request = transport.receive()
        # An answer here is one to a question whose wait was interrupted, and the last is about a replay that is over.
        if isinstance(request, Snapshot):
            if (started := snapshot()) is not None:
                transport.send(started)
        elif not isinstance(request, Answer | BufferTexts | OutputTaken):
            _reply(transport, request, answer)
        if isinstance(request, Run) and request.keeps:
            # After the reply, which the host records meanwhile.
            transport.send(_kept(request.execution_id, kept))


def _kept(execution_id: str, kept: Callable[[str], Kept]) -> Kept:
    try:
        return kept(execution_id)
    except Exception:
        return Kept(execution_id=execution_id, left=True)  # so that the host asks, and is told what failed


def _reply(transport: Transport, request: Request, answer: Callable[[Request], FromWorker | None]) -> None:
    try:
        reply = answer(request)
    except Exception as error:
        reply = Failed(_reason(error))
    if reply is None:
        return
    try:
        transport.send(reply)
    except FrameTooLargeError as error:
        transport.send(_without_record(reply, error) if isinstance(reply, Ran) else Failed(_reason(error)))


def _without_record(ran: Ran, error: FrameTooLargeError) -> Ran:
    """A run whose record is too long to be sent; what its nodes saw stays, because a rebuild could not know it."""
    lost = ExceptionInfo(type="RecordError", message=f"the statement's record was lost: {_reason(error)}")
    events = events_of(ran.events, RevisionAdopted, ContentsAdopted)
    return Ran(execution_id=ran.execution_id, status="error", exception=lost, events=events)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
