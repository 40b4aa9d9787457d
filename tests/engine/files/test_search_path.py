"""The `PATH` of commands and servers in a session in which statements could write."""

from __future__ import annotations

import os
from pathlib import Path

from engine.files.safe_open import search_path


def test_search_path_keeps_no_link_that_a_statement_could_exchange(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path))
    work, programs = root / "work", root / "venv"
    for folder in (work / "src", programs / "bin"):
        folder.mkdir(parents=True)
    (work / ".venv").symlink_to(programs)
    path = f"{work}/.venv/bin:{work}/src/../../venv/bin:{work}/src:bin:/usr/bin"
    assert search_path(path, (str(work),)) == f"{programs}/bin:{os.path.realpath('/usr/bin')}"
