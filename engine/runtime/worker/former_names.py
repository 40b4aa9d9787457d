"""Names of our classes and functions as sessions record them: by the module they were in when first recorded.

A kept value names its classes by their modules, and the digest of a value contains those names. Sessions of earlier
versions must load, and load without differences, so both keep using the first names, wherever the code moves. Only
what a statement's variables can hold is listed. Called by `keeping.value_keeper` and `contents`.
"""

from __future__ import annotations

from functools import cache
from typing import Final

_ROOT: Final = __name__.partition(".")[0]
_FIRST_NAMES: Final = {
    "runtime.results": {
        "tool_values.completed": "Completed",
        "tool_values.matches": "Match Matches",
        "tool_values.paths": "Paths",
        "tool_values.server_answer": "ServerAnswer",
        "tool_values.server_help": "ToolHelp ResourceHelp ServerHelp",
        "tool_values.written": "Written",
        "tool_values": "",
    },
    "runtime.worker.names": {"worker.server_modules": "ServerTool ServerModule"},
    "runtime.worker.guarding.guard": {"worker.guarding.refusal": "ReplayEffect"},
    "files.rendered": {
        "nodes.budget": "AllTokens",
        "nodes.rendered": "RenderedView",
    },
    "files.node": {"nodes.base": "NodeBase", "nodes.changing": "NodeChangeError"},
    "files.view": {"nodes.view_handle": "ViewHandle"},
    "files.group": {"nodes.group_handle": "GroupHandle"},
    "runtime.worker.keeping.constructors": {"worker.keeping.constructors": ""},
    "core.errors": {"errors": ""},
    "core.execution": {"execution": ""},
    "core.ids": {"ids": ""},
    "core.links": {"links": ""},
    "core.text": {"text": ""},
}
"""By present module below this package: each first module, and the names that it had; "" for all others."""
_PRESENT: Final = {first: module for module, firsts in _FIRST_NAMES.items() for first in firsts}
_FIRST: Final = {
    (module, name): first
    for module, firsts in _FIRST_NAMES.items()
    for first, names in firsts.items()
    for name in names.split() or ("",)
}


def present(module: str) -> str:
    """Return where a first module's names are today; both names are relative to this package."""
    return _PRESENT.get(module, module)


@cache
def recorded(module: str, name: str) -> str:
    """Return the first module of a class or function, given its present module and qualified name."""
    root, _, below = module.partition(".")
    if root != _ROOT or not below:
        return module
    first = _FIRST.get((below, name.partition(".")[0])) or _FIRST.get((below, "")) or below
    return f"{root}.{first}"
