"""The wheel holds exactly our packages, with their data, and nothing of the repository besides."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {
    "acp_adapter",
    "conformance",
    "engine",
    "mcp_tools",
    "rewindow_pytest.py",
    "rewindow_startup.py",
    "session_page",
}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_our_packages_alone(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == OURS


def test_the_wheel_holds_every_file_of_our_packages(names: set[str]) -> None:
    tracked = subprocess.run(["git", "ls-files", *sorted(OURS)], cwd=ROOT, capture_output=True, text=True, check=True)
    ours = {name for name in names if ".dist-info" not in name and not name.startswith("engine/pages/")}
    sources = {name for name in tracked.stdout.splitlines() if name.startswith("session_page/front_end/")}
    assert sources
    assert ours == set(tracked.stdout.splitlines()) - sources


def test_the_wheel_holds_every_page_of_the_documentation(names: set[str]) -> None:
    docs = ROOT / "docs"
    paths = [*docs.glob("*.md"), *docs.glob("how-to/*.md")]
    pages = {f"engine/pages/{path.relative_to(docs)}" for path in paths}
    assert {name for name in names if name.startswith("engine/pages/")} == pages


def test_the_token_ranks_come_with_their_notice(names: set[str]) -> None:
    assert {"engine/core/tokens/data/o200k_base.bin.z", "engine/core/tokens/data/NOTICE", "engine/py.typed"} <= names
