"""One reader's queue of what a session publishes, in order, and when a sender has to wait for it.

Filled by the journal, read by an adapter's pump. Must not know what is in it, but for events being pressing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import Final

import anyio

from ...core.ids import Seq
from ...log.events import Event
from .signals import Item

HIGH_WATER: Final = 8_192
"""Items that a subscriber may lag behind before `room` makes the sender wait."""


class Subscription:
    """An ordered, unbounded queue with a single reader; `room` tells a sender when to wait."""

    def __init__(self, after: Seq) -> None:
        """`after` is the last event that was published before."""
        self.after = after
        self.published = 0
        """How many items there have been."""
        self._items: deque[Item] = deque()
        self._arrival = anyio.Event()
        self._pressing = anyio.Event()
        self._taken = anyio.Event()
        self._closed = False

    def put(self, item: Item) -> None:
        """Adds what was published; called by the journal."""
        self._items.append(item)
        self.published += 1
        self._arrival.set()
        if isinstance(item, Event):
            self._pressing.set()

    def close(self) -> None:
        """Ends it after what it was sent so far."""
        self._closed = True
        for event in (self._arrival, self._pressing, self._taken):
            event.set()

    async def room(self) -> None:
        """Waits while the reader lags more than HIGH_WATER items behind."""
        while len(self._items) > HIGH_WATER and not self._closed:
            self._taken = anyio.Event()
            await self._taken.wait()

    async def batches(self, pace: float) -> AsyncIterator[list[Item]]:
        """Everything there is, whenever there is something; ends after `close`.

        After a batch of signals alone the next waits `pace` seconds, so that a stream of small pieces is handed on in
        few batches; an event does not wait.
        """
        while True:
            while not self._items:
                if self._closed:
                    return
                self._arrival = anyio.Event()
                await self._arrival.wait()
            batch = list(self._items)
            self._items.clear()
            self._taken.set()
            self._pressing = anyio.Event()
            yield batch
            if not self._closed and not any(isinstance(item, Event) for item in batch):
                with anyio.move_on_after(pace):
                    await self._pressing.wait()
