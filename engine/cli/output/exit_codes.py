"""The exit codes of `rewindow` with what each means: the one table, for `--help`, the documentation and the commands.

Must not know how a command ended. Read by the command line and by whoever carries out a prompt.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """How a command ended. Codes above 128 are 128 and the number of the signal, as in shells."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NO_MODEL = 3
    STOPPED = 4
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: Final = {
    ExitCode.DONE: "done; with -p, the prompt was answered",
    ExitCode.FAILED: "an error, or a statement of yours failed",
    ExitCode.USAGE: "wrong usage",
    ExitCode.NO_MODEL: "the prompt needs a model, and none is set up",
    ExitCode.STOPPED: "refused, or stopped by a limit",
    ExitCode.HANGUP: "the terminal is gone",
    ExitCode.INTERRUPTED: "cancelled (Ctrl-C)",
    ExitCode.TERMINATED: "terminated (SIGTERM)",
}


def exit_code_lines() -> str:
    """Return the table as lines for a help text."""
    return "\n".join(f"  {code:>3}  {meaning}" for code, meaning in MEANINGS.items())
