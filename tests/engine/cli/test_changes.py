"""Undo, redo and the list of changed files as commands."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from engine.cli.commands import complaint
from engine.session.past.undoing import NOTHING_TO_REDO
from tests.engine.cli.test_going_back import session_of
from tests.support.commands import Home

COMMAND = "bash('echo two > a.txt; printf \"\\\\0\\\\1\" > b.bin; mkdir d; echo n > d/n')"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    return project


def test_undo_and_redo_in_a_shell(empty: Home, project: Path) -> None:
    session = session_of(empty, project, COMMAND)
    dry = empty.run("undo", session[:12], "--dry-run")
    assert (dry.returncode, dry.stderr) == (0, "")
    assert dry.stdout == "This would undo 4 files: `a.txt`, `b.bin`, `d/n`, `d`.\n"
    assert (project / "d" / "n").exists()
    done = empty.run("undo", session)
    assert (done.returncode, done.stdout) == (0, "Undid what statement 1 did to 4 files: a.txt, b.bin, d/n, d.\n")
    assert sorted(path.name for path in project.iterdir()) == ["a.txt"]
    again = json.loads(empty.run("redo", session, "--json").stdout)
    assert again == {
        "done": True,
        "files": [str(project / each) for each in ("d", "d/n", "b.bin", "a.txt")],
        "left": {},
    }
    assert (project / "d" / "n").read_text() == "n\n"
    refused = empty.run("redo", session)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == f"{complaint(NOTHING_TO_REDO)}\n"


def test_changes_are_listed_and_make_a_patch(empty: Home, project: Path, tmp_path: Path) -> None:
    session = session_of(empty, project, COMMAND, "bash('rm a.txt')")
    assert empty.run("changes", session).stdout == (
        "3 files changed:\n\n- `a.txt`: removed, -1\n- `b.bin`: made, binary, 2 bytes\n- `d/n`: made, +1\n"
    )
    assert (
        empty.run("changes", session, "--since", "1").stdout
        == "1 file changed since statement 1:\n\n- `a.txt`: removed, -1\n"
    )
    listed = json.loads(empty.run("changes", session, "--json").stdout)
    assert listed["files"][2] == {
        "path": str(project / "d" / "n"),
        "change": "made",
        "added": 1,
        "removed": 0,
        "reason": None,
    }
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "a.txt").write_text("one\n")
    patch = empty.run("changes", session, "--patch").stdout
    subprocess.run(["git", "apply"], input=patch, cwd=copy, text=True, check=True)
    assert {path.name: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == {
        "b.bin": b"\0\1",
        "n": b"n\n",
    }
    assert empty.run("changes", session, "--since", "9").returncode == 1
