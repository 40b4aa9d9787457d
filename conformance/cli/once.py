"""The command as a child of programs that may die and that share one run, such as the workers of a test runner.

`main([REPORT, COMMAND, ...])` carries out a command line unless the file REPORT is there, so that of several callers
one runs it and the others wait for it; where that one dies, the next does. It ends, with every program that it started,
when its standard input does: a parent that was killed cannot say so in any other way.
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
    """Return the exit status; 0 where the report was there. An empty REPORT: runs in any case, and unattended."""
    report, *command = arguments
    if not report:
        return run(command, output)
    threading.Thread(target=_watch, daemon=True).start()
    with Path(f"{report}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return 0 if Path(report).exists() else run(command, output)


def _watch() -> None:
    """Ends this process as SIGTERM does, once standard input is closed."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
