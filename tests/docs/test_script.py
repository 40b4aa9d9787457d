"""The script of docs/scripts.md does what it says, with the jq of the machine or the one of tests/node."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import COMMAND, SECONDS, Home
from tests.support.node import MODULES, NODE
from tests.support.stores import ROOT

SCRIPT = re.search(r"```sh\n(.*?)```", (ROOT / "docs" / "scripts.md").read_text("utf-8"), re.DOTALL)


def run(home: Home, folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    assert SCRIPT is not None
    (home.path / "count.sh").write_text(SCRIPT[1])
    variables = {**home.variables, "PATH": f"{folder}:{home.variables['PATH']}"}
    return subprocess.run(
        ["sh", "count.sh", *files], capture_output=True, text=True, env=variables, cwd=home.path, timeout=SECONDS
    )


@pytest.mark.parametrize("jq", [pytest.param("machine", marks=pytest.mark.slow), "node"])
def test_the_script_counts_in_one_session_and_stops_at_an_error(tmp_path: Path, jq: str) -> None:
    empty = Home(tmp_path)
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {"rewindow": COMMAND}
    if jq == "node" or subprocess.run(["sh", "-c", "command -v jq"], capture_output=True).returncode:
        programs["jq"] = (str(NODE), str(MODULES.parent / "jq.js"))
    for name, command in programs.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (folder / name).chmod(0o755)
    (tmp_path / "a.txt").write_text("1\n2\n")
    (tmp_path / "b.txt").write_text("1\n")
    done = run(empty, folder, "a.txt", "b.txt")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"a.txt 2\nb.txt 1\nsession ses_\w+\n", done.stdout)
    assert empty.run("sessions").stdout.count("ses_") == 1
    failed = run(empty, folder, "a.txt", "none.txt", "b.txt")
    assert (failed.returncode, failed.stdout) == (1, "a.txt 2\n")
    assert failed.stderr.startswith("rewindow: FileNotFoundError: ")
