"""Has everything that a session publishes shown, in order, and knows how far that is.

A question is asked when everything before it was shown, and the next line is read when everything of the turn was.
Must not know what an item looks like. One per session and terminal.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio

from ...core.errors import SessionReadOnlyError
from ...core.ids import Seq
from ...log.events import Event
from ...session.publishing.signals import Item
from ...session.publishing.subscription import Subscription
from ...session.session import Session
from ...session.tickets import TurnEnd

FRAME_SECONDS: Final = 1 / 30


class Pump:
    """Moves items from a subscription to `show` until the subscription ends.

    Args:
        failed: called once with what `show` raised: nothing is shown after that, and nobody waits for it any more.
    """

    def __init__(
        self, subscription: Subscription, show: Callable[[Item], None], failed: Callable[[OSError], None]
    ) -> None:
        self._subscription = subscription
        self._show = show
        self._failed = failed
        self._shown = subscription.after
        self._handled = 0
        self._is_over = False
        self._progress = anyio.Event()

    async def run(self) -> None:
        """Shows what is published until the subscription ends."""
        try:
            async for batch in self._subscription.batches(FRAME_SECONDS):
                for item in batch:
                    self._show(item)
                    if isinstance(item, Event):
                        self._shown = item.seq
                self._handled += len(batch)
                self._advance()
        except OSError as error:
            self._failed(error)
        finally:
            self._is_over = True
            self._advance()

    async def shown(self, seq: Seq) -> None:
        """Waits until everything up to the event at `seq` was shown, or nothing more will be."""
        while not self._is_over and self._shown < seq:
            await self._progress.wait()

    async def finished(self, session: Session, end: TurnEnd) -> None:
        """Waits until everything that belongs to the turn was shown."""
        # A session that has become read-only will never publish what it could not commit.
        with suppress(SessionReadOnlyError):
            await session.durable(end.seq)
            await self.shown(end.seq)
            await self._caught_up()

    async def _caught_up(self) -> None:
        """Waits until everything that was published so far was shown, or nothing more will be."""
        published = self._subscription.published
        while not self._is_over and self._handled < published:
            await self._progress.wait()

    def _advance(self) -> None:
        progress, self._progress = self._progress, anyio.Event()
        progress.set()
