"""The engine sessions behind a server: opened at the first call that needs one, shared by name, put to rest when idle.

Owns the limit on how many are open, and which roots each has. Must not know tools. Called by `server`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from engine.core.errors import EngineError
from mcp_tools.errors import CallError
from mcp_tools.roots import Roots, RootsError

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from engine import Session, Sessions
    from mcp_tools.bench import Bench

logger = logging.getLogger(__name__)
MOST_SESSIONS: Final = 64
REST_SECONDS: Final = 30 * 60.0
_LOOK_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 2.0
"""Between two attempts to open a session again that has become read-only."""


class _Opened:
    """A session that is open, when it was used last, and whether its worker was ended since.

    `changing` is held while the worker is ended: a call that comes meanwhile waits for that.
    """

    __slots__ = ("bench", "changing", "is_resting", "renewed", "used")

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.changing = anyio.Lock(fast_acquire=True)  # each request takes it
        self.used = 0.0
        self.renewed = -math.inf
        """When it was last tried to open it again."""
        self.is_resting = False


class Held:
    """How clients run statements in the sandbox: in the mode that leaves them the session's directories.

    What would ask in it, such as a command that is to run outside, is refused, because there is nobody to ask.
    """

    def __init__(self, *, network: bool) -> None:
        self._network: Final = "on" if network else "off"

    def hold(self, session: Session) -> None:
        """Has the session be so, whatever it was when it was served last."""
        session.set_mode("auto")
        session.set_option("network", self._network)


class BenchPool:
    """The sessions of one server.

    Args:
        engine: gives the sessions of a running engine, which the first call waits for.
        confined: whether views open nothing outside of the roots.
        held: how statements of clients are held; None where clients write none, or with the user's own rights.
        now: seconds of a clock that never goes back.
    """

    def __init__(
        self,
        engine: Callable[[], Awaitable[Sessions]],
        *,
        confined: bool,
        held: Held | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._confined = confined
        self._held = held
        self._now = now
        self._opened: dict[str, _Opened] = {}
        self._opening = anyio.Lock()

    async def bench(self, key: str, name: str | None, roots: Callable[[], Awaitable[Roots]], client: str) -> Bench:
        """The session of that key, opened where it is not.

        Args:
            key: what shares one: an HTTP path, or a connection.
            name: of a session that lasts; None for a new one.
            roots: finds out where it is to work.
            client: who opens it, as that calls itself.

        Raises:
            CallError: it cannot be opened; the message says why, and what to do.
        """
        found = await self.find(key)
        if found is not None:
            return found
        try:
            where = await roots()  # of a client that may take its time, while others open theirs
            async with self._opening:
                if key not in self._opened:
                    self._opened[key] = _Opened(await self._open(name, where, client))
        except (EngineError, RootsError) as error:
            raise CallError(f"No session can be opened: {error}.") from error
        return await self._used(self._opened[key])

    async def _open(self, name: str | None, where: Roots, client: str) -> Bench:
        sessions = await self._engine()
        if len(self._opened) >= MOST_SESSIONS:
            await self._give_way(sessions)
        session = await sessions.open(name, where.cwd, where.directories[1:], confined=self._confined, client=client)
        from mcp_tools.bench import Bench  # for the first answer, as above

        if self._held is not None:
            self._held.hold(session)
        return Bench(session, by_client=self._held is not None)

    async def _give_way(self, sessions: Sessions) -> None:
        """Closes the session that has rested longest: all of it is on disk, and its next call opens it again."""
        resting = {
            key: opened for key, opened in self._opened.items() if opened.is_resting and not opened.changing.locked()
        }
        if not resting:
            raise CallError(
                f"This server has {MOST_SESSIONS} sessions in use, the most there can be; use one of them, or wait"
                f" until one has been idle for {REST_SECONDS / 60:.0f} minutes."
            )
        key = min(resting, key=lambda key: resting[key].used)
        del self._opened[key]
        await sessions.close(resting[key].bench.session.session_id)

    async def find(self, key: str) -> Bench | None:
        """The session of that key, if it is open."""
        opened = self._opened.get(key)
        return None if opened is None else await self._used(opened)

    async def _used(self, opened: _Opened) -> Bench:
        opened.used = self._now()
        async with opened.changing:
            opened.is_resting = False
            if opened.bench.session.is_read_only and self._now() - opened.renewed >= _AGAIN_SECONDS:
                opened.renewed = self._now()
                await self._renew(opened)
        return opened.bench

    async def _renew(self, opened: _Opened) -> None:
        """Has a session go on that could not be kept for a while, if it can be by now. Till then it is looked at."""
        sessions = await self._engine()
        session = await sessions.renew(opened.bench.session)
        if session is not opened.bench.session:
            from mcp_tools.bench import Bench  # for the first answer, as below

            opened.bench = Bench(session, by_client=self._held is not None)

    def awake(self) -> list[tuple[str, Bench]]:
        """The sessions that nobody has put to rest, with their keys."""
        return [(key, opened.bench) for key, opened in self._opened.items() if not opened.is_resting]

    async def look_after(self) -> None:
        """Puts to rest what nobody has used for a while; until it is cancelled."""
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            await self.rest_idle()

    async def rest_idle(self) -> None:
        """Ends the workers of the sessions that nobody has used for `REST_SECONDS`."""
        for opened in list(self._opened.values()):
            session = opened.bench.session
            if self._now() - opened.used <= REST_SECONDS or opened.is_resting or session.is_busy:
                continue
            opened.is_resting = True
            async with opened.changing:
                try:
                    await session.rest()
                except EngineError as error:
                    logger.warning("session %s could not be put to rest: %s", session.session_id, error)
