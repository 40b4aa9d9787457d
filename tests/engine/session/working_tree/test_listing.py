"""The listed entries are those that git would add, also when the same lister looks again and again."""

from __future__ import annotations

import os
import random
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from engine.files.search.ignore_files import place_of
from engine.files.temporary_files import recorded
from engine.session.working_tree import listing
from engine.session.working_tree.listing import MOST_LEVELS, Lister, TooLargeError

NAMES = ("a", "b.log", "build", "c.py", "d")
RULES = ("*.log\n", "build/\n", "/a\n", "!b.log\n", "d/\n!d/c.py\n", "")


def of_git(root: Path) -> set[str]:
    done = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--exclude-standard"], cwd=root, capture_output=True, check=True
    )
    return set(map(os.fsdecode, done.stdout.split(b"\0"))) - {""}


def change(root: Path, rng: random.Random) -> None:
    """Make, change or remove something."""
    folder = root.joinpath(*rng.choices(("d", "build", "e"), k=rng.randint(0, 2)))
    if rng.random() < 0.3:
        with suppress(OSError):  # because a file has the name
            folder.mkdir(parents=True, exist_ok=True)
    if not folder.is_dir():
        return
    path = folder / rng.choice(NAMES)
    match rng.randrange(5):
        case 0 if path.is_file() or path.is_symlink():
            path.unlink()
        case 1 if not path.exists() and not path.is_symlink():
            path.symlink_to(rng.choice(NAMES))
        case 2:
            (folder / ".gitignore").write_text("".join(rng.choices(RULES, k=2)))
        case _ if not path.is_dir() and not path.is_symlink():
            path.write_text(str(rng.random()))
        case _:
            pass


@pytest.mark.parametrize("seed", range(8))
def test_entries_are_those_of_git(tmp_path: Path, seed: int) -> None:
    rng, lister = random.Random(seed), Lister()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for round_ in range(12):
        for _ in range(4):
            change(tmp_path, rng)
        if round_ % 3 == 0:
            time.sleep(0.06)  # so that directories are remembered
        found = lister.list_tree(place_of(str(tmp_path), (str(tmp_path),)))
        assert {path for path in found if not path.endswith("/")} == of_git(tmp_path)


def test_directory_with_only_left_out_entries_is_left_out(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "x.log").touch()
    (tmp_path / "empty").mkdir()
    found = Lister().list_tree(place_of(str(tmp_path), (str(tmp_path),)))
    assert set(found) == {".gitignore", "empty/"}


def test_file_that_a_tool_is_writing_is_left_out(tmp_path: Path) -> None:
    with recorded(None, str(tmp_path)) as temporary:
        (tmp_path / temporary).touch()
        (tmp_path / "a").touch()
        assert set(Lister().list_tree(place_of(str(tmp_path), (str(tmp_path),)))) == {"a"}


def test_too_large_a_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_ENTRIES", 3)
    for name in "abcd":
        (tmp_path / name).touch()
    with pytest.raises(TooLargeError):
        Lister().list_tree(place_of(str(tmp_path), (str(tmp_path),)))


def test_too_deep_a_directory_is_refused(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"d" * (MOST_LEVELS + 1))
    deep.mkdir(parents=True)
    with pytest.raises(TooLargeError):
        Lister().list_tree(place_of(str(tmp_path), (str(tmp_path),)))
    deep.rmdir()
    Lister().list_tree(place_of(str(tmp_path), (str(tmp_path),)))


def test_link_that_replaces_a_directory_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").touch()
    project = tmp_path / "project"
    (project / "d").mkdir(parents=True)
    lister, place = Lister(), place_of(str(project), (str(project),))
    lister.list_tree(place)
    (project / "d").rmdir()
    (project / "d").symlink_to(outside)
    assert set(lister.list_tree(place)) == {"d"}
