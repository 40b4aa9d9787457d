"""The program behind every transport: log, View, timeline, worker, projection. Knows no protocol.

The public API is the names in `__init__.pyi`, the kinds of event in `engine.log.events` and the errors in
`engine.core.errors`; `docs/api.md` describes it. Begin with `Host`. A name's module is imported when the name is first
asked for (PEP 562), because a worker imports this package too, and because editors wait for the first response.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path


@cache
def _owners() -> dict[str, str]:
    """Return the module that owns each public name, as the stub says."""
    stub = Path(__file__).with_suffix(".pyi").read_text("utf-8")
    words = [line.split() for line in stub.splitlines() if line.startswith("from ")]  # from .MODULE import NAME as NAME
    return {name: module for _from, module, _import, name, *_as in words}


def __getattr__(name: str) -> object:
    if name.startswith("__") and name not in ("__all__", "__version__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    owners = _owners()
    if name == "__all__":
        return sorted(owners.keys() - {"__version__"})
    if name not in owners:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(owners[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_owners()})
