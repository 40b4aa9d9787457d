"""The MCP servers of one session: connect them, reconnect them, call their tools, and say why one is not connected.

Owns the life of each connection. It begins with `connect`. Only a call waits for it, and the first turn for a short
while. A lost connection is retried after each delay of BACKOFF, and a failure is reported once. Nothing that a server
does raises anything here. `close` ends all of them. Must not know what the user is asked, nor what is recorded of a
call: that is the business of `tool_calls`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from ..core.errors import EnvironmentUnavailableError
from ..core.installation import __version__
from ..core.links import web_address
from ..core.mcp_servers import LONGEST_NAME, HttpServer, McpServer, StdioServer, told_apart
from ..core.programs import ServerProcess, ServerRequest
from ..core.text import code_span, cut_line, cut_line_from, printable
from ..files.safe_open import search_path, trusted_paths
from ..log.event_log import EventLog
from ..log.events import Event
from ..log.events.conversation import Attachment
from ..log.events.session import ServerConnected, ServerLost
from ..log.facts import SessionFacts
from ..log.permissions import READ_RESOURCE
from ..log.redaction import redact_json
from ..runtime.environment import EnvironmentSpec, StartServer
from .npx import away_from_project
from .tools.mcp_listing import Listing, Tool, arguments_of, help_on, tool_called
from .tools.mcp_prompts import Prompt, bound, read_prompt

if TYPE_CHECKING:
    from .tools.mcp_client import Connection, Fill, Sample


NO_ADDRESS: Final = "its address is not one of the web, such as https://example.com/mcp"
_REASON_CHARS: Final = 500
_LAST_CHARS: Final = 300
"""Of the server's last standard error, in the reason."""


BACKOFF: Final = (1.0, 4.0, 16.0)
"""Seconds to wait before each further attempt."""
SETTLED_SECONDS: Final = 60.0
"""After a connection that lasted this long, all attempts are available again."""
CONNECT_SECONDS: Final = 30.0
"""The time limit of an attempt."""
RETRY_SECONDS: Final = 5.0
"""The longest wait of a call for a lost server that is being retried."""
CALL_SECONDS: Final = 60.0
"""The time limit of a call without progress."""
FIRST_TURN_SECONDS: Final = 5.0
"""The longest wait of a turn for servers that connect for the first time."""

T = TypeVar("T")


class ServerCall(Struct, frozen=True):
    """A call as the server receives it."""

    server: str
    tool: str
    arguments: dict[str, object]


class _Link:
    """One server. It has a `connection` while it is connected. `failure` says why it was given up."""

    def __init__(self, name: str, module: str, server: McpServer) -> None:
        self.name = name
        self.module = module
        self.server = server
        self.connection: Connection | None = None
        self.listing = Listing()
        self.failure = ""
        self.reason = ""
        """Why it is not connected, as it was reported."""
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
        servers: those that are named now, by name.
        spec: where programs run, and all servers that the session has had, by module.
        log: takes reports on them.
        facts: what the log says about them so far.
        start: starts programs; None if that is impossible.
        written: where sandboxed statements may have left programs, links resolved.
        writable: where they may leave some while a server runs, likewise.
        state: this program's own directory.
        samples: whether they may ask for replies of the session's model.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        spec: EnvironmentSpec,
        log: EventLog,
        facts: SessionFacts,
        start: StartServer | None,
        written: Callable[[], tuple[str, ...]] = tuple,
        writable: tuple[str, ...] = (),
        *,
        state: str = "",
        samples: bool = False,
    ) -> None:
        self._servers = dict(servers)
        self._state = state
        self._written = written
        self._writable = writable
        self._samples = samples
        self._names = spec.servers
        self._links = {
            module: _Link(name, module, servers[name]) for module, name in spec.servers.items() if name in servers
        }
        self._spec = spec
        self._log = log
        self._facts = facts
        self._start = start
        self.prompts_changed: Callable[[], None] = _ignore
        """Called when other prompts are offered than before, or may be."""
        self._unsaid: list[Event] = []
        self._scope: anyio.CancelScope | None = None
        self._over = anyio.Event()
        self._is_closed = False
        self._first_turn: float | None = None

    @property
    def unrecorded(self) -> dict[str, str]:
        """The modules that are not on the log yet, by the names of their servers."""
        return {name: module for module, name in self._names.items() if self._facts.server_modules.get(name) != module}

    def are(self, servers: Sequence[McpServer]) -> bool:
        """Return whether these servers are the named ones."""
        return told_apart(servers, self._spec.redactor.redact) == self._servers

    # --- life ---------------------------------------------------------------------------------------------------------

    def connect(self, tasks: TaskGroup) -> None:
        """Start connecting all of them. Does nothing the second time, or after `close`."""
        if self._links and self._scope is None and not self._is_closed:
            self._scope, self._first_turn = anyio.CancelScope(), anyio.current_time() + FIRST_TURN_SECONDS
            tasks.start_soon(self._serve, self._scope)

    async def close(self) -> None:
        """End all connections and their programs."""
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
        """Connect, and stay until that ends; return whether a retry may help, and why it ended."""
        process: ServerProcess | None = None
        try:
            server = link.server
            if isinstance(server, HttpServer) and web_address(server.url) is None:
                return False, NO_ADDRESS  # errors of libraries would quote it, with a password in it
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
        places, written = everywhere, self._written()
        if everywhere is not None and written:
            places = search_path(everywhere, written)
        command = shutil.which(server.command, path=places)
        if command is None:
            found = shutil.which(server.command, path=everywhere)
            left_out = (
                f" except {found}, which statements could change; configure this path to allow the program"
                if found
                else ""
            )
            raise FileNotFoundError(f"there is no program {printable(server.command)}{printable(left_out)}")
        distrusted = (*written, *self._writable)
        # A server keeps its PATH for life, so the places that statements may write later are left out too.
        variables = trusted_paths(variables, distrusted)
        options = _options_before_module(command, server.args)
        arguments = server.args
        if distrusted and options is not None and variables.setdefault("PYTHONSAFEPATH", "1") and "E" in options:
            arguments = ("-P", *arguments)  # which says the same where variables are ignored
        request = ServerRequest(argv=(command, *arguments), cwd=self._spec.cwd, variables=variables)
        return self._start(self._spec, away_from_project(request, self._state) if distrusted else request)

    async def _stay(self, link: _Link, server: HttpServer | ServerProcess) -> None:
        source = await anyio.to_thread.run_sync(_load)
        with anyio.fail_after(CONNECT_SECONDS) as scope:
            async with source.connected(server, __version__, samples=self._samples) as connection:
                link.listing = await connection.listing()
                scope.deadline = float("inf")
                self._gain(link, connection)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._follow, link, connection)
                    tasks.start_soon(connection.follow)
                    await connection.ended.wait()
                    tasks.cancel_scope.cancel()

    async def _follow(self, link: _Link, connection: Connection) -> None:
        """List what the server offers again whenever it reports a change."""
        while True:
            await connection.changed.wait()
            try:
                link.listing = await connection.listing()
            except (OSError, RuntimeError):
                continue
            self._tell_gained(link)

    # --- news ---------------------------------------------------------------------------------------------------------

    def _gain(self, link: _Link, connection: Connection) -> None:
        link.connection, link.is_tried = connection, True
        self._tell_gained(link)
        link.notify()

    def _tell_gained(self, link: _Link) -> None:
        self.prompts_changed()
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
        self.prompts_changed()
        if not is_told:
            self._unsaid.append(ServerLost(server=link.name, module=link.module, reason=reason, again=again))
        link.notify()

    async def settle(self) -> None:
        """Wait a short while for first connections, and record the results.

        Later results are recorded later. Cancelling the wait is harmless.
        """
        if self._first_turn is not None:
            with anyio.move_on_at(self._first_turn):
                for link in self._links.values():
                    await link.until(lambda link=link: link.is_tried)
        self.tell()

    def tell(self) -> None:
        """Record news of servers that came and went."""
        unsaid, self._unsaid = self._unsaid, []
        for event in unsaid:
            self._log.append(event)

    # --- calls --------------------------------------------------------------------------------------------------------

    async def help(self, module: str) -> object:
        """Return what the module's server offers, as plain data. Raises ConnectionError."""
        link, _ = await self._connected(module)
        return _builtins(help_on(link.listing, link.name, module))

    async def read(self, module: str, uri: str) -> str:
        """Return the text of a resource.

        Raises:
            ConnectionError, TimeoutError, RuntimeError: as `call`.
            ValueError: it is not text.
        """
        _, connection = await self._connected(module)
        contents = await self._named(module, connection.read(uri, CALL_SECONDS))
        texts = [each.get("text") for each in contents]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"MCP server {self._names[module]!r}: {cut_line(uri, LONGEST_NAME)} is not text")
        return "\n".join(cast("list[str]", texts))

    async def unlisted(self, module: str, uri: str) -> ServerCall | None:
        """Return the reading of a resource as a call if the server does not list it. Raises ConnectionError.

        A server may take such an address for anything: a file, a request to another server.
        """
        link, _ = await self._connected(module)
        return None if uri in link.listing.resources else ServerCall(link.name, READ_RESOURCE, {"uri": uri})

    async def meant(self, module: str, name: str, given: Mapping[str, object]) -> ServerCall:
        """Return the call that a statement requests, by the server's schema.

        Raises:
            AttributeError: there is no such tool.
            TypeError: arguments are missing or unknown, or not JSON.
            ConnectionError: the server is not connected.
        """
        link, _ = await self._connected(module)
        tool: Tool = tool_called(link.listing, f"{module}.{name}", name)
        return ServerCall(link.name, tool.key, arguments_of(tool, f"{module}.{name}", given))

    async def call(
        self, module: str, call: ServerCall, progress: Callable[[str], None], fill: Fill, sample: Sample
    ) -> object:
        """Return the answer to a call; `fill` asks the user, and `sample` the model, what the server asks meanwhile.

        Raises RuntimeError, ConnectionError, TimeoutError, as `mcp_client`.
        """
        _, connection = await self._connected(module)
        return await self._named(
            module, connection.call(call.tool, call.arguments, CALL_SECONDS, progress, fill, sample)
        )

    async def _named(self, module: str, asked: Awaitable[T]) -> T:
        """Return the result without secrets, or raise its failure with the server's name.

        A server has secrets, its own, and may repeat them. A statement could keep one in a form that nobody recognises,
        and show it in a later session, in which it is not known.
        """
        try:
            return cast("T", await anyio.to_thread.run_sync(redact_json, self._spec.redactor, await asked))
        except (ConnectionError, TimeoutError, RuntimeError) as error:
            raise type(error)(f"MCP server {self._names[module]!r}: {error}") from None

    # --- prompts ------------------------------------------------------------------------------------------------------

    @property
    def prompts(self) -> Mapping[str, Prompt]:
        """The prompts of the servers, by `MODULE:NAME`. Those of a server that is given up are missing."""
        links = [link for link in self._links.values() if not link.failure]
        return {f"{link.module}:{prompt.name}": prompt for link in links for prompt in link.listing.prompts.values()}

    @property
    def modules(self) -> Collection[str]:
        """The modules of the servers that are named now."""
        return self._links.keys()

    async def prompt(self, module: str, name: str, words: Sequence[str]) -> tuple[str, tuple[Attachment, ...]]:
        """Return the text of a prompt with these arguments, and the texts that it embeds.

        Raises:
            ValueError: there is no such prompt, or it needs other arguments.
            ConnectionError, TimeoutError, RuntimeError: as `call`.
        """
        link, connection = await self._connected(module)
        prompt = link.listing.prompts.get(name)
        if prompt is None:
            raise ValueError(f"MCP server {link.name!r} has no prompt {cut_line(printable(name), LONGEST_NAME)!r}")
        try:
            arguments = bound(prompt, words)
        except ValueError as error:
            usage = f"/{module}:{name} {prompt.usage}".rstrip()
            raise ValueError(f"{code_span(usage)}: {error}") from None
        messages = await self._named(module, connection.prompt(prompt.key, arguments, CALL_SECONDS))
        return read_prompt(messages, module)

    def has(self, module: str) -> bool:
        """Return whether the session has, or had, a server with that module."""
        return module in self._names

    async def _connected(self, module: str) -> tuple[_Link, Connection]:
        """Return the connected server; wait while it may still connect. Raises ConnectionError."""
        link = self._links.get(module)
        if link is None:
            raise ConnectionError(
                f"MCP server {self._names[module]!r} is not configured in the editor now, so {module} can only"
                " repeat its recorded answers"
            )
        with anyio.move_on_after(RETRY_SECONDS if link.reason else CONNECT_SECONDS):
            await link.until(lambda: link.connection is not None or bool(link.failure))
        if link.connection is None:
            raise ConnectionError(
                f"MCP server {link.name!r} is not connected: {link.reason or 'the server does not answer'}"
            )
        return link, link.connection


def _options_before_module(command: str, arguments: Sequence[str]) -> str | None:
    """Return the letters of a Python's options before `-m` or `-c`; None for a script, or another program.

    With `-m` or `-c` it looks for modules in its working directory first. The server's environment may say otherwise.
    """
    names = (os.path.basename(command), os.path.basename(os.path.realpath(command)))
    if not any(name.startswith(("python", "pypy")) for name in names):
        return None
    before, has_value = "", False
    for argument in arguments:
        if has_value:
            has_value = False
        elif argument.startswith("--"):
            has_value = argument == "--check-hash-based-pycs"
        elif not argument.startswith("-") or argument == "-":
            return None  # a script
        else:
            options = argument[1:]
            first = next((place for place, letter in enumerate(options) if letter in "mcXW"), None)
            before += options[:first]
            if first is not None and options[first] in "mc":
                return before
            has_value = first == len(options) - 1
    return None


def _ignore() -> None:
    """Do nothing, because nobody lists prompts."""


def _is_about(event: Event, module: str) -> bool:
    return isinstance(event, ServerConnected | ServerLost) and event.module == module


def _load() -> Any:
    # By name, so that importing this module imports nothing of the SDK.
    return import_module(".tools.mcp_client", __package__)


def _builtins(value: Struct) -> object:
    return msgspec.to_builtins(value)


# --- why a server is not connected ------------------------------------------------------------------------------------


def reason_of(error: BaseException, process: ServerProcess | None, seconds: float) -> tuple[bool, str]:
    """Return whether a retry may help, and a sentence on why there is no connection.

    `seconds` is the time limit of an attempt.
    """
    error = _first(error)
    match error:
        case TimeoutError():
            said = f"the server did not answer within {seconds:g} s"
        case OSError(strerror=str() as words):
            said = words if not error.filename else f"{words}: {error.filename}"
        case _:
            said = str(error) or type(error).__name__
    last = "" if process is None else " ".join(process.told().split())
    is_final = isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError | ValueError)
    ended = f"; {cut_line_from(last, len(last) - _LAST_CHARS, _LAST_CHARS)}" if last else ""
    sentence = " ".join(said.split()) + ended
    return not is_final, cut_line(printable(sentence), _REASON_CHARS)


def _first(error: BaseException) -> BaseException:
    if isinstance(error, BaseExceptionGroup):
        return _first(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error
