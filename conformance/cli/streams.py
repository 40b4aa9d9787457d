"""Standard streams that are closed, or whose disk is full or reader gone; and what no text may hold that leaves.

Called for every command, by `cli.main`, and by whatever writes a report.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

hide: Callable[[str], str] = str
"""What becomes of a text before it is written into a file: without the keys that the command was given."""
_STANDARD = (0, 1, 2)


def open_missing() -> None:
    """Gives a process that was started without some standard stream an empty one.

    Otherwise the next pipe to a program would be opened in its place, and what is printed would go there.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) in _STANDARD:
        pass
    os.close(number)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def discard_output() -> None:
    """Lets go of what cannot be printed, which the interpreter would try to print once more when it ends."""
    with contextlib.suppress(OSError, ValueError):  # one that a test runner has put there has no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
