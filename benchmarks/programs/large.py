"""Answers lines of JSON with seconds: a view of one large log, as a worker makes it, beside reading the bytes alone.

`["make", bytes]` writes the log; `["read"]` reads it in pieces of a page and does nothing else; `["index"]` makes a
view of it, on a new board; `["page"]` shows a place of it that was not read before; `["tick"]` ticks it, unchanged, and
`["stat"]` asks the system once. `["memory"]` answers, in MiB, by how much a view at many places makes a process larger.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count as numbers
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from serving import serve

from engine.core.tokens import count
from engine.files.outline.fallbacks import IndentationOutliner
from engine.files.paging import PAGE
from engine.runtime.worker.handles.board import Board
from engine.runtime.worker.handles.trees import DirectFiles

LINE = b"2026-11-22 08:00:00 INFO worker[%09d] handled a request in 12 ms, status 200, path /api/v1/items\n"
AT_ONCE = 10_000
PLACES = 50


class Large:
    """A board over the log. `now` lies far behind it, so that no stamp counts as one that may not last."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / "large.log"
        self._lines = 0
        self._steps = numbers(1)
        self._dice = random.Random(1)
        self._start()

    def _start(self) -> None:
        self._board = Board(DirectFiles(), count, str(self._root), (), lambda: 0.0, IndentationOutliner())
        self._namespace: dict[str, object] = self._board.names()

    def make(self, size: int) -> float:
        with open(self._path, "wb") as file:
            while file.tell() < size:
                file.write(b"".join(LINE % number for number in range(self._lines, self._lines + AT_ONCE)))
                self._lines += AT_ONCE
        (self._root / "small.log").write_bytes(LINE % 0)
        return self._run("view('small.log')")

    def read(self) -> float:
        return _timed(self._read)

    def index(self) -> float:
        self._start()
        return self._run("log = view('large.log', freq='Sync')")

    def page(self) -> float:
        return self._run(f"show(log.SetPos('{self._dice.randrange(self._lines)}'))")

    def tick(self) -> float:
        return _timed(lambda: self._board.tick(next(self._steps), time.time()))

    def stat(self) -> float:
        return _timed(lambda: os.stat(self._path))

    def memory(self) -> float:
        self._start()
        before = _private()
        self.index()
        for _ in range(PLACES):
            self.page()
            self._board.looks.take_contents()
        return _private() - before

    def _read(self) -> None:
        with open(self._path, "rb", buffering=0) as file:
            while file.read(PAGE):
                pass

    def _run(self, source: str) -> float:
        """The seconds of a statement with its result."""

        def act() -> None:
            self._board.begin(next(self._steps), self._namespace)
            exec(source, self._namespace)
            self._board.finish()

        return _timed(act)


def _timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _private() -> float:
    """What the process holds for itself, in MiB."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return sum(int(fields[name].split()[0]) for name in ("Private_Clean", "Private_Dirty")) / 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        large = Large(Path(directory))
        names = ("make", "read", "index", "page", "tick", "stat", "memory")
        serve({name: getattr(large, name) for name in names})


main()
