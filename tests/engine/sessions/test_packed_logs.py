"""A session whose old events are packed answers as one whose events are as they were taken, whatever its branches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine import event_list
from engine.branches import path_of
from engine.cycles import CycleFold, to_json
from engine.events import Event
from engine.events.conversation import RunStop
from engine.ids import BranchId, Seq, SessionId
from engine.log import EventLog
from engine.projection.news import LogNews
from engine.sessions.branch_rows import BranchStatements, branch_rows
from engine.sessions.past.branch_diff import diff
from engine.sessions.session import Session
from engine.store.memory import MemoryStore
from engine.timeline.index import Timeline
from engine.timeline.replay import History
from tests.support.fixed import FixedClock
from tests.support.sessions import sessions_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
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
def packs_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of four events, of which all but the newest two are packed at once, and one is unpacked at a time."""
    for name, value in {"BLOCK": 4, "NEWEST": 2, "_EVERY": 1, "_OPENED": 1}.items():
        monkeypatch.setattr(event_list, name, value)


def change(session: Session, number: int) -> None:
    Path(session.cwd, "a.txt").write_text(f"{number}\n")


async def play(session: Session, chance: random.Random, steps: int) -> None:
    """Statements, ticks, rewinds, replays, edits and branches, in an order that chance gives."""
    for number in range(2, steps + 2):
        count = len(session.cells)
        match chance.choice(("run", "run", "run", "run", "tick", "command")):
            case "run":
                await session.cell(chance.choice(SOURCES).format(n=number))
            case "tick":
                change(session, number)
                await session.tick()
            case _:
                at, other = chance.randint(1, max(count, 1)), chance.choice(session.branches).name
                commands = (
                    f"/rewind {at}",
                    f"/replay {at}",
                    f"/edit {at}\nx = {number}",
                    f"/branch {other}",
                    f"/omit {at}",
                )
                await session.accept(chance.choice(commands)).end()


def meaning(log: EventLog, timeline: Timeline) -> Sequence[object]:
    """What may be asked of a log and of what follows it."""
    statements, cycles, news = BranchStatements(), CycleFold(log.at), LogNews(timeline)
    log.follow(statements.apply, BranchStatements.FOLLOWS)
    log.follow_path(cycles, CycleFold.FOLLOWS)
    log.follow_path(news)
    names: list[BranchId] = [branch.name for branch in log.branches.all]
    return [
        [(each.statement, each.started, each.finished, each.omitted, len(each.executions)) for each in timeline.cells],
        [[run.divergences for run in cell.executions] for cell in timeline.cells],
        to_json(cycles.model),
        news.news,
        History.of(log.events, log.branches.holds).plan(1.0),
        branch_rows(log.branches, statements),
        [tuple(log.branches.path(log.events, name)) for name in names],
        [diff(log.events, log.branches, names[0], name).names for name in names[1:]],
        tuple(map(log.at, map(Seq, reversed(range(len(log)))))),
    ]


def loaded(events: Sequence[Event]) -> tuple[EventLog, Timeline]:
    log = EventLog(FixedClock(), lambda event: None)
    timeline = Timeline(log.at)
    log.follow_path(timeline, Timeline.FOLLOWS)
    log.load(events)
    return log, timeline


@pytest.mark.parametrize("seed", range(4))
async def test_a_random_session_with_branches_and_a_load_is_what_its_events_say(tmp_path: Path, seed: int) -> None:
    store, chance = MemoryStore(FixedClock()), random.Random(seed)
    (tmp_path / "a.txt").write_text("one\n")
    session_id: SessionId | None = None
    live: Sequence[object] = ()
    for _ in range(2):
        async with sessions_of(tmp_path, store) as sessions:
            session = await (sessions.create(str(tmp_path)) if session_id is None else sessions.load(session_id))
            session_id = session.session_id
            await play(session, chance, 25)
            events, cells, rows = list(session.events), session.cells, session.branches
            live = [(each.statement, each.started, each.finished, each.omitted, len(each.executions)) for each in cells]
            assert session.path == tuple(path_of(events))
            assert [session.since(seq)[0] for seq in range(len(events))] == events
        assert store.load(session_id)[: len(events)] == events
    packed, timeline = loaded(events)
    for _ in events:  # each packs a block
        packed.append(RunStop(reason="completed", cause="end_turn"))
    whole, other = loaded(list(packed.events))
    found = meaning(packed, timeline)
    assert found == meaning(whole, other)
    assert live == found[0]
    assert list(rows) == found[5]
