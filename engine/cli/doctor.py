"""`rewindow doctor`: tries everything that a session needs, and says what to do about what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import typer

from ..core.errors import EngineError
from ..core.text import visible
from .checks import CHECKS
from .checks.finding import Finding
from .output.json_lines import check_formats, print_json, print_json_rows
from .output.opened import working_directory

_COLOURS: Final = {"ok": typer.colors.GREEN, "note": typer.colors.YELLOW, "failed": typer.colors.RED}

_EXACT: Final = ("check", "grade")
"""Fields whose values are words of ours."""


def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print one JSON array."),
    as_lines: bool = typer.Option(False, "--jsonl", help="Print one JSON object per line."),
) -> None:
    """Check that sessions can be kept and statements can run."""
    check_formats(as_json, as_lines)
    working_directory()  # which every project check needs
    failed: set[str] = set()
    rows: list[dict[str, str]] = []
    for name, check in CHECKS:
        for finding in _findings(check):
            row = {"check": name, "grade": finding.grade, "text": finding.text}
            if as_json:
                rows.append(row)
            elif as_lines:
                print_json(row, _EXACT)
            elif finding.text not in failed:  # a setting that cannot be used fails every check that reads it
                typer.echo(f"{typer.style(f'{finding.grade:>6}', fg=_COLOURS[finding.grade])}  {visible(finding.text)}")
            if finding.grade == "failed":
                failed.add(finding.text)
    if as_json:
        print_json_rows(rows, _EXACT, as_lines=False)
    if failed:
        raise typer.Exit(1)


def _findings(check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except EngineError as error:
        return [Finding("failed", str(error))]
    except OSError as error:
        named = f": {error.filename}" if error.filename else ""
        return [Finding("failed", f"{error.strerror or error}{named}")]
