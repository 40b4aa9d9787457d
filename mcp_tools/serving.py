"""The composition of engine, sessions and server; and one client served on standard input and output.

Called by the command line, by `http`, and by tests with their own streams.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from msgspec import Struct

from mcp_tools.engine_task import EngineTask
from mcp_tools.feed import Feed
from mcp_tools.logs import Logs
from mcp_tools.places import Places
from mcp_tools.requests import Requests
from mcp_tools.resources import canonical
from mcp_tools.roots import Roots
from mcp_tools.server import make_server
from mcp_tools.sessions import BenchPool, Held
from mcp_tools.tasks import Tasks

if TYPE_CHECKING:
    from engine import Host, Redactor

_TERMINATED: Final = 128 + signal.SIGTERM


class Service(Struct, frozen=True, kw_only=True):
    """What the command line chose. `roots` limits what views open; None leaves that to the client.

    `redactor` takes secrets out of what clients are sent before there is an engine.
    With `runs` clients may run Python, which is `held` to the roots, and may use TCP with `network`; with `structured`
    replies are there for programs too.
    """

    redactor: Callable[[], Redactor]
    roots: Roots | None = None
    session: str | None = None
    runs: bool = False
    held: bool = False
    network: bool = False
    structured: bool = False


async def serve_stdio(make_host: Callable[[], Host], service: Service) -> None:
    """Serves the client of this process until it closes its end; then all that was opened is closed."""
    await serve_streams(stdio_server(), make_host, service, ends_process=True)


async def serve_streams(
    streams: AbstractAsyncContextManager[tuple[Any, Any]],
    make_host: Callable[[], Host],
    service: Service,
    *,
    ends_process: bool = False,
) -> None:
    """Serves one client on the streams of a transport.

    Args:
        streams: as the SDK's transports give them: to read from, and to write to.
        make_host: makes the engine, on a thread.
        service: what is served.
        ends_process: SIGTERM closes everything and ends the process, where the reading thread cannot be stopped.
    """
    async with composed(make_host, service) as (server, engine, _feed), anyio.create_task_group() as tasks:
        if ends_process:
            tasks.start_soon(_end_at_signal, engine)
        async with streams as (read, write):
            await server.run(read, write, server.create_initialization_options())
            with anyio.CancelScope(shield=True):
                await engine.close()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def composed(
    make_host: Callable[[], Host], service: Service
) -> AsyncGenerator[tuple[Server[Any], EngineTask, Feed]]:
    """A server for any transport, with the engine behind it, which is closed at the end, and what looks after both."""
    engine = EngineTask(make_host, service.redactor)
    held = Held(network=service.network) if service.held else None
    pool = BenchPool(engine.sessions, confined=not service.runs, held=held)
    feed = Feed(pool, canonical)
    logs, places = Logs(), Places(pool, service.roots, service.session)
    requests = Requests(
        places,
        runs=service.runs,
        structured=service.structured,
        on_answered=engine.want,
        feed=feed,
        logs=logs,
        redactor=engine.redactor,
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.serve)
        tasks.start_soon(pool.look_after)
        tasks.start_soon(feed.serve)
        long = Tasks(places.key, requests.takes_long, tasks.start_soon)
        yield make_server(requests, logs, long, engine.redactor, runs=service.runs), engine, feed
        with anyio.CancelScope(shield=True):
            await engine.close()
        tasks.cancel_scope.cancel()


async def _end_at_signal(engine: EngineTask) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            with anyio.CancelScope(shield=True):
                await engine.close()
            # A thread waits for the client's next line, and nothing but its end would end that.
            os._exit(_TERMINATED)
