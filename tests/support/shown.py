"""What an editor is shown of events and signals, without a session: the pump over plain values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from msgspec.structs import replace

from acp_adapter import updates
from acp_adapter.pump import Pump
from acp_adapter.shown import NOTHING_SHOWN, Facts, Shown
from acp_adapter.versions import FIRST
from engine import CycleSummary, Item, OptionValues, Subscription
from engine.core.ids import BlobDigest, Seq, StatementId
from engine.core.pictures import Picture, PictureContent
from engine.log.branches import path_of
from engine.log.cycles import CycleFold
from engine.log.events import AnyEvent, Event
from engine.log.events.conversation import RunStop
from engine.log.events.execution import StatementRecorded
from engine.log.events.session import PlanChanged, PlanEntry
from engine.log.facts import Spent
from engine.log.timeline import Timeline
from engine.session.policy import Policy

SECONDS = 60.0
Update = dict[str, Any]


class LoggedFacts:
    """What a session says of itself whose log holds `events`."""

    def __init__(self, cwd: str = "/w", events: Iterable[Event] = ()) -> None:
        self.cwd = cwd
        self.pictures: dict[str, PictureContent] = {}
        """By name."""
        self.answers: dict[str, Sequence[Mapping[str, object]]] = {}
        self._policy = Policy()
        self._events: dict[Seq, Event] = {}
        self._cycles = CycleFold(self._events.__getitem__)
        self._timeline = Timeline(self._events.__getitem__)
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """The next event of the log."""
        self._events[event.seq] = event
        self._policy.apply(event)
        self._cycles.apply(event)
        self._timeline.apply(event)

    def spelled(self, path: str) -> str:
        return path.replace("/real/", "/w/", 1)

    @property
    def plan(self) -> tuple[PlanEntry, ...]:
        path = path_of(list(self._events.values()))
        return next((event.entries for event in reversed(path) if isinstance(event, PlanChanged)), ())

    @property
    def spent(self) -> Spent:
        return Spent()

    def options_at(self, seq: int) -> OptionValues:
        return self._policy.options_at(seq)

    def statement(self, statement_id: StatementId) -> StatementRecorded | None:
        cell = self._timeline.cell(statement_id)
        return None if cell is None else cell.statement

    def picture(self, picture: Picture) -> PictureContent | None:
        return self.pictures.get(picture.name)

    def answer_blocks(self, answer: BlobDigest) -> Sequence[Mapping[str, object]]:
        return self.answers.get(answer, ())

    def cycle_ended_by(self, seq: int) -> CycleSummary | None:
        return self._cycles.ended_by(seq)


def stamped(*events: AnyEvent) -> list[AnyEvent]:
    """The events as a new log has them."""
    return [replace(event, seq=Seq(seq)) for seq, event in enumerate(events)]


WRITER = FIRST.writer(str)
"""Writes updates as version 1 sends them."""


def event_updates(event: AnyEvent, shown: Shown, facts: Facts, *, is_live: bool) -> tuple[Shown, list[Update]]:
    """The next state, and what version 1 sends for an event."""
    shown, made = updates.event_updates(event, shown, facts, is_live=is_live)
    return shown, [*WRITER.live(made)]


def replayed(log: Sequence[AnyEvent], facts: Facts, shown: Shown = NOTHING_SHOWN) -> Iterator[Update]:
    """What version 1 sends of a log."""
    return WRITER.replayed(updates.Replay(log, facts, shown))


def updates_of(*events: AnyEvent, is_live: bool = True, shown: Shown = NOTHING_SHOWN) -> list[Update]:
    """What a new session's editor is shown of these events, which are stamped here."""
    log = stamped(*events)
    facts = LoggedFacts(events=log)
    sent = list[Update]()
    for event in log:
        shown, made = event_updates(event, shown, facts, is_live=is_live)
        sent += made
    return sent


class Screen:
    """An editor's screen in front of a pump."""

    def __init__(self, subscription: Subscription, pump: Pump, facts: LoggedFacts, sent: list[Update]) -> None:
        self._subscription = subscription
        self._facts = facts
        self.pump = pump
        self.sent = sent

    async def show(self, *items: Item) -> list[Update]:
        """Publishes the items one at a time; what was sent for them."""
        before = len(self.sent)
        for item in items:
            if isinstance(item, Event):
                self._facts.add(item)
            self._subscription.put(item)
            await self.pump.caught_up()
        return self.sent[before:]

    async def replay(self, events: list[AnyEvent]) -> list[Update]:
        """What is shown again of a log."""
        before = len(self.sent)
        await self.pump.replay(events)
        return self.sent[before:]


@asynccontextmanager
async def screen(
    cwd: str = "/w",
    history: Iterable[Event] = (),
    *,
    terminals: bool = False,
    between: Callable[[RunStop], Awaitable[None]] | None = None,
) -> AsyncIterator[Screen]:
    """A session's screen; `history` was on its log before it was opened, and was not shown. `between` is the pump's."""
    log = list(history)
    facts, sent = LoggedFacts(cwd, log), list[Update]()

    async def send(update: Update) -> None:
        sent.append(update)
        await anyio.lowlevel.checkpoint()

    subscription = Subscription(Seq(len(log) - 1))
    pump = Pump(subscription, facts, send, WRITER, Shown(terminals=terminals), between)
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pump.run)
            await anyio.lowlevel.checkpoint()
            yield Screen(subscription, pump, facts, sent)
            subscription.close()
