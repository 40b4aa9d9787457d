"""A statement in the sandbox that changes many files: how often its user is asked, and that a load repeats nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine import PermissionAnswer
from engine.context.model import Prompt, StatementAsked, TextDelta
from engine.core.diff import text_size
from engine.log.events.conversation import ToolResult
from engine.log.permissions import ASKED_CHARS, FileSubject, TreeSubject
from engine.log.store.memory import MemoryStore
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
WRITES_MUCH = """
import os, shutil, tempfile
from pathlib import Path
text = "1,2\\n" * 300_000
made = Path(tempfile.mkdtemp(), "table.csv")
for number, brings in enumerate((shutil.copy, shutil.move, os.replace)):
    made.write_text(text)
    brings(made, f"brought{number}")
Path("opened").write_text(text)
write("written", text)
os.rename("written", "renamed")
"""
REPLACES = """
import os, tempfile
made, said = tempfile.mkdtemp(), []
def put(text):
    with open(f"{made}/b", "w") as file:
        file.write(text)
    return f"{made}/b"
os.replace(put("after\\n"), "a.txt")
os.mkdir(f"{made}/folder")
put("refused")
for source, target in ((made + "/b", "a.txt"), (made + "/b", "link"), (made + "/folder", "c"), ("a.txt", made + "/a")):
    try:
        os.rename(source, target)
    except OSError as error:
        said.append(type(error).__name__ + (f" {error.errno}" if error.errno == 18 else ""))
os.rename(f"{made}/folder", "folder")
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


async def test_what_is_too_long_to_be_shown_whole_is_asked_about_alike_however_it_comes(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    user = FixedPermissions([ALLOWED] * 6)
    model = AnsweringModel(replying(WRITES_MUCH))
    async with sessions_of(tmp_path / "state", model=model, settings={"sandbox": "required"}) as sessions:
        session = await sessions.create(str(work))
        session.attach(user)
        assert (await session.accept("go").end()).cause == "end_turn"
        assert (await session.cell("made.exists()")).value == "False"
    subjects = [question.subject for question in user.questions]
    assert [type(subject) for subject in subjects] == [FileSubject] * 5 + [TreeSubject]
    for subject in subjects:
        assert isinstance(subject, FileSubject | TreeSubject)
        assert "only the beginning is shown: 1,000,000 of 1,200,000 characters" in subject.note
        assert text_size(subject.changes) == ASKED_CHARS
    sizes = {path.name: path.stat().st_size for path in work.iterdir()}
    assert sizes == dict.fromkeys(["brought0", "brought1", "brought2", "opened", "renamed"], 1_200_000)


async def test_a_file_that_was_made_in_scratch_takes_its_place_and_what_else_is_there_is_said_to_be_moved(
    tmp_path: Path,
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("before\n")
    (work / "link").symlink_to("a.txt")
    user = FixedPermissions([ALLOWED, PermissionAnswer(outcome="rejected")])
    model = AnsweringModel(replying(REPLACES))
    async with sessions_of(tmp_path / "state", model=model, settings={"sandbox": "required"}) as sessions:
        session = await sessions.create(str(work))
        session.attach(user)
        assert (await session.accept("go").end()).cause == "end_turn"
        said = (await session.cell("said, os.listdir(made)")).value
        assert said == "(['PermissionError', 'OSError 18', 'OSError 18', 'OSError 18'], ['b', 'folder'])"
        (result,) = [event for event in session.events if isinstance(event, ToolResult) and not event.parent_id]
    assert "shutil.move() copies what os.rename() cannot" in result.text
    paths = [question.subject.path for question in user.questions if isinstance(question.subject, FileSubject)]
    assert paths == [str(work / "a.txt")] * 2
    assert (work / "a.txt").read_text() == "after\n"
    assert (work / "link").is_symlink()
