"""The walk for groups: what it lists, what it remembers, and when it looks again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.runtime.worker.handles import trees
from engine.runtime.worker.handles.trees import DirectTrees, Tree


def _made(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")


def _paths(listing: str) -> list[str]:
    return [line.split(" ", 2)[2] for line in listing.splitlines() if " " in line]


def _tree(root: Path, pattern: str = "**", now: float = 0.0) -> Tree:
    return Tree(str(root), pattern, lambda: now)


def test_unchanged_tree_gives_the_same_text_without_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _made(tmp_path, "a/b.py", "a/c/d.py", ".gitignore")
    tree = _tree(tmp_path)
    before = tree.listing()
    read: list[object] = []
    monkeypatch.setattr(trees, "_scandir", read.append)
    assert tree.listing() is before
    assert read == []


def test_written_file_alone_has_another_mark(tmp_path: Path) -> None:
    _made(tmp_path, "a.py", "b.py")
    tree = _tree(tmp_path)
    before = tree.listing().splitlines()
    (tmp_path / "b.py").write_text("longer\n")
    after = tree.listing().splitlines()
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False]


def test_edited_ignore_file_counts_at_once(tmp_path: Path) -> None:
    _made(tmp_path, "deep/a.py", "deep/b.txt", "deep/in/c.txt")
    (tmp_path / "deep/.gitignore").write_text("*.py\n")
    tree = _tree(tmp_path, "deep/**")
    assert _paths(tree.listing()) == ["deep/.gitignore", "deep/b.txt", "deep/in/c.txt"]
    (tmp_path / "deep/.gitignore").write_text("*.txt\n")
    assert _paths(tree.listing()) == ["deep/.gitignore", "deep/a.py"]
    (tmp_path / "deep/.gitignore").unlink()
    assert _paths(tree.listing()) == ["deep/a.py", "deep/b.txt", "deep/in/c.txt"]


def test_rules_above_the_place_count_and_are_looked_at_again(tmp_path: Path) -> None:
    _made(tmp_path, "src/deep/a.py", "src/deep/b.py", ".git/HEAD")
    (tmp_path / ".gitignore").write_text("/src/deep/a.py\n")
    tree = _tree(tmp_path, "src/deep/*.py")
    assert _paths(tree.listing()) == ["src/deep/b.py"]
    (tmp_path / ".gitignore").write_text("b.py\n")
    assert _paths(tree.listing()) == ["src/deep/a.py"]


def test_young_directory_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _made(tmp_path, "a.py")
    state = os.stat(tmp_path)
    # As a kernel that stamps in ticks tells of two changes within one of them.
    monkeypatch.setattr(trees, "_fstat", lambda _: state)
    young, old = _tree(tmp_path, now=state.st_ctime), _tree(tmp_path, now=state.st_ctime + 1)
    assert _paths(young.listing()) == _paths(old.listing()) == ["a.py"]
    _made(tmp_path, "b.py")
    assert _paths(young.listing()) == ["a.py", "b.py"]
    assert _paths(old.listing()) == ["a.py"]


def test_star_matches_a_name_not_its_directory(tmp_path: Path) -> None:
    _made(tmp_path, "src/a.py", "src/keep/b.py")
    (tmp_path / ".gitignore").write_text("src/*\n!src/keep/\n")
    assert _paths(_tree(tmp_path).listing()) == [".gitignore", "src/keep/b.py"]


def test_links_pipes_and_odd_names_are_not_listed(tmp_path: Path) -> None:
    _made(tmp_path, "in/a.py", ".git/config", "two\nlines.py")
    (tmp_path / "link.py").symlink_to("in/a.py")
    (tmp_path / "out").symlink_to("/")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / os.fsdecode(b"caf\xe9.py")).write_text("x")
    assert _paths(_tree(tmp_path).listing()) == ["in/a.py"]


@pytest.mark.parametrize("pattern", ["a/*.py", "{a,b}/*.py", "*/*.py", "./a/b/c/*.py", "a/**/c/*"])
def test_directories_in_which_nothing_can_match_are_not_entered(
    tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _made(tmp_path, "a/x.py", "a/b/c/y.py", "b/z.py", "c/d/e/f.py", "c/g.py")
    opened: list[str] = []
    real = os.open
    monkeypatch.setattr(trees, "_open", lambda path, *rest, **more: (opened.append(path), real(path, *rest, **more))[1])
    found = _paths(_tree(tmp_path, pattern).listing())
    assert found
    assert "c/d/e/" not in opened
    assert {os.path.dirname(path) + "/" for path in found} <= set(opened)


def test_listing_is_cut_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MOST_FILES", 3)
    _made(tmp_path, "a/1", "a/2", "b/1", "b/2", "c/1")
    listing = _tree(tmp_path).listing()
    assert (_paths(listing), listing.splitlines()[-1]) == (["a/1", "a/2", "b/1"], "...")


def test_missing_directory_is_empty_until_it_is_made(tmp_path: Path) -> None:
    listings = DirectTrees(lambda: 0.0)
    assert listings.listing(str(tmp_path), "src/**") == ""
    _made(tmp_path, "src/a.py")
    assert _paths(listings.listing(str(tmp_path), "src/**")) == ["src/a.py"]
