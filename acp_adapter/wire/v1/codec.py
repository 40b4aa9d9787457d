"""The codec of version 1: which module reads and writes which method.

An editor that starts us waits for the answer to `initialize`, so that a module, and the shapes that it needs, is loaded
when one of its methods is first called, or ahead of time by `acp_adapter.stages`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, Final

from acp_adapter.wire.codec import FilesCodec, Json, PermissionCodec, Readers, UpdateWriter, Writers

_PACKAGE: Final = "acp_adapter.wire.v1"

_MODULES: Final = {
    "initialize": ".handshake",
    "authenticate": ".handshake",
    "session/new": ".sessions",
    "session/load": ".sessions",
    "session/resume": ".sessions",
    "session/fork": ".sessions",
    "session/list": ".sessions",
    "session/delete": ".sessions",
    "session/close": ".sessions",
    "session/cancel": ".sessions",
    "session/prompt": ".prompts",
    "session/set_mode": ".options",
    "session/set_config_option": ".options",
    "document/didOpen": ".documents",
    "document/didChange": ".documents",
    "document/didSave": ".documents",
    "document/didClose": ".documents",
    "document/didFocus": ".documents",
}
"""Method to the module whose READERS and WRITERS know it."""


@dataclass(frozen=True, slots=True)
class V1Codec:
    """Version 1 of the protocol, as one kind of client speaks it."""

    terminals: bool = False
    version: ClassVar[int] = 1
    package: ClassVar[str] = _PACKAGE

    def for_client(self, *, terminals: bool) -> V1Codec:
        """The same for a client that draws terminals, or does not."""
        return V1Codec(terminals)

    def read_params(self, method: str, params: object) -> Any:
        """A value of `requests`. Raises WireShapeError."""
        readers: Readers = _module(method).READERS
        return readers[method](params)

    def write_result(self, method: str, result: Any) -> Json:
        """The JSON of a value of `replies`."""
        writers: Writers = _module(method).WRITERS
        return writers[method](result) if method in writers else {}

    @property
    def updates(self) -> UpdateWriter:
        from acp_adapter.wire.v1 import updates  # not before a session is shown, which is after its client was answered

        return updates

    @property
    def permissions(self) -> PermissionCodec:
        from acp_adapter.wire.v1 import permissions  # as above

        return permissions

    @property
    def files(self) -> FilesCodec:
        from acp_adapter.wire.v1 import files  # as above

        return files


def _module(method: str) -> ModuleType:
    return import_module(_MODULES[method], _PACKAGE)


CODEC: Final = V1Codec()
