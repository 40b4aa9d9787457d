"""What the packages of all protocol versions do alike: they load the submodule of a method when it is first called.

Must not know methods or shapes. Used by `v1` and `v2`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from acp_adapter.jsonrpc.messages import Code, Json, ProtocolError


class VersionPackage:
    """The submodules of a version's package, which have READERS and WRITERS by method.

    Args:
        name: the package.
        modules: the submodule of each method.
    """

    def __init__(self, name: str, modules: Mapping[str, str]) -> None:
        self._name = name
        self._modules = modules

    def load(self, submodule: str) -> Any:
        """Return a submodule, imported when it is first used."""
        return import_module(f"{self._name}.{submodule}")

    def read_params(self, method: str, params: object) -> Any:
        """Return the params as a value of `requests`. Raises WireShapeError or ProtocolError."""
        if method not in self._modules:
            raise ProtocolError(Code.METHOD_NOT_FOUND, "Method not found")
        readers: Mapping[str, Callable[[object], Any]] = self.load(self._modules[method]).READERS
        return readers[method](params)

    def write_result(self, method: str, result: Any) -> Json:
        """Return a result of `requests` as JSON; an empty object for methods without a result."""
        writers: Mapping[str, Callable[[Any], Json]] = self.load(self._modules[method]).WRITERS
        return writers[method](result) if method in writers else {}

    def writer(self, redact: Callable[[str], str]) -> Any:
        """Return a writer of a session's updates."""
        return self.load("updates").Writer(redact)
