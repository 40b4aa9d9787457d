"""Rounds are counted on the log: a model call, a `/tick` and a cell each open one, and no number comes twice."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from engine import Model, Session, Store
from engine.context.model import ModelError, ModelSignal, Prompt
from engine.core.ids import EventId, Seq, SessionId
from engine.log.events.conversation import AgentText, Attachment
from engine.log.events.execution import ExecutionStarted
from engine.log.events.nodes import NodeChanged, NodesTicked, TickApplied
from engine.log.events.session import RoundOpened
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import SessionRow
from tests.support.fixed import FixedClock
from tests.support.models import AnsweringModel, runs, says
from tests.support.sessions import events_of, in_process, session_in, sessions_of

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def begun(tmp_path: Path, model: Model, store: Store | None = None) -> AsyncIterator[Session]:
    async with sessions_of(tmp_path, store, model=model, environments=in_process) as sessions:
        yield await sessions.create(str(tmp_path))


def write(path: Path, text: str) -> None:
    """Writes with a time stamp of its own, so that no clock granularity hides the change."""
    stamp = path.stat().st_mtime_ns + 10**9 if path.exists() else 10**18
    path.write_text(text)
    os.utime(path, ns=(stamp, stamp))


def opened(session: Session) -> list[tuple[int, str]]:
    return [(event.round_id, event.cause) for event in events_of(session, RoundOpened)]


def fails(_: Prompt) -> Sequence[ModelSignal]:
    raise ModelError("no answer")


def last_words(session: Session) -> str:
    return [event.text for event in events_of(session, AgentText)][-1]


async def test_two_ticks_between_two_prompts_see_a_change_each(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    write(file, "one\n")
    async with begun(tmp_path, AnsweringModel(says("ok"))) as session:
        await session.cell("a = view('a.txt', freq='Sync')")
        for text in ("two", "three"):
            write(file, f"{text}\n")
            before = len(session.events)
            await session.accept("/tick").end()
            (changed,) = (event for event in session.events[before:] if isinstance(event, NodeChanged))
            assert f"+{text}" in changed.delta
            # The difference is shown with the event.
            assert last_words(session).endswith("\n- `a`: 1 line changed in a.txt (+1 -1), first at line 1")
        await session.accept("/tick").end()
        assert last_words(session) == "No changes: 1 handle is up to date."


async def test_every_call_tick_and_cell_opens_its_own_round(tmp_path: Path) -> None:
    async with begun(tmp_path, AnsweringModel(runs("x = 1"))) as session:
        await session.cell("a = view('a.txt', freq='Sync')")
        await session.accept("go").end()
        await session.accept("/tick").end()
        await session.tick()
        await session.cell("a.Pause()")
        assert opened(session) == [
            (0, "cell"), (1, "call"), (2, "call"), (3, "tick"), (4, "tick"), (5, "cell"),
        ]  # fmt: skip
        started = [event.round_id for event in events_of(session, ExecutionStarted)]
        ticked = [event.round_id for event in events_of(session, NodesTicked)]
        assert (started, ticked) == ([0, 1, 5], [1, 2, 3, 4])


async def test_tick_during_a_turn_takes_none_of_its_rounds(tmp_path: Path) -> None:
    async with begun(tmp_path, AnsweringModel(runs("x = 1", "y = 2"))) as session:
        await session.cell("a = view('a.txt', freq='Sync')")
        ticket = session.accept("go")
        await session.tick()
        await ticket.end()
        numbers = [number for number, _ in opened(session)]
        assert numbers == list(range(5))
        assert sorted(event.round_id for event in events_of(session, NodesTicked)) == [1, 2, 3, 4]


async def test_tick_during_recording_follows_the_statement(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "one " * 1_000_000)
    async with session_in(tmp_path, environments=in_process, TOKEN="s3cret-of-ours") as session:
        await session.cell("b = view('b.txt', freq='Sync')")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.cell, "a = view('a.txt', freq='Sync')")
            while len(events_of(session, ExecutionStarted)) < 2:
                await anyio.lowlevel.checkpoint()
            tasks.start_soon(session.tick)
        kinds = [event.kind for event in session.events]
        assert kinds.index("nodes_ticked") > len(kinds) - 1 - kinds[::-1].index("execution_finished")


async def test_turn_after_a_failed_call_has_its_own_tick(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "one\n")
    model = AnsweringModel(fails)
    async with begun(tmp_path, model) as session:
        await session.cell("a = view('a.txt', freq='Sync')")
        for text in ("two", "three"):
            write(tmp_path / "a.txt", f"{text}\n")
            await session.accept("go").end()
        assert [event.turn_id for event in events_of(session, TickApplied)] == [1, 2]


async def test_openings_belong_to_the_first_calls_round(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "one\n")
    uri = (tmp_path / "a.txt").as_uri()
    async with begun(tmp_path, AnsweringModel(says("ok"))) as session:
        await session.accept(["look at", Attachment(uri=uri, name="a.txt")]).end()
        assert opened(session) == [(0, "call")]
        assert [event.round_id for event in events_of(session, ExecutionStarted)] == [0]


async def test_older_log_continues_with_unused_numbers(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "one\n")
    store = MemoryStore(FixedClock())
    async with begun(tmp_path, AnsweringModel(runs("a = view('a.txt', freq='Sync')")), store) as session:
        await session.accept("go").end()
        await session.accept("/tick").end()
        # An earlier version gave the tick the number of the call to come, and did not say when a Round began.
        older = [event for event in session.events if not isinstance(event, RoundOpened)]
    older = [replace(event, seq=Seq(seq), event_id=EventId(f"e{seq}")) for seq, event in enumerate(older)]
    row = SessionRow(session_id=SessionId("older"), cwd=str(tmp_path), events=len(older))
    store.add(row, older)
    used = [event.round_id for event in older if isinstance(event, ExecutionStarted | NodesTicked)]
    async with session_in(
        tmp_path, store, load=row.session_id, model=AnsweringModel(says("ok")), environments=in_process
    ) as session:
        await session.accept("more").end()
        await session.accept("and more").end()
        assert max(number for number in used if number is not None) == 2
        assert opened(session) == [(3, "call"), (4, "call")]
