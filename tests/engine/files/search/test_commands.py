"""Output of searches, and which ripgrep is used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.files.search.commands import PrintedFile, find_ripgrep, read_complaints, read_files, read_names
from engine.files.search.ignore_files import place_of
from tests.support.searching import RIPGREP, files


def test_a_binary_file_has_no_lines() -> None:
    rows = b'1:x\n./a: WARNING: stopped searching binary file after match (found "\\0" byte around offset 7)\n'
    assert (PrintedFile(b"a", rows).count(), PrintedFile(b"a", rows).read().matches) == (0, ())
    rows = b"1:x\n2-y\r\n--\r\n9:WARNING: 1:\n10:\n"
    assert PrintedFile(b"a", rows).count() == 3
    assert PrintedFile(b"a", rows).read().lines == {1: "x", 2: "y", 9: "WARNING: 1:", 10: ""}


def test_what_was_cut_off_is_left_out() -> None:
    whole = b"./a\x001:x\n2:y\n\n./b\n\nc\x005:z\n"
    found = [[(file.path, file.count()) for file in read_files(whole[:end])] for end in range(len(whole) + 1)]
    assert found[-1] == [(b"a", 2), (b"b\n\nc", 1)]
    assert all(each[0] in ((b"a", 0), (b"a", 1), (b"a", 2)) for each in found if each)
    assert read_names(b"./a\0./b\nc\0./cut o") == ["a", "b\nc"]
    assert read_names(b"") == []


def test_unreadable_places_are_told_from_other_errors() -> None:
    said = b"rg: ./a: b: Permission denied (os error 13)\n./c: Too many levels (os error 40)\nrg: other\n"
    complaints = read_complaints(said + b"\n\nConsider enabling PCRE2 with the --pcre2 flag\n")
    assert complaints.unreadable == (("a: b", "Permission denied"), ("c", "Too many levels"))
    assert complaints.other == "other"


def planted(directory: Path, mode: int = 0o755) -> str:
    files(directory, {"rg": "#!/bin/sh\n"})
    (directory / "rg").chmod(mode)
    return str(directory / "rg")


def test_the_first_ripgrep_outside_projects_is_used(tmp_path: Path) -> None:
    planted(tmp_path / "project" / ".venv" / "bin")
    found = planted(tmp_path / "bin")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "rg").symlink_to(tmp_path / "project" / ".venv" / "bin" / "rg")
    path = f"{tmp_path}/project/.venv/bin:{tmp_path}/linked:bin:.::{tmp_path}/none:{tmp_path}/bin"
    assert find_ripgrep(path, (str(tmp_path / "project"),), "") == found
    assert find_ripgrep(path, (str(tmp_path),), "") is None
    (tmp_path / "alias").symlink_to(tmp_path / "project")
    assert find_ripgrep(path, (str(tmp_path / "alias"),), "") == found


@pytest.mark.parametrize(("program", "directory"), [(0o777, 0o755), (0o757, 0o755), (0o755, 0o777), (0o644, 0o755)])
def test_a_ripgrep_that_others_can_write_is_skipped(tmp_path: Path, program: int, directory: int) -> None:
    planted(tmp_path / "first", program)
    (tmp_path / "first").chmod(directory)
    found = planted(tmp_path / "second")
    assert find_ripgrep(f"{tmp_path}/first:{tmp_path}/second", (), "") == found
    assert find_ripgrep(f"{tmp_path}/second", (), f"{tmp_path}/first") == found


def test_the_ripgrep_of_our_own_environment_is_used_first(tmp_path: Path) -> None:
    own, other = planted(tmp_path / "own"), planted(tmp_path / "other")
    assert find_ripgrep(f"{tmp_path}/other", (), f"{tmp_path}/own") == own
    assert find_ripgrep(f"{tmp_path}/other", (), f"{tmp_path}/none") == other
    assert find_ripgrep(f"{tmp_path}/other", (f"{tmp_path}/own",), f"{tmp_path}/own") == other
    assert find_ripgrep("", ()) == RIPGREP


def test_one_that_appears_later_is_not_used(tmp_path: Path) -> None:
    path = f"{tmp_path}/bin"
    assert find_ripgrep(path, (), "") is None
    planted(tmp_path / "bin")
    assert find_ripgrep(path, ("/elsewhere",), "") is None


def test_the_top_is_the_repository_or_the_workspace(tmp_path: Path) -> None:
    files(tmp_path, {"repo/.git/HEAD": "", "repo/a/b/c": "", "plain/a/b/c": ""})
    repository = place_of(str(tmp_path / "repo" / "a" / "b"), (str(tmp_path / "repo" / "a"),))
    assert (repository.above, repository.in_repository) == ((f"{tmp_path}/repo", f"{tmp_path}/repo/a"), True)
    plain = place_of(str(tmp_path / "plain" / "a" / "b" / "c"), (str(tmp_path / "plain"),))
    assert (plain.directory, plain.name, plain.in_repository) == (f"{tmp_path}/plain/a/b", "c", False)
    assert plain.above == (f"{tmp_path}/plain", f"{tmp_path}/plain/a")
    assert os.path.isabs(plain.directory)
