"""When an editor is asked for the text of a file, and what a view makes of the answer, or of none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from engine.files.buffers import ONLY_IN_EDITOR, UNSAVED
from engine.files.revision import LARGEST
from engine.files.view import ViewHandle
from engine.log.events.nodes import FileChanged, RevisionAdopted
from tests.support.boards import Desk


class Editing:
    """A desk whose user has an editor; `answers` is what it says, None where nobody can be asked."""

    def __init__(self, root: Path) -> None:
        self.answers: dict[str, str] | None = {}
        self.asked: list[Sequence[str]] = []
        self.desk = Desk(root, ask_editor=self._ask)
        self.moved(None)

    def _ask(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        self.asked.append(list(paths))
        return {} if self.answers is None else {path: self.answers.get(path) for path in paths}

    def hold(self, name: str, text: str | None) -> str:
        assert self.answers is not None
        path = str(self.desk.root / name)
        if text is None:
            self.answers.pop(path, None)
        else:
            self.answers[path] = text
        return path

    def moved(self, *paths: str | None) -> None:
        self.desk.board.looks.forget_buffers(None if paths == (None,) else [path or "" for path in paths])

    def shown(self, name: str) -> str:
        return text_of(self.desk, name)


def text_of(desk: Desk, name: str) -> str:
    view = desk.get(name)
    assert isinstance(view, ViewHandle)
    return view.measure().text


@pytest.fixture
def editing(tmp_path: Path) -> Editing:
    return Editing(tmp_path)


def test_a_tick_asks_once_for_all_that_it_does_not_know_and_then_not_again(editing: Editing) -> None:
    for name in "ab":
        editing.desk.write(f"{name}.py", "saved\n")
    editing.desk.run("a, b, c = (view(f'{name}.py').Run() for name in 'abc')")
    editing.desk.tick()
    paths = [editing.hold(f"{name}.py", "unsaved\n") for name in "abc"]
    editing.asked.clear()
    editing.moved(None)
    assert len([event for event in editing.desk.tick() if isinstance(event, FileChanged)]) == 3
    assert editing.asked == [paths]
    assert editing.desk.tick() == ()
    editing.moved(paths[1])
    editing.hold("b.py", "else\n")
    (changed,) = [event for event in editing.desk.tick() if isinstance(event, FileChanged)]
    assert changed.path == paths[1]
    assert editing.asked == [paths, [paths[1]]]
    assert ONLY_IN_EDITOR in editing.shown("c")


def test_a_statement_asks_once_for_each_path_and_the_next_one_again(editing: Editing) -> None:
    path = editing.hold("a.py", "one\n")
    editing.desk.run("a = view('a.py'); b = view('a.py'); a.Refresh()")
    assert editing.asked == [[path]]
    editing.hold("a.py", "two\n")
    editing.desk.run("a.Refresh()")
    assert editing.asked == [[path]] * 2
    assert "two" in editing.shown("a")


def test_where_nobody_answers_a_view_shows_what_it_knew(editing: Editing) -> None:
    editing.desk.write("a.py", "saved\n")
    editing.hold("a.py", "unsaved\n")
    editing.desk.run("a = view('a.py').Run()")
    editing.answers = None
    editing.moved(None)
    assert editing.desk.tick() == ()
    assert UNSAVED in editing.shown("a")
    editing.desk.run("b = view('b.py')")
    assert "no file b.py" in editing.shown("b")


def test_nobody_is_asked_before_an_editor_is_followed(tmp_path: Path) -> None:
    asked: list[Sequence[str]] = []

    def ask(paths: Sequence[str]) -> Mapping[str, str | None]:
        asked.append(paths)
        return {}

    desk = Desk(tmp_path, ask_editor=ask)
    desk.run("a = view('a.py').Run()")
    desk.tick()
    assert asked == []


@pytest.mark.parametrize("content", [b"\x00\x01", b"x" * (LARGEST + 1)])
def test_the_editor_is_not_asked_for_what_it_cannot_hold(editing: Editing, content: bytes) -> None:
    editing.desk.write("a", content)
    editing.desk.run("a = view('a'); b = view('.'); c = group('*.py')")
    assert editing.asked == []


@pytest.mark.parametrize("text", ["x" * (LARGEST + 1), "\0\0\0"])
def test_a_text_that_would_be_no_text_of_a_view_is_left_to_the_disk(editing: Editing, text: str) -> None:
    editing.desk.write("a.py", "saved\n")
    editing.hold("a.py", text)
    editing.desk.run("a = view('a.py')")
    assert editing.shown("a") == "1\tsaved\n"


def test_a_text_that_the_disk_held_before_is_old_while_the_change_is_young(editing: Editing) -> None:
    editing.desk.write("a.py", "one\n")
    editing.hold("a.py", "one\n")
    editing.desk.run("a = view('a.py').Run()")
    editing.desk.write("a.py", "two\n")
    editing.moved(None)
    editing.desk.tick()
    assert editing.shown("a") == "1\ttwo\n"
    editing.desk.seconds += 60
    editing.moved(None)
    editing.desk.tick()
    assert editing.shown("a") == f"{UNSAVED}\n1\tone\n", "by now somebody has taken the change back, in the editor"


def test_whoever_only_wants_to_know_takes_unsaved_text_for_what_is_there(editing: Editing) -> None:
    editing.desk.write("a.py", "saved\n")
    editing.hold("a.py", "unsaved\n")
    editing.desk.run("a = view('a.py').Run()")
    assert editing.desk.board.foresee(1, editing.desk.seconds) == ()
    assert len(editing.asked) == 1
    editing.hold("a.py", None)
    editing.moved(None)
    editing.desk.tick()
    editing.desk.write("a.py", "else\n")
    assert len(editing.desk.board.foresee(2, editing.desk.seconds)) == 1


def test_an_async_view_does_not_fall_back_to_the_disk(editing: Editing) -> None:
    editing.desk.write("a.py", "saved\n")
    editing.hold("a.py", "unsaved\n")
    editing.desk.run("a = view('a.py', freq='Async')")
    editing.desk.tick(editing.desk.prepared("a", b"saved\n"))
    assert "unsaved\n" in editing.shown("a")


def test_what_was_unsaved_is_recorded_once_and_seen_again_without_asking(editing: Editing) -> None:
    editing.desk.write("a.py", "saved\n")
    editing.hold("a.py", "unsaved\n")
    report = editing.desk.run("a = view('a.py').Run()")
    (seen,) = [event for event in report.events if isinstance(event, RevisionAdopted)]
    assert seen.notice == UNSAVED
    assert editing.desk.contents == {seen.digest: b"unsaved\n"}
    editing.desk.write("a.py", "unsaved\n")
    editing.hold("a.py", None)
    editing.moved(None)
    (changed,) = [event for event in editing.desk.tick() if isinstance(event, FileChanged)]
    assert changed.delta == "a.py is on disk now as the editor had it"
    assert text_of(editing.desk.rebuilt(), "a") == editing.shown("a") == "1\tunsaved\n"
    assert editing.asked[-1] == [str(editing.desk.root / "a.py")]
