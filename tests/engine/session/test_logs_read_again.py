"""A session whose old events are read again answers as one that has all of them, whatever its branches."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from engine.context.model import ModelSignal, Prompt, StatementAsked, TextDelta
from engine.context.tail.feed import LogNews
from engine.core.errors import StoreError
from engine.core.ids import BranchId, Seq, SessionId
from engine.log import event_log
from engine.log.branches import branch_rows, path_of
from engine.log.cycles import CycleFold, to_json
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.codec import decode, encode
from engine.log.events.conversation import RunStop
from engine.log.facts import SessionFacts
from engine.log.rebuild_plan import History
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import Store
from engine.log.timeline import Cell, Timeline
from engine.session.journal import Journal, StoredEvents
from engine.session.past.branch_diff import diff
from engine.session.session import Session
from tests.support.fixed import FixedClock
from tests.support.models import AnsweringModel, says
from tests.support.sessions import LentStore, sessions_of
from tests.support.timelines import timeline_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SMALL: dict[str, object] = {"context_budget": 4_000}
SOURCES = (
    "x = {n}",
    "y = [x, {n}]",
    "print(y)",
    "v = view('a.txt', tokens={n}0)",
    "v.Scroll(1); show(v)",
    "1 / 0",
    "del y",
)


@pytest.fixture(autouse=True)
def lets_go_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of four events, of which all but the newest two go at once, and none of which stays in memory again."""
    for name, value in {"BLOCK": 4, "NEWEST": 2, "_EVERY": 1, "_READ": 0}.items():
        monkeypatch.setattr(event_log, name, value)


@pytest.fixture
def folds_read_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No read model asks for an old event while it takes one: the store might fail, and leave it behind the log."""
    append, write, between = EventLog.append, Journal.write, StoredEvents.between
    under_way: list[Event] = []
    read_during: set[str] = set()

    def appended(self: EventLog, event: Event) -> Seq:
        try:
            return append(self, event)
        finally:
            under_way.clear()

    def written(self: Journal, event: Event) -> None:
        write(self, event)
        under_way.append(event)

    def read(self: StoredEvents, start: int, end: int) -> Sequence[Event]:
        read_during.update(event.kind for event in under_way)
        return between(self, start, end)

    monkeypatch.setattr(EventLog, "append", appended)
    monkeypatch.setattr(Journal, "write", written)
    monkeypatch.setattr(StoredEvents, "between", read)
    yield
    assert not read_during


def change(session: Session, number: int) -> None:
    Path(session.cwd, "a.txt").write_text(f"{number}\n")


async def play(session: Session, chance: random.Random, numbers: range) -> None:
    """Statements, a model's among them, ticks, rewinds, replays, edits and branches, in an order that chance gives."""
    session.set_mode("auto")
    for number in numbers:
        count, kind = len(session.cells), chance.choice(("run", "run", "run", "ask", "tick", "command"))
        at, other = chance.randint(1, max(count, 1)), chance.choice(session.branches).name
        commands = (
            f"/rewind {at}",
            f"/replay {at}",
            f"/replay {at} --live",
            "/compact",
            f"/edit {at}\nx = {number}",
            f"/branch {other}",
            f"/omit {at}",
        )
        with suppress(StoreError):  # where the test has it fail
            match kind:
                case "ask":
                    await session.accept("go on").end()
                case "run":
                    await session.cell(chance.choice(SOURCES).format(n=number))
                case "tick":
                    change(session, number)
                    await session.tick()
                case _:
                    await session.accept(chance.choice(commands)).end()


def model_of(chance: random.Random) -> AnsweringModel:
    """One that mostly runs a statement, and sums up when it is asked to."""

    def answer(prompt: Prompt) -> Sequence[ModelSignal]:
        if chance.random() < 0.3:
            return [TextDelta("done " * 200)]
        return [StatementAsked(chance.choice(SOURCES).format(n=chance.randint(1, 99)))]

    return AnsweringModel(answer, says("All went well."))


def rows_of(cells: Sequence[Cell]) -> Sequence[object]:
    """What is known of statements."""
    return [(each.statement, each.started, each.finished, each.omitted, len(each.executions)) for each in cells]


def meaning(log: EventLog, timeline: Timeline) -> Sequence[object]:
    """What may be asked of a log and of what follows it."""
    facts, cycles, news = SessionFacts(), CycleFold(log.at), LogNews(timeline)
    log.follow(facts.apply, SessionFacts.FOLLOWS)
    log.follow_path(cycles, CycleFold.FOLLOWS)
    log.follow_path(news)
    names: list[BranchId] = [branch.name for branch in log.branches.all]
    return [
        rows_of(timeline.cells),
        [[run.divergences for run in cell.executions] for cell in timeline.cells],
        to_json(cycles.model),
        news.news,
        History.of(log.events, log.branches.holds).plan(1.0),
        branch_rows(log.branches, facts.statements_below),
        [tuple(log.branches.path(log.events, name)) for name in names],
        [diff(log.events, log.branches, names[0], name).names for name in names[1:]],
        tuple(map(log.at, map(Seq, reversed(range(len(log)))))),
    ]


class Written(list[Event]):
    """Events that were made durable, and are read again."""

    def __init__(self, events: Sequence[Event]) -> None:
        super().__init__(events)
        self.reads = 0

    @property
    def kept(self) -> int:
        return len(self)

    def between(self, start: int, end: int) -> Sequence[Event]:
        self.reads += 1
        return [decode(encode(event)) for event in self[start:end]]


def loaded(events: Sequence[Event], written: Written | None = None) -> tuple[EventLog, Timeline]:
    log = EventLog(FixedClock(), lambda event: None if written is None else written.append(event), backing=written)
    timeline = Timeline(log.at)
    log.follow_path(timeline, Timeline.FOLLOWS)
    log.load(events)
    return log, timeline


@pytest.mark.usefixtures("folds_read_nothing")
@pytest.mark.parametrize("seed", range(4))
async def test_a_random_session_with_branches_and_a_load_is_what_its_events_say(tmp_path: Path, seed: int) -> None:
    store, chance = MemoryStore(FixedClock()), random.Random(seed)
    (tmp_path / "a.txt").write_text("one\n")
    session_id: SessionId | None = None
    live: Sequence[object] = ()
    for _ in range(2):
        async with sessions_of(tmp_path, store, model=model_of(chance), settings=SMALL) as sessions:
            session = await (sessions.create(str(tmp_path)) if session_id is None else sessions.load(session_id))
            session_id = session.session_id
            await play(session, chance, range(2, 27))
            events, rows, live = list(session.events), session.branches, rows_of(session.cells)
            assert session.path == tuple(path_of(events))
            assert [session.since(seq)[0] for seq in range(len(events))] == events
        assert store.load(session_id)[: len(events)] == events
    written = Written(events)
    partly, timeline = loaded(events, written)
    for _ in events:  # each lets a block go
        partly.append(RunStop(reason="completed", cause="end_turn"))
    whole, other = loaded(list(partly.events))
    found = meaning(partly, timeline)
    assert written.reads > len(events) / 4
    assert found == meaning(whole, other)
    assert live == found[0]
    assert list(rows) == found[5]


class Unreadable(LentStore):
    """A store that old events cannot be read from when so many reads more were tried."""

    left: int | None = None
    refused = 0

    def load(self, session_id: SessionId, since: int = 0, limit: int | None = None) -> Sequence[Event]:
        """As in the port, but that it fails."""
        if self.left is not None and limit is not None:
            self.left -= 1
            if self.left < 0:
                self.refused += 1
                raise StoreError("the disk failed")
        return self._store.load(session_id, since, limit)


@pytest.mark.parametrize("reads", [0, 5, 40])
async def test_a_store_that_cannot_be_read_for_a_while_leaves_no_read_model_behind(tmp_path: Path, reads: int) -> None:
    store, chance = Unreadable(MemoryStore(FixedClock())), random.Random(3)
    (tmp_path / "a.txt").write_text("one\n")
    async with sessions_of(tmp_path, cast("Store", store), model=model_of(chance), settings=SMALL) as sessions:
        session = await sessions.create(str(tmp_path))
        await play(session, chance, range(2, 20))
        store.left = reads
        await play(session, chance, range(20, 35))
        store.left = None
        assert store.refused > 2
        events = list(session.events)
        assert rows_of(session.cells) == rows_of(timeline_of(path_of(events)).cells)
        assert (await session.cell("print(1)")).status == "ok"
        events = list(session.events)
        assert rows_of(session.cells) == rows_of(timeline_of(path_of(events)).cells)
    assert store.load(session.session_id)[: len(events)] == events
