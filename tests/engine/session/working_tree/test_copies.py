"""Copies of a session's directories have its files as they were before it changed them, and lead nowhere else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.core.clock import SystemClock
from engine.core.errors import InvalidRequestError
from engine.log.events.execution import FileTouched, FileWritten
from engine.log.store.memory import MemoryStore
from engine.session.working_tree import copies
from engine.session.working_tree.copies import copy_directories
from tests.support.sessions import session_in

pytestmark = pytest.mark.anyio
SOURCES = (
    "w = write('a.txt', 'two')",
    "w = write('made.txt', 'x')",
    "import os; os.remove('gone.txt')",
    "os.makedirs('made/deep'); w = write('made/deep/b.txt', 'x')",
)
ELSEWHERE = (
    *("..", "../out", "../out/rc", "../../out/rc", "../../../out/rc", "inner/../../../out/rc", "TOP/out/rc", "TOP/out"),
    *("a.txt/../../../out/rc", "", "inner/..", "up/out/rc", "up/../out/rc", "away/rc", "../1", "../rc", "../../rc"),
)
"""Paths of written files, below the project."""


def texts_in(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}


async def test_copy_has_the_files_before_the_first_change(tmp_path: Path) -> None:
    project, place = tmp_path / "project", tmp_path / "place"
    for folder in (project, place):
        folder.mkdir()
    for name in ("a.txt", "gone.txt", "same.txt"):
        (project / name).write_text("one")
    (project / ".gitignore").write_text("ignored\n")
    (project / "ignored").write_text("one")
    store = MemoryStore(SystemClock())
    async with session_in(project, store, state=tmp_path / "state") as session:
        for source in SOURCES:
            assert (await session.cell(source)).status == "ok"
        events = store.load(session.session_id)
    (project / "same.txt").write_text("changed by somebody")
    found = copy_directories((str(project),), events, store.blob_get, place)
    copy = Path(found[str(project)])
    assert copy.is_relative_to(place)
    assert texts_in(copy) == {
        "a.txt": "one",
        "gone.txt": "one",
        "same.txt": "changed by somebody",
        ".gitignore": "ignored\n",
    }
    assert (project / "a.txt").read_text() == "two"


async def test_copy_of_a_directory_that_is_gone_has_what_the_log_has(tmp_path: Path) -> None:
    project, place = tmp_path / "project", tmp_path / "place"
    for folder in (project, place):
        folder.mkdir()
    (project / "a.txt").write_text("one")
    store = MemoryStore(SystemClock())
    async with session_in(project, store, state=tmp_path / "state") as session:
        await session.cell("w = write('a.txt', 'two')")
        events = store.load(session.session_id)
    (project / "a.txt").unlink()
    project.rmdir()
    found = copy_directories((str(project),), events, store.blob_get, place)
    assert texts_in(Path(found[str(project)])) == {"a.txt": "one"}


def test_links_lead_to_the_copy_or_are_left_out(tmp_path: Path) -> None:
    project, inner, place = tmp_path / "project", tmp_path / "project" / "inner", tmp_path / "place"
    for folder in (project, inner, place):
        folder.mkdir()
    (inner / "a.txt").write_text("one")
    (tmp_path / "outside").write_text("one")
    (project / "inside").symlink_to(inner / "a.txt")
    (project / "relative").symlink_to("inner")
    (project / "away").symlink_to(tmp_path / "outside")
    (project / "up").symlink_to("..")
    found = copy_directories((str(project), str(inner)), (), lambda _: b"", place)
    copy = Path(found[str(project)])
    assert found[str(inner)] == str(copy / "inner")
    assert sorted(os.listdir(copy)) == ["inner", "inside", "relative"]
    assert (copy / "inside").resolve() == copy / "inner/a.txt"
    (copy / "relative/a.txt").write_text("changed")
    assert (inner / "a.txt").read_text() == "one"


@pytest.mark.parametrize("source", ["w = write('a.txt', 'two')", "w = write('new.txt', 'two')"])
async def test_a_path_that_leads_elsewhere_changes_nothing_there(tmp_path: Path, source: str) -> None:
    """The first statement has the content `EVIL` put back, the second removes the file."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("EVIL")
    store = MemoryStore(SystemClock())
    async with session_in(project, store, state=tmp_path / "state") as session:
        assert (await session.cell(source)).status == "ok"
        events = store.load(session.session_id)
    for number, path in enumerate(ELSEWHERE):
        base = tmp_path / str(number)
        project, out, place = base / "project", base / "out", base / "place" / "deep"
        for folder in (project, project / "inner", out, place):
            folder.mkdir(parents=True)
        (project / "a.txt").write_text("EVIL")
        (out / "rc").write_text("mine")
        (base / "place" / "rc").write_text("mine")
        (project / "up").symlink_to("..")
        (project / "away").symlink_to(out)
        given = f"{project}/{path}".replace("TOP", "/".join([".."] * 30) + str(base))
        forged = [replace(each, path=given) if isinstance(each, FileWritten | FileTouched) else each for each in events]
        before = texts_in(out), texts_in(project), texts_in(base / "place")
        found = copy_directories((str(project),), forged, store.blob_get, place)
        assert os.listdir(place) == ["0"], path
        shutil.rmtree(found[str(project)])
        assert (texts_in(out), texts_in(project), texts_in(base / "place")) == before, path


def test_directories_that_lead_elsewhere_are_copied_too(tmp_path: Path) -> None:
    project, out, place = tmp_path / "project", tmp_path / "out", tmp_path / "deep" / "place"
    for folder in (project, out, place):
        folder.mkdir(parents=True)
    (out / "a.txt").write_text("one")
    given = (
        str(project),
        f"{project}/../out",
        f"{project}/../new",
        f"{project}/../..{tmp_path.parent}/{tmp_path.name}/out",
    )
    found = copy_directories(given, (), lambda _: b"", place)
    assert set(found) == set(given)
    assert all(Path(copy).resolve().is_relative_to(place) for copy in found.values())
    assert texts_in(Path(found[given[1]])) == {"a.txt": "one"}
    assert not (tmp_path / "new").exists()


def test_a_directory_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, place = tmp_path / "project", tmp_path / "place"
    for folder in (project, place):
        folder.mkdir()
    (project / "a.txt").write_text("one")
    monkeypatch.setattr(copies, "MOST_BYTES", 2)
    with pytest.raises(InvalidRequestError, match="so it is not copied"):
        copy_directories((str(project),), (), lambda _: b"", place)
    assert not any((place / "0").iterdir())
