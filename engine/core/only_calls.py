"""Statements that only call tools: `edit("a.py", "x", "y")`, `tests = bash("make test")`, `print(read("a.py"))`.

Python's own functions for removing and renaming files count, as the operations behind them. An adapter shows such a
statement as its calls. Only the source is known here, and a name in it may be bound to something else by then, so the
adapter waits for the calls themselves. Pure.
"""

from __future__ import annotations

import ast
from typing import Final

from .python_source import parsed
from .toolbox import TOOLS

_LONGEST: Final = 100_000
"""Characters of a source that is looked at; a file may be written with one call."""
_FUNCTIONS: Final = {
    "os.remove": "remove",
    "os.unlink": "remove",
    "os.rename": "rename",
    "os.replace": "rename",
    "os.rmdir": "rmdir",
    "os.mkdir": "mkdir",
    "shutil.rmtree": "rmtree",
    "shutil.move": "rename",
}
"""Functions of Python's, and the operation behind each."""
_COMPUTE: Final = (
    ast.Call,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
    ast.NamedExpr,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
"""Parts of arguments that do something of their own."""


def only_calls(source: str) -> tuple[str, ...]:
    """Return the names of the tools that a statement calls, in order, if it does nothing else; empty if it does.

    Each value may be assigned to a name or printed, or be an attribute of what the call returns. Imports count as part
    of the calls.
    """
    if len(source) > _LONGEST:
        return ()
    tree = parsed(source)
    if tree is None:
        return ()
    tools = [_called(each) for each in tree.body if not isinstance(each, ast.Import)]
    return () if None in tools else tuple(filter(None, tools))


def _called(statement: ast.stmt) -> str | None:
    call = _printed(_value(statement))
    while isinstance(call, ast.Attribute):
        call = call.value
    if not isinstance(call, ast.Call):
        return None
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    return None if any(isinstance(part, _COMPUTE) for each in given for part in ast.walk(each)) else _tool(call.func)


def _tool(function: ast.expr) -> str | None:
    match function:
        case ast.Name(id=name) if name in TOOLS:
            return name
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return _FUNCTIONS.get(f"{module}.{name}")
        case _:
            return None


def _value(statement: ast.stmt) -> ast.expr | None:
    match statement:
        case ast.Expr(value=value) | ast.Assign(targets=[ast.Name()], value=value):
            return value
        case _:
            return None


def _printed(value: ast.expr | None) -> ast.expr | None:
    match value:
        case ast.Call(func=ast.Name(id="print"), args=[printed], keywords=[]):
            return printed
        case _:
            return value
