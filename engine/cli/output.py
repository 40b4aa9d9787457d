"""What all commands use: the configured store and settings, columns, JSON, and text that is safe for a terminal.

Must not know any command.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import typer
from rich.cells import cell_len, set_cell_size

from ..core.clock import SystemClock
from ..core.errors import InvalidRequestError, SessionNotFoundError
from ..core.ids import SessionId
from ..core.settings import Settings, hidden_names, load_settings
from ..core.text import ELLIPSIS, cut_line, first_line, printable
from ..log.events.going_back import HeadMoved
from ..log.redaction import Redactor, redact_json, write_json
from ..log.secrets import redactor_of
from ..log.store import open_store
from ..log.store_protocol import SessionRow, Store

# Settings and store.

BRANCH: Final = (
    "This is branch {branch}, which continues after {place}. Later statements of branch {left} are not part of it."
)


def settings() -> Settings:
    """Return the settings of this process."""
    return load_settings(os.environ)


def redactor() -> Redactor:
    """Return a redactor of the secrets in this process's environment."""
    return redactor_of(os.environ, hidden_names(os.environ))


def working_directory() -> str:
    """Return the directory in which the command was started.

    Raises:
        InvalidRequestError: it was deleted, or may not be entered.
    """
    try:
        return os.getcwd()
    except OSError as error:
        raise InvalidRequestError(
            f"Rewindow cannot work in this directory: {error.strerror}; change to another directory"
        ) from None


@contextmanager
def store() -> Generator[Store]:
    """Open the configured store, and close it afterwards."""
    chosen = settings()
    opened = open_store(chosen.state_dir, SystemClock(), chosen.store, chosen.tenant)
    try:
        yield opened
    finally:
        opened.close()


def find(opened: Store, start: str) -> SessionRow:
    """Return the only session whose id starts with `start`.

    Raises:
        SessionNotFoundError: no session matches.
        InvalidRequestError: several match, or `start` is empty, which happens with an unset shell variable.
    """
    if not start:
        raise InvalidRequestError("the session's id is empty; `rewindow sessions` lists the sessions")
    rows = [row for row in opened.rows() if row.session_id.startswith(start)]
    if not rows:
        raise SessionNotFoundError(SessionId(start))
    if len(rows) > 1:
        names = ", ".join(row.session_id for row in rows[:5])
        raise InvalidRequestError(f"{start!r} is the start of {len(rows)} sessions: {names}; type more of the id")
    return rows[0]


# Text that cannot control the terminal.

_UNITS: Final = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_CONTROL_IN_JSON: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters that JSON does not escape."""


def visible_json(text: str) -> str:
    """Escape the control characters in JSON. The value stays the same."""
    return _CONTROL_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def shown(text: str) -> str:
    """Return one line for any terminal.

    Everything that is not printable or not Unicode is escaped, including newlines.
    """
    unicode = os.fsencode(text).decode("utf-8", "backslashreplace") if _is_path(text) else text
    return printable(unicode)


def shown_line(text: str, width: int) -> str:
    """Return the first line with text, cut to `width` characters."""
    return cut_line(shown(first_line(text)), width)


def branch_sentence(event: HeadMoved) -> str:
    """Say which branch is the active one now. The restored files have a line of their own."""
    return BRANCH.format(
        branch=event.branch,
        place=f"statement {event.statement}" if event.statement else "the beginning",
        left=event.left,
    )


def size(count: int) -> str:
    """Format bytes in decimal units: `812 B`, `4.1 kB`, `12.0 MB`, `1.3 GB`."""
    for unit, factor in _UNITS:
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count} B"


def _is_path(text: str) -> bool:
    # Python represents a path's invalid bytes as lone surrogates of one range.
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


# Aligned columns.

_GAP: Final = "  "
_NARROWEST: Final = 5
"""The fewest cells of a column that becomes narrower."""


def aligned(rows: Sequence[Sequence[str]], width: int | None, yielding: Sequence[int]) -> list[str]:
    """Return a line without a newline for each row of cells.

    Lists can have thousands of rows, so each cell is measured once.

    Args:
        width: cells of a line; None for no limit. A line is longer if the columns cannot become narrow enough.
        yielding: the columns that become narrower, in this order.
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


# JSON on standard output, without secrets.


def print_json(value: object, exact: Collection[str]) -> None:
    """Print the value as one line of JSON.

    The values of the keys `exact` are not redacted, because they are not free text.
    """
    write_json(sys.stdout, json.dumps(redact_json(redactor(), value, exact)).encode() + b"\n")


def print_rows(rows: Sequence[bytes], *, as_lines: bool) -> None:
    """Print rows of JSON without secrets as lines, or as one array."""
    # One call, because a call for each of thousands of rows is slow.
    if as_lines:
        write_json(sys.stdout, b"".join(row + b"\n" for row in rows))
    else:
        write_json(sys.stdout, b"[" + b",\n ".join(rows) + b"]\n")


def print_json_rows(rows: Sequence[object], exact: Collection[str], *, as_lines: bool) -> None:
    """Print values as lines, or as one array; `exact` as in `print_json`."""
    hidden = redactor()
    print_rows([json.dumps(redact_json(hidden, row, exact)).encode() for row in rows], as_lines=as_lines)


def check_formats(as_json: bool, as_lines: bool) -> None:
    """Raise typer.BadParameter if both formats are given."""
    if as_json and as_lines:
        raise typer.BadParameter("use only one of --json (one document) and --jsonl (a line for each row)")


_ECHO: Final = "^C"


class ProgressLine:
    """The last line of the terminal, rewritten in place.

    The cursor stays at the end of its text, where the terminal echoes an interrupt. The next text overwrites that too.
    """

    def __init__(self) -> None:
        self._width = 0
        """Columns that may contain text."""

    def show(self, text: str) -> None:
        """Show the text in place of the last one, cut to the width of the terminal."""
        # The last column stays free, because there some terminals begin a new line.
        room = shutil.get_terminal_size().columns - 1 - len(_ECHO)
        self._write(cut_line(text, max(room, 1)))

    def clear(self) -> None:
        """Remove the text."""
        if self._width:
            self._write("")

    def _write(self, text: str) -> None:
        self._width = max(self._width, len(text) + len(_ECHO))
        # Spaces erase the old text, because not every terminal has a sequence for it.
        with suppress(OSError):  # the command continues if the terminal is gone
            sys.stderr.write(f"\r{text.ljust(self._width)}\r{text}")
            sys.stderr.flush()
