"""What is above a session's directory counts only if nobody else can have made it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.files.project import is_own, own_directories, project_root
from engine.session.directories import find_project_environment
from tests.engine.session.test_directories import make


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory like /tmp, in which somebody else has put a repository and packages, and a project in it."""
    found = tmp_path / "shared"
    (found / "project" / "below").mkdir(parents=True)
    (found / ".git").mkdir()
    make(found / ".venv")
    found.chmod(0o1777)
    return found


def test_a_directory_in_which_everybody_may_write_is_not_part_of_a_project(shared: Path) -> None:
    below = str(shared / "project" / "below")
    assert list(own_directories(below)) == [below, str(shared / "project")]
    assert project_root(below) == below
    assert find_project_environment(below, {}, None).import_paths == ()


def test_what_is_above_in_own_directories_counts(shared: Path) -> None:
    shared.chmod(0o755)
    below = str(shared / "project" / "below")
    assert project_root(below) == str(shared)
    (shared / ".git").rmdir()
    assert find_project_environment(below, {}, None).import_paths


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_another_account_owns_counts_only_if_the_session_is_in_its_directory(shared: Path) -> None:
    shared.chmod(0o755)
    below = str(shared / "project" / "below")
    for name in (".git", ".venv"):
        os.lchown(shared / name, 4711, 4711)
    assert project_root(below) == below
    assert find_project_environment(below, {}, None).import_paths == ()
    assert is_own(str(shared / ".git"), str(shared)) is False
    os.chown(shared, 4711, 4711)
    assert list(own_directories(below)) == [below, str(shared / "project")]
    assert is_own(str(shared / ".git"), str(shared))  # the user has chosen that account's directory
    assert project_root(str(shared)) == str(shared)


def test_what_is_missing_belongs_to_nobody(tmp_path: Path) -> None:
    assert not is_own(str(tmp_path / "none"), str(tmp_path))
    assert project_root(str(tmp_path / "none")) == str(tmp_path / "none")
