"""News of names that are made in directories; no news where a system has none."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

import pytest

from engine.runtime.system.new_names import OVERFLOW, NameWatch, NewName
from tests.support.other_system import implementation

SECONDS = 20_000


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell no names")
def test_made_linked_and_moved_names_are_news(tmp_path: Path) -> None:
    for name in ("in", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "out").write_text("")
    watch = NameWatch.open()
    assert watch is not None
    try:
        number = watch.add(str(tmp_path / "in"))
        assert number == watch.add(str(tmp_path / "in"))
        (tmp_path / "in/made").write_text("")
        (tmp_path / "in/folder").mkdir()
        (tmp_path / "in/link").symlink_to("nowhere")
        os.link(tmp_path / "out", tmp_path / "in/hard")
        (tmp_path / "out").rename(tmp_path / "in/moved")
        (tmp_path / "in/moved").unlink()
        (tmp_path / "other").rename(tmp_path / "in/other")
        poll = select.poll()
        poll.register(watch.fileno(), select.POLLIN)
        assert poll.poll(SECONDS)
        assert watch.read() == [
            NewName(number, name, is_made=name == "folder")
            for name in ("made", "folder", "link", "hard", "moved", "other")
        ]
        for path in (tmp_path / "in").iterdir():
            path.rmdir() if path.name in ("folder", "other") else path.unlink()
        (tmp_path / "in").rmdir()
        assert watch.read() == []
    finally:
        watch.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell no names")
def test_no_link_and_no_missing_directory_is_watched(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")
    watch = NameWatch.open()
    assert watch is not None
    try:
        assert [watch.add(str(tmp_path / name)) for name in ("link", "missing")] == [None, None]
    finally:
        watch.close()


def test_other_systems_have_no_watch() -> None:
    module = implementation("engine.runtime.system.new_names", "darwin")
    assert module.NameWatch.open() is None
    assert module.OVERFLOW == OVERFLOW
