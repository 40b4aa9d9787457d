"""`files.sources_protocol.Files` for nodes, straight from the operating system. Errors are OSError."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from itertools import islice
from typing import Final

from ....files.safe_open import opened_directory, opened_file, pinned_stat
from ....files.sources import FileStamp


class DirectFiles:
    """Reads what is on disk, with all rights of the process; with `roots`, absolute directories, nothing outside."""

    def __init__(self, roots: tuple[str, ...] | None = None) -> None:
        self._roots = roots

    def stamp(self, path: str) -> FileStamp:
        return _stamp(os.stat(path) if self._roots is None else pinned_stat(path, self._roots))

    def read(self, path: str, limit: int) -> bytes:
        with opened_file(path, self._roots) as file:
            return file.read(limit)

    @contextmanager
    def opened(self, path: str) -> Generator[_DirectFile]:
        with opened_file(path, self._roots) as file:
            yield _DirectFile(file.fileno())

    def entries(self, path: str, limit: int) -> list[str]:
        if self._roots is not None:
            with opened_directory(path, self._roots) as directory:
                return _names(directory, limit)
        return _names(path, limit)


class _DirectFile:
    """`files.sources_protocol.OpenFile` on a descriptor."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor

    def stamp(self) -> FileStamp:
        return _stamp(os.fstat(self._descriptor))

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)


def _stamp(found: os.stat_result) -> FileStamp:
    return FileStamp(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def _names(directory: str | int, limit: int) -> list[str]:
    with os.scandir(directory) as found:
        return [f"{entry.name}/" if _is_directory(entry) else entry.name for entry in islice(found, limit)]


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
