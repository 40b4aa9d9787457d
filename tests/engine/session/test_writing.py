"""Files that statements change through tools: on the disk, on the log, and as the user is asked about them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import PermissionAnswer, PermissionQuestion
from engine.core.execution import TextChange
from engine.log.events.conversation import Attachment
from engine.log.events.execution import ExecutionFinished, FileWritten
from engine.log.permissions import FileSubject
from engine.session.session import Session
from tests.support.permissions import FixedPermissions
from tests.support.sessions import events_of, in_process, session_in, sessions_of, value_of

pytestmark = pytest.mark.anyio


async def failure(session: Session, source: str) -> str:
    """The error of a statement, as its type and message."""
    finished = await session.cell(source)
    assert finished.exception is not None, finished
    return f"{finished.exception.type}: {finished.exception.message}"


def written(session: Session) -> list[FileWritten]:
    return events_of(session, FileWritten)


async def test_tool_writes_are_on_disk_and_on_the_log(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "a.py").write_bytes(b"one\r\ntwo\r\n")
    async with session_in(project, state=tmp_path, environments=in_process) as session:
        assert await value_of(session, "edit('src/a.py', 'two', 'two\\nthree')") == "wrote src/a.py: +1 -0 at line 3"
        assert await value_of(session, "write('new/b.txt', 'é')") == "created new/b.txt: 1 line"
        finished = await session.cell(
            "w = write('new/b.txt', b'\\0'); edit('src/a.py', 'one', '1'); (w.created, w.size)"
        )
        assert finished.value == "(False, 1)"
        assert [Path(each.path).name for each in finished.artifacts] == ["b.txt", "a.py"]
    assert (project / "src" / "a.py").read_bytes() == b"1\r\ntwo\r\nthree\r\n"
    assert (project / "new" / "b.txt").read_bytes() == b"\0"


async def test_file_changed_since_it_was_seen_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for before, look in (
        ("one\n", "read('a.txt')"),
        ("other\n", "write('a.txt', 'one\\n')"),
        ("one\n", "v = view('a.txt')"),
    ):
        path.write_text(before)
        async with session_in(tmp_path, environments=in_process) as session:
            await session.cell(f"{look}; None")
            path.write_text("theirs\n")
            said = await failure(session, "edit('a.txt', 'theirs', 'mine')")
            assert said.startswith("OSError: a.txt has changed since it was last ")
            assert "-one\n+theirs" in said, look
            assert path.read_text() == "theirs\n"
            await value_of(session, "read('a.txt'); edit('a.txt', 'theirs', 'mine'); None")
            assert path.read_text() == "mine\n"
            await value_of(session, "edit('a.txt', 'mine', 'ours'); None")


async def test_a_write_that_changes_nothing_has_seen_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    async with session_in(tmp_path, environments=in_process) as session:
        assert await value_of(session, "write('a.txt', 'one\\n')") == "wrote a.txt: 4 bytes"
        assert not written(session)
        (tmp_path / "a.txt").write_text("theirs\n")
        assert "has changed since it was last read" in await failure(session, "write('a.txt', 'mine')")


async def test_what_was_seen_survives_a_session_that_is_opened_again(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    async with sessions_of(tmp_path, environments=in_process) as sessions:
        session = await sessions.create(str(project))
        await session.cell("text = read('a.txt')")
        await sessions.close(session.session_id)
        (project / "a.txt").write_text("theirs\n")
        again = await sessions.load(session.session_id, str(project))
        said = await failure(again, "write('a.txt', 'mine\\n')")
        assert "-one\n+theirs" in said


Change = Callable[[Path], object]


class Meddling:
    """A user who changes the file between the question and the answer, which is yes."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        self._meddle = meddle
        self.asked: list[PermissionQuestion] = []

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        self.asked.append(question)
        self._meddle()
        return PermissionAnswer(outcome="allowed")


@pytest.mark.parametrize(
    ("meddle", "left"),
    [
        (lambda path: path.write_text("theirs\n"), "theirs\n"),
        (lambda path: path.unlink(), None),
        (lambda path: (path.unlink(), path.symlink_to("/etc/hostname")), "link"),
        (lambda path: (path.unlink(), path.mkdir()), "directory"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "pipe"),
    ],
)
async def test_a_file_changed_between_question_and_answer_is_left_alone(
    tmp_path: Path, meddle: Change, left: str | None
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    script = tmp_path / "replies.jsonl"
    replies = [{"statement": "edit('a.txt', 'one', 'two')"}, {"text": "Done."}]
    script.write_text("\n".join(map(json.dumps, replies)))
    user = Meddling(lambda: meddle(path))
    settings: dict[str, object] = {"model": f"scripted:{script}"}
    async with session_in(tmp_path, environments=in_process, settings=settings) as session:
        session.set_option("ask_about", "acts")
        session.attach(user)
        await session.accept("go").end()
        (question,) = user.asked
        assert isinstance(question.subject, FileSubject)
        assert question.subject.changes == (TextChange(line=1, old="one\n", new="two\n"),)
        (finished,) = events_of(session, ExecutionFinished)
        assert finished.status == "error"
        assert not written(session)
        session.set_mode("auto")
        assert await value_of(session, "6 * 7") == "42"
    found = {None: not path.exists(), "link": path.is_symlink(), "directory": path.is_dir(), "pipe": path.is_fifo()}
    assert found.get(left, False) or path.read_text() == left


async def test_plan_mode_writes_nothing_and_names_the_tool(tmp_path: Path) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text(json.dumps({"statement": "write('a.txt', 'x')"}) + "\n" + json.dumps({"text": "Done."}))
    settings: dict[str, object] = {"model": f"scripted:{script}"}
    async with session_in(tmp_path, environments=in_process, settings=settings) as session:
        session.set_mode("plan")
        await session.accept("go").end()
        (finished,) = events_of(session, ExecutionFinished)
        assert finished.exception is not None
        assert finished.exception.type == "PermissionError"
        assert "write()" in finished.exception.message
    assert not (tmp_path / "a.txt").exists()


async def test_open_writes_once_with_its_diff_and_one_question(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    script = tmp_path / "replies.jsonl"
    source = (
        "with open('a.txt', 'a') as file:\n    for n in range(3): _ = file.write(f'{n}\\n')\n"
        "open('b.txt', 'w').write('new')\nopen('a.txt').read()"
    )
    script.write_text(json.dumps({"statement": source}) + "\n" + json.dumps({"text": "Done."}))
    user = Meddling(lambda: None)
    settings: dict[str, object] = {"model": f"scripted:{script}"}
    async with session_in(project, state=tmp_path, settings=settings) as session:
        session.set_option("ask_about", "acts")
        session.attach(user)
        await session.accept("go").end()
        (finished,) = events_of(session, ExecutionFinished)
        assert finished.exception is None, finished.exception
        assert finished.value == repr("one\n0\n1\n2\n")
        subjects = [question.subject for question in user.asked]
        changes = [TextChange(line=1, old="one\n", new="one\n0\n1\n2\n"), TextChange(line=1, old=None, new="new")]
        assert [subject.changes for subject in subjects if isinstance(subject, FileSubject)] == [
            (change,) for change in changes
        ]
        assert [event.changes for event in written(session)] == [(change,) for change in changes]
        session.set_mode("auto")
        await session.cell("file = open('b.txt', 'r+'); _ = file.read(); _ = file.write(' and more')")
        assert (project / "b.txt").read_text() == "new and more"
        (project / "b.txt").write_text("theirs")
        said = await failure(session, "file.write('!'); file.close()")
        assert said.startswith("OSError: b.txt has changed since it was last written")
        assert (project / "b.txt").read_text() == "theirs"
        await session.cell("import os; os._exit(1)")
        assert await value_of(session, "_") == "9"
        assert (project / "a.txt").read_text() == "one\n0\n1\n2\n"


REJECTED = PermissionAnswer(outcome="rejected")


async def test_opening_an_attachment_approves_no_act_of_earlier_statements(tmp_path: Path) -> None:
    script = tmp_path / "replies.jsonl"
    planted = """
import sys
def spy(frame, event, argument):
    if frame.f_code.co_name == "_view":
        sys.setprofile(None)
        write("planted.txt", "x")
sys.setprofile(spy)
"""
    script.write_text("\n".join(json.dumps(reply) for reply in ({"statement": planted}, {"text": "Next."})))
    user = FixedPermissions([REJECTED])
    settings: dict[str, object] = {"model": f"scripted:{script}"}
    async with session_in(tmp_path, environments=in_process, settings=settings) as session:
        session.attach(user)
        session.set_option("ask_about", "acts")
        await session.accept("go").end()
        await session.accept(["look", Attachment(uri="mem://notes", name="notes", text="note\n")]).end()
        (question,) = user.questions
        assert question.subject == FileSubject(
            path=str(tmp_path / "planted.txt"), changes=(TextChange(line=1, old=None, new="x"),)
        )
    assert not (tmp_path / "planted.txt").exists()
