"""Names that a statement uses or may change, from its source and from the functions that it can reach.

`uses_in` finds names that a statement does more with than read. Only those may change in a way that cannot be compared.
Reading is: to show a value, to take an attribute or item, to compare or compute with it, or to pass it to a builtin of
the lists below. A plain name for a value is used where that name is used. Everything else is use: a method call, an
argument, an assignment to a part, and the code of functions and classes in the statement. Iterating is reading unless
the value is an iterator or a file.

`reachable` finds all names that a statement may touch: those in its source, and those that its functions use in turn.
Works on syntax trees and code objects alone. Must not know what the names are for. Used by `namespace`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Container, Iterable
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from msgspec import Struct

_READERS: Final = frozenset((
    "abs", "bool", "complex", "dir", "divmod", "float", "format", "hasattr", "hash", "hex", "id", "int", "isinstance",
    "issubclass", "len", "print", "repr", "round", "str", "type",
))  # fmt: skip
"""Builtins that do not change arguments, and whose result shares nothing with them."""
_COUNTERS: Final = frozenset(("all", "any", "bytes", "sum"))
"""The same, but they iterate over an argument."""
_TAKERS: Final = frozenset((
    "dict", "enumerate", "frozenset", "list", "max", "min", "reversed", "set", "sorted", "tuple", "zip",
))  # fmt: skip
"""Builtins that iterate over arguments, and whose result has their items."""
_BY_NAME: Final = frozenset(("compile", "delattr", "eval", "exec", "globals", "locals", "setattr", "vars"))
"""Builtins that reach values by their names as text."""
_LOOKED_UP: Final = _READERS | _COUNTERS | _TAKERS
_LONGEST_CODE: Final = 4096
"""The longest text that is searched for names, in characters."""
_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")


def uses_in(statements: Iterable[ast.stmt], names: frozenset[str], replaced: Container[object]) -> Uses:
    """How the statements use `names`, which must be all that they bind, delete or read.

    A builtin above that is in `replaced` counts as any other function.
    """
    if names & _BY_NAME:
        return Uses(names, frozenset(), frozenset(), names)
    reading = _Reading(replaced)
    reading.all(statements)
    changed, consumed = reading.closed(reading.used), reading.closed(reading.consumed)
    stored = reading.closed(reading.stored) - changed
    return Uses(changed, stored, names - changed - stored, consumed)


class Uses(Struct, frozen=True):
    """How a statement may use names.

    Attributes:
        changed: it may change any part of the value.
        stored: it changes only the value itself, by setting an attribute or an item.
        read: it does neither.
        consumed: it iterates over the value, in addition to the other uses.
    """

    changed: frozenset[str]
    stored: frozenset[str]
    read: frozenset[str]
    consumed: frozenset[str]


class LateUses:
    """The uses of a statement's names, computed on demand, because few statements need them.

    Args:
        tree: the statement; it may be changed afterwards.
        names: all names that it binds, deletes or reads.
        namespace: the namespace before the statement, which may have replaced the builtins above.
    """

    def __init__(self, tree: ast.Module, names: frozenset[str], namespace: Container[object]) -> None:
        self._statements = tree.body.copy()
        self._names = names
        self._replaced = frozenset(filter(namespace.__contains__, _LOOKED_UP))
        self._found: Uses | None = None

    @property
    def found(self) -> Uses:
        if self._found is None:
            self._found = uses_in(self._statements, self._names, self._replaced)
        return self._found


class _Reading:
    def __init__(self, replaced: Container[object]) -> None:
        self._replaced = replaced
        self._aliases: dict[str, set[str]] = {}
        self.used: set[str] = set()
        self.stored: set[str] = set()
        self.consumed: set[str] = set()

    def closed(self, names: set[str]) -> frozenset[str]:
        """`names`, and all names whose values may contain the values of these."""
        found = set(names)
        waiting = list(found)
        while waiting:
            fresh = self._aliases.get(waiting.pop(), set()) - found
            found |= fresh
            waiting += fresh
        return frozenset(found)

    def all(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            _STATEMENTS.get(type(statement), _Reading.use)(self, statement)

    def assign(self, node: ast.Assign) -> None:
        self._bind(node.targets, self.parts(node.value))

    def assign_annotated(self, node: ast.AnnAssign) -> None:
        self._bind([node.target], self.parts(node.value))

    def assign_in_place(self, node: ast.AugAssign) -> None:
        self._store(node.target)
        self.used |= self.parts(node.value)

    def loop(self, node: ast.For) -> None:
        self._go_through(node.target, node.iter)
        self.all([*node.body, *node.orelse])

    def branch(self, node: ast.If | ast.While) -> None:
        self.parts(node.test)
        self.all([*node.body, *node.orelse])

    def with_(self, node: ast.With) -> None:
        for item in node.items:
            self.use(item)
        self.all(node.body)

    def try_(self, node: ast.Try) -> None:
        handled = (each for handler in node.handlers for each in handler.body)
        self.all([*node.body, *handled, *node.orelse, *node.finalbody])

    def delete(self, node: ast.Delete) -> None:
        self._bind(node.targets, set())

    def use(self, node: ast.AST) -> set[str]:
        self.used.update(name.id for name in ast.walk(node) if isinstance(name, ast.Name))
        return set()

    def _bind(self, targets: Iterable[ast.expr], parts: set[str]) -> None:
        for target in targets:
            match target:
                case ast.Name(id=name):
                    self._aliases.setdefault(name, set()).update(parts)
                case ast.Tuple(elts=inner) | ast.List(elts=inner):
                    self.consumed |= parts
                    self._bind(inner, parts)
                case ast.Starred(value=value):
                    self._bind([value], parts)
                case _:
                    self._store(target)
                    self.used |= parts

    def _store(self, target: ast.expr) -> None:
        if isinstance(target, (ast.Attribute, ast.Subscript)) and isinstance(target.value, ast.Name):
            self.stored.add(target.value.id)
            self.parts(target)
        else:
            self.used |= self.parts(target)

    def parts(self, node: ast.expr | None) -> set[str]:
        """The names whose parts the expression's value may be, or contain."""
        return _EXPRESSIONS.get(type(node), _Reading.use)(self, node) if node else set()

    def name(self, node: ast.Name) -> set[str]:
        return {node.id}

    def of_value(self, node: ast.Attribute) -> set[str]:
        return self.parts(node.value)

    def item(self, node: ast.Subscript) -> set[str]:
        self.parts(node.slice)
        return self.parts(node.value)

    def named(self, node: ast.NamedExpr) -> set[str]:
        parts = self.parts(node.value)
        self._bind([node.target], parts)
        return parts

    def of_all(self, node: ast.expr) -> set[str]:
        return self._of(_expressions(node))

    def none(self, node: ast.expr) -> set[str]:
        self.of_all(node)
        return set()

    def leaf(self, node: ast.expr) -> set[str]:
        del node
        return set()

    def either(self, node: ast.IfExp) -> set[str]:
        self.parts(node.test)
        return self._of([node.body, node.orelse])

    def compare(self, node: ast.Compare) -> set[str]:
        searched = [right for right, operator in zip(node.comparators, node.ops, strict=True) if _searches(operator)]
        self._consumed(searched)
        return self.none(node)

    def unpack(self, node: ast.Starred) -> set[str]:
        return self._consumed([node.value])

    def _of(self, nodes: Iterable[ast.expr | None]) -> set[str]:
        return set[str]().union(*map(self.parts, nodes))

    def _consumed(self, nodes: Iterable[ast.expr]) -> set[str]:
        parts = self._of(nodes)
        self.consumed |= parts
        return parts

    def call(self, node: ast.Call) -> set[str]:
        name = node.func.id if isinstance(node.func, ast.Name) and not node.keywords else ""
        if name in self._replaced:
            return self.use(node)
        if name in _TAKERS:
            return self._consumed(node.args)
        if name in _COUNTERS:
            self._consumed(node.args)
        elif name in _READERS:
            self._of(node.args)
        else:
            self.use(node)
        return set()

    def _go_through(self, target: ast.expr, source: ast.expr) -> None:
        self._bind([target], self._consumed([source]))

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> set[str]:
        for each in node.generators:
            self._go_through(each.target, each.iter)
            self._of(each.ifs)
        return self._of([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])


_STATEMENTS: Final[dict[type[ast.stmt], Callable[[_Reading, Any], object]]] = {
    ast.Expr: _Reading.of_value,
    ast.Assign: _Reading.assign,
    ast.AnnAssign: _Reading.assign_annotated,
    ast.AugAssign: _Reading.assign_in_place,
    ast.For: _Reading.loop,
    ast.If: _Reading.branch,
    ast.While: _Reading.branch,
    ast.With: _Reading.with_,
    ast.Try: _Reading.try_,
    ast.Delete: _Reading.delete,
    **dict.fromkeys(
        (ast.Import, ast.ImportFrom, ast.Pass, ast.Break, ast.Continue, ast.Global), lambda _reading, _node: None
    ),
}
_EXPRESSIONS: Final[dict[type[ast.expr], Callable[[_Reading, Any], set[str]]]] = {
    ast.Name: _Reading.name,
    ast.Attribute: _Reading.of_value,
    ast.Subscript: _Reading.item,
    ast.NamedExpr: _Reading.named,
    ast.IfExp: _Reading.either,
    ast.Compare: _Reading.compare,
    ast.Starred: _Reading.unpack,
    ast.Call: _Reading.call,
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), _Reading.comprehension),
    **dict.fromkeys((ast.BinOp, ast.BoolOp, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Slice), _Reading.of_all),
    **dict.fromkeys((ast.UnaryOp, ast.JoinedStr, ast.FormattedValue), _Reading.none),
    ast.Constant: _Reading.leaf,
}


def _searches(operator: ast.cmpop) -> bool:
    return isinstance(operator, (ast.In, ast.NotIn))


def _expressions(node: ast.expr) -> list[ast.expr]:
    return [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]


# --- names that a statement may reach ---------------------------------------------------------------------------------


def reachable(names: Iterable[str], uses: Callable[[str], Iterable[str]], namespace: Container[object]) -> set[str]:
    """The bound ones of `names`, and all bound names that user code in their values uses, directly or not.

    Args:
        uses: returns the global names that code in the value of a name uses.
    """
    found: set[str] = set()
    waiting = [name for name in names if name in namespace]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [used for used in uses(name) if used not in found and used in namespace]
    return found


def names_in(tree: ast.AST) -> TreeNames:
    """The names in the tree, found in one pass."""
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


class TreeNames(Struct, frozen=True):
    """Names in a tree: `used` are all names that it binds, deletes or reads.

    `bound` are those that it assigns or deletes, `loaded` those that it reads, perhaps to change them in place, as in
    `x += y`. `quoted` are words in its shorter texts, which may be meant for `globals()`, `getattr` or `exec`.
    """

    used: frozenset[str]
    bound: frozenset[str]
    loaded: frozenset[str]
    quoted: frozenset[str]


@lru_cache(maxsize=4096)
def names_of_code(code: CodeType) -> frozenset[str]:
    """The names that code and its inner definitions use: globals, attributes, and modules to import."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= names_of_code(constant)
    return frozenset(found)
