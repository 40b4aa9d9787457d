"""How a command ends: its exit code, and an error as one line on standard error. Loaded by every start."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from enum import IntEnum
from typing import Final, TypeVar

import typer

from ..core.text import cut_line, visible


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


Choice = TypeVar("Choice", bound=str)
_SHOWN_CHARS: Final = 60


def complaint(error: object) -> str:
    """The line, without a newline at its end."""
    text = visible(str(error))
    sentence = text.removesuffix(".")
    is_single = ". " not in sentence and not sentence.endswith(".")
    return f"rewindow: {sentence if is_single else text}"


def chosen(option: str, given: str, choices: Collection[Choice]) -> Choice:
    """The choice that `given` is. Raises typer.BadParameter where it is none of these two or more."""
    for choice in choices:
        if choice == given:
            return choice
    *most, last = choices
    shown = cut_line(visible(given), _SHOWN_CHARS)
    raise typer.BadParameter(f"{option} must be {', '.join(most)} or {last}, not {shown!r}")


def abandon_output() -> None:
    """Throws away what is not written yet, because the interpreter would try to write it at exit, and complain."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
