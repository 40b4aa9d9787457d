"""Which names of a namespace a statement may touch: those in its source, and those its functions use in turn.

Works on the syntax tree and on code objects; what code a value holds, `contents` has found. Must not know what is done
with the names. Used by `namespace`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Container, Iterable
from functools import lru_cache
from types import CodeType
from typing import Final

_LONGEST_CODE: Final = 4096
"""Characters of a text that is searched for names."""
_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")


def names_in(tree: ast.AST) -> frozenset[str]:
    """Identifiers in the tree and in its shorter texts, which may be for `globals()`, `getattr` or `exec`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name():
                found.add(node.id)
            case ast.Constant(value=str(text)) if len(text) <= _LONGEST_CODE:
                found.update(_IDENTIFIER.findall(text))
            case _:
                pass
    return frozenset(found)


def bound_in(tree: ast.AST) -> frozenset[str]:
    """Names that the tree assigns or deletes somewhere."""
    return frozenset(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )


def loaded_in(tree: ast.AST) -> frozenset[str]:
    """Names whose value the tree takes somewhere, also to change it in place, as `x += y` may."""
    found: set[str] = set()
    for node in ast.walk(tree):
        taken = node.target if isinstance(node, ast.AugAssign) else node
        if isinstance(taken, ast.Name) and (taken is not node or isinstance(taken.ctx, ast.Load)):
            found.add(taken.id)
    return frozenset(found)


@lru_cache(maxsize=4096)
def names_of_code(code: CodeType) -> frozenset[str]:
    """Names that code and what is defined in it use: globals, attributes, and modules to import."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= names_of_code(constant)
    return frozenset(found)


def reachable(names: Iterable[str], uses: Callable[[str], Iterable[str]], namespace: Container[object]) -> set[str]:
    """`names` that are bound, and whatever bound names the user's code behind them uses.

    Args:
        uses: the global names that code in the value of a name uses.
    """
    found: set[str] = set()
    waiting = [name for name in names if name in namespace]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [used for used in uses(name) if used not in found and used in namespace]
    return found
