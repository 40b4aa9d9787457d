"""What the host does for a statement: one file per operation, one row each. The worker asks, the host performs.

A row names the operation, its ACP-neutral kind, the arguments it takes, and the function that performs it (blocking, so
that the caller runs it in a thread).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from msgspec import Struct

from . import ls, read
from .workspace import Workspace

ToolKind = Literal["read", "search", "edit", "execute", "other"]


class Tool(Struct, frozen=True):
    """One operation. `perform` returns plain data or raises what the statement is to see."""

    kind: ToolKind
    arguments: type[Any]
    perform: Callable[[Workspace, Any], object]


TOOLS: Final[dict[str, Tool]] = {
    "ls": Tool("read", ls.Arguments, ls.perform),
    "read": Tool("read", read.Arguments, read.perform),
}

__all__ = ["TOOLS", "Tool", "ToolKind", "Workspace"]
