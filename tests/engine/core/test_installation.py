"""The command that adds an extra fits how the program was installed."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

from engine.core.installation import command_for, extra_command
from tests.support.stores import ROOT

PYTHON = "/v/bin/python"
SDK = "'sdk[openai]<3,>=2'"
EDITABLE = {"url": "file:///src/my%20project", "dir_info": {"editable": True}}
FOLDER = {"url": "file:///src/rewindow", "dir_info": {}}
WHEEL = {"url": "file:///w/rewindow-1-py3-none-any.whl", "archive_info": {}}
GIT = {"url": "https://x.org/r.git", "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "0"}}
AT_WHEEL = "'rewindow[providers] @ file:///w/rewindow-1-py3-none-any.whl'"

CASES: dict[str, tuple[dict[str, Any] | None, str, str, str, str]] = {
    "pip, editable": (EDITABLE, "pip", "v", "", f"{PYTHON} -m pip install --editable '/src/my project[providers]'"),
    "pip, folder": (FOLDER, "pip", "v", "", f"{PYTHON} -m pip install '/src/rewindow[providers]'"),
    "pip, wheel": (WHEEL, "pip", "v", "", f"{PYTHON} -m pip install {AT_WHEEL}"),
    "pip, git": (GIT, "pip", "v", "", f"{PYTHON} -m pip install 'rewindow[providers] @ git+https://x.org/r.git@v1'"),
    "pip, index": (None, "pip", "v", "", f"{PYTHON} -m pip install {SDK}"),
    "uv pip, wheel": (WHEEL, "uv", "v", "", f"uv pip install --python {PYTHON} {AT_WHEEL}"),
    "pipx": (WHEEL, "pip", "pipx/venvs/rewindow", "pipx_metadata.json", f"pipx inject rewindow {SDK}"),
    "pipx, suffix": (None, "uv", "venvs/rewindow-old", "pipx_metadata.json", f"pipx inject rewindow-old {SDK}"),
    "uv tool, wheel": (WHEEL, "uv", "tools/rewindow", "uv-receipt.toml", f"uv tool install {AT_WHEEL}"),
    "uv tool, index": (None, "uv", "tools/rewindow", "uv-receipt.toml", f"uv tool install rewindow --with {SDK}"),
    "uvx, wheel": (WHEEL, "uv", "uv/archive-v0/Ab1", "", f"uvx --from {AT_WHEEL} rewindow"),
    "uvx, index": (None, "uv", "uv/environments-v2/Ab1", "", f"uvx --with {SDK} rewindow"),
    "a broken record": ({"dir_info": 1}, "pip", "v", "", f"{PYTHON} -m pip install {SDK}"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_command_fits_the_installation(tmp_path: Path, case: str) -> None:
    record, installer, folder, marker, command = CASES[case]
    prefix, info = tmp_path / folder, tmp_path / "rewindow-1.dist-info"
    prefix.mkdir(parents=True)
    info.mkdir()
    if marker:
        (prefix / marker).touch()
    requires = 'Requires-Dist: sdk[openai]<3,>=2; extra == "providers"\nRequires-Dist: pytest; extra == "pytest"\n'
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: rewindow\nVersion: 1\n{requires}")
    (info / "INSTALLER").write_text(f"{installer}\n")
    if record is not None:
        (info / "direct_url.json").write_text(json.dumps(record))
    assert command_for("providers", Distribution.at(info), prefix, PYTHON, Path("/home")) == command


def test_checkout_on_the_path_is_named_by_folder() -> None:
    command = command_for("providers", None, Path("/v"), PYTHON, Path("/src/my project"))
    assert command == f"{PYTHON} -m pip install '/src/my project[providers]'"


@pytest.mark.slow
def test_the_command_of_this_installation_is_one_that_pip_takes() -> None:
    """Without installing anything: pip resolves the name of the project alone."""
    words = shlex.split(extra_command("providers"))
    assert words[0] == sys.executable
    done = subprocess.run(
        [*words, "--dry-run", "--no-deps", "--no-index", "--no-build-isolation"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
