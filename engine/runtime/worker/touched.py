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

from msgspec import Struct

_LONGEST_CODE: Final = 4096
"""Characters of a text that is searched for names."""
_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")


class TreeNames(Struct, frozen=True):
    """Names in a tree: `used` are those that it binds, deletes or takes the value of somewhere.

    `bound` are those that it assigns or deletes, `loaded` those whose value it takes, also to change it in place, as
    `x += y` may. `quoted` are words in its shorter texts, which may be for `globals()`, `getattr` or `exec`.
    """

    used: frozenset[str]
    bound: frozenset[str]
    loaded: frozenset[str]
    quoted: frozenset[str]


def names_in(tree: ast.AST) -> TreeNames:
    """The names in the tree, found on one way through it."""
    bound: set[str] = set()
    loaded: set[str] = set()
    quoted: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (loaded if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and len(node.value) <= _LONGEST_CODE:
                quoted.update(_IDENTIFIER.findall(node.value))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            loaded.add(node.target.id)
    return TreeNames(frozenset(bound | loaded), frozenset(bound), frozenset(loaded), frozenset(quoted))


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
