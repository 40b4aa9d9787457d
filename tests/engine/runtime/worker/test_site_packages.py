"""The packages of a project, and when the lines of code in its `.pth` files run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from engine.runtime.worker.forking import child


@pytest.fixture
def site(tmp_path: Path) -> Generator[Path]:
    """A directory of packages, whose `.pth` files name another one and hold a line of code."""
    before = list(sys.path), list(sys.meta_path)
    for name in ("site", "named", "late"):
        (tmp_path / name).mkdir()
    (tmp_path / "named/by_path_of_mine.py").write_text("")
    (tmp_path / "late/by_code_of_mine.py").write_text("")
    ran = (
        f"ran = pathlib.Path({str(tmp_path / 'ran')!r}); ran.write_text((ran.exists() and ran.read_text() or '') + 'x')"
    )
    code = f"import pathlib, sys; sys.path.append({str(tmp_path / 'late')!r}); {ran}"
    (tmp_path / "site/mine.pth").write_text(f"# ours\n\n{tmp_path / 'named'}\n../nowhere\n{code}\n")
    yield tmp_path
    sys.path[:], sys.meta_path[:] = before
    for name in ("by_path_of_mine", "by_code_of_mine"):
        sys.modules.pop(name, None)


def test_code_waits_for_a_missing_module(site: Path) -> None:
    (site / "site/.hidden.pth").write_text("import nothing_at_all_of_mine\n")
    child.add(str(site / "site"), with_code=False)
    importlib.import_module("by_path_of_mine")
    assert not (site / "ran").exists()
    importlib.import_module("by_code_of_mine")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("by_nobody_of_mine")
    assert (site / "ran").read_text() == "x"


def test_where_it_does_no_harm_it_runs_at_once(site: Path) -> None:
    child.add(str(site / "site"), with_code=True)
    assert (site / "ran").read_text() == "x"


def test_a_line_that_fails_is_said_and_the_others_run(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "site/broken.pth").write_text("import nothing_at_all_of_mine\n")
    child.add(str(site / "site"), with_code=False)
    importlib.import_module("by_code_of_mine")
    assert "'import nothing_at_all_of_mine' in a .pth file of the project failed" in capsys.readouterr().err
