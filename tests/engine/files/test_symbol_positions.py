"""Positions by symbol: found, refused with the nearest names, and followed when the file changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.files.revision import decoded
from engine.files.view import ViewHandle
from engine.log.events.nodes import NodeChanged
from tests.support.boards import Desk

_TEXT = "import os\n\n\nclass Foo:\n    def bar(self):\n        return 1\n\n\nclass Other:\n    pass\n"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.write("a.py", _TEXT)
    return desk


def _handle(desk: Desk) -> ViewHandle:
    handle = desk.get("a")
    assert isinstance(handle, ViewHandle)
    return handle


@pytest.mark.parametrize(
    ("pos", "line"), [("class Foo", 4), ("Foo.bar", 5), ("bar", 5), ("def bar(self):", 5), (" Other ", 9)]
)
def test_a_symbol_is_a_position(desk: Desk, pos: str, line: int) -> None:
    report = desk.run(f"a = view('a.py', pos={pos!r}, tokens=20)")
    assert report.displays[0].title == f"a.py:{line} ({pos.strip()})"
    assert report.locations[0].line <= line
    assert f"\n{line}\t" in "\n" + report.displays[0].text
    assert desk.run(f"a.SetPos('1').SetPos({pos!r}); show(a)").displays[0].title == f"a.py:{line} ({pos.strip()})"
    assert (_handle(desk).pos, _handle(desk).place.line) == (pos.strip(), line - 1)


def test_a_symbol_that_is_not_there_is_refused_with_the_nearest_names(desk: Desk) -> None:
    desk.run("a = view('a.py', '7')")
    before = _handle(desk).GetDigest()
    with pytest.raises(ValueError, match=r"pos='class Fooo': a.py declares nothing of that name; nearest: \"Foo\""):
        desk.run("a.SetPos('class Fooo')")
    with pytest.raises(ValueError, match="symbol such as"):
        desk.run("b = view('a.py', pos='zzzzzz')")
    assert _handle(desk).GetDigest() == before
    assert desk.run("0").events == ()


def test_a_view_at_a_symbol_follows_it(desk: Desk) -> None:
    desk.run("a = view('a.py', pos='Foo.bar', freq='Sync')")
    desk.write("a.py", "# more\n" * 30 + _TEXT)
    desk.tick()
    assert _handle(desk).title == "a.py:35 (Foo.bar)"
    desk.run("a.Pause()")
    desk.write("a.py", _TEXT)
    assert desk.run("show(a.Refresh())").displays[0].title == "a.py:5 (Foo.bar)"


def test_a_view_whose_symbol_is_gone_says_so_and_stays_near(desk: Desk) -> None:
    desk.run("a = view('a.py', pos='class Other', freq='Sync')")
    desk.write("a.py", _TEXT.replace("Other", "Another"))
    (changed,) = [event for event in desk.tick() if isinstance(event, NodeChanged)]
    assert "; class Other is gone, the view stays at line 9\n@@" in changed.delta
    assert _handle(desk).title == "a.py:9 (class Other is gone)"
    desk.write("a.py", "only\n")
    assert not any("is gone" in event.delta for event in desk.tick() if isinstance(event, NodeChanged))
    assert _handle(desk).title == "a.py (class Other is gone)"
    desk.write("a.py", _TEXT)
    desk.tick()
    assert _handle(desk).title == "a.py:9 (class Other)"


def test_a_symbol_of_a_file_that_is_not_there_yet_is_found_once_it_is(desk: Desk) -> None:
    desk.run("a = view('later.py', pos='class Foo', freq='Sync')")
    assert _handle(desk).title == "later.py (class Foo)"
    desk.write("later.py", _TEXT)
    desk.tick()
    assert _handle(desk).title == "later.py:4 (class Foo)"


def test_a_symbol_in_a_part_of_a_file_has_the_number_of_the_file(desk: Desk) -> None:
    desk.run("a = view('a.py', text='def g():\\n    pass\\n\\n\\ndef h():\\n    pass\\n', first_line=40, pos='h')")
    assert _handle(desk).title == "a.py:44 (h)"


def test_scrolling_leaves_the_symbol(desk: Desk) -> None:
    desk.run("a = view('a.py', pos='class Foo').Scroll(1)")
    assert (_handle(desk).pos, _handle(desk).title) == ("5:0", "a.py:5")


@pytest.mark.parametrize("gone", [True, False])
def test_a_symbol_position_survives_a_rebuild_and_plain_data(desk: Desk, gone: bool) -> None:
    desk.run("a = view('a.py', pos='class Other', freq='Sync')")
    text = _TEXT.replace("Other", "Another") if gone else "# more\n" + _TEXT
    desk.write("a.py", text)
    desk.tick()
    again = desk.rebuilt()
    loaded = Desk(desk.root)
    loaded.board.looks.take_content(decoded(text.encode()).digest, text.encode())
    loaded.namespace["a"] = loaded.board.node_from("view-1.1", desk.board.state_of(_handle(desk)))
    title = "a.py:9 (class Other is gone)" if gone else "a.py:10 (class Other)"
    assert [_handle(each).title for each in (desk, again, loaded)] == [title] * 3


def test_the_window_is_told_as_plain_data(desk: Desk) -> None:
    desk.run(
        "a = view('a.py', pos='class Foo', tokens=30); b = a.window_spec; c = view('none', tokens=All).window_spec"
    )
    first = desk.get("b")
    assert isinstance(first, dict)
    assert first["anchors"] == ["class Foo", 4]
    assert first["range_tokens"] == [_handle(desk).rendered.tokens, 30]
    assert first["range_lines"] == [_handle(desk).rendered.first_line, _handle(desk).rendered.last_line]
    second = desk.get("c")
    assert isinstance(second, dict)
    assert (second["range_lines"], second["range_tokens"][1], second["anchors"]) == (None, None, ["0:0", 1])
