"""Errors of the host as those of Python's functions: with a number and a path, by which libraries tell them apart.

Must not know what was asked. Used by `routed_tree` and `staged_files`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_NUMBERS: Final[dict[type[OSError], int]] = {
    PermissionError: errno.EACCES,
    FileNotFoundError: errno.ENOENT,
    FileExistsError: errno.EEXIST,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
    InterruptedError: errno.EINTR,
}


@contextmanager
def numbered(path: object) -> Generator[None]:
    """Gives an OSError without a number that of its class."""
    try:
        yield
    except OSError as error:
        number = _NUMBERS.get(type(error))
        if error.errno is not None or number is None:
            raise
        sentence = str(error).removesuffix(f": {os.fsdecode(path)}") if isinstance(path, str | bytes) else str(error)
        raise type(error)(number, sentence.removesuffix("."), path).with_traceback(
            error.__traceback__
        ) from error.__cause__
