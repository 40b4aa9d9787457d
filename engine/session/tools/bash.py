"""`bash(command, timeout=120, cwd=".", outside=False)`: runs a shell command."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from ...core.programs import CommandOutcome, CommandRequest
from ...files.safe_open import opened_directory
from .workspace import Workspace

# What a tool would run: the program, whether the user is asked about it, and what the statement gets of its end.
#
# Must not know how programs are run. Returned by the tools that run one; `session.tool_calls` asks and runs it.


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run. `asks`: it may change something, so the user is asked, as far as the session's mode does.

    `answer` makes plain data of its end, and may raise OSError or ValueError, which the statement sees. `command` is
    what the user is asked about and shown, where that is not the arguments. `outside`: it is not to be held to what
    statements may do, in a mode that would hold it, and then the user is asked.
    """

    request: CommandRequest
    asks: bool
    answer: Callable[[CommandOutcome], object]
    command: str = ""
    outside: bool = False


# bash:
# `bash(command, timeout=120, cwd=".", outside=False)`: a command for the shell, which the host runs for the
# statement.
#
# The shell is found at fixed places when this is imported, because a statement could put another one on a path. It
# reads no start-up files. What the program is given, and that it ends with all that it started, is
# `Environment.command`'s.

DEFAULT_SECONDS: Final = 120.0
MOST_SECONDS: Final = 3600.0
KEPT_BYTES: Final = 256 << 10
"""Of what a command prints: half from the beginning, half from the end."""
MOST_BYTES: Final = (128 << 10) - 1
"""The longest argument that Linux gives to a program."""
_BASH: Final = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash")


def _shell() -> tuple[str, ...]:
    found = next((path for path in _BASH if os.access(path, os.X_OK)), None)
    return (found, "--noprofile", "--norc", "-c") if found else ("/bin/sh", "-c")


SHELL: Final = _shell()
"""What a command is given to, as its last argument."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`timeout` in seconds. `outside`: with the user's own rights, also in the mode `auto`, which then asks."""

    command: str
    timeout: float = DEFAULT_SECONDS
    cwd: str = "."
    outside: bool = False


def perform(workspace: Workspace, arguments: Arguments) -> Program:
    """The program that runs the command.

    Raises:
        OSError: `cwd` is no directory, or lies outside the workspace.
        ValueError: there is no command, it is too long for an argument or holds a NUL character, or the time is no
            number of seconds up to an hour.
    """
    command = arguments.command
    if not command.strip():
        raise ValueError("bash(): the command is empty")
    if "\0" in command:
        raise ValueError("bash(): a command cannot hold a NUL character")
    if (size := len(os.fsencode(command))) > MOST_BYTES:
        raise ValueError(
            f"bash(): the command has {size:,} bytes, and Linux takes {MOST_BYTES:,}; write() it to a file and run that"
        )
    if not 0 < arguments.timeout <= MOST_SECONDS or math.isnan(arguments.timeout):
        raise ValueError(
            f"bash(): timeout is {arguments.timeout:g} s; it may be more than 0 and up to {MOST_SECONDS:g} s"
        )
    with opened_directory(workspace.absolute(arguments.cwd), workspace.roots) as directory:
        place, state = os.readlink(f"/proc/self/fd/{directory}"), os.fstat(directory)
    request = CommandRequest(
        argv=(*SHELL, command),
        cwd=place,
        seconds=arguments.timeout,
        kept_bytes=KEPT_BYTES,
        # A program of a statement may put a link in its place while the question is open.
        directory=(state.st_dev, state.st_ino),
    )
    return Program(request, asks=True, answer=answer, command=command, outside=arguments.outside)


def answer(outcome: CommandOutcome) -> dict[str, object]:
    """What a statement is told of the command's end (`runtime.results.completed`)."""
    return {
        "code": outcome.code,
        "output": outcome.stdout.text,
        "truncated": outcome.stdout.left_out > 0,
        "timed_out": outcome.timed_out,
        "signal": None if outcome.signal is None else _name(outcome.signal),
        "reason": outcome.reason,
        "seconds": round(outcome.seconds, 3),
    }


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
