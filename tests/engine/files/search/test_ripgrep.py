"""Which ripgrep is used, and where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.files.search.commands import find_ripgrep
from engine.files.search.ignore_files import place_of
from tests.support.searching import files


def planted(directory: Path, mode: int = 0o755) -> str:
    files(directory, {"rg": "#!/bin/sh\n"})
    (directory / "rg").chmod(mode)
    return str(directory / "rg")


def test_the_first_on_path_is_used_that_is_no_program_of_the_project(tmp_path: Path) -> None:
    planted(tmp_path / "project" / ".venv" / "bin")
    found = planted(tmp_path / "bin")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "rg").symlink_to(tmp_path / "project" / ".venv" / "bin" / "rg")
    path = f"{tmp_path}/project/.venv/bin:{tmp_path}/linked:bin:.::{tmp_path}/none:{tmp_path}/bin"
    assert find_ripgrep(path, (str(tmp_path / "project"),)) == found
    assert find_ripgrep(path, (str(tmp_path),)) is None
    (tmp_path / "alias").symlink_to(tmp_path / "project")
    assert find_ripgrep(path, (str(tmp_path / "alias"),)) == found


@pytest.mark.parametrize(("program", "directory"), [(0o777, 0o755), (0o757, 0o755), (0o755, 0o777), (0o644, 0o755)])
def test_one_that_others_can_change_or_that_does_not_run_is_passed_over(
    tmp_path: Path, program: int, directory: int
) -> None:
    planted(tmp_path / "first", program)
    (tmp_path / "first").chmod(directory)
    found = planted(tmp_path / "second")
    assert find_ripgrep(f"{tmp_path}/first:{tmp_path}/second", ()) == found


def test_one_that_appears_later_is_not_used(tmp_path: Path) -> None:
    path = f"{tmp_path}/bin"
    assert find_ripgrep(path, ()) is None
    planted(tmp_path / "bin")
    assert find_ripgrep(path, ("/elsewhere",)) is None


def test_the_top_is_the_repository_or_the_workspace(tmp_path: Path) -> None:
    files(tmp_path, {"repo/.git/HEAD": "", "repo/a/b/c": "", "plain/a/b/c": ""})
    repository = place_of(str(tmp_path / "repo" / "a" / "b"), (str(tmp_path / "repo" / "a"),))
    assert (repository.above, repository.in_repository) == ((f"{tmp_path}/repo", f"{tmp_path}/repo/a"), True)
    plain = place_of(str(tmp_path / "plain" / "a" / "b" / "c"), (str(tmp_path / "plain"),))
    assert (plain.directory, plain.name, plain.in_repository) == (f"{tmp_path}/plain/a/b", "c", False)
    assert plain.above == (f"{tmp_path}/plain", f"{tmp_path}/plain/a")
    assert os.path.isabs(plain.directory)
