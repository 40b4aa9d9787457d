"""Answers lines of JSON with seconds: a tick of many running views, as a worker makes it, beside the bare stats.

`["make", views]` makes as many files of a few screens and a view of each, with freq "Sync"; `["stats"]` asks the system
for the state of each file once; `["tick"]` ticks them with nothing changed, `["changed"]` after one file has. Each is
the median of several in a row; `["cold stats"]` and `["cold tick"]` are done once, after the processor's caches were
filled with something else.
"""

from __future__ import annotations

import os
import statistics
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
from engine.runtime.worker.handles.board import Board
from engine.runtime.worker.handles.trees import DirectFiles

LINES = "".join(f"def function_{number}(value):\n    return value + {number}\n\n" for number in range(100))

IN_A_ROW = 7
SWEPT = 64 << 20
"""Bytes, more than a processor's caches hold."""


class Ticks:
    """A board over real files. `now` lies far behind them, so that no stamp counts as one that may not last."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._paths: list[str] = []
        self._rounds = numbers(1)
        self._board = Board(DirectFiles(), count, str(root), (), lambda: 0.0, IndentationOutliner())
        self._namespace: dict[str, object] = self._board.names()

    def make(self, views: int) -> float:
        for number in range(views):
            path = self._root / f"file_{number}.py"
            path.write_text(LINES)
            self._paths.append(str(path))
        self._board.begin(1, self._namespace)
        exec(f"views = [view(f'file_{{n}}.py', freq='Sync') for n in range({views})]", self._namespace)
        self._board.finish()
        return self.tick()

    def stats(self) -> float:
        return _middle(self._stats)

    def tick(self) -> float:
        return _middle(self._tick)

    def cold_stats(self) -> float:
        return _once(self._stats)

    def cold_tick(self) -> float:
        return _once(self._tick)

    def changed(self) -> float:
        return _middle(self._tick, self._change)

    def _stats(self) -> None:
        for path in self._paths:
            os.stat(path)

    def _tick(self) -> None:
        self._board.tick(next(self._rounds), time.time())

    def _change(self) -> None:
        Path(self._paths[len(self._paths) // 2]).write_text(LINES.replace("+", "-", 1) + f"x = {time.time_ns()}\n")


def _middle(act: Callable[[], None], prepare: Callable[[], None] = lambda: None) -> float:
    """The median of several in a row, because the first one after a pause measures the processor's caches."""
    seconds: list[float] = []
    for _ in range(IN_A_ROW):
        prepare()
        started = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _once(act: Callable[[], None]) -> float:
    """What it takes where nothing of it is in the processor's caches, as after a Round's other work."""
    bytearray(SWEPT).count(1)
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        ticks = Ticks(Path(directory))
        serve(
            {
                "make": ticks.make,
                "stats": ticks.stats,
                "tick": ticks.tick,
                "changed": ticks.changed,
                "cold stats": ticks.cold_stats,
                "cold tick": ticks.cold_tick,
            }
        )


main()
