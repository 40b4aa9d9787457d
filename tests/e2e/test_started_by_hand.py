"""The programs that others start say in a terminal what they wait for, instead of nothing."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 30


@pytest.mark.slow
@pytest.mark.parametrize(("command", "advice"), [("acp", "`rewindow run`"), ("mcp", "--print-config CLIENT")])
def test_start_in_a_terminal_explains_what_it_waits_for(command: str, advice: str, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-c", f"from rewindow_startup import rewindow_{command}; rewindow_{command}()"]
    (tmp_path / "project").mkdir()
    with subprocess.Popen(
        program, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, cwd=tmp_path / "project"
    ) as process:
        os.close(theirs)
        try:
            assert process.stderr is not None
            assert select.select([process.stderr], [], [], SECONDS)[0], "it says nothing"
            said = process.stderr.readline().decode()
            assert said.startswith(f"rewindow-{command}: waiting for ")
            assert advice in said
        finally:
            os.close(ours)  # the terminal hangs up
            process.wait(SECONDS)
