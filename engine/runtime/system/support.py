"""Which systems the program knows, and what a system lacks, row by row, for `rewindow doctor` and for start-up.

Imports nothing that a system may lack, because start-up asks here before it imports anything else of ours.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

SYSTEM: Final = sys.platform
NAMES_DISPLAYS: Final = SYSTEM != "darwin"
"""Whether variables of the environment name the display on which programs open windows."""
_KNOWN: Final = ("linux", "darwin")
ADVICE: Final = "Rewindow needs Linux, or macOS, on which it has not run yet; on Windows, install it in WSL"
UNKNOWN: Final = "{system} is not supported: {advice}"


class Need(NamedTuple):
    """What the program needs of a system: any of these names, each `MODULE.NAME` or a path, and the purpose."""

    names: tuple[str, ...]
    purpose: str


NEEDS: Final = (
    Need(("os.fork",), "workers, in which statements run, are copies of a process that has loaded everything"),
    Need(("os.posix_spawn",), "programs are started without a shell"),
    Need(("socket.send_fds",), "processes pass files to each other by Unix sockets"),
    Need(("resource.setrlimit",), "the memory and the open files of statements are limited"),
    Need(("fcntl.flock", "fcntl.lockf"), "a session is open in one process at a time"),
    Need(("select.epoll", "select.kqueue"), "one process waits for many others"),
    Need(("os.pidfd_open", "select.kqueue"), "a signal never reaches another process with the same number"),
    Need(("/proc/self/stat", "os.O_EVTONLY"), "the processes of a statement are found and ended"),
    Need(("os.O_PATH", "os.O_EVTONLY"), "files are opened without following a link that appears meanwhile"),
    Need(("os.memfd_create", "os.O_EVTONLY"), "files in memory carry values between processes"),
    Need(("/proc/sys/kernel", "/usr/bin/sandbox-exec"), "a sandbox confines the statements of a model"),
)
"""The second name is that of macOS, if the first one is not on both systems. O_EVTONLY stands for what only macOS has
where that is no name of Python, such as libproc, which is not even a file."""
DIFFERENCES: Final = (
    "no checkpoints: a rewind runs statements again, because forks are not used beside running code here",
    "no process namespace: a statement's process that starts its own session can outlive it",
    "if the agent and its zygote are killed together, processes of statements run on, and nothing finds them",
    "other processes of yours can read the environment in which the agent was started, with its keys",
    "the memory of all processes of a statement together is not limited",
)
"""What a known system that is not Linux lacks: see docs/macos.md."""


def is_known() -> bool:
    """Whether the program has an implementation for this system."""
    return SYSTEM in _KNOWN


def differences() -> Sequence[str]:
    """What this known system lacks that Linux has."""
    return () if SYSTEM == "linux" else DIFFERENCES


def missing() -> Sequence[str]:
    """What this system lacks of `NEEDS`, a sentence for each."""
    return [
        f"{' or '.join(need.names)} is missing: {need.purpose}" for need in NEEDS if not any(map(_is_there, need.names))
    ]


def _is_there(name: str) -> bool:
    if name.startswith("/"):
        return os.path.exists(name)
    module, _, attribute = name.partition(".")
    try:
        return hasattr(importlib.import_module(module), attribute)
    except ImportError:
        return False


def refusal() -> Sequence[str]:
    """The lines that say why the program does not run on this system; none if it may."""
    if is_known():
        return ()
    return (UNKNOWN.format(system=SYSTEM, advice=ADVICE), *missing())
