"""JSON on standard output: one document, or a line for each row; values without secrets. Must not know any command."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence

import typer

from ...log.redaction import redact_json, write_json
from .opened import redactor


def print_json(value: object, exact: Collection[str]) -> None:
    """The value as one line; `exact` are the keys whose values are no texts."""
    write_json(sys.stdout, json.dumps(redact_json(redactor(), value, exact)).encode() + b"\n")


def print_rows(rows: Sequence[bytes], *, as_lines: bool) -> None:
    """Print rows, which are JSON without secrets, as lines, or as one array."""
    # Written at once, because a call for each of thousands of rows costs more than all that is in them.
    if as_lines:
        write_json(sys.stdout, b"".join(row + b"\n" for row in rows))
    else:
        write_json(sys.stdout, b"[" + b",\n ".join(rows) + b"]\n")


def print_json_rows(rows: Sequence[object], exact: Collection[str], *, as_lines: bool) -> None:
    """Print values as lines, or as one array; `exact` as in `print_json`."""
    hidden = redactor()
    print_rows([json.dumps(redact_json(hidden, row, exact)).encode() for row in rows], as_lines=as_lines)


def check_formats(as_json: bool, as_lines: bool) -> None:
    """Raise typer.BadParameter where both formats are wanted."""
    if as_json and as_lines:
        raise typer.BadParameter("--json prints one document, --jsonl a line for each row; give one of them")
