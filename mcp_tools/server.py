"""The MCP server: the SDK's low-level `Server` with our handlers, composed with the engine, and served on stdio.

A client waits for the response to `initialize`, and the engine takes longer to load than that. So `EngineTask` loads it
after the first response. The server itself works for both eras and any transport. Called by `cli`, by `http`, and by
tests with their own streams. Tests also register the fixtures of the official conformance suite on `make_server`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.extension import compose_tool_call_handler
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolRequestParams,
    ErrorData,
    JSONRPCError,
    SetLevelRequestParams,
)
from msgspec import Struct
from pydantic import ValidationError

from engine import __version__
from engine.core.errors import EngineError, EnvironmentUnavailableError
from engine.core.levels import LEVELS_LINE
from mcp_tools.access import Roots
from mcp_tools.middleware import Redaction, contain_failures, refuse_cursors
from mcp_tools.notifications import LogMessages, Subscriptions
from mcp_tools.requests import RequestHandlers, SessionRouter
from mcp_tools.sessions import SessionPool
from mcp_tools.tasks import Tasks

if TYPE_CHECKING:  # loaded after the client has its first response
    from engine import Host, Sessions
    from engine.log.redaction import Redactor

INSTRUCTIONS: Final = (
    "A view is a window on a file that stays open under a name, within a token budget. Open the files "
    "you work on with\n`view`, put several files under one budget with `group`, and call `tick` after "
    "files may have changed. `tick` returns\nthe changes in views that follow their file, as diffs. This "
    f"costs less than viewing again. `lod` is the level of detail:\n{LEVELS_LINE}. The first line of a "
    "reply says what is shown and what it costs."
)
_PYTHON_INSTRUCTIONS: Final = (
    " `run` runs Python, where each view is a variable; `rewind` goes back and restores files."
)
NOT_JSON: Final = "The line is not JSON"
NOT_A_MESSAGE: Final = "The line is not a JSON-RPC message"
_TERMINATED: Final = 128 + signal.SIGTERM


# --- engine -----------------------------------------------------------------------------------------------------------


class EngineTask:
    """An engine that loads on demand. One task enters and leaves it, because its cancel scopes belong to a task.

    Args:
        make_host: makes the engine; runs on a thread, because it imports much.
        early_redactor: redacts until the engine is loaded.
    """

    def __init__(self, make_host: Callable[[], Host], early_redactor: Callable[[], Redactor]) -> None:
        self._make_host = make_host
        self._early_redactor = early_redactor
        self._wanted = anyio.Event()
        self._loaded = anyio.Event()
        self._closing = anyio.Event()
        self._ended = anyio.Event()
        self._host: Host | None = None
        self._failure: EngineError | None = None

    def start_loading(self) -> None:
        """Load the engine now; further calls do nothing."""
        self._wanted.set()

    def redactor(self) -> Redactor:
        """The current redactor, whether or not the engine is loaded."""
        return self._early_redactor() if self._host is None else self._host.redactor

    async def sessions(self) -> Sessions:
        """Wait for the engine and return its sessions. Raises EngineError if it failed to load."""
        self.start_loading()
        await self._loaded.wait()
        if self._failure is not None:
            raise self._failure
        if self._host is None:
            raise EnvironmentUnavailableError("the server is shutting down")
        return self._host.sessions

    async def run(self) -> None:
        """Load the engine on demand, keep it running until `close` or cancellation, then close it."""
        try:
            await self._wanted.wait()
            if self._closing.is_set():
                return
            try:
                host = await anyio.to_thread.run_sync(self._make_host)
            except EngineError as error:
                self._failure = error
                return
            async with host:
                await anyio.to_thread.run_sync(host.prepare, "session")
                self._host = host
                self._loaded.set()
                await anyio.to_thread.run_sync(host.prepare, "prompt")
                await self._closing.wait()
        finally:
            self._host = None
            self._loaded.set()
            self._ended.set()

    async def close(self) -> None:
        """Close the engine and wait for that."""
        self._closing.set()
        self._wanted.set()
        await self._ended.wait()


# --- server -----------------------------------------------------------------------------------------------------------


class _Server(Server[Any]):
    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Declare to clients of the handshake era, on every transport, that the list of resources changes."""
        return super().create_initialization_options(
            notification_options or NotificationOptions(resources_changed=True), experimental_capabilities, extensions
        )


def make_server(
    handlers: RequestHandlers,
    log_messages: LogMessages,
    tasks: Tasks,
    redactor: Callable[[], Redactor],
    *,
    allow_run: bool = False,
) -> Server[Any]:
    """Make the server for any transport. `redactor` removes secrets from everything that it sends."""
    server = _Server(
        "rewindow",
        version=__version__,
        title="Rewindow",
        instructions=INSTRUCTIONS + (_PYTHON_INSTRUCTIONS if allow_run else ""),
        get_tool_input_schema=handlers.schema_of,
        on_list_tools=handlers.list_tools,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_subscribe_resource=handlers.subscribe,
        on_unsubscribe_resource=handlers.unsubscribe,
        on_subscriptions_listen=handlers.listen,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
    )
    # The constructor's argument would warn that the newer era deprecates logging.
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, log_messages.set_level)
    server.add_request_handler(
        "tools/call", CallToolRequestParams, compose_tool_call_handler([tasks], handlers.call_tool)
    )
    for method in tasks.methods():
        server.add_request_handler(method.method, method.params_type, method.handler)
    server.extensions[tasks.identifier] = tasks.settings()
    server.middleware += [Redaction(redactor), contain_failures, handlers.note_response, refuse_cursors]
    return server


class Service(Struct, frozen=True, kw_only=True):
    """The options of the command line.

    `redactor` removes secrets until the engine is loaded. `roots` limits what views open; None leaves that to the
    client. `session` names the session on stdio. With `allow_run` clients may run Python: if `sandboxed`, it writes
    only in the roots, and uses TCP only with `network`. With `structured` replies have a form for programs, too.
    """

    redactor: Callable[[], Redactor]
    roots: Roots | None = None
    session: str | None = None
    allow_run: bool = False
    sandboxed: bool = False
    network: bool = False
    structured: bool = False


@asynccontextmanager
async def compose(
    make_host: Callable[[], Host], service: Service
) -> AsyncGenerator[tuple[Server[Any], EngineTask, Subscriptions]]:
    """Make a server for any transport, with its engine and background tasks; close them at the end."""
    engine = EngineTask(make_host, service.redactor)
    pool = SessionPool(
        engine.sessions, confined=not service.allow_run, sandboxed=service.sandboxed, network=service.network
    )
    router = SessionRouter(pool, service.roots, service.session)
    subscriptions, log_messages = Subscriptions(pool), LogMessages()
    handlers = RequestHandlers(
        router,
        allow_run=service.allow_run,
        structured=service.structured,
        on_response=engine.start_loading,
        subscriptions=subscriptions,
        log_messages=log_messages,
        redactor=engine.redactor,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(engine.run)
        group.start_soon(pool.run)
        group.start_soon(subscriptions.run)
        tasks = Tasks(router.key, handlers.takes_long, group.start_soon)
        server = make_server(handlers, log_messages, tasks, engine.redactor, allow_run=service.allow_run)
        yield server, engine, subscriptions
        with anyio.CancelScope(shield=True):
            await engine.close()
        group.cancel_scope.cancel()


# --- stdio ------------------------------------------------------------------------------------------------------------


async def serve_stdio(make_host: Callable[[], Host], service: Service) -> None:
    """Serve the client of this process until it closes standard input, then close everything."""
    await serve_streams(stdio_server(), make_host, service, ends_process=True)


async def serve_streams(
    streams: AbstractAsyncContextManager[tuple[Any, Any]],
    make_host: Callable[[], Host],
    service: Service,
    *,
    ends_process: bool = False,
) -> None:
    """Serve one client on the streams of a transport.

    Args:
        streams: a transport of the SDK: the stream to read from, and the one to write to.
        make_host: makes the engine; runs on a thread.
        service: the options.
        ends_process: SIGTERM closes everything and exits, because the thread that reads cannot be stopped.
    """
    async with compose(make_host, service) as (server, engine, _), anyio.create_task_group() as tasks:
        if ends_process:
            tasks.start_soon(_exit_on_sigterm, engine)
        async with streams as (read, write), anyio.create_task_group() as relay:
            messages_sender, messages = anyio.create_memory_object_stream[SessionMessage](0)
            relay.start_soon(relay_messages, read, write, messages_sender)
            await server.run(messages, write, server.create_initialization_options())
            relay.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await engine.close()
        tasks.cancel_scope.cancel()


async def relay_messages(read: Any, write: Any, messages: MemoryObjectSendStream[SessionMessage]) -> None:
    """Pass on a client's messages until it closes its stream. Answer other lines with an error without an id.

    Because the SDK drops such a line, its sender would wait for ever. Empty lines are ignored.
    """
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the server has ended
        async with messages:
            async for item in read:
                if not isinstance(item, Exception):
                    await messages.send(item)
                elif error := _line_error(item):
                    await write.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error)))


def _line_error(problem: Exception) -> ErrorData | None:
    """Return the error for a line that the transport could not read; None for an empty line."""
    first = problem.errors()[0] if isinstance(problem, ValidationError) else None
    if first is None or first["type"] != "json_invalid":
        return ErrorData(code=INVALID_REQUEST, message=NOT_A_MESSAGE)
    return ErrorData(code=PARSE_ERROR, message=NOT_JSON) if str(first["input"]).strip() else None


async def _exit_on_sigterm(engine: EngineTask) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            with anyio.CancelScope(shield=True):
                await engine.close()
            # A thread still blocks on the client's next line. Only the end of the process stops it.
            os._exit(_TERMINATED)
