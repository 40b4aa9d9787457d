"""Which session a request means: over HTTP that of its path, on stdio the one that the process was started for.

And where a session is to work, as the command line and the client say. Called by `requests` and `tasks`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError
from starlette.requests import HTTPConnection

from mcp_tools.errors import CallError
from mcp_tools.roots import Roots, RootsError, chosen
from mcp_tools.sessions import BenchPool

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from mcp_tools.bench import Bench

logger = logging.getLogger(__name__)
Context = ServerRequestContext[Any, Any]
DEFAULT_SESSION: Final = "default"
"""The name of the session over HTTP, where the path names none."""
_ROOTS_SECONDS: Final = 5.0


class Places:
    """The sessions of one server, by request.

    Args:
        pool: where sessions come from.
        limit: the roots of the command line, None without.
        session: the name of the session on stdio; None for a new one.
    """

    def __init__(self, pool: BenchPool, limit: Roots | None, session: str | None) -> None:
        self._pool = pool
        self._limit = limit
        self._session = session

    def key(self, ctx: Context) -> str:
        """What shares the session that a request means, as `BenchPool` has it."""
        return self._place(ctx)[0]

    def _place(self, ctx: Context) -> tuple[str, str | None]:
        """That, and the session's name; no name for a new one."""
        request: object = ctx.request
        if isinstance(request, HTTPConnection):
            name = request.path_params.get("name", DEFAULT_SESSION)
            return name, name
        return self._session or "", self._session

    async def bench(self, ctx: Context) -> Bench:
        """The session, opened where it is not. Raises CallError where it cannot be."""
        key, name = self._place(ctx)
        return await self._pool.bench(key, name, lambda: self._roots(ctx), _client(ctx))

    async def bench_there_is(self, ctx: Context) -> Bench | None:
        """The session, if there is one already: reading makes none."""
        key, name = self._place(ctx)
        if name is None:
            return await self._pool.find(key)
        try:
            return await self.bench(ctx)
        except CallError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None

    async def directories(self, ctx: Context, bench: Bench | None) -> Sequence[str]:
        """Those of the session, or those that it would have."""
        if bench is not None:
            return (bench.session.cwd, *bench.session.directories)
        try:
            return (await self._roots(ctx)).directories
        except RootsError:
            return ()

    async def _roots(self, ctx: Context) -> Roots:
        return chosen(self._limit, await _named_roots(ctx))


def _client(ctx: Context) -> str:
    """The client, as it calls itself."""
    params = ctx.session.client_params
    info = None if params is None else params.client_info
    return "" if info is None else f"{info.name} {info.version}".strip()


async def _named_roots(ctx: Context) -> Sequence[str] | None:
    """The roots of a client of the handshake era that has some; None for any other."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.roots is None or not ctx.session.can_send_request:
        return None
    try:
        # As part of this request, because over HTTP there may be no other stream to the client.
        related = ServerMessageMetadata(related_request_id=ctx.request_id)
        answer = await ctx.session.send_request(
            types.ListRootsRequest(), types.ListRootsResult, _ROOTS_SECONDS, related
        )
    except (MCPError, ValidationError) as error:
        logger.warning("the client does not tell its roots: %s", error)
        return None
    return [str(root.uri) for root in answer.roots]
