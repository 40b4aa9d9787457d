"""A Board over real files in a temporary directory, with a clock that the test moves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from engine.events import Event
from engine.events.nodes import FileChanged, NodeChanged, TickApplied
from engine.tokens import count
from engine.worker.board import Board, BoardReport
from tests.support.files import DiskFiles


class Desk:
    """One session's board with its namespace; `run` executes statements, `tick` ends Rounds."""

    def __init__(self, root: Path, directories: tuple[str, ...] = ()) -> None:
        self.root = root
        self.files = DiskFiles()
        self.seconds = 1_000_000.0
        self.round = 0
        self.board = Board(self.files, count, str(root), directories, lambda: self.seconds)
        self.namespace: dict[str, object] = self.board.names()

    def write(self, name: str, content: str | bytes, age_ns: int = 0) -> Path:
        """Writes the file with a time stamp of its own, so that no clock granularity hides the change."""
        path = self.root / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.seconds += 1
        os.utime(path, ns=(age_ns or int(self.seconds * 1e9) - 10**9, age_ns or int(self.seconds * 1e9) - 10**9))
        return path

    def run(self, source: str) -> BoardReport:
        """One statement; what it raises comes through, after `finish`."""
        self.board.begin(self.round, self.namespace)
        try:
            exec(source, self.namespace)
        finally:
            report = self.board.finish()
        return report

    def tick(self) -> tuple[Event, ...]:
        self.round += 1
        return self.board.tick(self.round, self.seconds)

    def tail(self, budget: int = 4000) -> str:
        return self.board.tail(self.namespace, budget)[0]

    def get(self, name: str) -> object:
        return self.namespace[name]


def kinds(events: tuple[Event, ...]) -> list[str]:
    """The kinds of the events, in order."""
    return [event.kind for event in events]


def deltas(events: tuple[Event, ...], select: Callable[[Event], bool] = lambda event: True) -> list[str]:
    """The deltas of node, tick and file events, in order."""
    wanted = (event for event in events if select(event))
    return [event.delta for event in wanted if isinstance(event, NodeChanged | TickApplied | FileChanged)]
