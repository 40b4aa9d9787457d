"""What may be viewed, and how its title reads."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from engine.core.domain import is_inside
from engine.files.document import path_of, title_of


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


def test_an_open_file_without_a_path_points_to_the_text_form(tmp_path: Path) -> None:
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
