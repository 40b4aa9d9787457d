"""ACP version 1: its shapes, the readers of params, the writers of results, and the updates of a session.

Version 2 is a package beside this one. What both share is above them: `content`, `options`, `stored_sessions`,
`questions`, and `updates`, which names its shapes as this version does. Only these and the two packages import shapes
or pydantic.

The peer calls `read_params` and `write_result`; a conversation uses `client` (requests to the editor) and `writer`.
Each submodule is loaded when it is first used, or ahead of time by `Connection.prepare`: defining its models takes
time, and an editor waits for the answer to `initialize`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from acp_adapter.jsonrpc.messages import Code, ProtocolError

if TYPE_CHECKING:  # loaded by `__getattr__`
    from acp_adapter.v1 import client
    from acp_adapter.v1.updates import Writer

    __all__ = ["METHODS", "VERSION", "client", "read_params", "write_result", "writer"]

VERSION: Final = 1

_MODULES: Final = {
    "initialize": "handshake",
    "authenticate": "handshake",
    "logout": "handshake",
    "auth/status": "handshake",
    "session/new": "sessions",
    "session/load": "sessions",
    "session/resume": "sessions",
    "session/fork": "sessions",
    "session/list": "sessions",
    "session/set_title": "sessions",
    "session/status": "sessions",
    "session/archive": "sessions",
    "session/unarchive": "sessions",
    "session/delete": "sessions",
    "session/close": "sessions",
    "session/cancel": "sessions",
    "session/set_mode": "sessions",
    "session/set_config_option": "sessions",
    "session/prompt": "prompts",
    "document/didOpen": "documents",
    "document/didChange": "documents",
    "document/didSave": "documents",
    "document/didClose": "documents",
    "document/didFocus": "documents",
}
"""By method, the submodule whose READERS and WRITERS know it."""
METHODS: Final = frozenset(_MODULES)
"""The methods of agents that this version has."""


def read_params(method: str, params: object) -> Any:
    """Return the params as a value of `requests`. Raises WireShapeError or ProtocolError."""
    if method not in _MODULES:
        raise ProtocolError(Code.METHOD_NOT_FOUND, "Method not found")
    readers: Mapping[str, Callable[[object], Any]] = _module(_MODULES[method]).READERS
    return readers[method](params)


def write_result(method: str, result: Any) -> dict[str, Any]:
    """Return a result of `requests` as JSON; an empty object for methods without a result."""
    writers: Mapping[str, Callable[[Any], dict[str, Any]]] = _module(_MODULES[method]).WRITERS
    return writers[method](result) if method in writers else {}


def writer(redact: Callable[[str], str]) -> Writer:
    """Return a writer of a session's updates."""
    made: Writer = _module("updates").Writer(redact)
    return made


def __getattr__(name: str) -> Any:
    if name == "client":
        return _module(name)
    raise AttributeError(name)


def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
