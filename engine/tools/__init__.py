"""What the host does for a statement: one file for each row of `toolbox`, of the same name.

A file has `Arguments`, a structure with the row's parameters, and `perform(workspace, arguments)`, which returns plain
data or raises what the statement is to see. It blocks, so its caller runs it in a thread. It is loaded when its tool is
first called, because a session that is only opened needs none of them. Called by `sessions.effects`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..toolbox import TOOLS
from .workspace import Workspace


@dataclass(frozen=True, slots=True)
class Operation:
    """How a tool is performed."""

    arguments: type[Any]
    perform: Callable[[Workspace, Any], object]


def operation(name: str) -> Operation:
    """The operation of the tool of that name. Raises ValueError where there is no such tool."""
    if name not in TOOLS:
        raise ValueError(f"no operation {name!r}; there is {', '.join(TOOLS)}")
    module = import_module(f"{__name__}.{name}")
    return Operation(module.Arguments, module.perform)


__all__ = ["Operation", "Workspace", "operation"]
