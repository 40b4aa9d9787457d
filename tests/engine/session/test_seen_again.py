"""What nodes saw is seen again by a session that is loaded: in statements, at ticks, with the same ids and feed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine import Model, Session, Store
from engine.context.tail.section_parts import EARLIER, NEW
from engine.core.ids import SessionId
from engine.files.tails import HandleRow
from engine.log.events.nodes import FileChanged, NodesTicked, RevisionAdopted, TickApplied
from engine.log.events.session import EnvironmentRestored
from engine.log.store.memory import MemoryStore
from tests.support.fixed import FixedClock
from tests.support.models import AnsweringModel, runs, says
from tests.support.sessions import events_of, in_process, sessions_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def store() -> Store:
    return MemoryStore(FixedClock())


@asynccontextmanager
async def begun(tmp_path: Path, store: Store, model: Model | None = None) -> AsyncIterator[Session]:
    async with sessions_of(
        tmp_path, store, model=model, environments=in_process, clock=FixedClock(), TOKEN="s3cret-of-ours"
    ) as sessions:
        yield await sessions.create(str(tmp_path))


@asynccontextmanager
async def loaded(tmp_path: Path, store: Store, session_id: SessionId) -> AsyncIterator[Session]:
    async with sessions_of(tmp_path, store, environments=in_process, TOKEN="s3cret-of-ours") as sessions:
        yield await sessions.load(session_id)


async def text(session: Session, name: str) -> str:
    finished = await session.cell(f"print({name}.rendered.text, end='')")
    assert finished.exception is None, finished.exception
    return finished.stdout.text


async def rows(session: Session) -> list[HandleRow]:
    return list((await session.projection()).handles)


def restored(session: Session) -> EnvironmentRestored:
    return events_of(session, EnvironmentRestored)[-1]


async def test_paused_view_is_unchanged_and_a_running_one_reports_changes(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    async with begun(tmp_path, store) as session:
        await session.cell("paused = view('a.txt'); running = view('a.txt', freq='Sync')")
    file.write_text("two\n")
    async with loaded(tmp_path, store, session.session_id) as session:
        assert await text(session, "paused") == "1\tone\n"
        assert await text(session, "running") == "1\tone\n"
        assert events_of(session, FileChanged) == []
        events = await session.tick()
        assert [event.obj_id for event in events if isinstance(event, TickApplied)] == ["view-1.2"]
        assert (await text(session, "paused"), await text(session, "running")) == ("1\tone\n", "1\ttwo\n")
        assert restored(session).divergences == ()


async def test_tick_of_running_nodes_is_logged_without_changes(tmp_path: Path, store: Store) -> None:
    async with begun(tmp_path, store) as session:
        await session.tick()
        await session.cell("a = view('a.txt')")
        await session.tick()
        assert events_of(session, NodesTicked) == []
        await session.cell("a.Run(); b = view('b.txt', freq='Sync')")
        await session.tick()
        (ticked,) = events_of(session, NodesTicked)
        assert isinstance(ticked, NodesTicked)
        assert (ticked.nodes, ticked.now) == (2, 1000.0)


async def test_content_is_kept_once_for_all_its_revisions(tmp_path: Path, store: Store) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("the same\n")
    async with begun(tmp_path, store) as session:
        await session.cell("a = view('a.txt'); b = view('b.txt')")
        await session.cell("a.Refresh(); c = view('c.txt')")
        (tmp_path / "c.txt").write_text("the same\n")
        await session.cell("c.Refresh()")
        adopted = [event for event in events_of(session, RevisionAdopted) if isinstance(event, RevisionAdopted)]
    assert [(Path(each.path).name, each.look, each.state) for each in adopted] == [
        ("a.txt", 0, "text"), ("b.txt", 0, "text"), ("c.txt", 0, "missing"), ("c.txt", 0, "text"),
    ]  # fmt: skip
    contents = {each.content for each in adopted if each.digest}
    assert len(contents) == 1
    (content,) = contents
    assert content is not None
    assert store.blob_get(content) == b"the same\n"
    assert [each.content for each in adopted if not each.digest] == [None]


async def test_next_statement_knows_what_an_omitted_one_saw(tmp_path: Path, store: Store) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    async with begun(tmp_path, store) as session:
        await session.cell("a = view('a.txt')")
        await session.cell("b = view('a.txt')")
        await session.accept("/omit 1").end()
        (tmp_path / "a.txt").write_text("two\n")
        assert await text(session, "b") == "1\tone\n"
        assert len(restored(session).divergences) == 1


async def test_feed_and_handle_table_survive_a_load(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    model = AnsweringModel(runs("a = view('a.txt', freq='Sync')", "b = view('a.txt')"))
    async with begun(tmp_path, store, model) as session:
        await session.accept("look at it").end()
        await session.cell("c = view('a.txt').SetTokens(99); d = a.dirty, a.changed, b.changed, c.dirty, c.changed")
        file.write_text("two\n")
        await session.tick()
        for _ in range(2):
            # Whoever only looks takes nothing.
            before = await session.projection()
        values = (await session.cell("d, a.dirty, a.changed, b.changed, c.dirty, c.changed")).value
    assert "+two" in before.prompt.tail
    assert [row.changed for row in before.handles] == [True, False, True]
    async with loaded(tmp_path, store, session.session_id) as session:
        after = await session.projection()
        assert after.handles == before.handles
        said = "namespace: rebuilt in a new worker: 4 statements ran again\n"
        assert after.prompt.tail.replace(said, "") == before.prompt.tail
        assert (await session.cell("d, a.dirty, a.changed, b.changed, c.dirty, c.changed")).value == values
        assert restored(session).divergences == ()


def new_in(tail: str) -> str:
    """What a tail tells as new."""
    return tail.partition(NEW)[2].partition(EARLIER)[0]


async def test_read_changes_are_not_repeated_after_a_rebuild(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    model = AnsweringModel(says("Well."))
    async with begun(tmp_path, store, model) as session:
        await session.cell("a = view('a.txt', freq='Sync')")
        file.write_text("two\n")
        await session.accept("read").end()
        assert "+two" in new_in(model.prompts[-1].tail)
        await session.accept("again").end()
        assert "+two" not in new_in(model.prompts[-1].tail)
        assert "+two" in model.prompts[-1].tail
    async with loaded(tmp_path, store, session.session_id) as session:
        projection = await session.projection()
        assert "+two" not in new_in(projection.prompt.tail)
        assert "+two" in projection.prompt.tail
        assert [row.changed for row in projection.handles] == [False]


async def test_secret_content_is_shown_again_only_while_it_exists(tmp_path: Path, store: Store) -> None:
    file = tmp_path / ".env"
    file.write_text("TOKEN=s3cret-of-ours\n")
    async with begun(tmp_path, store) as session:
        await session.cell("a = view('.env'); None")
        (adopted,) = events_of(session, RevisionAdopted)
    assert adopted.content is None
    assert adopted.withheld
    async with loaded(tmp_path, store, session.session_id) as session:
        assert "***" in await text(session, "a")
        assert restored(session).divergences == ()
    file.write_text("TOKEN=another\n")
    async with loaded(tmp_path, store, session.session_id) as session:
        assert "(the earlier content of .env contained a secret and was not saved; Refresh()" in await text(
            session, "a"
        )
        said, printed = restored(session).divergences
    assert printed.startswith("<statement 2> printed ")
    assert said.startswith("<statement 1> looked at .env, but its earlier content contained a secret and was not saved")


async def test_every_state_of_a_file_is_seen_again(tmp_path: Path, store: Store) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\x00\xff" * 3000)
    (tmp_path / "latin").write_bytes("caf\u00e9\n".encode("latin-1"))
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 17 << 20)
    names = ("none", "folder", "binary", "latin", "large", "latin/below")
    async with begun(tmp_path, store) as session:
        await session.cell(f"vs = [view(name, freq='Sync') for name in {names}]")
        before = (await session.cell("[(v.GetDigest(), v.rendered.text) for v in vs]")).value
    (tmp_path / "folder").rmdir()
    for name in ("binary", "latin", "large"):
        (tmp_path / name).unlink()
    (tmp_path / "none").write_text("there\n")
    async with loaded(tmp_path, store, session.session_id) as session:
        assert (await session.cell("[(v.GetDigest(), v.rendered.text) for v in vs]")).value == before
        assert restored(session).divergences == ()
        await session.tick()
        changes = [event.change for event in events_of(session, FileChanged)]
        assert changes == ["created", "deleted", "deleted", "deleted", "deleted"]


async def test_looks_of_tools_are_repeated(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    stale = "try: edit('a.txt', 'two', 'four')\nexcept OSError as error: said = str(error)"
    async with begun(tmp_path, store) as session:
        await session.cell("a = view('a.txt')")
        file.write_text("two\n")
        # With views on two revisions the one counts that the file is at: somebody has to look.
        await session.cell("b = view('a.txt'); edit('a.txt', 'two', 'three'); c = view('a.txt')")
        file.write_text("two, from elsewhere\n")
        await session.cell(stale)
        said = (await session.cell("said")).value
    assert said is not None
    assert "-three" in said
    file.write_text("later\n")
    async with loaded(tmp_path, store, session.session_id) as session:
        assert [await text(session, name) for name in "abc"] == ["1\tone\n", "1\ttwo\n", "1\tthree\n"]
        assert (await session.cell("said")).value == said
        assert restored(session).divergences == ()


async def test_what_a_stopped_statement_did_to_handles_is_brought_back(tmp_path: Path, store: Store) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "b.txt").write_text("b\n")
    stopped = "a.SetPos('3').Run(); b = view('b.txt', freq='Sync'); c = [b]\nwhile True: pass"
    look = "a.pos, a.mode, b.mode, c[0] is b, [(v.obj_id, v.rendered.text) for v in (a, b)]"
    async with begun(tmp_path, store) as session:
        await session.cell("a = view('a.txt'); d = a")
        await session.cell(stopped, seconds=0.2)
        before, table = (await session.cell(look)).value, await rows(session)
    assert before is not None
    assert "'3', 'running', 'running', True, [('view-1.1'" in before
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("later\n")
    async with loaded(tmp_path, store, session.session_id) as session:
        assert (await session.cell(look)).value == before
        assert (await session.cell("d is a")).value == "True"
        assert await rows(session) == table
        assert restored(session).divergences == ()
        changes = [event for event in await session.tick() if isinstance(event, FileChanged)]
        assert [Path(each.path).name for each in changes] == ["a.txt", "b.txt"]
