"""`bash(command, timeout=120, cwd=".", outside=False)`: the host runs a shell command for a statement.

The shell is found at fixed places when this module is imported, because a statement could put another one on a path. It
reads no start-up files. `Environment.command` owns the command's environment, and stops everything that it started.
"""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from ...core.programs import CommandOutcome, CommandRequest
from ...core.text import printable
from ...files.pins import path_of
from ...files.safe_open import opened_directory
from .workspace import Workspace


@dataclass(frozen=True, slots=True)
class Program:
    """A program that a tool wants to run; `session.tool_calls` asks the user and runs it.

    Args:
        asks: the program may change something, so the session's mode decides about asking the user.
        answer: makes plain data of the outcome; may raise OSError or ValueError, which the statement sees.
        command: the text that the question shows, if not the arguments.
        outside: run with the user's own rights, even in a mode that sandboxes statements; the user is then asked.
    """

    request: CommandRequest
    asks: bool
    answer: Callable[[CommandOutcome], object]
    command: str = ""
    outside: bool = False


DEFAULT_SECONDS: Final = 120.0
MOST_SECONDS: Final = 3600.0
KEPT_BYTES: Final = 256 << 10
"""Of a command's output: half from the beginning, half from the end."""
MOST_BYTES: Final = (128 << 10) - 1
"""Linux's limit for one argument of a program."""
DENIED: Final = (
    "the sandbox may be the cause: the command could not change {}. bash(command, outside=True) asks "
    "the user to run it outside"
)
NO_NETWORK: Final = (
    "the sandbox may be the cause: it has no network. bash(command, outside=True) asks the user to run it outside"
)
_REFUSED: Final = re.compile("Read-only file system|Permission denied|Operation not permitted")
_NAMED_BEFORE: Final = re.compile(r"['\"\u2019]?: \Z")
_NAMED_AFTER: Final = re.compile(r": ['\"]([^'\"]+)")
_BOUNDS: Final = re.compile(r"[\s:'\"`\u2018\u2019]")
"""Characters around a path in an error."""
_UNREACHABLE: Final = re.compile(
    "Network is unreachable|Could not resolve host|Temporary failure in name resolution|Name or service not known"
)
_SEARCHED_CHARS: Final = 4_000
_LONGEST_PATH: Final = 1_000
_BASH: Final = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash")


def _shell() -> tuple[str, ...]:
    found = next((path for path in _BASH if os.access(path, os.X_OK)), None)
    return (found, "--noprofile", "--norc", "-c") if found else ("/bin/sh", "-c")


SHELL: Final = _shell()
"""The shell and its options; the command is the last argument."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`timeout` in seconds. `outside`: with the user's own rights, even in mode `auto`, which then asks."""

    command: str
    timeout: float = DEFAULT_SECONDS
    cwd: str = "."
    outside: bool = False


def perform(workspace: Workspace, arguments: Arguments) -> Program:
    """The program that runs the command.

    Raises:
        OSError: `cwd` is not a directory, or is outside the workspace.
        ValueError: the command is empty, too long, or contains a NUL character; or the timeout is not in range.
    """
    command = arguments.command
    if not command.strip():
        raise ValueError("bash(): the command is empty")
    if "\0" in command:
        raise ValueError("bash(): a command cannot contain a NUL character")
    if (size := len(os.fsencode(command))) > MOST_BYTES:
        raise ValueError(
            f"bash(): the command has {size:,} bytes; Linux allows {MOST_BYTES:,}. write the command "
            "to a file with write(), and run the file"
        )
    if not 0 < arguments.timeout <= MOST_SECONDS or math.isnan(arguments.timeout):
        raise ValueError(
            f"bash(): timeout is {arguments.timeout:g} s; it must be more than 0 and at most {MOST_SECONDS:g} s"
        )
    with opened_directory(workspace.absolute(arguments.cwd), workspace.roots) as directory:
        place, state = path_of(directory), os.fstat(directory)
    request = CommandRequest(
        argv=(*SHELL, command),
        cwd=place,
        seconds=arguments.timeout,
        kept_bytes=KEPT_BYTES,
        # Because a statement's program could put a link in its place while the question is open.
        directory=(state.st_dev, state.st_ino),
    )
    return Program(request, asks=True, answer=answer, command=command, outside=arguments.outside)


def denial(outcome: CommandOutcome, *, has_network: bool) -> str:
    """Return why the sandbox may have made a command fail, by the words of its last lines; empty if nothing says so."""
    if not outcome.code:
        return ""
    text = "\n".join(each.text[-_SEARCHED_CHARS:] for each in (outcome.stdout, outcome.stderr))
    if path := next(filter(None, (_named(text, each) for each in _REFUSED.finditer(text))), ""):
        return DENIED.format(printable(path))
    return NO_NETWORK if not has_network and _UNREACHABLE.search(text) else ""


def _named(text: str, refused: re.Match[str]) -> str:
    """Return the path that an error names before the refusal, or quoted behind it; "" for none."""
    if (end := _NAMED_BEFORE.search(text, max(refused.start() - 3, 0), refused.start())) is not None:
        first = max(end.start() - _LONGEST_PATH, 0)
        return text[
            max((each.end() for each in _BOUNDS.finditer(text, first, end.start())), default=first) : end.start()
        ]
    after = _NAMED_AFTER.match(text, refused.end())
    return "" if after is None else after[1]


def answer(outcome: CommandOutcome) -> dict[str, object]:
    """The command's result for the statement (`runtime.results.completed`)."""
    return {
        "code": outcome.code,
        "output": outcome.stdout.text,
        "truncated": outcome.stdout.left_out > 0,
        "timed_out": outcome.timed_out,
        "signal": None if outcome.signal is None else _name(outcome.signal),
        "reason": outcome.reason,
        "seconds": round(outcome.seconds, 3),
        **({"changed": outcome.changed} if outcome.changed else {}),
    }


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
