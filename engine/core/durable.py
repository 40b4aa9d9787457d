"""Makes what was written to a file survive a loss of power.

On macOS `fsync` leaves the data in the disk's own cache, and says so in its manual; F_FULLFSYNC empties that too. Git,
Go and SQLite use it likewise. Every file of the program that must last is synced here; the database has settings of its
own for the same (`log.store.database`). Standard library alone. Must not know what the files are for.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import Final

_FULL: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
"""The command that only macOS has."""


def sync(descriptor: int) -> None:
    """Return when the file or directory is on its disk. Raises OSError."""
    if _FULL is not None:
        with suppress(OSError):  # some file systems, such as those of other machines, refuse it
            fcntl.fcntl(descriptor, _FULL)
            return
    os.fsync(descriptor)
