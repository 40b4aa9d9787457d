"""The methods this agent serves: one file each, one line each.

A handler's module is loaded when its method is first called, or ahead of time (`stages`): an editor that starts us
waits for `initialize` alone. Handlers know the connection and the plain values of `requests` and `replies`; how these
look on the wire is the codec's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from acp_adapter.rpc.methods import Method

_MODULES: Final = {
    "initialize": "initialize",
    "authenticate": "authenticate",
    "session/new": "session_new",
    "session/load": "session_load",
    "session/resume": "session_resume",
    "session/fork": "session_fork",
    "session/list": "session_list",
    "session/delete": "session_delete",
    "session/prompt": "session_prompt",
    "session/cancel": "session_cancel",
    "session/close": "session_close",
    "session/set_mode": "session_set_mode",
    "session/set_config_option": "session_set_config_option",
    "document/didOpen": "document_did_open",
    "document/didChange": "document_did_change",
    "document/didSave": "document_did_save",
    "document/didClose": "document_did_close",
    "document/didFocus": "document_did_focus",
}


class Methods(Mapping[str, Method[Any, Any, Any]]):
    """Rows by method name, each loaded with its module."""

    def __getitem__(self, name: str) -> Method[Any, Any, Any]:
        return import_module(f"{__name__}.{_MODULES[name]}").METHOD

    def __contains__(self, name: object) -> bool:
        return name in _MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


METHODS: Final = Methods()
