"""What views make of a file with secrets has none, before anything of it reaches the host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.core.tokens import count
from engine.files.detail import LEVELS
from engine.files.detail.scene import Scene
from engine.files.disk import Sizes
from engine.files.document import Place, position_at
from engine.files.outline.model import Outline
from engine.files.outlines import utf8
from engine.files.rendered import UNBOUNDED
from engine.files.revision import Revision, decoded, from_text
from engine.log.redaction import Redactor
from tests.support.boards import Desk
from tests.support.outlines import outlined, samples

KEY = "sk-proj-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iXtBy4wKvMpQ8rT6uW2yA4c"
PIECES = [KEY[at : at + 8] for at in range(len(KEY) - 8)]
REDACTOR = Redactor([KEY])
IN_LINES = {
    "whole": [KEY],
    "heading": [f"# {KEY}", f"def {KEY.replace('-', '')}():"],
    "broken": [KEY[at : at + 16] for at in range(0, len(KEY), 16)],
    "literals": [f'    "{KEY[at : at + 16]}" \\' for at in range(0, len(KEY), 16)],
}


def with_key(sample: Path, lines: list[str]) -> tuple[bytes, bytes]:
    """The file with these lines in its middle and at its end, and the same after an edit of both places."""
    before = sample.read_bytes().split(b"\n")
    added = [line.encode() for line in lines]
    middle = len(before) // 2
    whole = [*before[:middle], *added, *before[middle:], *added]
    return b"\n".join(whole), b"\n".join([*whole[: middle - 1], b"edited", *added, *whole[middle:], b"edited"])


@pytest.mark.parametrize("lines", IN_LINES.values(), ids=IN_LINES)
@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.name)
def test_no_level_shows_a_piece_of_a_key(sample: Path, lines: list[str]) -> None:
    first, edited = (decoded(data, REDACTOR.hidden_lines) for data in with_key(sample, lines))
    outline = outlined(utf8(first), sample.name)
    middle = Place(len(first.lines) // 2, 0)
    shown = ""
    for render in LEVELS.values():
        for budget in (90, 700, UNBOUNDED):
            scene = Scene(revision=first, place=middle, budget=budget, count=count, outline=outline, shown_in=1)
            shown += render(scene).text
            shown += render(
                Scene(revision=edited, place=middle, budget=budget, count=count, outline=outline, last_shown=first)
            ).text
    assert "***" in shown
    if lines != IN_LINES["heading"]:  # a name without its signs is another word
        assert [piece for piece in PIECES if piece in shown] == []
    assert KEY not in shown


def outline_of(revision: Revision) -> Outline:
    return outlined(utf8(revision), "a.md")


@pytest.mark.parametrize("guess", [KEY, KEY[:12], KEY[:40], "Title"])
def test_what_is_answered_about_a_symbol_does_not_depend_on_a_key(guess: str) -> None:
    answers: list[str] = []
    for key in (KEY, KEY[::-1]):
        revision = from_text(f"# Title\n\n# {key}\n\ntext\n", Redactor([key]).hidden_lines)
        try:
            answers.append(str(position_at(guess, revision, outline_of, "a.md")))
        except ValueError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]
    assert (guess == "Title") == ("no symbol" not in answers[0])


def test_pages_of_a_large_text_have_no_key(tmp_path: Path) -> None:
    asked: list[int] = []

    def hide(text: str) -> Mapping[int, str]:
        asked.append(len(text))
        return REDACTOR.hidden_lines(text)

    desk = Desk(tmp_path, sizes=Sizes(held=1_000, paged=1 << 20, page=4_096), hide=hide)
    desk.write("a.txt", "".join(f"line {number} {KEY if number == 700 else ''}\n" for number in range(1_500)))
    desk.run("v = view('a.txt', pos='699', tokens=200)")
    text = desk.text("v")
    assert "line 700 ***" in text
    assert KEY not in text
    assert 0 < max(asked) <= 4_096


def test_an_unsaved_text_has_no_key(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    desk = Desk(tmp_path, ask_editor=lambda paths: {path: f"key = {KEY}\nunsaved\n"}, hide=REDACTOR.hidden_lines)
    desk.write("a.txt", "saved\n")
    desk.board.looks.forget_buffers(None)
    desk.run("v = view('a.txt')")
    assert "1\tkey = ***\n2\tunsaved\n" in desk.text("v")


def test_a_change_of_a_key_alone_is_told_without_it(tmp_path: Path) -> None:
    redactor = Redactor([KEY, KEY[::-1]])
    desk = Desk(tmp_path, hide=redactor.hidden_lines)
    desk.write(".env", f"A=1\nKEY={KEY}\n")
    desk.run("v = view('.env', lod=3); v")
    desk.write(".env", f"A=1\nKEY={KEY[::-1]}\n")
    desk.run("v.Refresh()")
    assert "only the form changed" in desk.text("v")
