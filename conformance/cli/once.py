"""Runs a command line once for several callers that share a report, such as pytest workers that may be killed.

`main([REPORT, COMMAND, ...])` runs the command unless the file REPORT exists. A file lock makes the other callers wait;
if the running one dies, the next one takes over. The process ends, with every program it started, when its standard
input closes, because a killed parent cannot signal its end in any other way.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from conformance.cli import main as run
from conformance.cli.streams import Output


def main(arguments: Sequence[str], output: Output | None = None) -> int:
    """Return the exit status, or 0 if the report exists. With an empty REPORT, always run and do not watch standard
    input."""
    report, *command = arguments
    if not report:
        return run(command, output)
    threading.Thread(target=_watch, daemon=True).start()
    with Path(f"{report}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return 0 if Path(report).exists() else run(command, output)


def _watch() -> None:
    """Send this process SIGTERM when standard input closes."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
