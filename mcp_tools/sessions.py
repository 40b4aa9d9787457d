"""The engine sessions behind a server: opened at the first call that needs one, shared by name, put to rest when idle.

Owns the limit on how many are open, and which roots each has. Must not know tools. Called by `server`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from engine.errors import EngineError
from mcp_tools.errors import CallError
from mcp_tools.roots import Roots, RootsError

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from engine import Sessions
    from mcp_tools.bench import Bench

MOST_SESSIONS: Final = 64
REST_SECONDS: Final = 30 * 60.0
_LOOK_SECONDS: Final = 60.0


class _Opened:
    """A session that is open, when it was used last, and whether its worker was ended since."""

    __slots__ = ("bench", "is_resting", "used")

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.used = time.monotonic()
        self.is_resting = False


class BenchPool:
    """The sessions of one server.

    Args:
        engine: gives the sessions of a running engine, which the first call waits for.
        confined: whether views open nothing outside of the roots.
    """

    def __init__(self, engine: Callable[[], Awaitable[Sessions]], *, confined: bool) -> None:
        self._engine = engine
        self._confined = confined
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
        async with self._opening:
            opened = self._opened.get(key)
            if opened is None:
                opened = self._opened[key] = _Opened(await self._open(name, roots, client))
        opened.used, opened.is_resting = time.monotonic(), False
        return opened.bench

    async def _open(self, name: str | None, roots: Callable[[], Awaitable[Roots]], client: str) -> Bench:
        if len(self._opened) >= MOST_SESSIONS:
            raise CallError(f"This server has {MOST_SESSIONS} sessions open, the most there can be; use one of them.")
        try:
            found = await roots()
            session = await (await self._engine()).open(
                name, found.cwd, found.directories[1:], confined=self._confined, client=client
            )
        except (EngineError, RootsError) as error:
            raise CallError(f"No session can be opened: {error}.") from error
        from mcp_tools.bench import Bench  # for the first answer, as above

        return Bench(session)

    def find(self, key: str) -> Bench | None:
        """The session of that key, if it is open."""
        opened = self._opened.get(key)
        return None if opened is None else opened.bench

    def awake(self) -> list[tuple[str, Bench]]:
        """The sessions that nobody has put to rest, with their keys."""
        return [(key, opened.bench) for key, opened in self._opened.items() if not opened.is_resting]

    async def look_after(self) -> None:
        """Puts to rest what nobody has used for a while; until it is cancelled."""
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            for opened in list(self._opened.values()):
                if time.monotonic() - opened.used > REST_SECONDS and not opened.is_resting:
                    opened.is_resting = True
                    await opened.bench.session.rest()
