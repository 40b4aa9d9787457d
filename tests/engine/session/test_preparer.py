"""What nodes wish for is prepared beside statements and ticks, is on the log before a tick is given it, and lasts."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from engine import Environment, Session, Store
from engine.core.ids import SessionId
from engine.log.events import Event
from engine.log.events.nodes import AsyncPayloadApplied, AsyncPayloadDropped, AsyncPayloadPrepared, RevisionAdopted
from engine.log.statements import PAYLOAD_BYTES
from engine.log.store.memory import MemoryStore
from tests.support.fixed import FixedClock
from tests.support.in_process import InProcessEnvironment
from tests.support.sessions import sessions_of
from tests.support.workers import PATIENCE

E = TypeVar("E", bound=Event)
pytestmark = pytest.mark.anyio
SECRET = "s3cret-of-ours"


def _in_process() -> Environment:
    return InProcessEnvironment(len)


@pytest.fixture
def store() -> Store:
    return MemoryStore(FixedClock())


@asynccontextmanager
async def begun(
    tmp_path: Path, store: Store, source: str = "a = view('a.txt', freq='Async')"
) -> AsyncIterator[Session]:
    """A session whose views have been ticked once, so that it is known what they wish for."""
    async with sessions_of(tmp_path, store, environments=_in_process, TOKEN=SECRET) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell(source)
        await session.tick()
        yield session


@asynccontextmanager
async def loaded(tmp_path: Path, store: Store, session_id: SessionId) -> AsyncIterator[Session]:
    async with sessions_of(tmp_path, store, environments=_in_process, TOKEN=SECRET) as sessions:
        yield await sessions.load(session_id)


def write(path: Path, data: bytes) -> None:
    """Writes at once, so that nobody sees it empty, and with a time stamp that no clock granularity hides."""
    stamp = path.stat().st_mtime_ns + 10**9 if path.exists() else 10**18
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(data)
    os.utime(new, ns=(stamp, stamp))
    new.replace(path)


def of(session: Session, kind: type[E]) -> list[E]:
    return [event for event in session.events if isinstance(event, kind)]


async def until(session: Session, holds: Callable[[], bool]) -> None:
    """Waits for an event after which it holds."""
    with anyio.fail_after(PATIENCE):
        subscription = session.subscribe()
        while not holds():
            async for _ in subscription.batches(0):
                break


async def prepared(session: Session, count: int = 1) -> AsyncPayloadPrepared:
    """A statement ends, which is a cue; what comes of it."""
    await session.cell("None")
    await until(session, lambda: len(of(session, AsyncPayloadPrepared)) >= count)
    return of(session, AsyncPayloadPrepared)[-1]


async def text(session: Session, name: str = "a") -> str:
    finished = await session.cell(f"print({name}.Render().text, end='')")
    assert finished.exception is None, finished.exception
    return finished.stdout.text


async def test_a_changed_file_is_read_between_ticks_and_shown_by_the_next(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "a.txt"
    write(file, b"one\n")
    async with begun(tmp_path, store) as session:
        write(file, b"two\n")
        payload = await prepared(session)
        assert (payload.payload_kind, payload.obj_id) == ("render", "view-1.1")
        assert payload.data is not None
        assert store.blob_get(payload.data) == b"two\n"
        assert await text(session) == "1\tone\n"
        await session.tick()
        assert await text(session) == "1\ttwo\n"
        assert [event.payload_id for event in of(session, AsyncPayloadApplied)] == [payload.payload_id]
        assert of(session, RevisionAdopted)[-1].content == payload.data


async def test_a_session_that_is_loaded_shows_what_was_applied_and_when(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "a.txt"
    write(file, b"one\n")
    async with begun(tmp_path, store) as session:
        write(file, b"two\n")
        await prepared(session)
        await session.tick()
        session_id = session.session_id
        times = (await session.cell("a.last_tick_time, a.last_tick_turn")).value
    file.unlink()
    async with loaded(tmp_path, store, session_id) as session:
        assert await text(session) == "1\ttwo\n"
        assert (await session.cell("a.last_tick_time, a.last_tick_turn")).value == times
        assert not [line for event in session.events for line in getattr(event, "divergences", ())]


@pytest.mark.slow
async def test_a_large_text_is_outlined_between_ticks_also_for_a_session_that_is_loaded(
    tmp_path: Path, store: Store
) -> None:
    write(tmp_path / "big.py", b"def f():\n    return 1\n" * 20_000)
    async with begun(tmp_path, store, "a = view('big.py', lod=1, freq='Sync')") as session:
        assert "outlined roughly" in await text(session)
        waiting = await prepared(session)
        assert (waiting.payload_kind, waiting.cost.tokens) == ("parse", 0)
        await session.tick()
        assert [each.payload_kind for each in of(session, AsyncPayloadApplied)] == ["parse"]
        assert "outlined roughly" not in (shown := await text(session))
        await session.tick()
        await session.cell("None")
        assert len(of(session, AsyncPayloadPrepared)) == 1
        assert not of(session, AsyncPayloadDropped)
    async with loaded(tmp_path, store, session.session_id) as again:
        assert await text(again) == shown


@pytest.mark.parametrize(("data", "shown"), [(b"two\n", "1\ttwo\n"), (b"", "(empty file)\n")])
async def test_what_waited_when_a_session_was_closed_is_applied_when_it_is_loaded(
    tmp_path: Path, store: Store, data: bytes, shown: str
) -> None:
    file = tmp_path / "a.txt"
    write(file, b"one\n")
    async with begun(tmp_path, store) as session:
        write(file, data)
        await prepared(session)
        session_id = session.session_id
    async with loaded(tmp_path, store, session_id) as session:
        await session.cell("None")
        await session.tick()
        assert len(of(session, AsyncPayloadApplied)) == 1
        assert await text(session) == shown
    write(file, b"three\n")  # What was applied is known from the log alone.
    async with loaded(tmp_path, store, session_id) as session:
        assert await text(session) == shown


async def test_what_was_prepared_on_another_branch_is_prepared_again_where_the_head_goes(
    tmp_path: Path, store: Store
) -> None:
    file = tmp_path / "a.txt"
    write(file, b"one\n")
    async with begun(tmp_path, store) as session:
        write(file, b"two\n")
        before = await prepared(session)
        await session.rewind(1)
        await session.tick()
        assert await text(session) == "1\tone\n"
        after = await prepared(session, 2)
        assert (before.obj_id, before.basis) == (after.obj_id, after.basis)
        await session.tick()
        assert await text(session) == "1\ttwo\n"
        assert [event.payload_id for event in of(session, AsyncPayloadApplied)] == [after.payload_id]


async def test_one_payload_waits_for_a_node_and_kind_the_newest(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "a.txt"
    write(file, b"one\n")
    async with begun(tmp_path, store) as session:
        write(file, b"two\n")
        first = await prepared(session)
        write(file, b"three\n")
        await prepared(session, 2)
        await session.tick()
        assert [(event.payload_id, event.reason) for event in of(session, AsyncPayloadDropped)] == [
            (first.payload_id, "superseded")
        ]
        assert await text(session) == "1\tthree\n"


async def test_nothing_is_prepared_twice_and_nothing_for_views_that_are_not_async(tmp_path: Path, store: Store) -> None:
    write(tmp_path / "a.txt", b"one\n")
    write(tmp_path / "b.txt", b"one\n")
    source = "a = view('a.txt', freq='Async'); b = view('b.txt', freq='Sync'); c = view('b.txt')"
    async with begun(tmp_path, store, source) as session:
        write(tmp_path / "b.txt", b"two\n")
        write(tmp_path / "a.txt", b"two\n")
        await prepared(session)
        for _ in range(3):
            await session.cell("None")
        await session.tick()
        write(tmp_path / "a.txt", b"three\n")
        await prepared(session, 2)
        assert [event.obj_id for event in of(session, AsyncPayloadPrepared)] == ["view-1.1"] * 2


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"one\n", b"x" * (PAYLOAD_BYTES + 1)), (b"one\n", f"key = {SECRET}\n".encode()), (b"one\n", None)],
    ids=["too large", "a secret", "deleted"],
)
async def test_of_what_no_payload_may_hold_the_tick_is_told_that_it_differs(
    tmp_path: Path, store: Store, before: bytes, after: bytes | None
) -> None:
    file = tmp_path / "a.txt"
    write(file, before)
    async with begun(tmp_path, store) as session:
        if after is None:
            file.unlink()
        else:
            write(file, after)
        payload = await prepared(session)
        assert (payload.payload_kind, payload.data) == ("diff", None)
        await session.tick()
        assert len(of(session, AsyncPayloadApplied)) == 1
        assert "one" not in await text(session)


async def test_the_host_reads_no_file_outside_of_the_workspace(tmp_path: Path, store: Store) -> None:
    outside = tmp_path / "outside.txt"
    write(outside, b"one\n")
    work = tmp_path / "work"
    work.mkdir()
    (work / "link.txt").symlink_to(outside)
    (work / "environ").symlink_to("/proc/self/environ")
    names = (str(outside), "link.txt", "/proc/self/environ", "environ")
    source = "; ".join(f"v{number} = view({name!r}, freq='Async')" for number, name in enumerate(names))
    async with begun(work, store, source) as session:
        await prepared(session, len(names))
        assert {(event.payload_kind, event.data) for event in of(session, AsyncPayloadPrepared)} == {("diff", None)}
        await session.tick()
        write(outside, b"two\n")
        await prepared(session, len(names) + 2)
        await session.tick()
        assert [await text(session, f"v{number}") for number in (0, 1)] == ["1\ttwo\n"] * 2


@pytest.mark.slow
async def test_nodes_are_as_they_were_after_their_worker_was_killed(tmp_path: Path, store: Store) -> None:
    write(tmp_path / "a.txt", b"one\n")
    state = "[(v.GetDigest(), v.last_tick_turn, v.last_tick_time, v.Render().text) for v in (a, b, c, d)]"
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.create(str(tmp_path))
        names = zip("abcd", ("'Async'", "'Sync'", "('Periodic', 1e-6)", "None"), strict=True)
        await session.cell("; ".join(f"{name} = view('a.txt', freq={freq})" for name, freq in names))
        await session.tick()
        for text in (b"two\n", b"three\n"):
            write(tmp_path / "a.txt", text)
            await prepared(session, len(of(session, AsyncPayloadPrepared)) + 1)
            await session.tick()
            write(tmp_path / "a.txt", b"between\n")
            await session.cell("changed = len(tick())")
        before = (await session.cell(state)).value
        write(tmp_path / "a.txt", b"later\n")
        killed = await session.cell("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        assert killed.exception is not None
        assert (await session.cell(state)).value == before
        session_id = session.session_id
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.load(session_id)
        assert (await session.cell(state)).value == before
