"""The MCP servers of a session: how each is reached, its name in statements, and the names of its operations.

The configuration of a server (variables, headers, arguments, URL) may be secret: no repr shows it, and only names are
ever recorded. Pure. Used by the clients that name servers, by `session.servers`, and by the worker's modules.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, field

from .text import printable
from .toolbox import numbered, variable

LONGEST_NAME: Final = 64
"""The length of a server's name and of its module's name."""
_CALL: Final = re.compile(r"([^\W\d]\w*)\.(.+)", re.DOTALL)
_HELP: Final = re.compile(r"help\(([^\W\d]\w*)\)")
_READ: Final = re.compile(r"read\(([^\W\d]\w*)\)")
_ADDRESS: Final = re.compile(r"mcp://([^/]*)/?(.*)", re.DOTALL)


class StdioServer(Struct, frozen=True, kw_only=True):
    """A server that is a program, reached by its standard input and output."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        return f"StdioServer({self.name!r})"


class HttpServer(Struct, frozen=True, kw_only=True):
    """A server behind a URL: `http` is the streamable transport, `sse` that of protocol version 2024-11-05."""

    name: str
    url: str
    headers: dict[str, str] = field(default_factory=dict[str, str])
    transport: Literal["http", "sse"] = "http"

    def __repr__(self) -> str:
        return f"HttpServer({self.name!r}, transport={self.transport!r})"


McpServer = StdioServer | HttpServer
"""An MCP server of a session."""


def told_apart(servers: Sequence[McpServer], redact: Callable[[str], str]) -> dict[str, McpServer]:
    """Return the servers by unique, short names; the second server with a name becomes `name (2)`.

    `redact` removes secrets from a name before it is cut.
    """
    found: dict[str, McpServer] = {}
    for server in servers:
        base = printable(redact(server.name)).strip()[:LONGEST_NAME] or "server"
        name, number = base, 2
        while name in found:
            name, number = f"{base} ({number})", number + 1
        found[name] = server
    return found


def modules_for(names: Collection[str], known: Mapping[str, str], taken: Collection[str]) -> dict[str, str]:
    """Return the module name of each server: the one that it had in this session, else a new one.

    A new one is not in `taken`, and is no module of the standard library, which `import time` would replace.
    """
    modules = dict(known)
    for name in names:
        if name not in modules:
            used = {*taken, *modules.values()}
            base = variable(name, (), prefix="mcp_", otherwise="mcp_server")[:LONGEST_NAME]
            modules[name] = numbered(f"mcp_{base}" if base in sys.stdlib_module_names else base, used)
    return modules


def call_of(module: str, tool: str) -> str:
    """Return the operation that calls a tool: `github.search_issues`."""
    return f"{module}.{tool}"


def help_of(module: str) -> str:
    """Return the operation that lists what a server offers: `help(github)`."""
    return f"help({module})"


def read_of(module: str) -> str:
    """Return the operation that reads a resource: `read(github)`."""
    return f"read({module})"


def address_of(module: str, uri: str) -> str:
    """Return the address of a resource for `view`: `mcp://github/repo://readme`."""
    return f"mcp://{module}/{uri}"


def resource_at(address: str) -> tuple[str, str] | None:
    """Return the module and URI of a resource's address; None for another address."""
    found = _ADDRESS.fullmatch(address)
    return (found[1], found[2]) if found else None


def called(operation: str) -> tuple[str, str] | None:
    """Return the module and tool that the operation calls; None for another operation."""
    found = _CALL.fullmatch(operation)
    return (found[1], found[2]) if found else None


def module_of(operation: str) -> str | None:
    """Return the module of the operation; None if it is not about a server."""
    call = called(operation)
    return call[0] if call else explained(operation) or read_from(operation)


def explained(operation: str) -> str | None:
    """Return the module whose offers the operation lists; None for another operation."""
    found = _HELP.fullmatch(operation)
    return found[1] if found else None


def read_from(operation: str) -> str | None:
    """Return the module whose resource the operation reads; None for another operation."""
    found = _READ.fullmatch(operation)
    return found[1] if found else None
