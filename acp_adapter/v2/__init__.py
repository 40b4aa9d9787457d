"""ACP version 2, a draft: its shapes, the readers of params, the writers of results, and the updates of a session.

Loaded when a client asks for version 2 or a later one. It shares turns, events and texts with version 1. What differs:

- A prompt is answered when its message has its place in the conversation. Updates tell the message, whether the session
  works, and why the work ended.
- A tool call has one kind of update, and there is `cancelled`. Terminals have updates of their own.
- `session/resume` can replay the history, so there is no `session/load`. The mode is one of the options.
- No method reads or writes a file through the client, so its unsaved texts are unknown.

Source of the shapes: ACP v2 schema. The peer and conversations call what they call of `v1`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from acp_adapter.version_package import VersionPackage

if TYPE_CHECKING:  # loaded by `__getattr__`
    from acp_adapter.v2 import client

    __all__ = ["METHODS", "VERSION", "client", "read_params", "write_result", "writer"]

VERSION: Final = 2

_MODULES: Final = {
    "initialize": "handshake",
    "auth/login": "handshake",
    "auth/logout": "handshake",
    "auth/status": "handshake",
    "session/new": "sessions",
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
    "session/set_config_option": "sessions",
    "session/prompt": "prompts",
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
