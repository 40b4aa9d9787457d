"""A view of a directory is a listing: followed, compared, recorded and rebuilt like a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log.events.nodes import NodeChanged
from tests.support.boards import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    for name in ("src/deep", "docs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "src" / "main.py").write_text("x")
    (tmp_path / "src" / "a\nb").write_text("x")
    (tmp_path / "src" / "link").symlink_to(tmp_path / "nowhere")
    return Desk(tmp_path)


def _shown(desk: Desk, statement: str) -> str:
    return desk.run(statement).displays[-1].text


def test_names_stand_in_order_and_on_a_line_each(desk: Desk) -> None:
    assert _shown(desk, "a = view('src')") == "(directory, 4 entries)\n1\ta\\nb\n2\tdeep/\n3\tlink\n4\tmain.py\n"
    assert _shown(desk, "view('docs')") == "(empty directory)\n"
    assert _shown(desk, "show(a, lod=2)") == "(directory, 4 entries)\n"
    assert _shown(desk, "show(a, lod=1)") == _shown(desk, "show(a, lod=0)")


def test_new_and_removed_names_are_reported_at_ticks_and_level_3(desk: Desk, tmp_path: Path) -> None:
    desk.run("a = view('src', freq='Sync')")
    desk.tail()
    assert desk.tick() == ()
    (tmp_path / "src" / "new.py").write_text("x")
    (tmp_path / "src" / "main.py").unlink()
    (changed,) = [event.delta for event in desk.tick() if isinstance(event, NodeChanged)]
    assert changed == "entries of src: 1 new (new.py), 1 gone (main.py)"
    assert _shown(desk, "show(a, lod=3)").endswith(" link\n-main.py\n+new.py\n")


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_rebuild_shows_the_names_of_then(desk: Desk, tmp_path: Path, is_gone: bool) -> None:
    text = _shown(desk, "a = view('src')")
    if is_gone:
        (tmp_path / "src").rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "src" / "later.py").write_text("x")
    assert _shown(desk.rebuilt(), "show(a)") == text


def test_a_directory_where_a_file_was_is_a_change(desk: Desk, tmp_path: Path) -> None:
    desk.write("x", "one\n")
    desk.run("a = view('x', freq='Sync')")
    (tmp_path / "x").unlink()
    (tmp_path / "x").mkdir()
    (changed,) = [event.delta for event in desk.tick() if isinstance(event, NodeChanged)]
    assert changed == "x is something else now: empty directory"
