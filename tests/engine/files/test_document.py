"""Sources of views, their titles, and positions by line, offset and symbol."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from engine.core.domain import is_inside
from engine.files.document import Place, checked_pos, path_of, resolve, title_of
from engine.log.events.nodes import NodeChanged
from tests.support.boards import Desk
from tests.support.revisions import decoded


def test_paths_are_made_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert path_of("a/b.py", "/w") == "/w/a/b.py"
    assert path_of("./a/../b.py", "/w") == "/w/b.py"
    assert path_of("/x/y", "/w") == "/x/y"
    assert path_of("~/Foo.cs", "/w") == "/home/someone/Foo.cs"
    assert path_of(Path("a"), "/w") == "/w/a"
    assert path_of(b"a", "/w") == "/w/a"
    assert path_of("file:///x/a%20b.py", "/w") == "/x/a b.py"
    assert path_of("file://localhost/x", "/w") == "/x"


def test_an_open_file_is_viewed_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with (tmp_path / "a.txt").open() as file:
        assert path_of(file, "/w") == str(tmp_path / "a.txt")


@pytest.mark.parametrize("source", ["mcp://server/x", "https://example.org", "file://host/x", "", "a\0b"])
def test_what_names_no_file_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        path_of(source, "/w")


def test_an_open_file_without_a_path_suggests_text(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="text="):
        path_of(io.StringIO("x"), "/w")
    with (
        (tmp_path / "x").open("wb") as named,
        open(named.fileno(), "wb", closefd=False) as numbered,
        pytest.raises(ValueError, match="text="),
    ):
        path_of(numbered, "/w")


def test_another_type_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="not int"):
        path_of(7, "/w")


def test_titles_are_relative_inside_and_always_printable() -> None:
    assert title_of("/w/a/b.py", "/w") == "a/b.py"
    assert title_of("/wide/b.py", "/w") == "/wide/b.py"
    assert title_of("/w", "/w") == "/w"
    assert title_of("/w/a\nb\udcff", "/w") == "a\\nb\\udcff"
    assert title_of("/x/y", "/") == "x/y"


def test_inside_means_at_or_below_a_directory() -> None:
    assert is_inside("/w/a", ("/v", "/w"))
    assert is_inside("/w", ("/w",))
    assert not is_inside("/wide", ("/w",))
    assert is_inside("/x", ("/",))


_LINES = ["abc", "", "de"]


@pytest.mark.parametrize(
    ("pos", "place"),
    [
        ("0:0", Place(0, 0)),
        ("1:0", Place(0, 0)),
        ("1:2", Place(0, 2)),
        ("3", Place(2, 0)),
        (" 3 ", Place(2, 0)),
        ("99:99", Place(2, 2)),
        (0, Place(0, 0)),
        (3, Place(0, 3)),
        (4, Place(1, 0)),
        (5, Place(2, 0)),
        (7, Place(2, 2)),
        (1000, Place(2, 2)),
    ],
)
def test_positions_mean_lines_and_columns(pos: str | int, place: Place) -> None:
    assert resolve(checked_pos(pos), _LINES) == place


@pytest.mark.parametrize("pos", ["0:0", "7:3", 12])
def test_a_position_in_nothing_is_the_start(pos: str | int) -> None:
    assert resolve(pos, []) == Place(0, 0)


@pytest.mark.parametrize("pos", ["", " ", "a\nb", "x" * 500, "-1", "1:2:3", "\u0661", -1, 1.5, None, True, "1" * 13])
def test_an_invalid_position_is_refused_with_the_forms(pos: object) -> None:
    with pytest.raises(ValueError, match='give "line:col", "line", a character offset, or a symbol'):
        checked_pos(pos)


_TEXT = "import os\n\n\nclass Foo:\n    def bar(self):\n        return 1\n\n\nclass Other:\n    pass\n"


@pytest.fixture
def desk(desk: Desk) -> Desk:
    desk.write("a.py", _TEXT)
    return desk


@pytest.mark.parametrize(
    ("pos", "line"), [("class Foo", 4), ("Foo.bar", 5), ("bar", 5), ("def bar(self):", 5), (" Other ", 9)]
)
def test_a_symbol_is_a_position(desk: Desk, pos: str, line: int) -> None:
    report = desk.run(f"a = view('a.py', pos={pos!r}, tokens=20)")
    assert report.displays[0].title == f"a.py:{line} ({pos.strip()})"
    assert report.locations[0].line <= line
    assert f"\n{line}\t" in "\n" + report.displays[0].text
    assert desk.run(f"a.SetPos('1').SetPos({pos!r}); show(a)").displays[0].title == f"a.py:{line} ({pos.strip()})"
    assert (desk.get("a").pos, desk.get("a").place.line) == (pos.strip(), line - 1)


def test_an_unknown_symbol_is_refused_with_names_that_may_be_meant(desk: Desk) -> None:
    desk.run("a = view('a.py', '7')")
    before = desk.get("a").GetDigest()
    with pytest.raises(ValueError, match=r"pos='class Fooo': a.py has no symbol of that name; it has \"Foo\","):
        desk.run("a.SetPos('class Fooo')")
    with pytest.raises(ValueError, match="it has"):
        desk.run("b = view('a.py', pos='zzzzzz')")
    assert desk.get("a").GetDigest() == before
    assert desk.run("0").events == ()


def test_a_view_at_a_symbol_follows_it(desk: Desk) -> None:
    desk.run("a = view('a.py', pos='Foo.bar', freq='Sync')")
    desk.write("a.py", "# more\n" * 30 + _TEXT)
    desk.tick()
    assert desk.get("a").title == "a.py:35 (Foo.bar)"
    desk.run("a.Pause()")
    desk.write("a.py", _TEXT)
    assert desk.run("show(a.Refresh())").displays[0].title == "a.py:5 (Foo.bar)"


def test_a_view_whose_symbol_is_gone_stays_near(desk: Desk) -> None:
    desk.run("a = view('a.py', pos='class Other', freq='Sync')")
    desk.write("a.py", _TEXT.replace("Other", "Another"))
    (changed,) = [event for event in desk.tick() if isinstance(event, NodeChanged)]
    assert "; class Other is gone, so the view stays at line 9\n@@" in changed.delta
    assert desk.get("a").title == "a.py:9 (class Other is gone)"
    desk.write("a.py", "only\n")
    assert not any("is gone" in event.delta for event in desk.tick() if isinstance(event, NodeChanged))
    assert desk.get("a").title == "a.py (class Other is gone)"
    desk.write("a.py", _TEXT)
    desk.tick()
    assert desk.get("a").title == "a.py:9 (class Other)"


def test_a_symbol_in_a_part_has_the_files_line_number(desk: Desk) -> None:
    desk.run("a = view('a.py', text='def g():\\n    pass\\n\\n\\ndef h():\\n    pass\\n', first_line=40, pos='h')")
    assert desk.get("a").title == "a.py:44 (h)"


def test_scrolling_leaves_the_symbol(desk: Desk) -> None:
    desk.run("a = view('a.py', pos='class Foo').Scroll(1)")
    assert (desk.get("a").pos, desk.get("a").title) == ("5:0", "a.py:5")


@pytest.mark.parametrize("gone", [True, False])
def test_a_symbol_position_survives_a_rebuild_and_plain_data(desk: Desk, gone: bool) -> None:
    desk.run("a = view('a.py', pos='class Other', freq='Sync')")
    text = _TEXT.replace("Other", "Another") if gone else "# more\n" + _TEXT
    desk.write("a.py", text)
    desk.tick()
    again = desk.rebuilt()
    loaded = Desk(desk.root)
    loaded.board.looks.take_content(decoded(text.encode()).digest, text.encode())
    loaded.namespace["a"] = loaded.board.node_from("view-1.1", desk.board.state_of(desk.get("a")))
    title = "a.py:9 (class Other is gone)" if gone else "a.py:10 (class Other)"
    assert [each.get("a").title for each in (desk, again, loaded)] == [title] * 3


def test_the_window_is_told_as_plain_data(desk: Desk) -> None:
    desk.run(
        "a = view('a.py', pos='class Foo', tokens=30); b = a.window_spec; c = view('none', tokens=All).window_spec"
    )
    first = desk.get("b")
    assert first["anchors"] == ["class Foo", 4]
    assert first["range_tokens"] == [desk.get("a").rendered.tokens, 30]
    assert first["range_lines"] == [desk.get("a").rendered.first_line, desk.get("a").rendered.last_line]
    second = desk.get("c")
    assert (second["range_lines"], second["range_tokens"][1], second["anchors"]) == (None, None, ["0:0", 1])
