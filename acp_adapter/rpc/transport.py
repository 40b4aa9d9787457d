"""What moves bytes for a peer: a Protocol with one implementation here (`stdio`), and one in memory for tests."""

from __future__ import annotations

from typing import Protocol


class Transport(Protocol):
    """Bytes in and out. `receive` gives b"" at the end; both raise OSError when the other side is gone."""

    async def receive(self) -> bytes: ...

    async def send(self, data: bytes) -> None: ...
