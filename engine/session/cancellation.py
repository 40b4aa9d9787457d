"""Cancel the one wait of a piece of work, wherever in the session it is.

A turn or a command makes one `Cancellation` when it begins, and passes it to everything that waits on its behalf.
Another task of the same event loop may call `cancel` at any moment. Then:

- The current wait ends. `guard` is for a wait that may be cancelled at any await: a model's stream, a question to the
  user, a rebuild of the namespace. `stoppable` is for a wait that must not be cancelled, because that would leave a
  worker in the middle of an answer. It is asked to stop, and its outcome is still awaited.
- Nothing new begins: both raise WorkCancelledError instead. So a cancel between two waits, or during an unguarded one,
  is not lost, and no caller has to check for it.
- A result of `guard` is dropped if the cancel came too late to interrupt it: the user was told that nothing follows.

There is no fourth case. All of this runs in one thread, tasks switch only at an await, and there is none between the
check of `_is_cancelled` and setting `_stop`. Either `cancel` finds `_stop`, or the check finds the cancel.

Must not know what is cancelled, nor why. Used by the agent loop and its helpers, and by commands.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


class WorkCancelledError(Exception):
    """Raised in cancelled work, where it waits or starts something."""


class Cancellation:
    """The cancellation of one piece of work, which waits for one thing at a time. It cannot be undone."""

    def __init__(self) -> None:
        self._is_cancelled = False
        self._stop: Callable[[], None] | None = None

    def cancel(self) -> None:
        """End the current wait and prevent any other. Only the first call counts."""
        if not self._is_cancelled:
            self._is_cancelled = True
            if self._stop is not None:
                self._stop()

    async def guard(self, perform: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `perform`, which may be cancelled at any await.

        Raises:
            WorkCancelledError: a cancel came before it ended.
        """
        with anyio.CancelScope() as scope:
            result = await self.stoppable(perform, scope.cancel)
            if not self._is_cancelled:
                return result
        raise WorkCancelledError

    async def stoppable(self, perform: Callable[[], Awaitable[T]], stop: Callable[[], None]) -> T:
        """Return the result of `perform`. A cancel calls `stop` and waits on.

        Args:
            perform: must end soon after `stop`, however little of it has happened.
            stop: called at most once, and only while `perform` is awaited.

        Raises:
            WorkCancelledError: a cancel came before; `perform` was not called.
        """
        if self._is_cancelled:
            raise WorkCancelledError
        assert self._stop is None, "another operation is running"
        self._stop = stop
        try:
            return await perform()
        finally:
            self._stop = None


async def shielded(act: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `act`, even if the caller is cancelled meanwhile.

    The caller's cancel takes effect afterwards.
    """
    given: list[T] = []
    with anyio.CancelScope(shield=True):
        given.append(await act())
    return given[0]
