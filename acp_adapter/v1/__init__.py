"""ACP version 1: its shapes, the readers of params, the writers of results, and the updates of a session.

The only version so far, so `initialize` answers 1 for any requested version. Version 2 becomes a package beside this
one, with its own shapes and updates. Only code in here imports the shapes or pydantic.

The peer calls `read_params` and `write_result`; a conversation uses `v1.client` (requests to the editor) and
`v1.updates`. Each submodule is loaded when it is first used, or ahead of time by `Connection.prepare`: defining its
models takes time, and an editor waits for the answer to `initialize`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # loaded by `__getattr__`
    from acp_adapter.v1 import client, updates

    __all__ = ["VERSION", "client", "read_params", "updates", "write_result"]

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
    "session/delete": "sessions",
    "session/close": "sessions",
    "session/cancel": "sessions",
    "session/set_mode": "sessions",
    "session/set_config_option": "sessions",
    "session/prompt": "content",
    "document/didOpen": "documents",
    "document/didChange": "documents",
    "document/didSave": "documents",
    "document/didClose": "documents",
    "document/didFocus": "documents",
}
"""By method, the submodule whose READERS and WRITERS know it."""


def read_params(method: str, params: object) -> Any:
    """Return the params as a value of `requests`. Raises WireShapeError or ProtocolError."""
    readers: Mapping[str, Callable[[object], Any]] = _module(_MODULES[method]).READERS
    return readers[method](params)


def write_result(method: str, result: Any) -> dict[str, Any]:
    """Return a result of `requests` as JSON; an empty object for methods without a result."""
    writers: Mapping[str, Callable[[Any], dict[str, Any]]] = _module(_MODULES[method]).WRITERS
    return writers[method](result) if method in writers else {}


def __getattr__(name: str) -> Any:
    if name in ("client", "updates"):
        return _module(name)
    raise AttributeError(name)


def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
