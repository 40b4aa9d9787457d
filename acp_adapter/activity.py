"""Reports whether a session works, waits for its user, or is idle, to clients of versions that have such an update.

Must not know shapes or prompts. Owned by the conversation, which says when work begins and ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from acp_adapter.jsonrpc.messages import Json
from acp_adapter.requests import Activity
from acp_adapter.versions import Writer

T = TypeVar("T")
_IDLE: Final = Activity("idle")
_RUNNING: Final = Activity("running")
_ASKING: Final = Activity("requires_action")


class ActivityReporter:
    """Sends an update when the activity changes."""

    def __init__(self, writer: Writer, send: Callable[[Json], Awaitable[None]]) -> None:
        self._writer = writer
        self._send = send
        self._current = _IDLE
        self._questions = 0

    async def begin(self) -> None:
        """Report that the session works, unless it does already."""
        if self._current.state == "idle":
            await self._change(_RUNNING)

    async def end(self, activity: Activity) -> None:
        """Report that all work has ended, and why."""
        await self._change(activity)

    async def repeat(self) -> None:
        """Report the current activity again."""
        await self._change(self._current)

    async def while_asking(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `ask`, and report meanwhile that the work waits for the user.

        If `ask` is cancelled, the work has ended, so it does not go on.
        """
        if self._current.state == "idle":
            return await ask()
        self._questions += 1
        await self._change(_ASKING)
        goes_on = True
        try:
            return await ask()
        except anyio.get_cancelled_exc_class():
            goes_on = False
            raise
        finally:
            self._questions -= 1
            if goes_on and self._questions == 0 and self._current.state == "requires_action":
                await self._change(_RUNNING)

    async def _change(self, activity: Activity) -> None:
        self._current = activity
        for update in self._writer.activity(activity):
            await self._send(update)
