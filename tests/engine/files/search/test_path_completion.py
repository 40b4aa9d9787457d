"""Completed paths stay in the workspace, whatever links, ignore files and odd names there are."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from engine.files.search.path_completion import complete_path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for folder in ("src/deep", "docs", "build", ".github", ".git", ".hidden"):
        (root / folder).mkdir(parents=True)
    for file in ("setup.py", "src/a.py", "src/b.pyc", ".gitignore", ".env", "src/deep/c.py", "build/out.o"):
        (root / file).write_text("x\n")
    (root / ".gitignore").write_text("build/\n*.pyc\n/.env\n")
    return root


@pytest.mark.parametrize(
    ("start", "found"),
    [
        ("", ["docs/", "setup.py", "src/"]),
        ("s", ["setup.py", "src/"]),
        ("src", ["src/"]),
        ("src/", ["src/a.py", "src/deep/"]),
        ("src//d", ["src//deep/"]),
        ("./src/de", ["./src/deep/"]),
        ("src/../do", ["src/../docs/"]),
        (".", [".github/", ".gitignore", ".hidden/"]),
        (".git", [".github/", ".gitignore"]),
        ("build/", ["build/out.o"]),
        ("nothing/", []),
        ("setup.py/", []),
        ("S", []),
        ("a\0", []),
        ("\udcff", []),
        ("x" * 5000, []),
    ],
)
def test_names_are_completed_but_for_what_is_ignored_or_hidden(root: Path, start: str, found: list[str]) -> None:
    assert complete_path(start, (str(root),)) == found
    assert complete_path(start, (str(root),), directories=True) == [each for each in found if each.endswith("/")]


def test_absolute_paths_and_further_roots(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    (other / "sub").mkdir(parents=True)
    roots = (str(root), str(other))
    assert complete_path("", roots) == [f"{other}/", "docs/", "setup.py", "src/"]
    assert complete_path(f"{tmp_path}/", roots) == [f"{root}/", f"{other}/"]
    assert complete_path(f"{other}/s", roots) == [f"{other}/sub/"]
    assert complete_path(f"{root}/doc", roots) == [f"{root}/docs/"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert complete_path("~/other/", roots) == ["~/other/sub/"]
    assert complete_path("~/", roots) == []


@pytest.mark.parametrize(
    "start", ["..", "../", "../out", "/", "/etc/", "/etc/pass", "/proc/self/", "evil/", "evil/se", "src/../../"]
)
def test_nothing_is_told_of_what_is_outside(root: Path, tmp_path: Path, start: str) -> None:
    (tmp_path / "outside" / "secret").mkdir(parents=True)
    (root / "evil").symlink_to(tmp_path / "outside")
    found = complete_path(start, (str(root),))
    assert found in ([], [f"{root}/"])


def test_links_count_as_their_targets_inside_the_roots(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    for name, target in (
        ("lnk_dir", "src"),
        ("lnk_file", "setup.py"),
        ("lnk_out", str(tmp_path / "outside")),
        ("lnk_none", str(tmp_path / "nothing")),
        ("lnk_proc", "/proc/self/environ"),
        ("lnk_self", "lnk_self"),
    ):
        (root / name).symlink_to(target)
    assert complete_path("lnk", (str(root),)) == ["lnk_dir/", "lnk_file"]
    assert complete_path("lnk_dir/d", (str(root),)) == ["lnk_dir/deep/"]


def test_what_cannot_be_opened_or_typed_is_left_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    os.mkfifo("x_pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("x_socket")
    Path("x\n").touch()
    Path(os.fsdecode(b"x\xff")).touch()
    Path("x \u202e").touch()
    Path("xé 'q\"").touch()
    assert complete_path("x", (str(root),)) == ["xé 'q\""]
