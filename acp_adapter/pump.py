"""Carries what a session publishes to the editor: in order, merged, and never faster than an editor can draw.

The first piece of a stream goes out at once; pieces that follow within a frame are joined. Knows when everything up to
an event was handed to the peer, which is what a prompt's response has to wait for, and what a replay goes up to. One
per open session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import anyio

from acp_adapter.updates import Updates
from acp_adapter.wire.model import to_wire
from engine.events import Event
from engine.ids import Seq
from engine.sessions.session import Session
from engine.sessions.signals import Item, OutputStreamed, ReasoningStreamed, TextStreamed
from engine.sessions.subscription import Subscription

FRAME_SECONDS: Final = 1 / 60

Send = Callable[[dict[str, Any]], Awaitable[None]]
"""Hands one update, as JSON, to the peer; waits while the editor does not read."""


class Pump:
    """Moves items from a subscription to the peer until the subscription ends."""

    def __init__(self, subscription: Subscription, updates: Updates, send: Send) -> None:
        self._subscription = subscription
        self._updates = updates
        self._send = send
        self._sent = subscription.after
        self._handled = 0
        self._progress = anyio.Event()
        self._ended = False
        self._turn = anyio.Lock()

    async def run(self) -> None:
        try:
            async for batch in self._subscription.batches(FRAME_SECONDS):
                async with self._turn:
                    for item in merged(batch):
                        for update in self._updates.live(item):
                            await self._send(to_wire(update))
                        if isinstance(item, Event):
                            self._advance(item.seq)
                self._handled += len(batch)
                self._advance(self._sent)
        finally:
            self._ended = True
            self._advance(self._sent)

    async def replay(self, session: Session, updates: Updates) -> None:
        """Shows again, through the fresh `updates`, what was shown so far; `run` pauses and then goes on after it.

        What is on the log and not shown yet is left to `run`, so that nothing is missing and nothing comes twice.
        """
        async with self._turn:
            for event in session.events[: self._sent + 1]:
                for update in updates.replayed(event):
                    await self._send(to_wire(update))
            for update in self._updates.unfinished():
                await self._send(to_wire(update))

    async def sent(self, seq: Seq) -> None:
        """Waits until everything up to the event at `seq` was handed to the peer, or nothing more will be."""
        while self._sent < seq and not self._ended:
            await self._progress.wait()

    async def caught_up(self) -> None:
        """Waits until everything that was published so far, signals included, was handed to the peer."""
        published = self._subscription.published
        while self._handled < published and not self._ended:
            await self._progress.wait()

    def _advance(self, seq: Seq) -> None:
        self._sent = seq
        progress, self._progress = self._progress, anyio.Event()
        progress.set()


def merged(batch: Sequence[Item]) -> list[Item]:
    """The batch with adjacent pieces of the same stream joined into one."""
    result: list[Item] = []
    for item in batch:
        joined = _join(result[-1], item) if result else None
        if joined is None:
            result.append(item)
        else:
            result[-1] = joined
    return result


def _join(first: Item, second: Item) -> Item | None:
    match first, second:
        case TextStreamed(message_id=a), TextStreamed(message_id=b) if a == b:
            return TextStreamed(a, first.text + second.text)
        case ReasoningStreamed(message_id=a), ReasoningStreamed(message_id=b) if a == b:
            return ReasoningStreamed(a, first.text + second.text)
        case OutputStreamed(tool_call_id=a, stream=stream), OutputStreamed(tool_call_id=b, stream=other) if (
            a == b and stream == other
        ):
            return OutputStreamed(a, stream, first.text + second.text)
        case _:
            return None
