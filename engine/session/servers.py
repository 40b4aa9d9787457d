"""The MCP servers of one session: connects them, keeps them connected, and says why one is not."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from ..core.errors import EnvironmentUnavailableError
from ..core.installation import __version__
from ..core.mcp_servers import LONGEST_NAME, HttpServer, McpServer, StdioServer, told_apart
from ..core.programs import ServerProcess, ServerRequest
from ..core.text import cut_line, cut_line_from, printable
from ..files.safe_open import search_path
from ..log.event_log import EventLog
from ..log.events import Event
from ..log.events.session import ServerConnected, ServerLost
from ..log.facts import SessionFacts
from ..runtime.environment import EnvironmentSpec, StartServer
from .tools.mcp_listing import Listing, Tool, arguments_of, help_on, tool_called

if TYPE_CHECKING:
    from .tools.mcp_source import Connection

# Why an MCP server is not connected: which failures another attempt may mend, and the sentence that is said of one.
#
# Pure but for what the process tells of its end. Used by `servers`.

_REASON_CHARS: Final = 500
_LAST_CHARS: Final = 300
"""Of what a server wrote to its standard error at last, in the reason."""


def _first(error: BaseException) -> BaseException:
    if isinstance(error, BaseExceptionGroup):
        return _first(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error


def reason_of(error: BaseException, process: ServerProcess | None, seconds: float) -> tuple[bool, str]:
    """Whether another attempt may help, and in a sentence why there was no connection, or why it ended.

    `seconds` is how long an attempt may take.
    """
    error = _first(error)
    match error:
        case TimeoutError():
            said = f"it does not answer within {seconds:g} s"
        case OSError(strerror=str() as words):
            said = words if not error.filename else f"{words}: {error.filename}"
        case _:
            said = str(error) or type(error).__name__
    last = "" if process is None else " ".join(process.told().split())
    is_final = isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError | ValueError)
    ended = f"; {cut_line_from(last, len(last) - _LAST_CHARS, _LAST_CHARS)}" if last else ""
    sentence = " ".join(said.split()) + ended
    return not is_final, cut_line(printable(sentence), _REASON_CHARS)


# servers:
# The MCP servers of one session: connects them beside its requests, keeps them connected, and calls their tools.
#
# Owns the life of each connection. It begins with `connect`, and nobody waits for it but who needs the server: a
# call, and the first turn for a little while. A connection that ends is tried again after each of BACKOFF, and what
# goes wrong is said once. Nothing that a server does raises anything here. All of them end with `close`. Must not
# know what is asked of the user, nor what is recorded of a call, which is the acts' business. A little over 300
# lines, because the life of a server stands in one place.

BACKOFF: Final = (1.0, 4.0, 16.0)
"""Seconds to wait ahead of each further attempt."""
SETTLED_SECONDS: Final = 60.0
"""Who stayed for so long has all attempts again."""
CONNECT_SECONDS: Final = 30.0
"""One attempt takes no longer."""
RETRY_SECONDS: Final = 5.0
"""A call waits no longer for a server that is known to be lost, and is tried again."""
CALL_SECONDS: Final = 60.0
"""A call may take so long without a word of progress."""
FIRST_TURN_SECONDS: Final = 5.0
"""A turn waits so long for servers that are being connected for the first time."""

T = TypeVar("T")


class ServerCall(Struct, frozen=True):
    """A call as the server is to have it."""

    server: str
    tool: str
    arguments: dict[str, object]


class _Link:
    """One server. `connection` is there while it is connected; `failure` says why, when it is given up."""

    def __init__(self, name: str, module: str, server: McpServer) -> None:
        self.name = name
        self.module = module
        self.server = server
        self.connection: Connection | None = None
        self.listing = Listing()
        self.failure = ""
        self.reason = ""
        """Why it is not connected, in the words that were told."""
        self.is_tried = False
        """Whether the first attempt is over."""
        self._changed = anyio.Event()

    def notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._changed.wait()


class SessionServers:
    """The servers of one session.

    Args:
        servers: those that are named now, by their names.
        spec: where programs run, and all servers that the session has had, by their modules.
        log: takes what is told of them.
        facts: what the log says of them so far.
        start: starts programs; None where nobody can.
        distrusted: where statements that were held may have left programs, links resolved.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        spec: EnvironmentSpec,
        log: EventLog,
        facts: SessionFacts,
        start: StartServer | None,
        distrusted: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._servers = dict(servers)
        self._distrusted = distrusted
        self._names = spec.servers
        self._links = {
            module: _Link(name, module, servers[name]) for module, name in spec.servers.items() if name in servers
        }
        self._spec = spec
        self._log = log
        self._facts = facts
        self._start = start
        self._unsaid: list[Event] = []
        self._scope: anyio.CancelScope | None = None
        self._over = anyio.Event()
        self._is_closed = False
        self._first_turn: float | None = None

    @property
    def unrecorded(self) -> dict[str, str]:
        """The modules of which the log says nothing yet, by the names of their servers."""
        return {name: module for module, name in self._names.items() if self._facts.server_modules.get(name) != module}

    def are(self, servers: Sequence[McpServer]) -> bool:
        """Whether these are the ones that are named now."""
        return told_apart(servers) == self._servers

    # --- their life ---------------------------------------------------------------------------------------------------

    def connect(self, tasks: TaskGroup) -> None:
        """Begins to connect all of them; not to be waited for. Does nothing the second time, nor after `close`."""
        if self._links and self._scope is None and not self._is_closed:
            self._scope, self._first_turn = anyio.CancelScope(), anyio.current_time() + FIRST_TURN_SECONDS
            tasks.start_soon(self._serve, self._scope)

    async def close(self) -> None:
        """Ends all connections, and the programs with them."""
        self._is_closed = True
        if self._scope is not None:
            self._scope.cancel()
            await self._over.wait()

    async def _serve(self, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                async with anyio.create_task_group() as tasks:
                    for link in self._links.values():
                        tasks.start_soon(self._keep, link)
        finally:
            self._over.set()

    async def _keep(self, link: _Link) -> None:
        delays = iter(BACKOFF)
        while True:
            began = anyio.current_time()
            again, reason = await self._attempt(link)
            link.connection = None
            if anyio.current_time() - began >= SETTLED_SECONDS:
                delays = iter(BACKOFF)
            delay = next(delays, None) if again else None
            self._lose(link, reason, again=delay is not None)
            if delay is None:
                return
            await anyio.sleep(delay)

    async def _attempt(self, link: _Link) -> tuple[bool, str]:
        """Connects, and stays until that ends; whether another attempt may help, and why it ended."""
        process: ServerProcess | None = None
        try:
            server = link.server
            if isinstance(server, StdioServer):
                server = process = await self._started(server)
            await self._stay(link, server)
        except Exception as error:
            return reason_of(error, process, CONNECT_SECONDS)
        return reason_of(ConnectionError("the connection ended"), process, CONNECT_SECONDS)

    async def _started(self, server: StdioServer) -> ServerProcess:
        if self._start is None:
            raise EnvironmentUnavailableError("programs cannot be started here")
        variables = {**self._spec.variables, **server.env}
        everywhere = variables.get("PATH")
        if everywhere is not None and (distrusted := self._distrusted()):
            variables["PATH"] = search_path(everywhere, distrusted)
        command = shutil.which(server.command, path=variables.get("PATH"))
        if command is None:
            found = shutil.which(server.command, path=everywhere)
            left_out = f" but {found}, which statements could write; name it by that path to allow it" if found else ""
            raise FileNotFoundError(f"there is no program {printable(server.command)}{printable(left_out)}")
        request = ServerRequest(argv=(command, *server.args), cwd=self._spec.cwd, variables=variables)
        return self._start(self._spec, request)

    async def _stay(self, link: _Link, server: HttpServer | ServerProcess) -> None:
        source = await anyio.to_thread.run_sync(_load)
        with anyio.fail_after(CONNECT_SECONDS) as scope:
            async with source.connected(server, __version__) as connection:
                link.listing = await connection.listing()
                scope.deadline = float("inf")
                self._gain(link, connection)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._follow, link, connection)
                    tasks.start_soon(connection.follow)
                    await connection.ended.wait()
                    tasks.cancel_scope.cancel()

    async def _follow(self, link: _Link, connection: Connection) -> None:
        """Lists again what it offers each time it says that this is something else."""
        while True:
            await connection.changed.wait()
            try:
                link.listing = await connection.listing()
            except (OSError, RuntimeError):
                continue
            self._tell_gained(link)

    # --- what is said of them -----------------------------------------------------------------------------------------

    def _gain(self, link: _Link, connection: Connection) -> None:
        link.connection, link.is_tried = connection, True
        self._tell_gained(link)
        link.notify()

    def _tell_gained(self, link: _Link) -> None:
        offers = link.listing
        event = ServerConnected(
            server=link.name, module=link.module, tools=len(offers.tools), resources=len(offers.resources)
        )
        self._unsaid = [each for each in self._unsaid if not _is_about(each, link.module)]
        if self._facts.server_offers.get(link.module) != (event.tools, event.resources):
            self._unsaid.append(event)

    def _lose(self, link: _Link, reason: str, *, again: bool) -> None:
        is_told = bool(link.reason)
        link.reason = reason
        link.failure = "" if again else reason
        link.is_tried = True
        if not is_told:
            self._unsaid.append(ServerLost(server=link.name, module=link.module, reason=reason, again=again))
        link.notify()

    async def settle(self) -> None:
        """Waits for those that are connected for the first time, for a little while, and records what became of them.

        Of what is still under way it is recorded later. Cancelling the wait is harmless.
        """
        if self._first_turn is not None:
            with anyio.move_on_at(self._first_turn):
                for link in self._links.values():
                    await link.until(lambda link=link: link.is_tried)
        self.tell()

    def tell(self) -> None:
        """Records what is not on the log yet of servers that came and went."""
        unsaid, self._unsaid = self._unsaid, []
        for event in unsaid:
            self._log.append(event)

    # --- what is asked of them ----------------------------------------------------------------------------------------

    async def help(self, module: str) -> object:
        """What the server of a module offers, as plain data. Raises ConnectionError."""
        link, _ = await self._connected(module)
        return _builtins(help_on(link.listing, link.name, module))

    async def read(self, module: str, uri: str) -> str:
        """The text of a resource.

        Raises:
            ConnectionError, TimeoutError, RuntimeError: as `call`.
            ValueError: it is no text.
        """
        _, connection = await self._connected(module)
        contents = await self._named(module, connection.read(uri, CALL_SECONDS))
        texts = [each.get("text") for each in contents]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"MCP server {self._names[module]!r}: {cut_line(uri, LONGEST_NAME)} is no text")
        return "\n".join(cast("list[str]", texts))

    async def meant(self, module: str, name: str, given: Mapping[str, object]) -> ServerCall:
        """The call that a statement wants, by the schema of the server.

        Raises:
            AttributeError: there is no such tool.
            TypeError: arguments are missing or unknown, or no JSON.
            ConnectionError: the server is not connected.
        """
        link, _ = await self._connected(module)
        tool: Tool = tool_called(link.listing, f"{module}.{name}", name)
        return ServerCall(link.name, tool.key, arguments_of(tool, f"{module}.{name}", given))

    async def call(self, module: str, call: ServerCall, progress: Callable[[str], None]) -> object:
        """The answer to a call. Raises RuntimeError, ConnectionError, TimeoutError, as `mcp_source`."""
        _, connection = await self._connected(module)
        return await self._named(module, connection.call(call.tool, call.arguments, CALL_SECONDS, progress))

    async def _named(self, module: str, asked: Awaitable[T]) -> T:
        """What was asked for, or its failure with the name of the server."""
        try:
            return await asked
        except (ConnectionError, TimeoutError, RuntimeError) as error:
            raise type(error)(f"MCP server {self._names[module]!r}: {error}") from None

    def has(self, module: str) -> bool:
        """Whether the session has, or had, a server with a module of that name."""
        return module in self._names

    async def _connected(self, module: str) -> tuple[_Link, Connection]:
        """The server when it is connected, which is waited for while it may be. Raises ConnectionError."""
        link = self._links.get(module)
        if link is None:
            raise ConnectionError(
                f"MCP server {self._names[module]!r} is not among those that the editor names now, so {module} can only"
                " give its recorded answers again"
            )
        with anyio.move_on_after(RETRY_SECONDS if link.reason else CONNECT_SECONDS):
            await link.until(lambda: link.connection is not None or bool(link.failure))
        if link.connection is None:
            raise ConnectionError(f"MCP server {link.name!r} is not connected: {link.reason or 'it does not answer'}")
        return link, link.connection


def _is_about(event: Event, module: str) -> bool:
    return isinstance(event, ServerConnected | ServerLost) and event.module == module


def _load() -> Any:
    # By name, so that whoever imports this module imports nothing of the SDK.
    return import_module(".tools.mcp_source", __package__)


def _builtins(value: Struct) -> object:
    return msgspec.to_builtins(value)
