"""The `PATH` of commands and servers in a session in which statements could write."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from engine.files.safe_open import search_path

NOT_FOUND = 127


def test_search_path_keeps_no_link_that_a_statement_could_exchange(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path))
    work, programs = root / "work", root / "venv"
    for folder in (work / "src", programs / "bin"):
        folder.mkdir(parents=True)
    (work / ".venv").symlink_to(programs)
    path = f"{work}/.venv/bin:{work}/src/../../venv/bin:{work}/src:bin:/usr/bin"
    assert search_path(path, (str(work),)) == f"{programs}/bin:{os.path.realpath('/usr/bin')}"


def test_search_path_without_places_finds_no_program_of_the_working_directory(tmp_path: Path) -> None:
    program = tmp_path / "planted"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = search_path(f"{tmp_path}:", (os.path.realpath(tmp_path),))
    done = subprocess.run(["/bin/sh", "-c", "planted"], cwd=tmp_path, env={"PATH": path}, capture_output=True)
    assert done.returncode == NOT_FOUND
