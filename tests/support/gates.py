"""A place where a statement waits: the test knows when it has come there, and decides when it goes on. For one loop."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

import anyio

SECONDS = 20.0
_WAIT = """\
import os, time
fd = os.open({path!r}, os.O_RDONLY | os.O_NONBLOCK)
try:
    while True:
        try:
            if os.read(fd, 1):
                break
        except BlockingIOError:
            pass
        time.sleep(0.001)
finally:
    os.close(fd)
"""


class Gate:
    """One gate; `source` is an expression that waits at it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._path = path
        self._held: int | None = None
        self.source = f"exec({_WAIT.format(path=str(path))!r}, {{}})"

    async def reached(self) -> None:
        """Waits until a statement is there."""
        with anyio.fail_after(SECONDS):
            while self._held is None:
                try:
                    self._held = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
                except OSError as error:
                    if error.errno != errno.ENXIO:
                        raise
                    await anyio.sleep(0.002)  # because a pipe cannot be waited for until it has a reader

    def release(self) -> None:
        """Lets whoever waits go on; does nothing where nobody does."""
        if self._held is not None:
            with suppress(BrokenPipeError):  # because whoever waited may have been cancelled
                os.write(self._held, b"x")
            os.close(self._held)
            self._held = None

    async def pass_one(self) -> None:
        """Lets the next one through."""
        await self.reached()
        self.release()
