"""What the host does for a statement: an operation for each row of `toolbox`.

An operation has a structure with the row's parameters, and a function of the workspace and these. The function returns
plain data, alone or as the `Reading` of a file. Or it returns an action that has not happened yet: a `Change` of a
file, a `Program` to start, a `TreeAct`, a plan (`Planned`), a `UserQuestion`, a `Download`. It raises what the
statement should see. It blocks, so its caller, `session.tool_calls`, runs it in a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from . import ask, bash, edit, fetch, plan, read, search, tree
from .ask import UserQuestion
from .bash import Program
from .change import Change, changes_of
from .fetch import Download
from .landing import land
from .plan import Planned
from .read import Reading, SeenFiles
from .restoring import CHANGED, CHANGED_MODE, UNTRUSTED, Replaced, restore
from .tree import TreeAct
from .workspace import REPLACED, Target, Workspace, name_text


@dataclass(frozen=True, slots=True)
class Operation:
    """How a tool is performed."""

    arguments: type[Any]
    perform: Callable[[Workspace, Any], object]


OPERATIONS: Final = {
    "ask": Operation(ask.Arguments, ask.ask),
    "bash": Operation(bash.Arguments, bash.perform),
    "edit": Operation(edit.EditArguments, edit.edit),
    "fetch": Operation(fetch.Arguments, fetch.fetch),
    "find": Operation(search.FindArguments, search.find),
    "grep": Operation(search.GrepArguments, search.grep),
    "ls": Operation(search.LsArguments, search.ls),
    "plan": Operation(plan.Arguments, plan.plan),
    "read": Operation(read.ReadArguments, read.read),
    "write": Operation(edit.WriteArguments, edit.write),
    "chmod": Operation(tree.ChmodArguments, tree.chmod),
    "link": Operation(tree.LinkArguments, tree.link),
    "mkdir": Operation(tree.MkdirArguments, tree.mkdir),
    "mkfifo": Operation(tree.MkfifoArguments, tree.mkfifo),
    "remove": Operation(tree.RemoveArguments, tree.remove),
    "rename": Operation(tree.RenameArguments, tree.rename),
    "rmdir": Operation(tree.RmdirArguments, tree.rmdir),
    "rmtree": Operation(tree.RmtreeArguments, tree.rmtree),
    "symlink": Operation(tree.SymlinkArguments, tree.symlink),
    "utime": Operation(tree.UtimeArguments, tree.utime),
}
"""By the names of the rows in `toolbox`."""

__all__ = [
    "CHANGED",
    "CHANGED_MODE",
    "OPERATIONS",
    "REPLACED",
    "UNTRUSTED",
    "Change",
    "Download",
    "Operation",
    "Planned",
    "Program",
    "Reading",
    "Replaced",
    "SeenFiles",
    "Target",
    "TreeAct",
    "UserQuestion",
    "Workspace",
    "changes_of",
    "land",
    "name_text",
    "restore",
]
