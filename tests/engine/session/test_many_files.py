"""Statements and libraries that write many or large files: questions, bounds, counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine import PermissionAnswer
from engine.context.model import Prompt, StatementAsked, TextDelta
from engine.log.events.conversation import ToolResult
from engine.log.events.execution import FileTouched, FileWritten
from engine.log.permissions import FileSubject, TreeSubject
from engine.log.store.memory import MemoryStore
from tests.support.fixed import FixedClock
from tests.support.models import AnsweringModel
from tests.support.permissions import FixedPermissions
from tests.support.sessions import events_of, session_in

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ALLOWED, REST = PermissionAnswer(outcome="allowed"), PermissionAnswer(outcome="allowed", rest=True)
UNPACKS = """
import shutil, tempfile, zipfile
archive = tempfile.mkdtemp() + "/a.zip"
with zipfile.ZipFile(archive, "w") as packed:
    for number in range(60):
        packed.writestr(f"part{number % 7}/{number}.txt", "x" * number)
zipfile.ZipFile(archive).extractall("unpacked")
shutil.copytree("unpacked", "copied")
"""
REMOVES = 'shutil.rmtree("unpacked")'


def replying(*sources: str) -> Callable[[Prompt], Sequence[StatementAsked | TextDelta]]:
    replies: list[StatementAsked | TextDelta] = [*map(StatementAsked, sources), TextDelta("Done.")]
    return lambda _: [replies.pop(0)] if replies else [TextDelta("Nothing more.")]


async def test_many_files_take_two_questions_and_their_removal_one(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    store, user = MemoryStore(FixedClock()), FixedPermissions([ALLOWED, REST, ALLOWED])
    model = AnsweringModel(replying(UNPACKS, REMOVES))
    settings: dict[str, object] = {"sandbox": "required", "restore_by": "re-execution"}
    async with session_in(work, store, state=tmp_path / "state", model=model, settings=settings) as session:
        session.attach(user)
        assert (await session.accept("go").end()).cause == "end_turn"
    assert len(user.questions) == 3
    assert len([path for path in (work / "copied").rglob("*") if path.is_file()]) == 60
    assert not (work / "unpacked").exists()
    (work / "copied" / "part0" / "0.txt").unlink()
    async with session_in(
        tmp_path / "state", store, load=session.session_id, model=model, settings=settings
    ) as session:
        session.attach(user)
        assert (await session.cell("archive.endswith('a.zip'), number")).value == "(True, 59)"
    assert len(user.questions) == 3
    assert not (work / "unpacked").exists()
    assert not (work / "copied" / "part0" / "0.txt").exists()


async def test_many_files_show_the_first_and_count_the_rest(tmp_path: Path) -> None:
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        finished = await session.cell(
            "import io, os\nfor n in range(5_200): io.open(f'{n}', 'w').close()\nlen(os.listdir())"
        )
        assert finished.exception is None
        written = events_of(session, FileWritten)
        assert (len(written), sum(event.unshown for event in written)) == (5_000, 4_900)
        assert len(finished.artifacts) == 5_000
        results = [event for event in session.events if isinstance(event, ToolResult) and event.parent_id]
        assert len(results) == 101
        assert results[-1].text == (
            "4,900 more files changed by the statement's own code; 200 more acts on files without a record"
        )
        assert finished.value == "5200"


async def test_of_very_much_content_the_rest_is_named_without_it(tmp_path: Path) -> None:
    for number in range(6):
        with (tmp_path / f"{number}").open("wb") as file:
            file.truncate(60 << 20)
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        finished = await session.cell(
            "import io\nfor n in range(5): f = io.open(f'{n}', 'w'); n = f.write('x'); f.close()\n"
            "io.open('5', 'r+').close()"
        )
        assert finished.exception is None
        touched = events_of(session, FileTouched)
        kept = {Path(event.path).name: event.before is not None for event in touched}
        assert kept == {"0": True, "1": True, "2": True, "3": True, "4": False, "5": False}
        assert {event.note for event in touched} == {"", "the statement had changed files of 256 MiB before"}
        written = events_of(session, FileWritten)
        assert len(written) == 5
        assert all(event.after is not None for event in written)


async def test_content_beyond_the_limit_is_named_only(tmp_path: Path) -> None:
    async with session_in(tmp_path, state=tmp_path / "state") as session:
        finished = await session.cell(
            "import io\nfor n in range(6): f = io.open(f'{n}', 'w'); n = f.truncate(60 << 20); f.close()\n"
            "f = io.open('small', 'w'); n = f.write('x'); f.close()"
        )
        assert finished.exception is None
        written = {Path(event.path).name: event for event in session.events if isinstance(event, FileWritten)}
        assert len(written) == 7
        assert [name for name, event in written.items() if event.after is not None] == ["0", "1", "2", "3"]
        reasons = {name: event.note.partition("is not stored: ")[2] for name, event in written.items()}
        assert (reasons["4"], reasons["5"]) == (
            "the statement had written 256 MiB before",
            "the file has more than 1 MiB",
        )


ROWS: dict[str, tuple[str, list[str]]] = {
    "numpy.save": ("import numpy\nnumpy.save('a.npy', numpy.eye(2))", ["a.npy"]),
    "numpy.savetxt": ("import numpy\nnumpy.savetxt('a.txt', numpy.eye(2))", ["a.txt", "a.txt"]),
    "numpy.savetxt into an open file": (
        "import numpy\nwith open('a.txt', 'w') as file: numpy.savetxt(file, numpy.eye(2))",
        ["a.txt"],
    ),
    "pandas": ("import pandas\npandas.DataFrame({'a': range(3)}).to_csv('a.csv')", ["a.csv"]),
    "a long table": ("import pandas\npandas.DataFrame({'a': range(200_000)}).to_csv('a.csv')", ["a.csv"]),
    "a plot in memory": (
        "import io\nimport matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"
        "plt.plot([1, 2]); plt.savefig(io.BytesIO())",
        [],
    ),
    "a plot": (
        "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"
        "plt.plot([1, 2]); plt.savefig('a.png'); plt.savefig('a.pdf')",
        ["a.png", "a.pdf"],
    ),
    "a database": (
        "import os, shutil, sqlite3, tempfile\nplace = tempfile.mkdtemp() + '/a.db'\n"
        "with sqlite3.connect(place) as base: base.execute('create table t (x)')\n"
        "base.close(); shutil.copy(place, 'a.db')",
        ["a.db"],
    ),
    "reading, computing, temporary files": (
        "import json, subprocess, tempfile\nfrom pathlib import Path\n"
        "tempfile.NamedTemporaryFile().write(b'x'); subprocess.run(['ls', '/'], check=True, capture_output=True)\n"
        "read('notes.md'), view('notes.md'), grep('one'), Path('notes.md').read_text()",
        [],
    ),
}


@pytest.mark.parametrize("name", ROWS)
async def test_library_asks_about_exactly_the_files_it_changes(tmp_path: Path, name: str) -> None:
    source, files = ROWS[name]
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.md").write_text("one\n")
    user = FixedPermissions([PermissionAnswer(outcome="allowed")] * 9)
    model = AnsweringModel(replying(f"{source}\ndone = True"))
    async with session_in(work, state=tmp_path / "state", model=model, settings={"sandbox": "required"}) as session:
        session.attach(user)
        assert (await session.accept("go").end()).cause == "end_turn"
        assert (await session.cell("done")).value == "True"
    asked = [question.subject for question in user.questions]
    paths = [
        each.path if isinstance(each, FileSubject) else each.paths[-1]
        for each in asked
        if isinstance(each, FileSubject | TreeSubject)
    ]
    assert [Path(path).name for path in paths] == files
    assert len(asked) == len(files)
    assert sorted(path.name for path in work.iterdir()) == sorted({"notes.md", *files})
