"""What the processes of a product and its directory take at one moment. Must not know what the product does."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import psutil

_PACE_ADDS: Final = 100_000


def taken(pid: int, state: Path) -> dict[str, float]:
    """Memory of the main process and of its descendants, descriptors, threads, processes, bytes of the state.

    A page that several processes share counts in parts (PSS). A checkpoint shares its pages with its worker until the
    worker changes them, so the sum for the descendants grows while the worker works, up to what each can change. A
    leak in one of them shows in the largest: its own pages with the shared ones, without those of files.

    Raises PermissionError if the main process may not be looked at: only root can read one that hides its memory.
    """
    members = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    memories = {"host memory": _memory(pid).shared, "other memory": 0.0, "largest other memory": 0.0}
    found = {**memories, "descriptors": 0.0, "threads": 0.0, "processes": 0.0}
    for member in members:
        # A command of a statement may have ended meanwhile, or be ending, and then nobody can read it.
        with contextlib.suppress(ProcessLookupError, FileNotFoundError, PermissionError):
            memory = _NO_MEMORY if member == pid else _memory(member)
            descriptors, threads = len(os.listdir(f"/proc/{member}/fd")), len(os.listdir(f"/proc/{member}/task"))
            found["other memory"] += memory.shared
            found["largest other memory"] = max(found["largest other memory"], memory.anonymous)
            found["descriptors"] += descriptors
            found["threads"] += threads
            found["processes"] += 1
    return {**found, "store": float(sum(_sizes(state)))}


class _Memory(NamedTuple):
    """Bytes of one process: its part of what it shares, and all pages that come from no file."""

    shared: float
    anonymous: float


_NO_MEMORY: Final = _Memory(0.0, 0.0)


def _memory(pid: int) -> _Memory:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        kilobytes = dict(re.findall(r"^(\w+): +(\d+) kB$", lines.read(), re.MULTILINE))
    return _Memory(1024.0 * int(kilobytes.get("Pss", 0)), 1024.0 * int(kilobytes.get("Anonymous", 0)))


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
