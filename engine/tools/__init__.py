"""What the host does for a statement: one file for each row of `toolbox`, of the same name.

A file has `Arguments`, a structure with the row's parameters, and `perform(workspace, arguments)`, which returns plain
data or raises what the statement is to see. It blocks, so its caller runs it in a thread. Called by `sessions.effects`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from ..toolbox import TOOLS
from .workspace import Workspace


@dataclass(frozen=True, slots=True)
class Operation:
    """How a tool is performed."""

    arguments: type[Any]
    perform: Callable[[Workspace, Any], object]


def _operation(name: str) -> Operation:
    module = import_module(f"{__name__}.{name}")
    return Operation(module.Arguments, module.perform)


OPERATIONS: Final = {name: _operation(name) for name in TOOLS}
"""By the names of their tools. Found by name, so that a row and a file are all that a tool needs."""

__all__ = ["OPERATIONS", "Operation", "Workspace"]
