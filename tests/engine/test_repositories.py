"""The places of a repository that git runs programs by, found as they are on the disk."""

from __future__ import annotations

import os
from pathlib import Path

from engine.repositories import places_that_run

NAMES = ("config", "config.worktree", "hooks")


def made(git: Path) -> None:
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")


def of(*repositories: Path) -> tuple[str, ...]:
    return tuple(str(each / name) for each in repositories for name in NAMES)


def test_those_of_a_directory_are_named_before_they_are_there(tmp_path: Path) -> None:
    assert places_that_run(str(tmp_path)) == of(tmp_path / ".git")


def test_those_of_submodules_are_named_whatever_these_are_called_and_have(tmp_path: Path) -> None:
    modules = tmp_path / ".git/modules"
    found = [modules / "a", modules / "libs/b", modules / "libs/b/modules/c"]
    for each in (tmp_path / ".git", *found):
        made(each)
    (modules / "link").symlink_to(tmp_path)
    assert set(places_that_run(str(tmp_path))) == set(of(tmp_path / ".git", *found))


def test_those_of_repositories_within_are_named_but_not_through_links(tmp_path: Path) -> None:
    made(tmp_path / "outside/.git")
    root = tmp_path / "root"
    for name in ("libs/one", "two"):
        made(root / name / ".git")
    made(root / "two/.git/modules/m")
    (root / "three").mkdir()
    (root / "three/.git").write_text("gitdir: ../two/.git/modules/m\n")
    (root / "link").symlink_to(tmp_path / "outside")
    found = of(*(root / name for name in (".git", "libs/one/.git", "two/.git", "two/.git/modules/m")))
    assert set(places_that_run(str(root))) == {*found, str(root / "three/.git")}


def test_in_a_further_work_tree_it_is_the_file_that_says_where_the_repository_is(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /elsewhere\n")
    assert places_that_run(str(tmp_path)) == (str(tmp_path / ".git"),)


def test_the_looking_ends_whatever_is_there(tmp_path: Path) -> None:
    made(tmp_path / ".git")
    for number in range(300):
        made(tmp_path / f".git/modules/{number}")
    place = os.open(tmp_path / ".git/modules", os.O_RDONLY)
    for _ in range(300):
        os.mkdir("down", dir_fd=place)
        inner = os.open("down", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    wide = tmp_path / "wide"
    for number in range(1_500):
        (wide / str(number)).mkdir(parents=True)
    assert len(places_that_run(str(tmp_path))) == 51 * len(NAMES)
    assert places_that_run("/nowhere") == of(Path("/nowhere/.git"))
