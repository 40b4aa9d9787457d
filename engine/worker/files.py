"""`ports.Files` for nodes, straight from the operating system. Errors are OSError."""

from __future__ import annotations

import os
from itertools import islice

from ..confinement import opened_file
from ..ports import FileStamp


class DirectFiles:
    """Reads what is on disk, with all rights of the process."""

    def stamp(self, path: str) -> FileStamp:
        found = os.stat(path)
        return FileStamp(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)

    def read(self, path: str, limit: int) -> bytes:
        with opened_file(path) as file:
            return file.read(limit)

    def entries(self, path: str, limit: int) -> list[str]:
        with os.scandir(path) as found:
            return [f"{entry.name}/" if _is_directory(entry) else entry.name for entry in islice(found, limit)]


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
