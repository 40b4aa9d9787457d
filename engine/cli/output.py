"""What the commands print with: the store and settings in force, columns, JSON, and text made safe for a terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Final

import typer
from rich.cells import cell_len, set_cell_size

from ..core.clock import SystemClock
from ..core.errors import InvalidRequestError, SessionNotFoundError
from ..core.ids import SessionId
from ..core.settings import Settings, hidden_names, load_settings
from ..core.text import ELLIPSIS, cut_line, first_line, printable
from ..log.redaction import Redactor, redact_json, write_json
from ..log.secrets import redactor_of
from ..log.store import open_store
from ..log.store_protocol import SessionRow, Store

# Rows of text as aligned columns, for lists of thousands of rows: one pass for the widths, one for the lines.
#
# Widths are those of terminals, where some characters take two cells. Must not know what is listed. Called by
# commands.

_GAP: Final = "  "
_NARROWEST: Final = 5
"""Cells that a column keeps where there is no room."""


def aligned(rows: Sequence[Sequence[str]], width: int | None, yielding: Sequence[int]) -> list[str]:
    """A line for each of the rows, which have one cell for each column, without newlines.

    Args:
        width: cells that a line may take; None for as many as it needs. Lines are longer where even that is too few.
        yielding: the columns that become narrower where there is no room, in this order.
    """
    measured = [[_cells(text) for text in row] for row in rows]
    widths = [max(column) for column in zip(*measured, strict=True)]
    if width is not None:
        _narrow(widths, width - len(_GAP) * (len(widths) - 1), yielding)
    return [_GAP.join(map(_fitted, row, cells, widths)).rstrip() for row, cells in zip(rows, measured, strict=True)]


def _narrow(widths: list[int], room: int, yielding: Sequence[int]) -> None:
    for column in yielding:
        excess = sum(widths) - room
        widths[column] = min(widths[column], max(widths[column] - excess, _NARROWEST))


def _fitted(text: str, cells: int, width: int) -> str:
    if cells > width:
        return set_cell_size(text, width - 1) + ELLIPSIS
    return text + " " * (width - cells)


def _cells(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


# opened:
# Settings and store for a command; and finding a session by the start of its id.


def settings() -> Settings:
    """What is configured for this process."""
    return load_settings(os.environ)


def redactor() -> Redactor:
    """What takes the secrets of this process's environment out of what is shown and written."""
    return redactor_of(os.environ, hidden_names(os.environ))


def working_directory() -> str:
    """Where the command was started. Raises InvalidRequestError where that is gone, or may not be entered."""
    try:
        return os.getcwd()
    except OSError as error:
        raise InvalidRequestError(f"this directory cannot be worked in: {error.strerror}; change to another") from None


@contextmanager
def store() -> Generator[Store]:
    """The configured store, closed afterwards."""
    opened = open_store(settings().state_dir, SystemClock())
    try:
        yield opened
    finally:
        opened.close()


def find(opened: Store, start: str) -> SessionRow:
    """The only session whose id starts so.

    Raises:
        SessionNotFoundError: there is none.
        InvalidRequestError: there are several, or nothing is said of it: an empty start is a variable that was not set.
    """
    if not start:
        raise InvalidRequestError("the session's id is empty; list the sessions there are with `rewindow sessions`")
    rows = [row for row in opened.rows() if row.session_id.startswith(start)]
    if not rows:
        raise SessionNotFoundError(SessionId(start))
    if len(rows) > 1:
        names = ", ".join(row.session_id for row in rows[:5])
        raise InvalidRequestError(f"{start!r} is the start of {len(rows)} sessions: {names}; give more of it")
    return rows[0]


# json lines:
# JSON on standard output: one document, or a line for each row; values without secrets. Must not know any command.


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


# printing:
# Text and figures as every command prints them: nothing in a session can control the terminal that it is shown on.
#
# Must not know any command.

_UNITS: Final = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_CONTROL_IN_JSON: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What JSON lets stand in a string as it is."""


def visible_json(text: str) -> str:
    """JSON of the same value, in which no control character stands as it is."""
    return _CONTROL_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def shown(text: str) -> str:
    r"""One line that any terminal can take: what is not printable or not Unicode is an escape, a newline too."""
    unicode = os.fsencode(text).decode("utf-8", "backslashreplace") if _is_path(text) else text
    return printable(unicode)


def shown_line(text: str, width: int) -> str:
    """The first line that says something, as `shown` shows it, cut to `width` characters with an ellipsis."""
    return cut_line(shown(first_line(text)), width)


def size(count: int) -> str:
    """Bytes in decimal units: `812 B`, `4.1 kB`, `12.0 MB`, `1.3 GB`."""
    for unit, factor in _UNITS:
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count} B"


def _is_path(text: str) -> bool:
    # Whether what is no Unicode in it are bytes of a path, which Python keeps as lone surrogates of one range.
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
