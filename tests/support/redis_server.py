"""A Redis server for the state of a Ray head, on a free port of this machine; nothing of it stays."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

_PROGRAM: Final = shutil.which("redis-server")
_PATIENCE: Final = 60.0


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """A server for the block: its address. Skips the test where there is no Redis."""
    if _PROGRAM is None:
        pytest.skip("redis-server is not installed; on Debian: apt-get install redis-server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    options = {"--bind": "127.0.0.1", "--port": str(port), "--dir": str(directory), "--appendonly": "yes"}
    command = [_PROGRAM, *(word for option in options.items() for word in option)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as process:
        try:
            _wait(port)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def _wait(port: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)  # because Redis tells nobody
    raise AssertionError("Redis does not start")
