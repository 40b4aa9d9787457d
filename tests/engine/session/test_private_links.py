"""Directories that have two paths, as on macOS, where /tmp, /var and /etc are links to directories in /private."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine import Session, Sessions
from engine.core.ids import SessionId
from engine.files.protected import Protection
from engine.log.events.execution import FileWritten
from engine.session.directories import Scratch
from tests.support.sessions import events_of, sessions_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A project by its path with a link, and by its real path."""
    real = tmp_path / "private" / "tmp" / "project"
    (real / ".git").mkdir(parents=True)
    (real / ".git" / "config").write_text("")
    (real / "a.txt").write_text("one\n")
    (tmp_path / "tmp").symlink_to("private/tmp")
    return tmp_path / "tmp" / "project", real


@pytest.fixture
async def sessions(tmp_path: Path, places: tuple[Path, Path]) -> AsyncIterator[Sessions]:
    """Those of a state directory below the link."""
    async with sessions_of(places[0].parent / "state") as found:
        yield found


@pytest.fixture(params=[0, 1], ids=["by the link", "by the real path"])
async def session(sessions: Sessions, places: tuple[Path, Path], request: pytest.FixtureRequest) -> Session:
    return await sessions.create(str(places[request.param]))


async def test_a_list_finds_the_session_by_both(
    session: Session, sessions: Sessions, places: tuple[Path, Path]
) -> None:
    for cwd in places:
        assert [row.session_id for row in await sessions.rows(cwd=str(cwd))] == [session.session_id]


async def test_statements_have_one_file_by_both(session: Session, places: tuple[Path, Path]) -> None:
    for first, second in (places, places[::-1]):
        finished = await session.cell(f"read({str(first / 'a.txt')!r})")
        assert finished.exception is None
        (second / "a.txt").write_text(f"by another {first}\n")
        finished = await session.cell(f"write({str(second / 'a.txt')!r}, 'mine')")
        assert "has changed since it was last read" in str(finished.exception)
    await session.cell(f"read({str(places[1] / 'a.txt')!r})")
    await session.cell(f"edit({str(places[0] / 'a.txt')!r}, 'by', 'of')")
    await session.cell(f"open({str(places[1] / 'a.txt')!r}, 'a').write('more')")
    assert {event.path for event in events_of(session, FileWritten)} == {str(places[1] / "a.txt")}
    assert (places[1] / "a.txt").read_text().startswith("of another")
    await session.undo()
    await session.undo()
    assert (places[1] / "a.txt").read_text().startswith("by another")


def test_the_scratch_directory_is_the_real_one(places: tuple[Path, Path]) -> None:
    found = {Scratch(root.parent, SessionId("s")).path for root in places}
    assert len(found) == 1
    assert found.pop().startswith(str(places[1].parent))


def test_protected_files_are_so_by_both(places: tuple[Path, Path]) -> None:
    for root in places:
        why = Protection((str(root.resolve()),)).why
        assert why(str(places[1] / ".git" / "config"))
        assert not why(str(places[1] / "a.txt"))
