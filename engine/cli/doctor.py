"""`rewindow doctor`: tries everything that a session needs, and says what to do about what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import typer

from ..errors import EngineError
from ..terminal.json_lines import print_json
from ..terminal.opened import working_directory
from ..text import visible
from .checks import CHECKS
from .checks.finding import Finding

_COLOURS: Final = {"ok": typer.colors.GREEN, "note": typer.colors.YELLOW, "failed": typer.colors.RED}


def doctor(as_json: bool = typer.Option(False, "--json", help="Print one JSON object per line.")) -> None:
    """Check that sessions can be kept and statements can run."""
    working_directory()  # which every project check needs
    failed: set[str] = set()
    for name, check in CHECKS:
        for finding in _findings(check):
            if as_json:
                print_json({"check": name, "grade": finding.grade, "text": finding.text}, ("check", "grade"))
            elif finding.text not in failed:  # a setting that cannot be used fails every check that reads it
                typer.echo(f"{typer.style(f'{finding.grade:>6}', fg=_COLOURS[finding.grade])}  {visible(finding.text)}")
            if finding.grade == "failed":
                failed.add(finding.text)
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
