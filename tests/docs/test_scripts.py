"""docs/scripts.md lists every exit code, every field of the JSON, and every kind of line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.cli import EXAMPLES
from engine.cli.commands import COMMANDS
from engine.cli.complaints import MEANINGS, ExitCode
from engine.cli.terminal.one_prompt import SIGNALS, VERSION, FileChange, PromptResult, StatementRun, Usage

PAGE = (Path(__file__).parents[2] / "docs" / "scripts.md").read_text(encoding="utf-8")
RUN = next(row for row in COMMANDS if row.name == "run")


def test_the_table_of_exit_codes_is_that_of_the_program() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert {ExitCode(int(code)): meaning for code, meaning in rows} == MEANINGS
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize("text", [EXAMPLES, RUN.examples], ids=["rewindow", "run"])
def test_the_help_has_the_exit_codes(text: str | None) -> None:
    assert text is not None
    assert all(
        re.search(rf"^ +{int(code)}  {re.escape(meaning)}$", text, re.MULTILINE) for code, meaning in MEANINGS.items()
    )


@pytest.mark.parametrize("shape", [PromptResult, StatementRun, FileChange, Usage])
def test_every_field_of_the_document_is_described(shape: type[PromptResult]) -> None:
    assert [name for name in shape.__struct_fields__ if f"`{name}`" not in PAGE] == []


def test_the_version_is_that_of_the_program() -> None:
    assert f"| `version` | number | {VERSION};" in PAGE


def test_every_kind_of_line_is_described_with_its_fields() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE, re.MULTILINE))
    for signal, kind in SIGNALS.items():
        assert [name for name in signal.__struct_fields__ if f"`{name}`" not in rows[kind]] == []
