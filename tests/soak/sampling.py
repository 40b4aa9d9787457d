"""What the processes of a product and its directory take at one moment. Must not know what the product does."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psutil

_PACE_ADDS: Final = 100_000


def taken(pid: int, state: Path) -> dict[str, float]:
    """Memory (PSS) of the main process and of its descendants, descriptors, threads, processes, bytes of the state.

    Raises PermissionError if the main process may not be looked at: only root can read one that hides its memory.
    """
    members = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    found = {"host memory": _pss(pid), "other memory": 0.0, "descriptors": 0.0, "threads": 0.0, "processes": 0.0}
    for member in members:
        # A command of a statement may have ended meanwhile, or be ending, and then nobody can read it.
        with contextlib.suppress(ProcessLookupError, FileNotFoundError, PermissionError):
            memory = 0.0 if member == pid else _pss(member)
            descriptors, threads = len(os.listdir(f"/proc/{member}/fd")), len(os.listdir(f"/proc/{member}/task"))
            found["other memory"] += memory
            found["descriptors"] += descriptors
            found["threads"] += threads
            found["processes"] += 1
    return {**found, "store": float(sum(_sizes(state)))}


def _pss(pid: int) -> float:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        return 1024.0 * next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _sizes(state: Path) -> Iterable[int]:
    for path in state.rglob("*"):
        with contextlib.suppress(OSError):  # a file may be replaced at this moment
            if path.is_file():
                yield path.stat().st_size


def pace() -> float:
    """Seconds for a fixed piece of work, which says how busy the machine is."""

    def once() -> float:
        begun = time.perf_counter()
        total = 0
        for number in range(_PACE_ADDS):
            total += number
        return time.perf_counter() - begun

    return min(once() for _ in range(3))
