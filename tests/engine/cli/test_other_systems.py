"""`rewindow doctor`, and every other program, on systems that are not Linux: what is missing is said row by row."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli.doctor import NO_COPIES, NOT_HIDDEN, NOT_RUN
from engine.runtime.system.support import ADVICE, DIFFERENCES, NEEDS, UNKNOWN, missing, refusal
from tests.support import portable

ROOT = Path(__file__).parents[3]
ON = """
import sys
sys.platform = {system!r}
for name in {absent!r}:
    sys.modules[name] = None
import rewindow_startup
rewindow_startup.{program}()
"""
ON_MACOS = """
from tests.support import portable
portable.switch_on()
import rewindow_startup
rewindow_startup.rewindow()
"""
ABSENT = ("fcntl", "resource", "termios", "pwd", "grp")
"""Modules that Python has on POSIX alone."""


def run(code: str, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    variables.pop(portable.VARIABLE, None)
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("system", "absent"), [("win32", ABSENT), ("freebsd14", ())])
def test_doctor_says_what_an_unknown_system_lacks(system: str, absent: tuple[str, ...], tmp_path: Path) -> None:
    done = run(ON.format(system=system, absent=absent, program="rewindow"), tmp_path, "doctor")
    assert done.stderr == ""
    first, *rows = done.stdout.splitlines()
    assert first == f"failed  {UNKNOWN.format(system=system, advice=ADVICE)}"
    wanted = [need for need in NEEDS if all(name.partition(".")[0] in absent for name in need.names)]
    assert len(rows) == len(wanted)
    assert all(need.purpose in row for need, row in zip(wanted, rows, strict=True))
    assert bool(rows) == bool(absent)
    assert done.returncode == 1


@pytest.mark.parametrize("program", ["rewindow_acp", "rewindow_mcp"])
def test_servers_say_it_where_no_client_reads_messages(program: str, tmp_path: Path) -> None:
    done = run(ON.format(system="win32", absent=ABSENT, program=program), tmp_path)
    assert done.stdout == ""
    assert ADVICE in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_doctor_on_macos_says_what_it_lacks(tmp_path: Path) -> None:
    done = run(ON_MACOS, tmp_path, "doctor")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    assert f"  note  {NOT_RUN}" in lines
    assert [line for line in lines if any(each in line for each in DIFFERENCES)] == [
        f"  note  this system has {each}" for each in DIFFERENCES
    ]
    assert any(NOT_HIDDEN in line for line in lines)
    assert f"  note  {NO_COPIES}" in lines
    assert any("sandbox, layer seatbelt: this system has no" in line for line in lines)
    assert not any("landlock" in line or "Landlock" in line for line in lines)


def test_nothing_is_missing_here() -> None:
    assert not missing()
    assert not refusal()
