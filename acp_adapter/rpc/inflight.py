"""The incoming requests and notifications that are not finished yet.

Must not know how they are served. The peer adds, cancels and removes; at the end it waits until nothing is left.
"""

from __future__ import annotations

from typing import Any

import anyio

from acp_adapter.rpc.messages import RequestId
from acp_adapter.rpc.methods import Incoming


class InFlight:
    """From reading a request to its answer it can be cancelled; until its follow-ups are done it counts."""

    def __init__(self) -> None:
        self._all: dict[Incoming[Any], None] = {}
        self._running: dict[Incoming[Any], None] = {}
        self._changed = anyio.Event()

    def add(self, incoming: Incoming[Any]) -> None:
        self._all[incoming] = self._running[incoming] = None

    def cancel(self, request_id: RequestId) -> None:
        """Cancels the running request with this id, if there is one; the type of the id counts."""
        for incoming in self._running:
            if incoming.id == request_id and not incoming.is_notification:
                incoming.scope.cancel()

    def cancel_all(self) -> None:
        for incoming in self._running:
            incoming.scope.cancel()

    def answered(self, incoming: Incoming[Any]) -> None:
        """From now on it cannot be cancelled."""
        self._running.pop(incoming, None)

    def remove(self, incoming: Incoming[Any]) -> None:
        self._all.pop(incoming, None)
        if not self._all:
            self._changed.set()
            self._changed = anyio.Event()

    async def empty(self) -> None:
        """Waits until nothing is in flight."""
        while self._all:
            await self._changed.wait()
