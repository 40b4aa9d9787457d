"""`ports.Files` for nodes, straight from the operating system. Errors are OSError."""

from __future__ import annotations

import os

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
