"""Names of our modules as sessions have them: by where modules were when their values were first recorded.

A kept value names its classes by their modules, and the digest of a value has the names in it. So that sessions of
earlier versions load, and load without differences, both use the names of that time, whatever moves. Called by
`keeping.loader` and `contents`.
"""

from __future__ import annotations

from functools import cache
from typing import Final

_ROOT: Final = __name__.partition(".")[0]
_MOVED: Final = {
    "nodes.lod": "files.detail",
    "nodes": "files",
    "ticks": "files.ticks",
    "tool_values": "runtime.results",
    "worker": "runtime.worker",
    "projection": "context.tail",
    "events": "log.events",
    "timeline": "log.timeline",
    **{name: f"core.{name}" for name in ("cutting", "errors", "execution", "ids", "links", "plain_data", "text")},
}
"""From the name then, below this package, to the present one; a package before those that it is in."""
_BACK: Final = {now: then for then, now in sorted(_MOVED.items(), key=lambda row: -len(row[1]))}


def present(name: str) -> str:
    """The name of a module below this package by which it is found today."""
    return _renamed(name, _MOVED)


@cache
def recorded(module: str) -> str:
    """The name that sessions have for a module, which may be anybody's."""
    root, _, name = module.partition(".")
    return f"{root}.{_renamed(name, _BACK)}" if root == _ROOT and name else module


def _renamed(name: str, table: dict[str, str]) -> str:
    for before, after in table.items():
        if name == before or name.startswith(f"{before}."):
            return after + name.removeprefix(before)
    return name
