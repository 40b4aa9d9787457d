"""One line on a terminal's standard error that says how far a command is with a session, and goes when that is over.

Nothing is written where that is no terminal. Called by the commands that run statements again or put files back.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from ..core.text import cut_line
from ..session.progress import Progress, with_progress
from ..session.session import Session

T = TypeVar("T")
_ECHO: Final = "^C"
_STOP: Final = "Ctrl-C goes back to where it was"


async def shown(session: Session, act: Callable[[], Awaitable[T]], *, quiet: bool) -> T:
    """What `act` gives; meanwhile the line says how far the session is, unless it is to be `quiet`."""
    if quiet or not sys.stderr.isatty():
        return await act()
    line = _Line()
    try:
        return await with_progress(session, act, line.show)
    finally:
        line.clear()


class _Line:
    """The last line of the terminal, rewritten in place; the cursor stays at the end of its text.

    There the terminal shows an interrupt, which is written over with the rest.
    """

    def __init__(self) -> None:
        self._width = 0
        """How many columns may hold something."""

    async def show(self, progress: Progress) -> None:
        # In the last column a terminal may begin a new line.
        room = shutil.get_terminal_size().columns - 1 - len(_ECHO)
        self._write(cut_line(f"{progress.text}; {_STOP}", max(room, 1)))

    def clear(self) -> None:
        if self._width:
            self._write("")

    def _write(self, text: str) -> None:
        self._width = max(self._width, len(text) + len(_ECHO))
        # Spaces over what was there, because not every terminal knows a sequence that erases.
        with suppress(OSError):  # a terminal that is gone ends nothing
            sys.stderr.write(f"\r{text.ljust(self._width)}\r{text}")
            sys.stderr.flush()
