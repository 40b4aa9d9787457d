"""A statement in the sandbox that changes many files: how often its user is asked, and that a load repeats nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine import PermissionAnswer
from engine.ports import CommandSubject, Prompt, StatementAsked, TextDelta
from engine.store.memory import MemoryStore
from tests.support.fixed import FixedClock
from tests.support.models import AnsweringModel
from tests.support.permissions import FixedPermissions
from tests.support.sessions import sessions_of

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
COPIES_MUCH = """
import shutil, tempfile
from pathlib import Path
made, said = tempfile.mkdtemp() + "/table.csv", []
Path(made).write_text("1,2\\n" * 300_000)
for copies in (shutil.copy, shutil.copyfile, shutil.move, lambda _, name: Path(name).write_text("1,2\\n" * 300_000)):
    try:
        copies(made, "copied")
    except OSError as error:
        said.append("asked about this" in str(error))
bash(f"mv {made} moved")
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
    async with sessions_of(tmp_path / "state", store, model=model, settings=settings) as sessions:
        session = await sessions.create(str(work))
        session.attach(user)
        assert (await session.accept("go").end()).cause == "end_turn"
    assert len(user.questions) == 3
    assert len([path for path in (work / "copied").rglob("*") if path.is_file()]) == 60
    assert not (work / "unpacked").exists()
    (work / "copied" / "part0" / "0.txt").unlink()
    async with sessions_of(tmp_path / "state", store, model=model, settings=settings) as sessions:
        session = await sessions.load(session.session_id)
        session.attach(user)
        assert (await session.cell("archive.endswith('a.zip'), number")).value == "(True, 59)"
    assert len(user.questions) == 3
    assert not (work / "unpacked").exists()
    assert not (work / "copied" / "part0" / "0.txt").exists()


async def test_what_is_too_long_to_be_shown_is_refused_however_it_is_copied_and_bash_moves_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    user = FixedPermissions([ALLOWED])
    model = AnsweringModel(replying(COPIES_MUCH))
    async with sessions_of(tmp_path / "state", model=model, settings={"sandbox": "required"}) as sessions:
        session = await sessions.create(str(work))
        session.attach(user)
        assert (await session.accept("go").end()).cause == "end_turn"
        assert (await session.cell("said")).value == "[True, True, True, True]"
    assert [type(question.subject) for question in user.questions] == [CommandSubject]
    assert [(path.name, path.stat().st_size) for path in work.iterdir()] == [("moved", 1_200_000)]
