"""A stream that can be read more than once: itself, or a copy on disk where it is a pipe. Must not know what it holds.

Called by the imports, which look at their input before they read it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO


@contextmanager
def rereadable(source: IO[bytes]) -> Generator[IO[bytes]]:
    """`source`, or a temporary copy of all of it, at its start, where it cannot seek. The copy goes at the end.

    Raises:
        OSError: it cannot be read, or there is no room for the copy.
    """
    if source.seekable():
        yield source
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(source, copy)
        copy.seek(0)
        yield copy
