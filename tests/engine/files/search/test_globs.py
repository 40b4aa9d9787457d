"""Globs and the output of searches: matches, equal rules for both programs, and which ripgrep is used."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files.search.commands import PrintedFile, find_ripgrep, read_complaints, read_files, read_names
from engine.files.search.globs import MAX_CHARS, read_glob
from engine.files.search.ignore_files import place_of
from tests.support.searching import RIPGREP, files


def matches(glob: str, path: str) -> bool:
    return re.fullmatch(read_glob(glob).expression, path) is not None


@pytest.mark.parametrize(
    ("glob", "inside", "outside"),
    [
        ("*.py", ["a.py", "src/a.py", ".py", "a/b/c.py"], ["a.pyc", "py", "a.py/b"]),
        ("Makefile", ["Makefile", "src/Makefile"], ["makefile", "Makefile.am"]),
        ("./Makefile", ["Makefile"], ["src/Makefile"]),
        ("src/*.py", ["src/a.py"], ["src/b/a.py", "x/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/b/c/a.py"], ["a.py", "srcs/a.py"]),
        ("**/*.py", ["a.py", "b/a.py"], ["a.pyi"]),
        ("**/test/**/x*y", ["test/xy", "a/test/b/c/x.y", "test/test/xy"], ["test", "a/xy", "test/x"]),
        ("src/", ["src/a", "src/b/c"], ["src", "a/src/b"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "b"]),
        ("**", ["a", "b/c"], []),
        ("a?c", ["abc", "aéc", "x/a.c"], ["ac", "a/c", "abbc"]),
        ("[a-c]x", ["ax", "d/bx"], ["dx", "/x"]),
        ("[!a-c]x", ["dx", "-x"], ["ax", "a/x"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]a]x", ["]x", "ax"], ["bx"]),
        ("[a&&b]x", ["ax", "&x", "bx"], ["cx"]),
        ("*.{ts,tsx}", ["a.ts", "b/a.tsx"], ["a.t", "a.ts,tsx"]),
        ("{src,lib}/{a,b{1,2}}.c", ["src/a.c", "lib/b2.c"], ["src/b.c"]),
        ("{a}", ["a"], ["{a}"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        (r"\{a\}", ["{a}"], ["a"]),
        ("a*b*c", ["abc", "axbxc", "abbcc"], ["ab", "acb", "abcd"]),
        ("a\nb", ["a\nb"], ["ab"]),
    ],
)
def test_a_glob_matches_whole_paths(glob: str, inside: list[str], outside: list[str]) -> None:
    assert [path for path in inside if not matches(glob, path)] == []
    assert [path for path in outside if matches(glob, path)] == []


@pytest.mark.parametrize(
    ("glob", "says"),
    [
        ("", "is empty"),
        ("./", "is empty"),
        ("{,a}", "is empty"),
        ("/etc/*", "must stay below `path`"),
        ("../*.py", "must stay below `path`"),
        ("a/../../b", "must stay below `path`"),
        ("{a,../b}", "must stay below `path`"),
        ("~/x", "must stay below `path`"),
        ("a[", r"has a \[ without a \]"),
        ("a/[b/c]", r"has a \[ without a \]"),
        ("{a,b", r"has a \{ without a \}"),
        ("a\\", "ends in a backslash"),
        ("[z-a]", "cannot be read: bad character range"),
        ("{a,b}" * 9, "at most 200 alternatives"),
        ("x" * (MAX_CHARS + 1), "at most 1000 characters; this one has 1001"),
    ],
)
def test_an_invalid_glob_is_refused_with_a_sentence(glob: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_glob(glob)


def test_a_glob_of_many_stars_takes_no_time() -> None:
    expression = re.compile(read_glob("**/" + "*a" * 30 + "/**/" * 10 + "*a" * 30 + "b").expression)
    begun = time.process_time()
    assert expression.fullmatch("/".join(["a" * 200] * 15)) is None
    assert time.process_time() - begun < 5


@given(st.text(alphabet="a*?[]{},!\\/.-é\n", max_size=12))
def test_every_text_is_a_glob_or_is_refused(text: str) -> None:
    try:
        glob = read_glob(text)
    except ValueError:
        return
    assert all("\n" not in line for line in glob.ignore_lines)
    re.compile(glob.expression)


def test_a_binary_file_has_no_lines() -> None:
    rows = b'1:x\n./a: WARNING: stopped searching binary file after match (found "\\0" byte around offset 7)\n'
    assert (PrintedFile(b"a", rows).count(), PrintedFile(b"a", rows).read(dict).matches) == (0, ())
    rows = b"1:x\n2-y\r\n--\r\n9:WARNING: 1:\n10:\n"
    assert PrintedFile(b"a", rows).count() == 3
    assert PrintedFile(b"a", rows).read(dict).lines == {1: "x", 2: "y", 9: "WARNING: 1:", 10: ""}


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
