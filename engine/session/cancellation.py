"""How a cancel reaches the one thing that is being waited for, wherever in a session that is.

A piece of work (a turn, the answer to a command) makes one `Cancellation` when it begins and passes it down to whatever
waits on its behalf. `cancel` may then be called at any moment, by another task of the same event loop:

- What is awaited right now ends. `guard` is for what may be torn at any await: a model's stream, a question to the
  user, the rebuilding of a namespace. `stoppable` is for what must not be torn, because it would leave a worker in the
  middle of an answer: it is told to stop, and its outcome still awaited.
- Nothing new begins: both then raise WorkCancelledError instead. So a cancel that comes between two waits, or during
  one that is under neither, is not lost, and nobody has to ask whether there was one.
- What `guard` waited for is dropped where the cancel came too late to tear it: the user was told that nothing follows.

There is no fourth moment: all of this runs in one thread, tasks change only at an await, and there is none between the
look at `_is_cancelled` and the note of what is to be stopped. Either `cancel` finds the note, or the look finds the
cancel.

Must not know what is cancelled, nor why. Used by the agent loop and what works for it, and by the session's commands.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


class WorkCancelledError(Exception):
    """Raised in work that was cancelled, where it waits or wants to begin something."""


class Cancellation:
    """Of one piece of work, which waits for one thing at a time. There is no way back: the next work has its own."""

    def __init__(self) -> None:
        self._is_cancelled = False
        self._stop: Callable[[], None] | None = None

    def cancel(self) -> None:
        """Ends what is awaited and keeps anything else from beginning; only the first call counts."""
        if not self._is_cancelled:
            self._is_cancelled = True
            if self._stop is not None:
                self._stop()

    async def guard(self, perform: Callable[[], Awaitable[T]]) -> T:
        """What comes of `perform`, which may be torn at any await.

        Raises:
            WorkCancelledError: a cancel came before, or by the time it ended.
        """
        with anyio.CancelScope() as scope:
            result = await self.stoppable(perform, scope.cancel)
            if not self._is_cancelled:
                return result
        raise WorkCancelledError

    async def stoppable(self, perform: Callable[[], Awaitable[T]], stop: Callable[[], None]) -> T:
        """What comes of `perform`, also after a cancel, which calls `stop` and waits on.

        Args:
            perform: has to end soon once `stop` was called, however little of it has happened by then.
            stop: called once at most, and only while `perform` is awaited.

        Raises:
            WorkCancelledError: a cancel came before; `perform` was not called.
        """
        if self._is_cancelled:
            raise WorkCancelledError
        assert self._stop is None, "one thing at a time"
        self._stop = stop
        try:
            return await perform()
        finally:
            self._stop = None


async def to_the_end(act: Callable[[], Awaitable[T]]) -> T:
    """What `act` gives, also when whoever waits for it is cancelled meanwhile; the cancel counts after that."""
    given: list[T] = []
    with anyio.CancelScope(shield=True):
        given.append(await act())
    return given[0]
