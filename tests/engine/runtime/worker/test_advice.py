"""What a statement in the sandbox is told about an error: what was refused, and what would work instead."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from engine.core.domain import Domain
from engine.runtime.worker.writes.advice import Advice


def noted(error: BaseException, project: Path, *, auto: bool = False, database: str = "") -> list[str]:
    domain = Domain(scratch="/state/scratch", writable=(str(project),) if auto else ())
    Advice(domain, (str(project),), lambda: database).add_to(error)
    return getattr(error, "__notes__", [])


def ended(command: object, *, printed: str | None = None, errors: str | None = None) -> BaseException:
    return subprocess.CalledProcessError(1, command, printed, errors)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ended(["git", "commit", "-m", "a b"], errors="fatal: .git/index.lock: Read-only file system"), "the project"),
        (ended("touch x", errors="touch: x: Permission denied"), "bash('touch x')"),
        (ended(["node", "-e", "1"], errors="Error: EROFS: read-only file system"), "bash('node -e 1')"),
        (ended(["touch", b"x"]), "bash('touch x')"),
        (ended(["curl", "x"], errors="curl: (6) Could not resolve host: x"), "no network"),
        (ended(["pip", "install", "x"], printed="Failed to establish a new connection: [Errno 13] P"), "no network"),
        (
            ended(["ssh", "x"], errors="socket: Permission denied\nssh: connect to host x port 22: failure"),
            "no network",
        ),
        (ended(["x" * 1_000], errors="Permission denied"), "bash() runs"),
        (ended(7, errors="Permission denied"), "bash() runs"),
        (
            PermissionError(errno.EACCES, "the path is outside the workspace /p", "/etc/x"),
            "writing /etc/x, which is outside",
        ),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), "writing there"),
        (PermissionError(errno.EPERM, os.strerror(errno.EPERM)), "prevents this; bash() runs"),
    ],
)
def test_an_error_of_the_sandbox_says_what_would_work(tmp_path: Path, error: BaseException, said: str) -> None:
    (note,) = noted(error, tmp_path)
    assert said in note
    assert len(note) < 500


@pytest.mark.parametrize(
    "error",
    [
        ended(["false"], printed="", errors=""),
        ended(["pytest"], printed="1 failed", errors=""),
        PermissionError("mine"),
        FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "x"),
        PermissionError(errno.EACCES, "The user rejected this change", "x"),
    ],
)
def test_any_other_error_is_left_as_it_is(tmp_path: Path, error: BaseException) -> None:
    assert noted(error, tmp_path) == []


def test_writable_project_is_advised_to_run_commands_outside(tmp_path: Path) -> None:
    (note,) = noted(ended(["touch", "/x"], errors="Permission denied"), tmp_path, auto=True)
    assert "writing outside the project" in note
    assert "bash('touch /x', outside=True)" in note


def test_a_database_outside_is_told_from_one_of_the_project(tmp_path: Path) -> None:
    error = type("OperationalError", (Exception,), {})
    (inside,) = noted(error("unable to open database file"), tmp_path, database=str(tmp_path / "x.db"))
    (outside,) = noted(error("unable to open database file"), tmp_path, database="/usr/x.db")
    assert "shutil.copy()" in inside
    assert "/usr/x.db, which is outside the project" in outside


def test_error_is_noted_once_at_its_cause(tmp_path: Path) -> None:
    error = RuntimeError("it failed")
    error.__cause__ = OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path / "a"))
    error.__context__ = OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path / "a"))
    assert len(noted(error, tmp_path)) == 1
    assert len(noted(error, tmp_path)) == 1
    assert not hasattr(error.__cause__, "__notes__")
