"""The engine behind a server, loaded when the client has its first answer, and closed with all that it has open.

A client waits for `initialize`, and the engine takes longer to load than that. One task owns it from beginning to end,
because what it enters has to be left by the task that entered it. Must not know MCP. Run by `serving`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from engine.core.errors import EngineError, EnvironmentUnavailableError

if TYPE_CHECKING:
    from engine import Host, Redactor, Sessions


class EngineTask:
    """An engine that is not there yet. `make` gives the host, on a thread, because that imports much.

    `early` is the host's redactor for as long as there is no host, for what a client has sent by then.
    """

    def __init__(self, make: Callable[[], Host], early: Callable[[], Redactor]) -> None:
        self._make = make
        self._early = early
        self._wanted = anyio.Event()
        self._there = anyio.Event()
        self._leaving = anyio.Event()
        self._ended = anyio.Event()
        self._host: Host | None = None
        self._failure: EngineError | None = None

    def want(self) -> None:
        """Has it loaded now. May be repeated."""
        self._wanted.set()

    def redactor(self) -> Redactor:
        """What takes secrets out of texts, whether or not the engine is there."""
        return self._early() if self._host is None else self._host.redactor

    async def sessions(self) -> Sessions:
        """The sessions of the running engine. Raises EngineError where there can be none."""
        self.want()
        await self._there.wait()
        if self._failure is not None:
            raise self._failure
        if self._host is None:
            raise EnvironmentUnavailableError("the server is ending")
        return self._host.sessions

    async def serve(self) -> None:
        """Loads the engine when it is wanted, and keeps it running until `close` or a cancel; then closes it."""
        try:
            await self._wanted.wait()
            if self._leaving.is_set():
                return
            try:
                host = await anyio.to_thread.run_sync(self._make)
            except EngineError as error:
                self._failure = error
                return
            async with host:
                await anyio.to_thread.run_sync(host.prepare, "session")
                self._host = host
                self._there.set()
                await anyio.to_thread.run_sync(host.prepare, "prompt")
                await self._leaving.wait()
        finally:
            self._host = None
            self._there.set()
            self._ended.set()

    async def close(self) -> None:
        """Has it closed, and waits for that."""
        self._leaving.set()
        self._wanted.set()
        await self._ended.wait()
