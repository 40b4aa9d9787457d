"""The bundle in the repository is what its sources give."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.browser import browser, lacking
from tests.support.node import node

pytestmark = pytest.mark.slow

FRONT_END = Path(__file__).parents[2] / "session_page" / "front_end"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    if not (FRONT_END / "node_modules").exists():
        lacking("session_page/front_end/node_modules is not installed; `make test-all` installs it")
    return subprocess.run([node(), *arguments], cwd=FRONT_END, capture_output=True, text=True, timeout=120)


def test_bundle_is_up_to_date() -> None:
    built = _run("build.mjs", "--check")
    assert (built.returncode, built.stderr) == (0, "")


def test_types_of_the_front_end() -> None:
    checked = _run("node_modules/typescript/bin/tsc", "--project", ".")
    assert (checked.returncode, checked.stdout) == (0, "")


def test_old_bundle_is_named(tmp_path: Path) -> None:
    (tmp_path / "page.js").write_text("old")
    built = _run("build.mjs", "--check", "--out", str(tmp_path))
    assert built.returncode == 1
    assert f"{tmp_path / 'page.js'} is out of date" in built.stderr


def test_required_tests_are_not_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.browser.HOME", tmp_path)
    monkeypatch.delenv("REWINDOW_PAGE_REQUIRED", raising=False)
    with pytest.raises(pytest.skip.Exception), browser():
        pass
    monkeypatch.setenv("REWINDOW_PAGE_REQUIRED", "1")
    with pytest.raises(pytest.fail.Exception), browser():
        pass
