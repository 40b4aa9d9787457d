"""A request to a worker that may call code of the statements' own, and is no statement: interrupted when it takes long.

An interrupt may come when the request is answered already; `forget_interrupts` then keeps it from the next statement,
as at the end of a statement that was stopped (`statement_run` says why that is enough). Must not know what is asked.
Used by `connected_environment` and `attempt`, and the last step by `statement_run`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from .connection import Connection, Received
from .death import Death
from .worker.protocol import CleanedUp, CleanUp, ToWorker

Answer = TypeVar("Answer")

REPEAT_SECONDS: Final = 0.1
"""Between two interrupts: one that comes just before a system call does not end that call."""
GRACE_SECONDS: Final = 5.0
"""After the first interrupt, before the worker is ended."""
LOADING_SECONDS: Final = 10.0
"""How long loading values may take before it is interrupted."""
_CLEAN_UP_SECONDS: Final = 5.0


async def ask(worker: Connection, message: ToWorker, seconds: float) -> Received:
    """The answer, or how the worker ended. After `seconds` it is interrupted, until the grace is over.

    A cancelled request ends the worker, who would be out of step.
    """
    worker.send(message)
    return await wait_for(worker, worker.receive, seconds)


async def wait_for(
    worker: Connection, receive: Callable[[anyio.CancelScope], Awaitable[Answer | None]], seconds: float
) -> Answer | Death:
    """The same for what comes without a request: `receive` is as `Connection.receive`."""
    try:
        answer = await receive(anyio.move_on_after(seconds))
        if answer is not None:
            worker.drain()
            return answer
        with anyio.move_on_after(GRACE_SECONDS):
            while answer is None:
                worker.interrupt()
                answer = await receive(anyio.move_on_after(REPEAT_SECONDS))
    except BaseException:
        await worker.kill()
        raise
    if answer is None:
        return await worker.kill()
    await forget_interrupts(worker)
    worker.drain()
    return answer


async def forget_interrupts(worker: Connection) -> None:
    """Has an idle worker forget an interrupt that came too late, and end what was started since the last statement."""
    if worker.dead:
        return
    with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_UP_SECONDS) as limit:
        await worker.acknowledged()
        worker.send(CleanUp())
        while not isinstance(await worker.receive(anyio.CancelScope()), (CleanedUp, Death)):
            pass
    if limit.cancelled_caught:
        await worker.kill()
