"""What the host does for a statement: one file for each row of `toolbox`, of the same name.

A file has `Arguments`, a structure with the row's parameters, and `perform(workspace, arguments)`. That returns plain
data, alone or as the `Reading` of a file, or a `Change` of a file that it has not made, or a `Program` that it has not
started, or, in `tree`, a `TreeAct` that it has not done; or it raises what the statement is to see. It blocks, so its
caller runs it in a thread. Called by
`session.acts`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from ...core.toolbox import ROUTED, TOOLS
from .change import Change
from .changes import changes_of
from .landing import land
from .program import Program
from .reading import Reading
from .restoring import Replaced, restore
from .seen import Seen
from .tree.act import TreeAct
from .workspace import Workspace, name_text


@dataclass(frozen=True, slots=True)
class Operation:
    """How a tool is performed."""

    arguments: type[Any]
    perform: Callable[[Workspace, Any], object]


def _operation(name: str, package: str = __name__) -> Operation:
    module = import_module(f"{package}.{name}")
    return Operation(module.Arguments, module.perform)


OPERATIONS: Final = {
    **{name: _operation(name) for name in TOOLS},
    **{name: _operation(name, f"{__name__}.tree") for name in ROUTED},
}
"""By the names of their rows. Found by name, so that a row and a file are all that a tool needs."""

__all__ = [
    "OPERATIONS",
    "Change",
    "Operation",
    "Program",
    "Reading",
    "Replaced",
    "Seen",
    "TreeAct",
    "Workspace",
    "changes_of",
    "land",
    "name_text",
    "restore",
]
