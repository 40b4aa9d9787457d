"""The tests of attacks once more without root's rights, because root's hide what an ordinary user may not do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import Final

import pytest

from tests.support.remote import python_for_all

pytestmark = pytest.mark.slow
ROOT: Final = Path(__file__).parents[2]
NOBODY: Final = 65_534
SECONDS: Final = 480
ATTACKS: Final = (
    "tests/mcp_tools/test_attacks.py",
    "tests/mcp_tools/test_bad_input.py",
    "tests/mcp_tools/test_access.py",
    "tests/e2e/test_planted_programs.py",
    "tests/e2e/test_searches.py::test_a_sandboxed_statement_searches_with_the_ripgrep_of_our_environment",
    "tests/e2e/test_hostile_statements.py",
    "tests/e2e/test_unix_sockets.py",
    "tests/engine/runtime/test_contract_checkpoints.py",
    "tests/engine/runtime/test_ending.py",
    "tests/engine/runtime/test_realms.py",
    "tests/engine/runtime/test_worker_deaths.py",
)


def _without_rights(home: Path) -> tuple[str, ...]:
    """How a command is started by nobody, also where Python is in the home directory of root."""
    nobody = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    os.chown(home, NOBODY, NOBODY)
    return (*python_for_all(), *nobody)


@pytest.mark.skipif(os.geteuid() != 0, reason="they run as an ordinary user anyway")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="nothing here starts a command with fewer rights")
@pytest.mark.parametrize("tests", ATTACKS)
def test_nothing_depends_on_the_rights_of_root(tmp_path: Path, tests: str) -> None:
    for each in (tmp_path, *tmp_path.parents):
        if each.is_relative_to(gettempdir()) and each != Path(gettempdir()):
            each.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    pytest_command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={home / 'tests'}")
    done = subprocess.run(
        [*_without_rights(home), *pytest_command, tests],
        cwd=ROOT,
        env={**os.environ, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
