"""The worker's Files port, which counts what it is asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager

from engine.files.sources import FileStamp, OpenFile
from engine.runtime.worker.handles.trees import DirectFiles


class DiskFiles:
    """Reads what is on disk. `stamps`, `reads` and `opens` count calls."""

    def __init__(self) -> None:
        self._files = DirectFiles()
        self.stamps = 0
        self.reads = 0
        self.opens = 0

    def stamp(self, path: str) -> FileStamp:
        self.stamps += 1
        return self._files.stamp(path)

    def read(self, path: str, limit: int) -> bytes:
        self.reads += 1
        return self._files.read(path, limit)

    def opened(self, path: str) -> AbstractContextManager[OpenFile]:
        self.opens += 1
        return self._files.opened(path)

    def entries(self, path: str, limit: int) -> list[str]:
        self.reads += 1
        return self._files.entries(path, limit)
