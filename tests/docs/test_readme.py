"""The examples of the README, and of the page of the public API, print what they show."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import engine
from tests.support.commands import Home
from tests.support.quick import first_is_quick
from tests.support.walkthrough import beginnings, is_complete

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SECONDS = 60
ANY_ID = re.compile(r"ses_\w+")


def test_commands_print_what_is_shown(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "notes.md").write_text("# Notes\n\nThe parser loses the last line of a file without a final newline.\n")
    (tmp_path / "parser.py").write_text('def lines(text):\n    return text.split("\\n")[:-1]\n')
    blocks = "".join(re.findall(r"^```console\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
    shown = re.split(r"^\$ ", blocks, flags=re.MULTILINE)[1:]
    assert shown
    for each in shown:
        command = next(command for command in beginnings(each) if is_complete(command))
        _, *arguments = shlex.split(ANY_ID.sub("ses_", command))
        done = home.run(*arguments)
        assert (done.stdout, done.stderr, done.returncode) == (each.removeprefix(command), "", 0)


PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("source", "output"), first_is_quick(EXAMPLES), ids=range(len(EXAMPLES)))
def test_library_example_prints_what_is_shown(source: str, output: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=ROOT,
        env={**os.environ, "REWINDOW_STATE_DIR": str(tmp_path), "REWINDOW_SANDBOX": "auto"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.stdout, done.stderr, done.returncode) == (output, "", 0)


def test_api_page_lists_the_public_names() -> None:
    _, _, table = PAGE.partition("## The names")
    cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert sorted(name for cell in cells for name in re.findall(r"`(\w+)`", cell)) == engine.__all__


def test_editor_configurations_are_json_and_name_the_command() -> None:
    pages = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("editors.md", "how-to/use-zed.md")]
    shown = re.findall(r"```json\n(.*?)```", "".join([*pages, TEXT]), re.DOTALL)
    assert [Path(json.loads(text)["agent_servers"]["Rewindow"]["command"]).name for text in shown] == [
        "rewindow-acp"
    ] * 4
