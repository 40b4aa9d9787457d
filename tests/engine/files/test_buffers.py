"""When the editor is asked for a file's text, and which text is unsaved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.encodings import decode
from engine.files.buffers import ONLY_IN_EDITOR, UNSAVED, if_saved, mark_of
from engine.files.revision import LARGEST
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
    return view.measure().text


@pytest.fixture
def editing(tmp_path: Path) -> Editing:
    return Editing(tmp_path)


def test_a_tick_asks_once_for_unknown_texts(editing: Editing) -> None:
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


def test_each_statement_asks_once_for_each_path(editing: Editing) -> None:
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


@pytest.mark.parametrize("content", [b"\x00\x01", b"x" * (LARGEST + 1)])
def test_the_editor_is_not_asked_for_what_it_cannot_hold(editing: Editing, content: bytes) -> None:
    editing.desk.write("a", content)
    editing.desk.run("a = view('a'); b = view('.'); c = group('*.py')")
    assert editing.asked == []


@pytest.mark.parametrize("text", ["x" * (LARGEST + 1), "\0\0\0"])
def test_unviewable_text_is_left_to_the_disk(editing: Editing, text: str) -> None:
    editing.desk.write("a.py", "saved\n")
    editing.hold("a.py", text)
    editing.desk.run("a = view('a.py')")
    assert editing.shown("a") == "1\tsaved\n"


def test_earlier_text_of_the_disk_is_old_after_a_change(editing: Editing) -> None:
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


def test_an_async_view_does_not_fall_back_to_the_disk(editing: Editing) -> None:
    editing.desk.write("a.py", "saved\n")
    editing.hold("a.py", "unsaved\n")
    editing.desk.run("a = view('a.py', freq='Async')")
    editing.desk.tick(editing.desk.prepared("a", b"saved\n"))
    assert "unsaved\n" in editing.shown("a")


def test_an_unsaved_text_is_recorded_once_and_replayed(editing: Editing) -> None:
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
    assert changed.delta == "a.py now has the editor's text on disk"
    assert text_of(editing.desk.rebuilt(), "a") == editing.shown("a") == "1\tunsaved\n"
    assert editing.asked[-1] == [str(editing.desk.root / "a.py")]


@pytest.mark.parametrize(
    ("text", "on_disk"),
    [
        ("", None),
        ("", b""),
        ("a\nb\n", b"a\nb\n"),
        ("a\nb", b"a\nb\n"),
        ("a\nb\n", b"a\r\nb\r\n"),
        ("a\r\nb\r\n", b"a\nb\n"),
        ("a\nb\n", b"a\rb\r"),
        ("\u00e4\n", b"\xef\xbb\xbf\xc3\xa4\n"),
        ("\ufeff\u00e4\n", b"\xc3\xa4\n"),
        ("\u00e4\n", b"\xff\xfe\xe4\x00\n\x00"),
        ("\u00e4\n", b"\xe4\n"),
        ("\ufffd\n", b"\xe4\n"),
        ("text", b"\x00binary"),
    ],
)
def test_how_an_editor_holds_a_file_is_no_change(text: str, on_disk: bytes | None) -> None:
    assert if_saved(text, on_disk) is None


@pytest.mark.parametrize(
    ("text", "on_disk", "saved"),
    [
        ("new\n", None, b"new\n"),
        ("b\n", b"a\n", b"b\n"),
        ("", b"a\n", b""),
        ("a\nc\n", b"a\r\nb\r\n", b"a\r\nc\r\n"),
        ("a\r\nc\r\n", b"a\nb\n", b"a\nc\n"),
        ("a\nc\r\n", b"a\nb\r\n", b"a\nc\r\n"),
        ("\ufeffb\n", b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n"),
        ("b\n", b"\xff\xfea\x00\n\x00", b"\xff\xfeb\x00\n\x00"),
        ("\u00e4b\n", b"\xe4\n", b"\xe4b\n"),
        ("\u20ac\n", b"\xe4\n", "\u20ac\n".encode()),
        ("\ud83d\ude00\udc00\n", b"a\n", "\U0001f600\ufffd\n".encode()),
    ],
)
def test_an_unsaved_text_has_its_files_encoding_and_line_ends(text: str, on_disk: bytes | None, saved: bytes) -> None:
    assert if_saved(text, on_disk) == saved


@given(st.text(), st.binary())
def test_what_would_be_saved_is_no_change_once_it_is(text: str, on_disk: bytes) -> None:
    saved = if_saved(text, on_disk)
    if saved is not None and decode(saved) is not None:
        assert if_saved(text, saved) is None


@given(st.text(alphabet="a\n\ufeff"))
def test_texts_that_may_be_one_content_have_one_mark(text: str) -> None:
    assert mark_of(text) == mark_of(text.replace("\n", "\r\n"))
    assert mark_of("a" + text) != mark_of("b" + text)
