"""docs/scripts.md lists every exit code, field of the JSON and kind of line, and its script works."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from engine.cli import EXAMPLES
from engine.cli.commands import MEANINGS, SUBCOMMANDS, ExitCode
from engine.cli.terminal.prompt_result import SIGNALS, VERSION, FileChange, PromptResult, StatementRun, Usage
from tests.support.commands import COMMAND, SECONDS, Home
from tests.support.node import own_command
from tests.support.stores import ROOT

PAGE = (ROOT / "docs" / "scripts.md").read_text(encoding="utf-8")
SCRIPT = re.search(r"```sh\n(.*?)```", PAGE, re.DOTALL)
RUN = next(row for row in SUBCOMMANDS if row.name == "run")


def test_exit_codes_are_documented() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert {ExitCode(int(code)): meaning for code, meaning in rows} == MEANINGS
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize("text", [EXAMPLES, RUN.examples], ids=["rewindow", "run"])
def test_help_shows_the_exit_codes(text: str | None) -> None:
    assert text is not None
    assert all(
        re.search(rf"^ +{int(code)}  {re.escape(meaning)}$", text, re.MULTILINE) for code, meaning in MEANINGS.items()
    )


@pytest.mark.parametrize("shape", [PromptResult, StatementRun, FileChange, Usage])
def test_fields_of_the_document_are_documented(shape: type[PromptResult]) -> None:
    assert [name for name in shape.__struct_fields__ if f"`{name}`" not in PAGE] == []


def test_version_of_the_document_is_documented() -> None:
    assert f"| `version` | number | {VERSION};" in PAGE


def test_lines_of_the_stream_are_documented() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE, re.MULTILINE))
    for signal, kind in SIGNALS.items():
        assert [name for name in signal.__struct_fields__ if f"`{name}`" not in rows[kind]] == []


def run_script(home: Home, folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    assert SCRIPT is not None
    (home.path / "count.sh").write_text(SCRIPT[1])
    variables = {**home.variables, "PATH": f"{folder}:{home.variables['PATH']}"}
    return subprocess.run(
        ["sh", "count.sh", *files], capture_output=True, text=True, env=variables, cwd=home.path, timeout=SECONDS
    )


@pytest.mark.slow
@pytest.mark.parametrize("jq", ["machine", "node"])
def test_script_counts_in_one_session_and_stops_at_an_error(tmp_path: Path, jq: str) -> None:
    """With the jq of the machine, or the one of tests/node."""
    home = Home(tmp_path)
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {"rewindow": COMMAND}
    if jq == "node" or subprocess.run(["sh", "-c", "command -v jq"], capture_output=True).returncode:
        programs["jq"] = tuple(own_command("jq.js"))
    for name, command in programs.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (folder / name).chmod(0o755)
    (tmp_path / "a.txt").write_text("1\n2\n")
    (tmp_path / "b.txt").write_text("1\n")
    done = run_script(home, folder, "a.txt", "b.txt")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"a.txt 2\nb.txt 1\nsession ses_\w+\n", done.stdout)
    assert home.run("sessions").stdout.count("ses_") == 1
    failed = run_script(home, folder, "a.txt", "none.txt", "b.txt")
    assert (failed.returncode, failed.stdout) == (1, "a.txt 2\n")
    assert failed.stderr.startswith("rewindow: FileNotFoundError: ")
