"""The engine sessions behind a server: opened on the first call, shared by name, put to rest when idle.

Owns the limit on open sessions. A resting session has no worker process; its next call starts one. Never knows MCP.
Called by `requests` and `notifications`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from engine.core.errors import EngineError
from mcp_tools.access import AccessError, Roots
from mcp_tools.replies import CallError

if TYPE_CHECKING:  # loaded after the client has its first response
    from engine import Session, Sessions
    from mcp_tools.client_session import ClientSession

logger = logging.getLogger(__name__)
MAX_SESSIONS: Final = 64
REST_SECONDS: Final = 30 * 60.0
_CHECK_SECONDS: Final = 60.0
_RENEW_SECONDS: Final = 2.0
"""Pause between attempts to reopen a session that became read-only."""
TOO_MANY_SESSIONS: Final = (
    "This server already has {limit} sessions in use, which is its limit; use one of them, or wait until one has been"
    f" idle for {REST_SECONDS / 60:.0f} minutes."
)


class _OpenSession:
    """An open session, the time of its last use, and whether it rests.

    `changing` is held while its worker is ended or the session is reopened; calls wait for that.
    """

    __slots__ = ("changing", "is_resting", "last_renewal", "last_use", "session")

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.changing = anyio.Lock(fast_acquire=True)  # every request takes it
        self.last_use = 0.0
        self.last_renewal = -math.inf
        self.is_resting = False


class SessionPool:
    """The sessions of one server.

    Args:
        engine: returns the sessions of the engine, after waiting for it to load.
        confined: whether views may open only the roots.
        sandboxed: whether clients run Python in the sandbox.
        network: whether that Python may use TCP.
        now: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        engine: Callable[[], Awaitable[Sessions]],
        *,
        confined: bool,
        sandboxed: bool = False,
        network: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._confined = confined
        self._sandboxed = sandboxed
        self._network = network
        self._now = now
        self._open: dict[str, _OpenSession] = {}
        self._opening = anyio.Lock()

    async def open(
        self, key: str, name: str | None, roots: Callable[[], Awaitable[Roots]], client: str
    ) -> ClientSession:
        """Return the session of that key; open it if necessary.

        Args:
            key: identifies the session: an HTTP path's name, or the connection.
            name: the name of a lasting session; None for a new one.
            roots: returns the directories of the session.
            client: the client's own name.

        Raises:
            CallError: the session cannot be opened; the message says why, and what to do.
        """
        found = await self.find(key)
        if found is not None:
            return found
        try:
            directories = await roots()  # outside the lock, because a client may answer slowly
            async with self._opening:
                if key not in self._open:
                    self._open[key] = _OpenSession(await self._open_new(name, directories, client))
        except (EngineError, AccessError) as error:
            raise CallError(f"Cannot open a session: {error}.") from error
        return await self._use(self._open[key])

    async def _open_new(self, name: str | None, roots: Roots, client: str) -> ClientSession:
        sessions = await self._engine()
        if len(self._open) >= MAX_SESSIONS:
            await self._evict(sessions)
        session = await sessions.open(name, roots.cwd, roots.directories[1:], confined=self._confined, client=client)
        if self._sandboxed:
            # Set even if the session was served differently before. Mode `auto` never asks; whatever would need a
            # question is refused, because no user can answer here.
            session.set_mode("auto")
            session.set_option("network", "on" if self._network else "off")
        return self._client_session(session)

    def _client_session(self, session: Session) -> ClientSession:
        from mcp_tools.client_session import ClientSession  # after the first response

        return ClientSession(session, sandboxed=self._sandboxed)

    async def _evict(self, sessions: Sessions) -> None:
        """Close the session that has rested longest. It is fully saved, and its next call reopens it."""
        resting = {key: each for key, each in self._open.items() if each.is_resting and not each.changing.locked()}
        if not resting:
            raise CallError(TOO_MANY_SESSIONS.format(limit=MAX_SESSIONS))
        key = min(resting, key=lambda key: resting[key].last_use)
        del self._open[key]
        await sessions.close(resting[key].session.engine_session.session_id)

    async def find(self, key: str) -> ClientSession | None:
        """Return the session of that key if it is open."""
        found = self._open.get(key)
        return None if found is None else await self._use(found)

    async def _use(self, entry: _OpenSession) -> ClientSession:
        entry.last_use = self._now()
        async with entry.changing:
            entry.is_resting = False
            if entry.session.engine_session.is_read_only and self._now() - entry.last_renewal >= _RENEW_SECONDS:
                entry.last_renewal = self._now()
                await self._renew(entry)
        return entry.session

    async def _renew(self, entry: _OpenSession) -> None:
        """Reopen a session that could not be saved, if saving works again. Until then it stays readable."""
        sessions = await self._engine()
        session = await sessions.renew(entry.session.engine_session)
        if session is not entry.session.engine_session:
            entry.session = self._client_session(session)

    def awake(self) -> list[tuple[str, ClientSession]]:
        """The sessions that do not rest, with their keys."""
        return [(key, each.session) for key, each in self._open.items() if not each.is_resting]

    async def run(self) -> None:
        """Put idle sessions to rest, until cancelled."""
        while True:
            await anyio.sleep(_CHECK_SECONDS)
            await self.rest_idle()

    async def rest_idle(self) -> None:
        """End the workers of sessions that were unused for `REST_SECONDS`."""
        for entry in list(self._open.values()):
            session = entry.session.engine_session
            if self._now() - entry.last_use <= REST_SECONDS or entry.is_resting or session.is_busy:
                continue
            entry.is_resting = True
            async with entry.changing:
                try:
                    await session.rest()
                except EngineError as error:
                    logger.warning("session %s could not be suspended: %s", session.session_id, error)
