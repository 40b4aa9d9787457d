"""Sessions that are opened by name and confined to directories, looked at without effect, and put to rest."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from engine import Session, session_named
from engine.core.clock import SystemClock
from engine.core.errors import InvalidRequestError, SessionInUseError
from engine.log.events.execution import ValuesKept
from engine.log.events.session import EnvironmentRestored, SessionMoved, SessionOpened
from engine.log.store.memory import MemoryStore
from tests.support.sessions import events_of, sessions_of

pytestmark = pytest.mark.anyio


async def shown(session: Session, source: str) -> str:
    """What the view that the statement opens shows."""
    finished = await session.cell(source)
    assert finished.exception is None
    return finished.displays[-1].text


# --- names ------------------------------------------------------------------------------------------------------------


async def test_name_is_one_session_across_processes(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    async with sessions_of(tmp_path, store) as sessions:
        async with anyio.create_task_group() as tasks:
            opened: list[Session] = []

            async def open_it() -> None:
                opened.append(await sessions.open("work", str(tmp_path), client="a client 1.0"))

            for _ in range(3):
                tasks.start_soon(open_it)
        assert len(set(map(id, opened))) == 1
        session = opened[0]
        assert session.session_id == session_named("work")
        first = session.events[0]
        assert isinstance(first, SessionOpened)
        assert (first.client, first.confined) == ("a client 1.0", True)
        await session.cell("x = 5")
        other = await sessions.open(None, str(tmp_path))
        assert other.session_id != session.session_id
    async with sessions_of(tmp_path, store) as sessions:
        again = await sessions.open("work", str(tmp_path))
        assert (await again.cell("x")).value == "5"
        async with sessions_of(tmp_path, store) as others:
            with pytest.raises(SessionInUseError):
                await others.open("work", str(tmp_path))


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "..", "é", "a" * 65, "a\n", "a\0"])
async def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    async with sessions_of(tmp_path) as sessions:
        with pytest.raises(InvalidRequestError, match="is not a session name"):
            await sessions.open(name, str(tmp_path))
        assert not await sessions.rows()


# --- confinement ------------------------------------------------------------------------------------------------------


async def test_views_of_a_confined_session_open_nothing_outside(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "a.txt").write_text("open")
    (outside / "b.txt").write_text("SECRET")
    (inside / "link.txt").symlink_to(outside / "b.txt")
    (inside / "folder").symlink_to(outside)
    (inside / "dangling").symlink_to(outside / "nothing")
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.open("work", str(inside))
        assert "open" in await shown(session, "view('a.txt')")
        for path in ("link.txt", "folder", "folder/b.txt", "../outside/b.txt", str(outside / "b.txt"), "dangling"):
            text = await shown(session, f"view({path!r})")
            assert "outside the workspace" in text, path
            assert "SECRET" not in text
        assert "SECRET" not in await shown(session, "group('folder/*', '*.txt')")
        free = await sessions.create(str(inside))
        assert "SECRET" in await shown(free, "view('link.txt')")


async def test_later_link_is_not_followed_at_a_tick(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "b.txt").write_text("SECRET")
    (inside / "a.txt").write_text("open")
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.open("work", str(inside))
        await shown(session, "a = view('a.txt', freq='Sync')")
        (inside / "a.txt").unlink()
        (inside / "a.txt").symlink_to(tmp_path / "b.txt")
        await session.tick()
        text = await shown(session, "show(a)")
        assert "outside the workspace" in text
        assert "SECRET" not in text


async def test_shown_directories_bound_where_a_session_reopens(tmp_path: Path) -> None:
    wide, narrow, other = tmp_path, tmp_path / "narrow", tmp_path / "other"
    narrow.mkdir()
    other.mkdir()
    store = MemoryStore(SystemClock())
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.open("work", str(narrow), [str(other)])
        assert await sessions.open("work", str(narrow), [str(other)]) is session
        with pytest.raises(InvalidRequestError, match="is open confined to"):
            await sessions.open("work", str(narrow))
    async with sessions_of(tmp_path, store) as sessions:
        with pytest.raises(InvalidRequestError, match=f"showed files of {other}"):
            await sessions.open("work", str(narrow))
        widened = await sessions.open("work", str(wide))
        assert [event.cwd for event in widened.events if isinstance(event, SessionMoved)] == [str(wide)]
        await sessions.close(widened.session_id)
        free = await sessions.load(widened.session_id)
        assert [event.confined for event in free.events if isinstance(event, SessionMoved)] == [True, False]
        await sessions.close(free.session_id)
        with pytest.raises(InvalidRequestError, match="was not confined"):
            await sessions.open("work", str(wide))
        assert (await sessions.open("work", str(wide), confined=False)).cwd == str(wide)


# --- looking, and resting ---------------------------------------------------------------------------------------------


async def test_looking_tells_what_there_is_and_changes_nothing(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 101)))
    assert (await session.look(["a"])).rows == ()
    finished = await session.cell("a = view('a.txt', tokens=All, freq=('Periodic', 5)); g = group(a, tokens=60)")
    display = finished.displays[0]
    assert (display.first_line, display.last_line, display.lines, display.lod, display.budget, display.freq) == (
        *(1, 100, 100, 0, 0),
        "Periodic 5s",
    )
    before, projected = len(session.events), (await session.projection()).prompt.tail
    (tmp_path / "a.txt").write_text("other\n")
    looked = await session.look(["a", "g", "nobody"], 50)
    assert [(row.name, row.obj_type) for row in looked.rows] == [("a", "view"), ("g", "group")]
    assert list(looked.shown) == ["a", "g"]
    assert "line 1\n" in looked.shown["a"].text
    assert max(each.tokens for each in looked.shown.values()) <= 50
    assert looked.shown["a"].revision == display.revision != ""
    assert (await session.look(["a"])).shown["a"].text == display.text
    assert {type(event) for event in session.events[before:]} <= {ValuesKept}  # of the statement before
    assert (await session.projection()).prompt.tail == projected


async def test_a_session_at_rest_is_rebuilt_by_whoever_needs_it(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    await session.rest()
    await session.cell("a = view('a.txt')")
    await session.rest()
    (tmp_path / "a.txt").write_text("two\n")
    assert "one" in (await session.look(["a"])).shown["a"].text
    assert [event.executions for event in events_of(session, EnvironmentRestored)] == [1]
    ticket = session.accept("import time; time.sleep(30)")
    await session.rest()
    assert sum(isinstance(event, EnvironmentRestored) for event in session.events) == 1
    session.cancel()
    assert (await ticket.end()).cause == "cancelled"
