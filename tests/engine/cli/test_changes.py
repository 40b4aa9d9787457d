"""Undo, redo and the list of changed files as commands."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from engine.cli.changes import NONE_LEFT
from engine.cli.commands import complaint
from engine.log.file_history import MERGED
from engine.session.past.merging import NOT_TEXT, SAME_LINES
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
    assert (done.returncode, done.stdout) == (0, "Undid the changes of statement 1 to 4 files: a.txt, b.bin, d/n, d.\n")
    assert sorted(path.name for path in project.iterdir()) == ["a.txt"]
    again = json.loads(empty.run("redo", session, "--json").stdout)
    assert again == {
        "done": True,
        "files": [str(project / each) for each in ("d", "d/n", "b.bin", "a.txt")],
        "merged": [],
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


def test_merges_and_what_was_left_are_said_in_a_shell(empty: Home, project: Path) -> None:
    lines = "".join(f"{number}\n" for number in range(9))
    for name in ("a.txt", "b.txt"):
        (project / name).write_text(lines)
    (project / "c").write_bytes(b"one\0")
    session = session_of(empty, project, "bash('sed -i s/4/FOUR/ a.txt b.txt; printf two > c')")
    (project / "a.txt").write_text(lines.replace("4", "FOUR") + "mine\n")
    (project / "b.txt").write_text(lines.replace("4", "4 is four"))
    (project / "c").write_bytes(b"three")
    assert empty.run("changes", session, "--left").stdout == f"{NONE_LEFT}\n"
    dry = empty.run("undo", session, "--dry-run").stdout.splitlines()
    assert dry[0] == "This would undo 1 file: `a.txt`."
    assert dry[1:] == [
        MERGED.format(1, "would be", "a.txt"),
        f"b.txt was not restored: {SAME_LINES}.",
        f"c was not restored: {NOT_TEXT}.",
    ]
    said = empty.run("undo", session).stdout.splitlines()
    assert said[1] == MERGED.format(1, "was", "a.txt")
    assert (project / "a.txt").read_text() == lines + "mine\n"
    command = said[-1].split("`")[1].split()
    assert command[0] == "rewindow"
    shown = empty.run(*command[1:])
    assert (shown.returncode, shown.stderr) == (0, "")
    subprocess.run(["git", "apply"], input=shown.stdout, cwd=project, text=True, check=True)
    assert (project / "b.txt").read_text() == lines
    assert (project / "c").read_bytes() == b"one\0"
    assert empty.run("changes", session, "--left").stdout == f"{NONE_LEFT}\n"
    assert empty.run("changes", session, "--left", "--json").returncode == 2


def test_a_patch_of_a_file_that_programs_run_says_so(empty: Home, project: Path) -> None:
    session = session_of(empty, project, "bash('echo theirs > .envrc; echo two >> a.txt')")
    made = empty.run("changes", session, "--patch")
    (project / ".envrc").write_text("mine\n")
    empty.run("rewind", session, "--to", "0")
    left = empty.run("changes", session, "--left")
    for shown in (made, left):
        assert "b/.envrc" in shown.stdout
        assert shown.stderr.startswith(".envrc is protected, because ")
        assert shown.stderr.count("\n") == 1


def test_merges_are_listed_for_programs(empty: Home, project: Path) -> None:
    session = session_of(empty, project, "bash('echo two >> a.txt')")
    (project / "a.txt").write_text("zero\none\ntwo\n")
    found = json.loads(empty.run("rewind", session, "--to", "0", "--json").stdout)
    assert found["merged"] == found["restored"] == [str(project / "a.txt")]
    assert (project / "a.txt").read_text() == "zero\none\n"
