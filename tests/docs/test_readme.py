"""The examples of the README do what it shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.runtime.worker_environment import WorkerEnvironment
from tests.support.memory import in_memory
from tests.support.workers import shared_zygote

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SECONDS = 60


@pytest.mark.anyio
async def test_the_first_example_prints_what_is_shown(tmp_path: Path) -> None:
    found = re.search(r"exec '\n(.*?)'\n(.*?)````", TEXT, re.DOTALL)
    assert found is not None
    (tmp_path / "notes.md").write_text("# Notes\n\nThe parser loses the last line of a file without a final newline.\n")
    (tmp_path / "parser.py").write_text("def lines(text):\n    return text.split('\\n')[:-1]\n")
    async with in_memory(tmp_path, environments=lambda: WorkerEnvironment(shared_zygote())) as client:
        session = await client.open(tmp_path)
        assert await client.prompt(session, found[1]) == "end_turn"
        assert client.text() == found[2].rstrip("\n")


def test_the_example_of_a_library_prints_what_is_shown(tmp_path: Path) -> None:
    found = re.search(r"## As a library\n\n```python\n(.*?)```\n\n```\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    done = subprocess.run(
        [sys.executable, "-c", found[1]],
        cwd=ROOT,
        env={**os.environ, "REWINDOW_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.stdout, done.stderr, done.returncode) == (found[2], "", 0)


def test_what_editors_are_told_is_json_and_names_the_command() -> None:
    page = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
    told = [*re.findall(r"```json\n(.*?)```", page, re.DOTALL), *re.findall(r"`(\{ .*? \})` \|", TEXT)]
    assert [Path(json.loads(text)["agent_servers"]["Rewindow"]["command"]).name for text in told] == [
        "rewindow-acp"
    ] * 4
