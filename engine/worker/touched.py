"""Which names of a namespace a statement may touch: those in its source, and those its functions use in turn.

Works on the syntax tree and on code objects, never on values' content. Must not know what is done with the names. Used
by `namespace`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType, MethodType
from typing import cast


def names_in(tree: ast.AST) -> frozenset[str]:
    """Identifiers in the tree, and short text constants, which may be names for `globals()` or `getattr`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name():
                found.add(node.id)
            case ast.Constant(value=str(text)) if text.isidentifier():
                found.add(text)
            case _:
                pass
    return frozenset(found)


def bound_in(tree: ast.AST) -> frozenset[str]:
    """Names that the tree assigns or deletes somewhere."""
    return frozenset(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )


@lru_cache(maxsize=4096)
def _names_of_code(code: CodeType) -> frozenset[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names_of_code(constant)
    return frozenset(found)


def _codes(value: object) -> Iterator[CodeType]:
    """The code that may run when `value` is called or one of its methods is: the user's own only."""
    if isinstance(value, MethodType):
        value = value.__func__
    if isinstance(value, FunctionType):
        yield value.__code__
        return
    kind = cast("type[object]", value if isinstance(value, type) else type(value))
    if kind.__module__ == "__main__":
        yield from (member.__code__ for member in vars(kind).values() if isinstance(member, FunctionType))


def reachable(names: Iterable[str], namespace: Mapping[str, object]) -> set[str]:
    """`names` that are bound, and whatever bound names the user's functions and classes behind them use."""
    found: set[str] = set()
    waiting = [name for name in names if name in namespace]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for code in _codes(namespace[name]):
            waiting += [used for used in _names_of_code(code) if used not in found and used in namespace]
    return found
