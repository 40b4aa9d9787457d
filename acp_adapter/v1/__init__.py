"""ACP version 1: its shapes, the readers of params, the writers of results, and the updates of a session.

Version 2 is a package beside this one. What both share is above them: `content`, `options`, `stored_sessions`,
`questions`, and `updates`, which names its shapes as this version does. Only these and the two packages import shapes
or pydantic.

The peer calls `read_params` and `write_result`; a conversation uses `client` (requests to the editor) and `writer`.
Each submodule is loaded when it is first used, or ahead of time by `Connection.prepare`: defining its models takes
time, and an editor waits for the answer to `initialize`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from acp_adapter.version_package import VersionPackage

if TYPE_CHECKING:  # loaded by `__getattr__`
    from acp_adapter.v1 import client

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

_PACKAGE: Final = VersionPackage(__name__, _MODULES)
read_params: Final = _PACKAGE.read_params
write_result: Final = _PACKAGE.write_result
writer: Final = _PACKAGE.writer


def __getattr__(name: str) -> Any:
    if name == "client":
        return _PACKAGE.load(name)
    raise AttributeError(name)
