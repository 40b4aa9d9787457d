"""What a fork alone costs in a process of a given shape: run as `python bare_fork.py`, with the standard library alone.

That is the least a checkpoint can take. The child waits and writes nothing. This process writes to as many pages as a
worker does until it has answered the next statement, each of which the kernel copies first.
"""

from __future__ import annotations

import mmap
import os
import signal
from time import perf_counter

from serving import serve

HUGE = 2 << 20
PROTECTIONS = (mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE)
"""In turns, because neighbours that are alike become one mapping."""


class Shape:
    """What this process holds beside Python: mappings without pages, small pages, and pages of 2 MB."""

    def __init__(self) -> None:
        self._mappings: list[mmap.mmap] = []
        self._pages = mmap.mmap(-1, mmap.PAGESIZE)

    def begin(self, mappings: float, pages: float, huge: float) -> float:
        self._mappings = [
            mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, PROTECTIONS[number % 2])
            for number in range(int(mappings))
        ]
        self._pages = _filled(int(pages) * mmap.PAGESIZE, mmap.MADV_NOHUGEPAGE, mmap.PAGESIZE)
        if huge:
            self._mappings.append(_filled(int(huge) * HUGE, mmap.MADV_HUGEPAGE, HUGE))
        return 0.0

    def fork(self, written: float) -> float:
        """Seconds for a fork and for writing to so many small pages afterwards."""
        step = len(self._pages) // int(written) // mmap.PAGESIZE * mmap.PAGESIZE
        start = perf_counter()
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        for place in range(0, int(written) * step, step):
            self._pages[place] = 1
        took = perf_counter() - start
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return took


def _filled(size: int, advice: int, step: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(advice)
    for place in range(0, size, step):
        memory[place] = 1
    return memory


def main() -> None:
    shape = Shape()
    serve({"begin": shape.begin, "fork": shape.fork})


main()
