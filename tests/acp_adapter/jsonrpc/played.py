"""A transport without descriptors, for prepared input and recorded output."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import anyio


class PlayedTransport:
    """Returns `pieces` one by one and then the end; sends wait until `unblock` if `is_blocked`.

    `taken` counts the pieces that were received.
    """

    def __init__(self, pieces: Iterable[bytes], is_blocked: bool = False) -> None:
        self._pieces: Iterator[bytes] = iter(pieces)
        self._sent = bytearray()
        self._free = anyio.Event()
        self.taken = 0
        if not is_blocked:
            self._free.set()

    def unblock(self) -> None:
        self._free.set()

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        piece = next(self._pieces, b"")
        self.taken += bool(piece)
        return piece

    async def send(self, data: bytes) -> None:
        await self._free.wait()
        self._sent += data

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages sent so far."""
        return [json.loads(line) for line in self._sent.splitlines()]
