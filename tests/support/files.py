"""A Files port over the real disk, which counts what it is asked for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from engine.ports import FileStamp


class DiskFiles:
    """Reads regular files. `stamps` and `reads` count calls."""

    def __init__(self) -> None:
        self.stamps = 0
        self.reads = 0

    def stamp(self, path: str) -> FileStamp:
        self.stamps += 1
        facts = os.stat(path)
        return FileStamp(facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino)

    def read(self, path: str) -> bytes:
        self.reads += 1
        if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
            raise OSError(22, "not a regular file", path)
        return Path(path).read_bytes()
