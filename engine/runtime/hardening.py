"""Hides this process's keys from the statements of its workers: no other process can read its memory or environment.

Provider keys are in the environment of the host, and statements run as the same user. Called by every console script
before anything else, and by programs that embed the engine. Must not know which variables are secret. Imports the
standard library alone, because it runs first.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable
from typing import Final

from ..core.import_path import SYSTEM_PATH
from .system.own_process import become_unreadable
from .system.process_table import read

_ENV_START: Final = 47
"""The index of field 50 of proc(5) among the fields of /proc/self/stat after the command. The next one is the end."""


def harden_process() -> None:
    """Make this process unreadable for the user's other processes, and clear its environment block.

    Call it before the first statement runs, in the main thread and before others are started; it takes less than
    2 ms. `os.environ` and what C code reads with getenv stay as they are. There is no core dump any more, and a
    debugger needs CAP_SYS_PTRACE.
    """
    become_unreadable()
    _empty_environment_block()


def withhold_variables(names: Iterable[str]) -> None:
    """Keep variables from programs that are started with the environment of this process.

    Libraries start such programs, such as `gcloud` or the `credential_process` of an AWS profile. `os.environ` stays as
    it is, but C code does not find the variables.
    """
    for name in names:
        with contextlib.suppress(OSError, ValueError):
            os.unsetenv(name)


def find_only_installed_programs() -> None:
    """Let libraries in this process, and what they start, find no program that a statement may have written.

    Libraries start programs by name: OpenAI's `uname`, Google's `gcloud`, ctypes a compiler. Callers keep the user's
    `PATH` for programs of statements.
    """
    os.environ["PATH"] = SYSTEM_PATH


def _empty_environment_block() -> None:
    """Overwrite the memory behind /proc/self/environ, which root can always read.

    The C library's table of variables points into that block, and `getenv` is what OpenSSL, the resolver and time zones
    use. So each variable is first set again, which copies it to the heap.
    """
    fields = read("/proc/self/stat").rpartition(b")")[2].split()
    if not fields:
        return  # without /proc it cannot be read either
    start, end = int(fields[_ENV_START]), int(fields[_ENV_START + 1])
    for name, value in os.environb.items():
        # Python lists entries that the C library refuses to set: those without a name.
        with contextlib.suppress(OSError, ValueError):
            os.putenv(name, value)
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
