"""Carries what a session publishes to the editor: in order, merged, and never faster than an editor can draw.

The first piece of a stream goes out at once; pieces that follow within a frame are joined. Knows when everything up to
an event was sent, which is what a prompt's response has to wait for, and what a replay goes up to. One per open
session. Must not know the protocol: what is sent for an event is written by the connection's codec.

The pump owns what has been shown (`wire.shown`) and what is being streamed (`streams`). `run` and `replay` share one
lock, so that a replay begins and ends between two batches: it translates the log from its start up to the last event
that was sent, adds what is being streamed, and leaves what has been shown at the state it ends with. Whatever is on
the log and not sent yet comes through `run` afterwards, so nothing is missing and nothing comes twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import Final, cast

import anyio

from acp_adapter.facts import Facts
from acp_adapter.streams import Streams
from acp_adapter.wire.codec import Codec, Json
from acp_adapter.wire.shown import Shown
from engine import (
    FilesPutBack,
    Item,
    ModelRetried,
    OutputStreamed,
    ReasoningStreamed,
    Seq,
    StatementRerun,
    Subscription,
    TextStreamed,
    path_of,
)
from engine.log.events import AnyEvent, Event
from engine.log.events.session import ConfigChanged, ModeChanged, TitleChanged

FRAME_SECONDS: Final = 1 / 60
_OF_ALL_BRANCHES: Final = (ModeChanged, ConfigChanged, TitleChanged)

Send = Callable[[Json], Awaitable[None]]
"""Sends one update; waits while the editor does not read."""


class State(Enum):
    """Whether anything is sent. Who waits for something to be sent goes on when it is over."""

    WAITING = auto()
    """Not yet: the client has not been told of the session."""
    SENDING = auto()
    OVER = auto()
    """The subscription has ended; or nothing was sent so far, and perhaps never will be."""


class Pump:
    """Moves items from a subscription to the editor until the subscription ends."""

    def __init__(self, subscription: Subscription, codec: Codec, facts: Facts, send: Send) -> None:
        self._subscription = subscription
        self._codec = codec
        self._facts = facts
        self._send = send
        self._nothing = Shown(terminals=codec.terminals)
        self._shown = self._nothing
        self._streams = Streams()
        self._sent = subscription.after
        self._handled = 0
        self._progress = anyio.Event()
        self._state = State.WAITING
        self._turn = anyio.Lock(fast_acquire=True)

    async def run(self) -> None:
        """Sends what is published until the subscription ends."""
        self._state = State.SENDING
        try:
            async for batch in self._subscription.batches(FRAME_SECONDS):
                async with self._turn:
                    for item in merged(batch):
                        for update in self._live_updates(item):
                            await self._send(update)
                        if isinstance(item, Event):
                            self._advance(item.seq)
                self._handled += len(batch)
                self._advance(self._sent)
        finally:
            self._state = State.OVER
            self._advance(self._sent)

    def give_up(self) -> None:
        """Has nobody wait for `run`, where it was not called."""
        if self._state is State.WAITING:
            self._state = State.OVER
            self._advance(self._sent)

    def _live_updates(self, item: Item) -> Sequence[Json]:
        match item:
            case TextStreamed() | ReasoningStreamed():
                self._streams.add(item)
                return [self._codec.updates.message_update(item)]
            case OutputStreamed():
                text = self._streams.printed(item)
                return self._codec.updates.output_updates(item.tool_call_id, item.text, text, self._shown)
            case StatementRerun():
                return [self._codec.updates.rerun_update(item)]
            case FilesPutBack() | ModelRetried():
                return []  # what became of them is told when it is known
            case _:
                event = cast("AnyEvent", item)
                self._streams.end(event)
                self._shown, updates = self._codec.updates.event_updates(event, self._shown, self._facts, is_live=True)
                return updates

    async def replay(self, events: Sequence[AnyEvent]) -> None:
        """Shows what was sent so far of the branch that was active then, as it stands by now; `events` is the log."""
        async with self._turn:
            path = path_of(events[: self._sent + 1], _OF_ALL_BRANCHES)
            replay = self._codec.updates.replay(path, self._facts, self._nothing)
            for update in replay:
                await self._send(update)
            self._shown = replay.shown
            for piece in self._streams.messages:
                await self._send(self._codec.updates.message_update(piece))
            for call, text in self._streams.output:
                for update in self._codec.updates.output_updates(call, text, text, self._shown):
                    await self._send(update)

    async def show(self, events: Sequence[AnyEvent]) -> None:
        """Sends what events say that were on the log before the subscription began, as if they happened now."""
        async with self._turn:
            for event in events:
                self._shown, updates = self._codec.updates.event_updates(event, self._shown, self._facts, is_live=True)
                for update in updates:
                    await self._send(update)

    async def sent(self, seq: Seq) -> None:
        """Waits until everything up to the event at `seq` was sent, or nothing more will be."""
        while self._state is State.WAITING or (self._state is State.SENDING and self._sent < seq):
            await self._progress.wait()

    async def caught_up(self) -> None:
        """Waits until everything that was published so far, signals included, was sent, or nothing more will be."""
        published = self._subscription.published
        while self._state is State.SENDING and self._handled < published:
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
